"""Gradients of recorded graphs: `backward()`, and what it leaves on Variables."""

from collections.abc import Callable, Sequence
from functools import cached_property
from operator import call
from typing import Any, NamedTuple, cast
from weakref import ref

import numpy as np

from ..graph.arrays import as_array
from ..graph.errors import BackendError, GraphError, ShapeError
from ..graph.recording import recorder
from ..graph.roles import History
from ..graph.update import Update
from ..graph.variable import Operand, Variable
from ..optimizers.row_sparse import RowGradient, gradients_by_rows
from ..run.exchange import exchanges
from .gradient import Gradient
from .pattern import Matched
from .plan import Plan, Targets
from .state import State, current_state
from .trace import Trace, label
from .unread import Unread, group_of


def backward(loss: Variable, gradient: Operand | None = None, retain_graph: bool = False) -> None:
    """Add the gradients of a cost to those of everything that it was computed from.

    These are trainable parameters, Variables whose `stop_gradient` is False, and what was computed
    on the way and is held by somebody. GraphError if the cost was computed from nothing that has a
    gradient.

    It is computed together with the update if `minimize` of the cost follows, and as soon as
    anything else needs it.
    """
    state, recording = current_state(), recorder()
    with state.session.lock:
        state.settle()
        check_tracked("backward", [loss])
        seeds = [] if gradient is None else [_seed(loss, gradient)]
        step = BackwardPass(state, loss, seeds, retain_graph)
        now = recording is None or recording.immediate or exchanges(state.session)
        if now or seeds or retain_graph or step.adds:
            step.run()
        else:
            state.waiting = step  # with a minimize() of the cost it is one program


class _Known(NamedTuple):
    """A backward pass of traces of one pattern, and the name that all like it share.

    `places` are those of what has a gradient, `is_ended` of each fetch whether its graph ends.
    `on_demand` is whether gradients can be `Unread`: they are of parameters, by reference, and then
    of results, as indices of fetches.
    """

    name: tuple
    places: Sequence[int] = ()
    is_ended: Sequence[bool] = ()
    on_demand: bool = False
    parameters: Sequence[Any] = ()
    results: Sequence[int] = ()

    def of(self, trace: Trace, step: "BackwardPass") -> "_Known":
        """Return the same of the traces of a pattern."""
        numbers = {v: k for k, v in enumerate(trace.fetches)}
        settings = any(w.storage.setting is not None for w in trace.reads.values())
        given = any(v.tracked for v in trace.values)
        return _Known(
            self.name,
            [trace.place(v) for v in step.wrt],
            [v in step.ended for v in trace.fetches],
            # a program that fetches no gradients may round others than one that does
            bool(trace.reads) and not (settings or given or trace.draws),
            [ref(v.source) for v in step.wrt if v.source is not None],
            [numbers[v] for v in step.wrt if v in numbers],
        )


