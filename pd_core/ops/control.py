"""Control flow in the graph: scan, for_loop, while_loop and cond, on ONNX's Scan, Loop and If.

A body is an ordinary Python function, called once with fresh Variables. What it reads from
outside is captured; what depends on none of its arguments is computed once, before the loop.
"""

from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from ..graph.errors import GraphError, ShapeError
from ..graph.loop import loop_node, scan_node
from ..graph.node import ancestors, control, latest_serial
from ..graph.rewrite import close
from ..graph.variable import Variable, constant, fresh_dim
from .math import cast
from .shape import arange, size_of

_counters = ContextVar("pd_core.loop_counters", default=())


def loop_counters() -> tuple[Variable, ...]:
    """The step numbers of the loops whose bodies are being built, the outermost first."""
    return _counters.get()


@contextmanager
def counted(number):
    """While it is entered, a step with this number is being described."""
    token = _counters.set((*_counters.get(), number))
    try:
        yield
    finally:
        _counters.reset(token)


@contextmanager
def uncounted(number):
    """While it is entered, what is described stands outside the step with this number."""
    counters = _counters.get()
    token = _counters.set(counters[: counters.index(number)])
    try:
        yield
    finally:
        _counters.reset(token)


def scan(step, init, inputs, reverse=False):
    """Carry a state along the first axis of the inputs: (final state, stacked outputs).

    step(state, x) -> (new state, y) is given one slice of each input, in order or from the end
    if `reverse`; y of all steps are stacked in the order of the inputs. State, inputs and y are
    each a Variable or a list of them, y may be None. A state keeps its shape.
    """
    states, xs = listed(init), listed(inputs)
    if not xs:
        raise GraphError("scan: there is nothing to scan over\n  hint: while_loop needs no inputs")
    for x in xs:
        if x.rank == 0:
            raise ShapeError(f"scan: {x!r} has no axis to scan along")
    formals = [_formal(s.dims, s.dtype, "state") for s in states]
    slices = [_formal(x.dims[1:], x.dtype, "x") for x in xs]
    number = _formal((), np.int64, "step")
    with counted(number):
        result = step(like(init, formals), like(inputs, slices))
    if not isinstance(result, tuple) or len(result) != 2:
        raise GraphError("scan: the step returns a pair (new state, output)")
    new, ys = listed(result[0]), listed(result[1])
    _check_states("scan", states, new)
    if any(number in node.inputs for node in ancestors([*new, *ys])):
        xs, slices = [*xs, arange(size_of(xs[0], 0))], [*slices, number]
    blocks, captures = close({"body": [*new, *ys]}, {"body": [*formals, *slices]})
    out = scan_node(states, xs, captures, blocks["body"], ys, reverse)
    count = len(states)
    return like(init, out[:count]), like(result[1], out[count:])


def while_loop(condition, body, init, max_steps=None):
    """Repeat state := body(*state) while condition(*state) holds; the final state.

    `init` is a list of Variables, numbers or arrays, which fixes shapes and dtypes; the number of
    steps may depend on data. Gradients flow through the steps that were made.
    """
    states = listed(init)
    formals = [_formal(s.dims, s.dtype, "state") for s in states]
    number, going = _formal((), np.int64, "step"), _formal((), np.bool_, "going")
    with counted(number):
        new = listed(body(*formals))
    _check_states("while_loop", states, new)
    again = _predicate("while_loop", condition(*new))
    blocks, captures = close({"body": [again, *new]}, {"body": [number, going, *formals]})
    first = _predicate("while_loop", condition(*states))
    limit = None if max_steps is None else constant(np.int64(max_steps))
    types = [(s.dims, s.dtype) for s in states]
    out = loop_node(limit, first, states, captures, blocks["body"], types)
    return like(init, out)


def for_loop(count, body, init):
    """Repeat `count` times, a number or an int64 scalar Variable: (final state, stacked outputs).

    body(i, state) -> (new state, y) is like the step of `scan`, with the number of the step in the
    place of a slice. Read an array at i with `gather`; what is to be written at i is y.
    """
    states = listed(init)
    formals = [_formal(s.dims, s.dtype, "state") for s in states]
    number, going = _formal((), np.int64, "step"), _formal((), np.bool_, "going")
    with counted(number):
        result = body(number, like(init, formals))
    if not isinstance(result, tuple) or len(result) != 2:
        raise GraphError("for_loop: the body returns a pair (new state, output)")
    new, ys = listed(result[0]), listed(result[1])
    _check_states("for_loop", states, new)
    count = cast(constant(count), np.int64)
    blocks, captures = close({"body": [going, *new, *ys]}, {"body": [number, going, *formals]})
    steps = int(count.value) if count.value is not None and not count.rank else fresh_dim()
    types = [(s.dims, s.dtype) for s in states] + [((steps, *y.dims), y.dtype) for y in ys]
    out = loop_node(count, constant(True), states, captures, blocks["body"], types)
    return like(init, out[: len(states)]), like(result[1], out[len(states) :])


def cond(predicate, true_fn, false_fn):
    """true_fn() where a bool of one element holds, false_fn() elsewhere; only one of them runs.

    Both return a Variable or equally many in a list. Where sizes differ, that of the result is
    known only at run time.
    """
    predicate = _predicate("cond", predicate)
    results, bodies = {}, {}
    start = latest_serial()
    for key, fn in (("then_branch", true_fn), ("else_branch", false_fn)):
        results[key] = fn()
        bodies[key] = listed(results[key])
    then, other = bodies.values()
    if len(then) != len(other):
        raise GraphError(f"cond: one branch returns {len(then)} values, the other {len(other)}")
    types = [_common(a, b) for a, b in zip(then, other, strict=True)]
    formals = {key: [] for key in bodies}
    blocks, captures = close(bodies, formals, inside=lambda node: node.serial > start)
    out = control("If", [predicate, *captures], blocks, types)
    return like(results["then_branch"], out)


def _common(a, b):
    """The type that both branches give."""
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


def _formal(dims, dtype, name):
    return Variable.of(dims, dtype, name)


def listed(values):
    """A Variable, a list of them or None, as a list."""
    if values is None:
        return []
    if isinstance(values, (list, tuple)):
        return [constant(v) for v in values]
    return [constant(values)]


def like(pattern, values):
    """Values in the form in which the pattern came: one, a list, a tuple, or None."""
    if pattern is None:
        return None
    if isinstance(pattern, (list, tuple)):
        return type(pattern)(values)
    return values[0]
