"""That soaks, places and signals see what they look for."""

import itertools
import os
import re
import signal
import threading
import time
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest

import pd_core as pd
from tests import thinned
from tests.core.backend.long_sums import Case

from . import __main__ as campaign
from . import cases, places, properties, search, signals, sizes, soak, state_dicts, sums
from .__main__ import PARTS, main
from .plan import Plan

LEAK = []


def leaks(rng, count):
    for k in range(count):
        LEAK.append([[] for _ in range(1000)])
        yield k + 1


def grows(rng, count):
    for k in range(count):
        LEAK.append(bytearray(2**20))
        yield k + 1


def ends_late(rng, count):
    for k in range(count):
        threading.Timer(0.2, list).start()
        yield k + 1


def keeps_threads(rng, count):
    end = threading.Event()
    for k in range(count):
        threading.Thread(target=end.wait, daemon=True).start()
        yield k + 1
    threading.Timer(2.0, end.set).start()


def keeps_sessions(rng, count):
    """Threads that Python does not know of."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 3
    x = pd.Variable([2], name="x")
    model = pd.export_onnx(None, x + 1.0).SerializeToString()
    for k in range(count):
        if k % 20 == 0:
            LEAK.append(onnxruntime.InferenceSession(model, options))
        yield k + 1


def fails(rng, count):
    yield 1
    raise AssertionError("other numbers")


def is_well(rng, count):
    yield from range(1, count + 1)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (leaks, "objects by"),
        (grows, "memory by"),
        (keeps_threads, "threads by"),
        (keeps_sessions, "threads by"),
        (fails, "other numbers"),
        (ends_late, ""),
        (is_well, ""),
    ],
)
def test_growth_is_a_defect(function, text, monkeypatch):
    monkeypatch.setitem(soak.SUBJECTS, "planted", (function, 60, 60))
    if function is keeps_threads:
        monkeypatch.setattr(soak, "SETTLING", 0.1)
    row = soak.soaked("planted", Plan(quick=True))
    LEAK.clear()
    assert (text in "".join(row.defects)) and bool(row.defects) == bool(text)


def test_a_search_leaves_nothing(monkeypatch):
    function, _, full = soak.SUBJECTS["a search over networks"]
    assert full == 300
    monkeypatch.setitem(soak.SUBJECTS, "short", (function, 3 * len(search.KINDS), full))
    row = soak.soaked("short", Plan(quick=True))
    assert not row.defects and row.trials == 3 * len(search.KINDS)


PROGRAMS = {
    "crash": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "hang": "import time; time.sleep(60)",
    "wrong error": "{}['x']",
    "clear error": "raise PermissionError('x')",
    "ended well": "",
    "torn": "import sys, pathlib; (pathlib.Path(sys.argv[1]) / 'm.onnx').write_text('half')",
}


@pytest.mark.parametrize("outcome", PROGRAMS)
def test_outcomes_of_places(outcome, tmp_path, monkeypatch):
    program = tmp_path / "program.py"
    program.write_text(PROGRAMS[outcome])
    monkeypatch.setattr(places, "SECONDS", 3.0 if outcome == "hang" else 60.0)
    row = places.tried("planted", places.Place(), program)
    assert row.outcomes[outcome] == 1


def raises(error):
    raise error


ENDS = {
    "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "hang": lambda: time.sleep(60),
    "wrong error": lambda: raises(KeyError("x")),
    "clear error": lambda: raises(pd.ShapeError("x")),
    "result": lambda: None,
}


@pytest.mark.parametrize("outcome", ENDS)
def test_outcomes_of_sizes(outcome, monkeypatch):
    monkeypatch.setattr(sizes, "SECONDS", 1 if outcome == "hang" else 60)
    assert sizes.outcome(ENDS[outcome]) == outcome


def test_sizes_that_are_tried():
    names = [trial.name for trial in itertools.islice(sizes.trials(), 1500)]
    assert {"test_add, 3 to 0", "test_add, input 1, axis 2 to 6"} < set(names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("loss", "outcome"), [(0.0, "right"), (1e-4, "failed")])
def test_sums_that_drift(loss, outcome, monkeypatch):
    def planted(n):
        yield Case("mean", (n,), [n], lambda x: pd.reduce_mean(x) * (1.0 - loss), np.mean)

    monkeypatch.setitem(sums.SUBJECTS, "planted", planted)
    assert sums.tried("planted", Plan(quick=True)).outcomes == {outcome: 1}


def test_a_failure_under_signals(monkeypatch):
    assert signals.trial("interrupted", "none", 1)[0] == "failed"


@pytest.mark.parametrize("seed", range(3))
def test_a_quick_form_has_each_action_once(seed):
    numbers = range(len(signals.SUBJECTS))
    chosen = [signals.actions_of(number, Plan(seed, quick=True)) for number in numbers]
    assert all(chosen)
    assert sorted(itertools.chain(*chosen)) == sorted(signals.ACTIONS)
    assert signals.actions_of(seed, Plan(seed)) == [*signals.ACTIONS]


def test_parameters_of_different_steps_are_seen():
    training = signals.Counting(pd.Session())
    training.step()
    assert training.check() == 1
    training.session.set(training.v, training.session.get(training.v) * 2)
    with pytest.raises(AssertionError, match="different steps"):
        training.check()


def test_every_file_of_properties_is_run():
    found = {
        str(path.relative_to(properties.ROOT))
        for path in (properties.ROOT / "tests").rglob("test_*.py")
        if re.search("^from tests.properties import", path.read_text(encoding="utf-8"), re.M)
    }
    assert found == set(properties.FILES)


def test_thinned_tables_are_whole_in_the_campaign(monkeypatch):
    found = cases.files()
    assert "tests/core/ops/test_targets.py" in found and len(found) > 10
    table = [(name, k) for name in "abc" for k in range(4)]
    few = thinned.one_of_each(table, lambda case: case[0], 4)
    assert few == [("a", 0), ("b", 0), ("b", 1), ("c", 0), ("c", 2)]
    assert thinned.thinned(table, 5) == [("a", 0), ("b", 1), ("c", 2)]
    assert thinned.in_turn("abc", [0, 1]) == [("a", 0), ("b", 1), ("c", 0)]
    monkeypatch.setattr(thinned, "EVERY", True)
    assert thinned.one_of_each(table, lambda case: case[0], 4) == table
    assert thinned.thinned(table, 5) == table
    assert thinned.in_turn("abc", range(4)) == table


def test_failures_of_a_file_are_defects(monkeypatch, tmp_path):
    (tmp_path / "test_few.py").write_text(
        "import os\ndef test_one(): assert not os.environ['PD_EVERY_CASE']\ndef test_two(): pass\n"
    )
    monkeypatch.setattr(cases, "ROOT", tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they import much
    row = cases.row("test_few.py", Plan())
    assert row.outcomes == {"right": 1, "failed": 1}
    assert row.defects == [
        "failed: FAILED test_few.py::test_one - AssertionError: assert not '1' "
        "(PD_EVERY_CASE=1 pytest test_few.py)"
    ]
    assert cases.row("test_few.py", Plan(quick=True)).outcomes == {"right": 2}


def test_a_quick_campaign_is_what_the_tests_do_not_make(monkeypatch, capsys):
    made = []
    part = SimpleNamespace(run=lambda plan: [])
    monkeypatch.setattr(campaign, "import_module", lambda name, _: made.append(name[1:]) or part)
    assert main(["--quick"]) == 0
    assert {*made} == {*PARTS} - {*campaign.TESTED} and "fuzz" in made
    made.clear()
    assert main(["--quick", "kills"]) == 0 == main([])
    assert made == ["kills", *PARTS]


def test_the_command(capsys):
    with pytest.raises(SystemExit):
        main(["none"])
    assert f"no part 'none'; there are {', '.join(PARTS)}" in capsys.readouterr().err


def test_a_parameter_that_is_lost_is_seen(monkeypatch):
    """The campaign finds a bias with another value in a random module of PyTorch."""
    pytest.importorskip("torch")
    load = state_dicts.from_pytorch

    def loses(layer, state):
        names = [name for name in state if name.endswith("bias")]
        return load(layer, state | {names[0]: state[names[0]] - 3})

    assert state_dicts.difference(SEED) == ""
    monkeypatch.setattr(state_dicts, "from_pytorch", loses)
    assert state_dicts.difference(SEED) == "other outputs"


SEED = 18
