"""Control flow in the graph: scan, for_loop, while_loop and cond, on ONNX's Scan, Loop and If.

A body is an ordinary Python function, called once with fresh Variables. Variables from outside
that it reads are captured; what depends on none of its arguments is computed once, before the
loop.
"""

# These functions are no @op: a body is the user's code, and its errors are not the loop's.

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..graph.errors import GraphError, ShapeError
from ..graph.loop import loop_node, scan_node
from ..graph.node import ancestors, control, latest_serial
from ..graph.recording import deferred
from ..graph.rewrite import close
from ..graph.variable import Operand, Variable, constant, fresh_dim
from .assigned import assigning, carried
from .math import cast
from .mode import building_body
from .shape import arange, size_of, squeeze

Values = Operand | Sequence[Operand] | None  # a state or an output: one Variable or several
Results = Any  # Variables in the structure of Values that were passed: one, a list, a tuple, None

_counters: ContextVar[tuple[Variable, ...]] = ContextVar("pd_core.loop_counters", default=())


def loop_counters() -> tuple[Variable, ...]:
    """Return the step counters of the loops whose bodies are being built, outermost first."""
    return _counters.get()


@contextmanager
def inside_loop(counter: Variable) -> Iterator[None]:
    """Enter the body of a loop with this step counter."""
    token = _counters.set((*_counters.get(), counter))
    try:
        with building_body():
            yield
    finally:
        _counters.reset(token)


@contextmanager
def outside_loop(counter: Variable) -> Iterator[None]:
    """Leave the body of the loop with this step counter, and those inside it, for a while."""
    counters = _counters.get()
    outer = counters[: counters.index(counter)]
    token = _counters.set(outer)
    try:
        with building_body(inside=bool(outer)):
            yield
    finally:
        _counters.reset(token)


def scan(
    step: Callable, init: Values, inputs: Values, reverse: bool = False
) -> tuple[Results, Results]:
    """Carry a state along the first axis of the inputs: (final state, stacked outputs).

    step(state, x) -> (new state, y) takes one slice of each input, from the last to the first if
    `reverse`; the y of all steps are stacked in the order of the inputs. State, inputs and y are
    each a Variable or a list of them; y may be None. A state keeps its shape. Without steps the
    final state is the initial one.

    Args:
        step: a function (state, slices) -> (new state, outputs).
        init: the first state: a Variable, a list of them, or None.
        inputs: Variables with the steps along their first axis.

    Raises:
        GraphError: there is nothing to scan over, or the step returns no pair, or another number of
            states, or neither a state nor an output.
        ShapeError: a state does not keep its shape and dtype, or an input has no axis.
    """
    states, xs = as_list(init), as_list(inputs)
    if not xs:
        raise GraphError("scan: there is nothing to scan over\n  hint: while_loop needs no inputs")
    for x in xs:
        if x.rank == 0:
            raise ShapeError(f"scan: {x!r} has no axis to scan along")
    block_inputs = [_block_input(s.dims, s.dtype, "state") for s in states]
    slices = [_block_input(x.dims[1:], x.dtype, "x") for x in xs]
    counter = _block_input((), np.int64, "step")
    with inside_loop(counter):
        result = step(restructure(init, block_inputs), restructure(inputs, slices))
    if not isinstance(result, tuple) or len(result) != 2:
        raise GraphError("scan: the step returns a pair (new state, output)")
    new, ys = as_list(result[0]), as_list(result[1])
    if not new and not ys:
        raise GraphError("scan: the step returns neither a state nor an output")
    _check_states("scan", states, new)
    moving = carried([*new, *ys], [*block_inputs, *slices])
    states, block_inputs, new = moving.joined(states, block_inputs, new)
    if any(counter in node.inputs for node in ancestors([*new, *ys])):
        # ONNX's Scan has no step counter: scan over 0, 1, … too
        xs, slices = [*xs, arange(size_of(xs[0], 0))], [*slices, counter]
    blocks, captures = close({"body": [*new, *ys]}, {"body": [*block_inputs, *slices]})
    out = moving.assigned(scan_node(states, xs, captures, blocks["body"], ys, reverse), len(states))
    count = len(states) - moving.count
    return restructure(init, out[:count]), restructure(result[1], out[count:])


def while_loop(
    condition: Callable, body: Callable, init: Sequence[Operand], max_steps: int | None = None
) -> Sequence[Variable]:
    """Repeat state := body(*state) while condition(*state) is true; return the final state.

    `init` is a list of Variables, numbers or arrays, which fixes shapes and dtypes; the number of
    steps may depend on data. Gradients flow through the steps that ran.

    Args:
        condition: a function of the state that returns a bool of one element.
        body: a function of the state that returns the new one.
        max_steps: the number of steps after which it ends, if the condition is still true.

    Raises:
        GraphError: condition or body returns something else, or another number of states.
        ShapeError: a state does not keep its shape and dtype.
    """
    states = as_list(init)
    block_inputs = [_block_input(s.dims, s.dtype, "state") for s in states]
    counter, going = _block_input((), np.int64, "step"), _block_input((), np.bool_, "going")
    with inside_loop(counter):
        new = as_list(body(*block_inputs))
    _check_states("while_loop", states, new)
    again = _scalar(_predicate("while_loop", condition(*new)))
    first = _scalar(_predicate("while_loop", condition(*states)))
    moving = carried(new, [counter, *block_inputs])
    states, block_inputs, new = moving.joined(states, block_inputs, new)
    blocks, captures = close({"body": [again, *new]}, {"body": [counter, going, *block_inputs]})
    limit = None if max_steps is None else constant(np.int64(max_steps))
    types = [(s.dims, s.dtype) for s in states]
    out = loop_node(limit, first, states, captures, blocks["body"], types)
    out = moving.assigned(out, len(states))
    return restructure(init, out)


