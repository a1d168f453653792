"""Everything that has a state gives it, takes it, is copied with it, or refuses."""

import pytest

import pd_core as pd

from . import checks, found
from .damage import damaged, same
from .elsewhere import ELSEWHERE
from .items import RUNNERS, kinds_of_items, runner_subject, trained
from .subjects import QUICK, SUBJECTS, Subject, World, kinds
from .tallies import TALLIED, kinds_of_tallies

EVERY = {**QUICK, **RUNNERS, **TALLIED}
ALL = pytest.mark.parametrize("subject", EVERY.values(), ids=EVERY)
COPIED = {name: subject for name, subject in EVERY.items() if subject.copy is not None}
SETTINGS = [(name, key) for name, subject in QUICK.items() for key in subject.settings]


@ALL
def test_a_restored_state_goes_on(subject):
    assert checks.restored(subject) is None


@pytest.mark.parametrize("subject", COPIED.values(), ids=COPIED)
def test_copies_go_on_too(subject):
    assert checks.copied(subject) is None


@ALL
def test_a_restore_that_fails_changes_nothing(subject):
    assert checks.unharmed(subject, subject.damages) is None


@pytest.mark.parametrize(("name", "key"), SETTINGS)
def test_what_can_be_set_counts(name, key):
    subject = SUBJECTS[name]
    assert checks.changed(subject, key, subject.settings[key]) is None


def test_every_class_with_state_is_here():
    """A new one joins the subjects, or says where its state is tested."""
    known = kinds() | kinds_of_items() | kinds_of_tallies()
    classes = found.stateful()
    elsewhere = {name for names in ELSEWHERE.values() for name in names}
    unknown = [name for name, kind in classes.items() if kind not in known]
    assert sorted(set(unknown) - elsewhere) == []
    assert sorted(elsewhere - set(unknown)) == []
    root = found.ROOT
    assert [path for path in ELSEWHERE if not (root / path).is_file()] == []


class Forgetful:
    """What the checks are to find: each method has one of the mistakes."""

    scale = 1.0

    def __init__(self):
        self.total = self.seen = 0

    def step(self, k):
        self.total += k
        self.seen += 1
        return self.total * 10 + self.seen % 2

    def state(self):
        return {"total": self.total}

    def restore(self, state):
        self.total = -1
        self.total = state["total"] + 0

    def __deepcopy__(self, memo):
        return Forgetful()


def test_the_checks_find_mistakes():
    subject = Subject(Forgetful, Forgetful.step)
    assert checks.restored(subject) == "other steps after a restore into one with 0 steps"
    assert checks.copied(subject) == "other steps of a copy"
    assert "something is changed" in checks.unharmed(subject, 2)
    assert checks.changed(subject, "scale", 2.0) == "scale: nothing follows from setting it"


class Silent(pd.training.RunnerItem):
    """An item with a state that `restore` leaves where it is."""

    def initialize(self, context, following):
        self.seen = 0
        super().initialize(context, following)

    def on_batch_end(self, following):
        self.seen += 1
        self.context.pass_metrics["seen"] = self.seen
        return following()

    def state(self):
        return {"seen": self.seen}


class Hasty(Silent):
    """One that restores, and then finds out that it cannot."""

    def restore(self, state):
        self.seen = -1
        self.seen = state["seen"] + 0

    def undoing(self):
        return lambda: None


def test_the_checks_find_mistakes_of_items():
    subject = runner_subject(lambda network: [*trained(network), Silent()])
    assert checks.restored(subject) == "other steps after a restore into one with 0 steps"
    subject = runner_subject(lambda network: [*trained(network), Hasty()])
    assert checks.restored(subject) is None
    assert "something is changed" in checks.unharmed(subject, 1000)


def test_damages_are_other_states():
    tree = {"a": [1, {"b": 2.0}], "c": None}
    changed = [bad() for _, bad in damaged(tree)]
    assert len(changed) > 20 and not any(same(bad, tree) for bad in changed)


def test_worlds_are_apart():
    one, other = (World(lambda: pd.Variable("w", data=[1.0])) for _ in range(2))
    one.run(lambda w: pd.default_session().set(w, [2.0]))
    assert other.run(lambda w: w.val()) == 1.0 and one.run(lambda w: w.val()) == 2.0
