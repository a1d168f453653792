"""Recording: what building a graph asks while values are at hand, inside `pd.guard()`.

The recorder itself is in `pd_core.dynamic`, above all that builds graphs.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from itertools import count
from typing import Any, Protocol


class Recorder(Protocol):
    """The interface of a recorder that ops use."""

    inside: bool  # whether an op runs that was called from outside of ops
    site: Any  # the line that called it
    line: Any  # the line that called the layer of ours in which it runs, if it does
    gradients: bool  # whether results have any
    outer: Any  # the recorder that was in force before, if any
    ended: bool  # whether its block is left
    immediate: bool  # whether each such op is computed before it returns
    follows: bool  # whether it goes on in the session by which `reset` replaces its own

    def go_on(self, old: Any, new: Any) -> None:
        """Record in a new session from here on, if it has recorded in this old one."""

    def within(self, session: Any) -> Any:
        """Record in another session from here on; None if it is that of this recorder."""

    def end(self) -> None:
        """Stop recording."""

    def compute(self, result: Any) -> None:
        """Compute what an op returned."""

    def arguments(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Return the arguments of an op with leaves in the place of arrays."""

    def call(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call an op, or add the nodes that it has added for equal arguments."""

    def again(self, function: Any, args: Any, site: Any) -> Any:
        """Return the result of an op as of an equal call before, None if that is not known."""

    def except_first(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Return the arguments with their sizes as numbers, but those of the first axes."""

    def specialised(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Return the arguments with all of their sizes as numbers."""

    def operand(self, x: Any) -> Any:
        """Return the value at this line of a persistent variable; any other as it is."""

    def changing(self, x: Any) -> Any:
        """Return a constant, or a leaf where a recorded line changes it from call to call."""

    def store(self, variable: Any, value: Any) -> None:
        """Store a value in a persistent variable."""

    def apply(self, *arguments: Any) -> Any:
        """Add an ONNX operator; the arguments are those of `graph.node.apply`."""

    def begin(self, namespace: str) -> None:
        """Number the draws of a namespace from 0 again: a layer of this name is called."""

    watched: Any  # what the running call of a layer adds, where that may be known later

    def watch(self, is_ours: bool) -> Any:
        """Watch what the call of a layer of pd_core adds; return what was watched before."""

    def learned(self, layer: Any, inputs: Any, output: Any, watched: Any) -> Any:
        """Return the output of a layer, of which calls like it know what they add."""

    def repeat(self, layer: Any, inputs: Any) -> Any:
        """Return the output of a layer as of an equal call before, None if there was none."""

    def number_of_draw(self, namespace: str, prefix: str) -> int:
        """Return the number of the next draw of this prefix in the running call of a layer."""

    def draw(self, stream: int) -> Any:
        """Return the identity of the next random draw of a stream."""

    def assign_with(self, x: Any, effects: Sequence) -> None:
        """Note the values that persistent variables take once a Variable is computed."""

    def minimize_again(self, optimizer: Any, cost: Any) -> bool:
        """Take a step of an optimizer if it is like one before, and return whether it is."""

    def minimize(self, optimizer: Any, costs: list, var_list: Any, retain_graph: bool) -> None:
        """Take a step of an optimizer."""

    def node(self, op_type: str, inputs: tuple, *args: Any, **kwargs: Any) -> Any:
        """Return a recorded node; the arguments are those of Node."""

    def leaf(self, value: Any, dtype: Any = None, copy: bool = True) -> Any:
        """Return a Variable with a value of its own."""

    state: Any  # what the session holds for recorded graphs


_recorder: ContextVar[Recorder | None] = ContextVar("pd_core.recorder", default=None)

recorder = _recorder.get  # of this thread; None while no values are at hand
record_with = _recorder.set


class not_recording:
    """Build a graph without values in a `with`."""

    __slots__ = ("token",)

    def __enter__(self) -> None:
        self.token = _recorder.set(None)

    def __exit__(self, *exc: object) -> None:
        _recorder.reset(self.token)


class deferred:
    """Let ops wait until somebody looks, in `pd.guard(immediate=True)` too, in a `with`."""

    __slots__ = ("immediate", "recorder")

    def __enter__(self) -> None:
        self.recorder = recorder()
        if self.recorder is not None:
            self.immediate, self.recorder.immediate = self.recorder.immediate, False

    def __exit__(self, *exc: object) -> None:
        if self.recorder is not None:
            self.recorder.immediate = self.immediate


class Size(str):
    """The name of a size, in a program for any size, whose number is known at this line."""

    __slots__ = ("number",)
    number: int


_sizes: dict[tuple, Size] = {}
_origins: dict[tuple, int] = {}
_numbers = count()
_LIMIT = 1 << 14


def named_size(origin: tuple, number: int) -> Size | int:
    """Return the name of a size of this origin; the same for equal arguments.

    A size of 1 has none: it broadcasts, which no other does.
    """
    if number == 1:
        return 1
    key = origin, number
    size = _sizes.get(key)
    if size is None:
        if len(_sizes) >= _LIMIT:
            _sizes.clear()
            _origins.clear()
        size = Size(f"?{_origins.setdefault(origin, next(_numbers))}={number}")
        size.number = number
        _sizes[key] = size
    return size


def as_number(d: int | str | None) -> int | None:
    """Return a size as a number; None where it is known only at run time."""
    return d if isinstance(d, int) else getattr(d, "number", None)
