"""The checks of what has a state; each returns a text if something is wrong."""

import copy
import pickle

from .damage import damaged, mutable, same
from .subjects import FIRST, FOLLOWING, run, several

CLEAR = (ValueError, TypeError)  # GraphError and DamagedFile are of the first


def restored(subject):
    """A state restored into a new thing, and into one with another past, gives the same steps."""
    thing = subject.make()
    run(subject, thing, FIRST)
    state = mutable(subject.save(thing))
    expected = run(subject, thing, FOLLOWING)
    for past in (range(0), range(20, 22)):
        other = subject.make()
        run(subject, other, past)
        subject.load(other, mutable(state))
        if not same(run(subject, other, FOLLOWING), expected):
            return f"other steps after a restore into one with {len(past)} steps"
    return None


def copied(subject):
    """A copy takes the same steps and shares nothing, or there is an error that says why."""
    if subject.copy is None:
        return None
    for copier in (copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))):
        thing = subject.make()
        run(subject, thing, FIRST)
        try:
            twin = subject.copy(thing, copier)
        except TypeError as error:
            if "hint" in str(error) or str(error).startswith(type(thing).__name__):
                continue
            return f"a copy fails with {error!r}"
        got = run(subject, twin, FOLLOWING)
        if not same(got, run(subject, thing, FOLLOWING)):
            return "other steps of a copy"
    return None


def unharmed(subject, count):
    """A restore that fails changes nothing; one that does not is of a state that is whole."""
    thing = subject.make()
    run(subject, thing, FIRST)
    state = mutable(subject.save(thing))
    other = subject.make()
    run(subject, other, range(20, 22))
    before = mutable(subject.save(other))
    for what, bad in several(damaged(state), count):
        try:
            subject.load(other, bad())
        except CLEAR as error:
            if not str(error):
                return f"{what}: an error without words"
            if not same(mutable(subject.save(other)), before):
                return f"{what}: {type(error).__name__}, and something is changed"
            continue
        except Exception as error:
            return f"{what}: {error!r}"
        if not subject.takes(what):
            return f"{what}: is taken"
        other = subject.make()
        run(subject, other, range(20, 22))
        before = mutable(subject.save(other))  # what a process knows of its lines was taken, too
    return None


def changed(subject, name, value):
    """A public attribute that is set changes the steps that follow, or is refused."""
    thing, other = subject.make(), subject.make()
    for each in (thing, other):
        run(subject, each, FIRST)
    try:
        subject.set(other, name, value)
    except (AttributeError, TypeError, ValueError) as error:
        return None if str(error) else f"{name}: an error without words"
    if same(run(subject, thing, FOLLOWING), run(subject, other, FOLLOWING)):
        return f"{name}: nothing follows from setting it"
    return None