class BackwardPass:
    """A backward pass from a cost, before it is computed."""

    def __init__(
        self, state: State, loss: Variable, seeds: list[Variable], retain_graph: bool
    ) -> None:
        self.state, self.loss, self.seeds = state, loss, seeds
        if seeds:
            trace = Trace([loss], state, through=True, operands=seeds)
        else:
            trace = state.patterns.traced([loss], state, through=True)
        self.trace, key = trace, ("backward", retain_graph)
        known: _Known | None = trace.noted(key)
        if isinstance(trace, Matched) and known is not None:
            pairs = zip(trace.fetches, known.is_ended, strict=True)
            self.ended = {v for v, ends in pairs if ends}
        else:
            trace.check_history()
            reached = trace.differentiated()
            self.ended = set() if retain_graph else reached.intersection(trace.fetches)
            wrt = self.wrt = differentiated(trace, reached)
            numbers = tuple([trace.number(v) for v in wrt])
            known = _Known(("backward", not seeds, trace.flows, numbers))
            if trace.pattern is not None:
                known = known.of(trace, self)
                trace.note(key, known)
        self.known, self.name = known, known.name
        if known.on_demand:
            self.parameters: list[Any] = [*map(call, known.parameters)]
            self.owners: list[Any] = [*self.parameters, *[trace.fetches[k] for k in known.results]]
        else:
            self.owners = [v if v.source is None else v.source for v in self.wrt]
            self.parameters = [v for v in self.owners if v.is_persistent]
        self.before = loss.history
        loss.history = History(self.before.ended, self.parameters)

    @cached_property
    def wrt(self) -> list[Variable]:
        """The Variables of the trace to which gradients belong."""
        trace = cast(Matched, self.trace)
        return [trace.at(place) for place in self.known.places]

    def assigns(self, v: Variable) -> bool:
        """Return whether it is to give a persistent variable the value that this waits for."""
        pending = self.state.pending.get(v)
        return any(p is pending for _, p in self.trace.assigned)

    @property
    def adds(self) -> bool:
        """Whether some of the gradients are added to earlier ones."""
        return self.state.has_gradients(self.owners)

    def gradients(self, of: Callable[[Variable], Variable]) -> list:
        """Return the gradients, where a Variable of the trace is `of(it)`."""
        inputs = [of(v) for v in self.wrt]
        return gradients_by_rows([of(self.loss)], inputs, self.seeds or None)

    def targets(
        self, gradients: list, of: Callable[[Variable], Variable], update: Update | None = None
    ) -> Targets:
        """Return the targets of a program: its updates are those of the trace, and of `update`."""
        flat, indices = _flattened(gradients)
        if update is None:
            parts = [(v, [flat[k] for k in ks]) for v, ks in zip(self.owners, indices, strict=True)]
            update = Update(gradients=[(v, tuple(g)) for v, g in parts if g])
        updates = [(v, of(x)) for v, x in self.trace.updates]
        updates += [(a.variable, a.value) for a in update.assignments]
        return [*map(of, self.trace.fetches), *flat], updates, indices, update

    def gradient_targets(self, of: Callable[[Variable], Variable]) -> Targets:
        """Return the targets of a program without an update."""
        return self.targets(self.gradients(of), of)

    def run(self) -> None:
        """Compute the gradients, in a program without an update, and add them to earlier ones."""
        self.finish(*self.state.evaluate(self.name, self.trace, self.gradient_targets))

    def fail(self) -> None:
        """Compute the gradients without the update that failed; without them it was no pass.

        What was assigned with the update is settled, so that another trace is made.
        """
        self.loss.history = self.before
        again = BackwardPass(self.state, self.loss, [], False)
        try:
            again.run()
        except BackendError:  # that of the update: it is not raised again later
            self.loss.history = self.before

    def finish(self, plan: Plan, values: list) -> None:
        """Take over the values of a plan for `targets`."""
        count, ended = len(self.trace.fetches), self.ended
        self.wrt = []  # a read that is in use after the step keeps the value before it
        self.state.finish(self.trace, plan, values[:count], ended)
        _accumulate(self.state, self.owners, plan.result, values[count:])

    def finish_update(self, plan: Plan, results: list) -> None:
        """Take over the values of a plan that has only updated: the gradients are `Unread`."""
        trace, state, pattern, known = self.trace, self.state, self.trace.pattern, self.known
        values, owners, group = trace.values, map(ref, self.owners), group_of(state, pattern)
        draws = [getattr(node, "draws", ()) for node in trace.order] if pattern.draws else ()
        templates = [node.template for node in trace.order]
        self.wrt = []  # as in `finish`
        if isinstance(trace, Matched):
            replaced = state.finish_again(trace, plan, results, known.is_ended)
        else:
            replaced = state.finish(trace, plan, results, self.ended)
        changes = plan.updated, replaced
        of = pattern, group, templates, values, draws, owners, known.places
        unread = Unread(_compute_unread, *of, *changes)
        group.unread, state.unread[pattern.group] = unread, None
        for y in self.owners[len(self.parameters) :]:
            if y is not self.loss:
                state.groups[y] = unread


