"""`pd.guard()`: values at hand while a graph is built."""

from contextlib import ContextDecorator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..graph.errors import GraphError, NotComputed
from ..graph.method import provide
from ..graph.recording import recorder
from ..graph.variable import Variable
from ..run.session import (
    Session,
    default_session,
    enter_session,
    follows_reset,
    on_reset,
    plain_session,
    replace_session,
)
from .backward import backward, clear_gradient, clear_gradients, gradient
from .gradient import as_host
from .recorder import Recorder
from .state import current_state, state_of

_sessions: dict[str, Session] = {}


class guard:
    """Values at hand in a `with`: ops record, and what is looked at is computed.

    `device` as of `Session`; values of persistent variables belong to the session of a device. The
    default is the session in force. Guards nest; inside `no_grad()` there are no gradients.

    With `immediate` every op is computed when it is called, for debugging: an operator that fails
    raises at its own line. It is slow, for each op is a program. Loops and branches are computed
    with the first op that reads their result.

    Args:
        device: as of `Session`; by default that of the session in force.
        immediate: whether every op is computed when it is called.

    Raises:
        PlaceError: there is no such device.
    """

    def __init__(self, device: str | None = None, immediate: bool = False) -> None:
        self.session, self.follows = _session_on(device)
        self.immediate = immediate
        self.entered: list[Recorder] = []

    def __enter__(self) -> Self:
        enter_session(self.session, self.follows)
        outer = recorder()
        gradients = outer is None or outer.gradients
        new = Recorder(state_of(self.session), gradients, self.immediate, self.follows)
        self.entered.append(new.start())
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        recording = self.entered.pop()
        recording.end()
        session = self.session = recording.state.session  # after `reset` another one
        session.__exit__()
        if kind is None:
            recording.state.flush()


def _session_on(device: str | None) -> tuple[Session, bool]:
    """The session of a device, and whether `reset` replaces it."""
    session = default_session()
    if device is None or device in (session.device, session.device.partition(":")[0]):
        return session, follows_reset()
    if device not in _sessions:
        _sessions[device] = Session(device, session.seed)
    return _sessions[device], True


@on_reset
def _reset_devices() -> None:
    """Replace the sessions of devices as `reset` replaces the default one."""
    for device, old in list(_sessions.items()):
        _sessions[device] = Session(device, plain_session().seed)
        replace_session(old, _sessions[device])


class no_grad(ContextDecorator):
    """Record without gradients in a `with`, or in a function: results are constants to `backward`.

    A class, since policies enter it for every observation.
    """

    def __init__(self) -> None:
        self.entered: list[Recorder] = []

    def __enter__(self) -> None:
        recording = recorder()
        if recording is None:
            raise GraphError("no_grad: there are values only inside `with pd.guard():`")
        new = Recorder(recording.state, False, recording.immediate, recording.follows)
        self.entered.append(new.start())

    def __exit__(self, *exc: object) -> None:
        self.entered.pop().end()


def to_variable(value: ArrayLike, dtype: DTypeLike | None = None) -> Variable:
    """Return a Variable with a value of its own, inside `with pd.guard():`.

    float64 becomes float32 unless `dtype` says otherwise; the value is copied. Gradients end at it
    unless its `stop_gradient` is set to False.

    Args:
        value: an array, a number or nested lists of numbers, of any shape; a Variable is returned
            as it is.
        dtype: a dtype, by default that of the value.

    Returns:
        A Variable of its shape.

    Raises:
        GraphError: there is no `pd.guard()`.
    """
    if isinstance(value, Variable):
        return value
    recording = recorder()
    if recording is None:
        raise GraphError("to_variable: there are values only inside `with pd.guard():`")
    return recording.leaf(value, dtype)


def _force(v: Variable) -> Any:
    """The value of a Variable on the device."""
    if v.eager_value is None:
        if v.is_recorded:
            current_state().force([v])
            return v.eager_value
        if v.value is not None:
            return v.value
        if v.is_persistent:
            return default_session().get(v)
        if v.source is None:
            raise NotComputed(
                f"{v!r} has no value: it was built outside of pd.guard()\n"
                "  hint: eval() computes it; after pd.enable_dynamic() values are at hand"
            )
        return default_session().get(v.source)
    return v.eager_value


def _numpy(v: Variable) -> np.ndarray:
    return np.array(as_host(_force(v)))


def _known_shape(v: Variable, sizes: tuple[int | None, ...]) -> tuple[int | None, ...]:
    try:
        return as_host(_force(v)).shape
    except NotComputed:
        return sizes


def _known(v: Variable) -> Any:
    """The value of a Variable as far as it is known without an evaluation, else None."""
    if v.value is not None:
        return v.value
    if recorder() is not None:
        return None
    session = default_session()
    if v.is_persistent:
        store = session.store
        pending = () if store.recorded is None else store.recorded.pending
        known = not store.is_empty and store.has(v) and v not in pending
        return store.current(v) if known else None
    try:
        return session.val(v)
    except (NotComputed, RuntimeError):  # not fetched yet, or a session that is closed
        return None


def _shown(v: Variable) -> Any:
    try:
        return as_host(_force(v))
    except NotComputed as error:
        return f"not computed: {error}"


def _detach(v: Variable) -> Variable:
    if v.eager_value is not None:
        return Variable.of(v.dims, v.dtype, v.name, eager_value=v.eager_value)
    if recorder() is None:
        from .. import ops

        return ops.stop_gradient(v)
    with no_grad():
        from .. import ops

        return ops.identity(v)


provide(
    backward=backward,
    clear_gradient=clear_gradient,
    clear_gradients=clear_gradients,
    detach=_detach,
    gradient=gradient,
    known=_known,
    known_shape=_known_shape,
    numpy=_numpy,
    shown=_shown,
)