def for_loop(count: Operand, body: Callable, init: Values) -> tuple[Results, Results]:
    """Repeat a body `count` times, an int or an int64 scalar: (final state, stacked outputs).

    body(i, state) -> (new state, y) is like the step of `scan`, with the step counter instead of
    a slice. Read an array at i with `gather`; return what is to be stored at i as y.

    Args:
        count: an integer, or an int64 scalar.
        body: a function (i, state) -> (new state, outputs).
        init: the first state: a Variable, a list of them, or None.

    Raises:
        GraphError: the body returns no pair, or another number of states.
        ShapeError: a state does not keep its shape and dtype.
    """
    states = as_list(init)
    block_inputs = [_block_input(s.dims, s.dtype, "state") for s in states]
    counter, going = _block_input((), np.int64, "step"), _block_input((), np.bool_, "going")
    with inside_loop(counter):
        result = body(counter, restructure(init, block_inputs))
    if not isinstance(result, tuple) or len(result) != 2:
        raise GraphError("for_loop: the body returns a pair (new state, output)")
    new, ys = as_list(result[0]), as_list(result[1])
    _check_states("for_loop", states, new)
    moving = carried([*new, *ys], [counter, *block_inputs])
    states, block_inputs, new = moving.joined(states, block_inputs, new)
    count = cast(constant(count), np.int64)
    blocks, captures = close(
        {"body": [going, *new, *ys]}, {"body": [counter, going, *block_inputs]}
    )
    steps = int(count.value) if count.value is not None and not count.rank else fresh_dim()
    types = [(s.dims, s.dtype) for s in states] + [((steps, *y.dims), y.dtype) for y in ys]
    out = loop_node(count, constant(True), states, captures, blocks["body"], types)
    out, kept = moving.assigned(out, len(states)), len(states) - moving.count
    return restructure(init, out[:kept]), restructure(result[1], out[kept:])


def cond(
    predicate: Operand, true_fn: Callable[[], Values], false_fn: Callable[[], Values]
) -> Results:
    """Compute true_fn() if a bool of one element is true, else false_fn(); only one of them runs.

    Both return a Variable, or lists of the same length. A size in which they differ is known only
    at run time.

    Args:
        predicate: a bool of one element.
        true_fn: a function without arguments.
        false_fn: a function without arguments.

    Returns:
        What the functions return.

    Raises:
        GraphError: the condition is no bool of one element, or the functions return different
            numbers or dtypes.
    """
    predicate = _predicate("cond", predicate)
    results, bodies = {}, {}
    start = latest_serial()
    for key, fn in (("then_branch", true_fn), ("else_branch", false_fn)):
        with deferred(), building_body():
            results[key] = fn()
        bodies[key] = as_list(results[key])
    then, other = bodies.values()
    if len(then) != len(other):
        raise GraphError(f"cond: one branch returns {len(then)} values, the other {len(other)}")
    types = [_common(a, b) for a, b in zip(then, other, strict=True)]
    moving = {k: carried(b, (), lambda node: node.serial > start) for k, b in bodies.items()}
    variables = list(dict.fromkeys(v for m in moving.values() for v in m.variables))
    for key, own in moving.items():
        bodies[key] = [*bodies[key], *own.after(variables, variables)]
    types += [(v.dims, v.dtype) for v in variables]
    block_inputs: dict[str, list[Variable]] = {key: [] for key in bodies}
    blocks, captures = close(bodies, block_inputs, inside=lambda node: node.serial > start)
    out = control("If", [predicate, *captures], blocks, types)
    out = assigning(out[: len(then)], variables, out[len(then) :])
    return restructure(results["then_branch"], out)


def _common(a, b):
    """Return the dims and dtype of a result of either branch."""
    if a.dtype != b.dtype:
        raise GraphError(f"cond: one branch returns {a!r}, the other {b!r}")
    if a.rank != b.rank:
        return a.dims, a.dtype
    dims = [d if d == e else fresh_dim() for d, e in zip(a.dims, b.dims, strict=True)]
    return tuple(dims), a.dtype


def _predicate(who, value):
    value = constant(value)
    if value.dtype != np.bool_ or value.rank > 1 or (value.rank and value.dims[0] != 1):
        raise GraphError(f"{who}: the condition is a bool of one element, not {value!r}")
    return value


def _scalar(x):
    """A Variable of one element without an axis: ONNX's Loop has a scalar condition."""
    return squeeze(x, 0) if x.rank else x


def _check_states(who, states, new):
    if len(states) != len(new):
        raise GraphError(f"{who}: {len(states)} states go in, {len(new)} come out of a step")
    for old, s in zip(states, new, strict=True):
        fits = old.rank == s.rank and all(
            d == e or isinstance(d, str) or isinstance(e, str)
            for d, e in zip(old.dims, s.dims, strict=True)
        )
        if not fits or old.dtype != s.dtype:
            raise ShapeError(f"{who}: a state begins as {old!r} and comes out of a step as {s!r}")


def _block_input(dims, dtype, name):
    return Variable.of(dims, dtype, name)


def as_list(values: Values) -> list[Variable]:
    """Return a Variable, several of them or None as a list."""
    if values is None:
        return []
    if isinstance(values, (list, tuple)):
        return [constant(v) for v in values]
    one: Any = values
    return [constant(one)]


def restructure(pattern: Values, values: Sequence[Variable]) -> Results:
    """Return a list of values in the structure of the pattern: one, a list, a tuple, or None."""
    if pattern is None:
        return None
    if isinstance(pattern, (list, tuple)):
        return type(pattern)(values)
    return values[0]