def _compute_unread(state: State, unread: Unread) -> None:
    """Compute gradients that a step has not fetched."""
    unread.pattern.fetches_gradients = True
    loss, of = unread.replayed(state)
    step = BackwardPass(state, loss, [], False)
    plan, values = state.evaluate(step.name, step.trace, step.gradient_targets)
    owners = [of.get(v, v) for v in step.owners]
    step.owners = [v if ref(v) in unread.owners else None for v in owners]
    step.finish(plan, values)


def check_tracked(name: str, costs: Sequence[Variable]) -> None:
    """Check that gradients flow to some cost."""
    for c in costs:
        if not isinstance(c, Variable):
            raise TypeError(f"{name}: takes Variables, not {c!r}")
        if c.history.ended:
            raise GraphError(
                f"{name}: the graph behind {label(c)} ended with an earlier backward() or "
                "minimize()\n  hint: retain_graph=True there keeps it"
            )
    if recorder() is None and not any(c.is_recorded for c in costs):
        raise GraphError(
            f"{name}: {label(costs[0])} was built outside of `with pd.guard():`, without values\n"
            "  hint: a static graph has pd.gradients() and minimize(), which returns an update"
        )
    if not any(c.tracked for c in costs):
        raise GraphError(
            f"{name}: {label(costs[0])} was computed from nothing that has a gradient\n"
            "  hint: it has to depend on trainable parameters or on Variables whose stop_gradient "
            "is False, outside of no_grad()"
        )


def differentiated(trace: Trace, reached: set[Variable]) -> list[Variable]:
    """The Variables of a trace that get a gradient: leaves, then what somebody holds."""
    leaves = [v for v in trace.reads if v in reached]
    leaves += [v for v in trace.leaves if v.eager_value is not None and v in reached]
    return leaves + [v for v in trace.fetches if v in reached and v.dtype.kind == "f"]


def _seed(loss: Variable, gradient: Operand) -> Variable:
    array = as_array(gradient, loss.dtype, "backward")
    if array.shape != loss.shape:
        raise ShapeError(f"backward: a gradient of {list(array.shape)} for {label(loss)}")
    return Variable.of(loss.dims, loss.dtype, "gradient", eager_value=array)


def _flattened(gradients: Sequence[Any]) -> tuple[list[Variable], list[tuple[int, ...]]]:
    """Gradients in one list, and the indices of each in it: one, two if by rows, or none."""
    flat: list[Variable] = []
    indices: list[tuple[int, ...]] = []
    for g in gradients:
        parts = () if g is None else (g.rows, g.values) if isinstance(g, RowGradient) else (g,)
        indices.append(tuple(range(len(flat), len(flat) + len(parts))))
        flat += parts
    return flat, indices


def _accumulate(
    state: State,
    owners: Sequence[Variable | None],
    indices: Sequence[tuple[int, ...]],
    values: Sequence[Any],
) -> None:
    """Add the gradients to those of the Variables; nobody wants that of a None."""
    gradients = state.fetched_gradients
    for owner, index in zip(owners, indices, strict=True):
        if not index or owner is None:
            continue
        new = Gradient(*[values[k] for k in index])
        old = gradients.get(owner)
        gradients[owner] = new if old is None else old.plus(new, owner)


def gradient(v: Variable) -> np.ndarray | None:
    """Return the gradient of a Variable, None without one."""
    state = current_state()
    state.settle()
    g = state.gradients.get(v)
    return None if g is None else np.array(g.numpy(v))


def clear_gradient(v: Variable) -> None:
    """Forget the gradient of a Variable."""
    clear_gradients([v])


def clear_gradients(variables: Sequence[Variable]) -> None:
    """Forget the gradients of Variables."""
    state = current_state()
    state.settle()
    gradients = state.fetched_gradients
    if gradients:
        for v in variables:
            gradients.pop(v, None)
    if state.unread:
        state.forget_unread(list(map(ref, variables)))
