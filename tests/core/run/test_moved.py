"""Names of sessions that have moved: they warn, and are the same."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.run.moved import Moved, MovedNames

NAMES = [name for name, value in vars(MovedNames).items() if isinstance(value, Moved)]


def moved(session, name):
    """What a session has under an old name."""
    with pytest.warns(DeprecationWarning, match=rf"Session\.{name} has moved: it is `session\."):
        return getattr(session, name)


@pytest.mark.parametrize("name", NAMES)
def test_an_old_name_is_there_and_warns(name):
    moved(pd.Session(), name)


def test_an_old_name_does_what_it_did():
    w, g = pd.Variable("w", data=[1.0]), pd.Variable("g", shape=[1])
    session = pd.Session()
    assert moved(session, "has_values") is False
    moved(session, "initialize")([w])
    assert moved(session, "stored")() == [w] and moved(session, "has_values") is True
    moved(session, "apply")([pd.assign(w, w - g)], {g: np.array([0.5], np.float32)})
    assert session.get(w) == 0.5 and moved(session, "before")(w) == 1.0
    assert not moved(session, "is_exchanging") and not moved(session, "has_own_exchange")
    with session.exchanging(lambda gradients: gradients):
        assert moved(session, "is_exchanging") and moved(session, "has_own_exchange")
    with moved(session, "exclusive")():
        assert moved(session, "version") == session.store.version
