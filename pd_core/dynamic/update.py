"""Steps of optimizers on recorded graphs."""

from collections.abc import Container, Iterable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary, ref

import numpy as np

from ..gradients.locations import gradient_of
from ..graph.errors import BackendError, GraphError
from ..graph.recording import not_recording
from ..graph.roles import History, TrainingOptions
from ..graph.update import Update
from ..graph.variable import Variable, fresh_dim
from ..optimizers.cached import CachedTracing, cached_tracing
from ..optimizers.loss_scaling import LossScaler
from ..optimizers.row_sparse import RowGradient, added, gradients_by_rows
from ..run.exchange import exchanges
from ..run.request import Request
from ..run.session import Session
from .backward import BackwardPass, backward, check_tracked
from .gradient import Gradient, as_host
from .plan import Targets
from .plans import Of
from .recorded_call import RecordedCall, RecordedVariable
from .state import State
from .trace import Trace, label

_MOST_UPDATES = 16  # of parameters of which the first is the same


def minimize(
    state: State,
    optimizer: Any,
    costs: Sequence[Variable],
    var_list: Sequence[Variable] | None,
    retain_graph: bool,
) -> None:
    """Take a step: with the gradients of `backward` if it was called on the costs, else of them."""
    for v in var_list or ():
        if not isinstance(v, Variable) or not v.is_persistent:
            raise GraphError(f"minimize: var_list takes parameters, not {v!r}")
    with state.session.lock:
        if isinstance(optimizer, LossScaler):
            state.settle()
            _scaled_step(state, optimizer, costs, var_list, retain_graph)
            return
        cached, waiting = cached_tracing(optimizer, state.session), state.waiting
        if waiting is not None:
            alone = len(costs) == 1 and costs[0] is waiting.loss
            if alone and not exchanges(state.session):
                wanted = waiting.parameters if var_list is None else var_list
                others = _have_others(state, waiting, wanted)
                if not others and _fused_backward(state, cached, waiting, wanted):
                    return
            state.settle()
        if all(c.history.parameters is not None for c in costs):
            reached = [w for c in costs for w in c.history.parameters or ()]
            _step(state, cached, reached if var_list is None else var_list)
        elif exchanges(state.session):
            _exchanged_step(state, cached, costs, var_list, retain_graph)
        else:
            _fused_step(state, cached, costs, var_list, retain_graph)


def _exchanged_step(
    state: State,
    cached: CachedTracing,
    costs: Sequence[Variable],
    var_list: Sequence[Variable] | None,
    retain_graph: bool,
) -> None:
    """Take a step whose gradients are exchanged before the update; they are not kept."""
    check_tracked("minimize", costs)
    costs = [c for c in costs if c.tracked]
    gradients, state.gradients = state.gradients, WeakKeyDictionary()
    try:
        for number, c in enumerate(costs, 1):
            backward(c, retain_graph=retain_graph or number < len(costs))
        reached = [w for c in costs for w in _parameters_once(c)]
        _step(state, cached, reached if var_list is None else var_list)
    finally:
        state.gradients = gradients


def _parameters_once(cost: Variable) -> Sequence[Variable]:
    """The parameters that `backward` of a cost reached, for this step and no later one."""
    parameters, cost.history = cost.history.parameters, History(cost.history.ended)
    return parameters or ()


def _scaled_step(
    state: State,
    scaler: LossScaler,
    costs: Sequence[Variable],
    var_list: Sequence[Variable] | None,
    retain_graph: bool,
) -> None:
    """Take a step with the gradients of the scaled costs, if these are finite."""
    session = state.session
    if exchanges(session):
        raise GraphError(
            "LossScaler: the steps of several processes inside pd.guard() have no common scale\n"
            "  hint: minimize() of a static graph does"
        )
    check_tracked("minimize", costs)
    costs = [c for c in costs if c.tracked]
    scale = session.get(scaler.scale)
    gradients, state.gradients = state.gradients, WeakKeyDictionary()
    try:
        for number, c in enumerate(costs, 1):
            seed = np.full(cast(Any, c.shape), scale, c.dtype)
            backward(c, seed, retain_graph=retain_graph or number < len(costs))
        reached = [w for c in costs for w in _parameters_once(c)]
        finite = all(np.isfinite(as_host(g.values)).all() for g in state.gradients.values())
        if finite:
            for w, g in list(state.gradients.items()):
                parts = () if g.rows is None else (g.rows,)
                state.gradients[w] = Gradient(*parts, np.asarray(as_host(g.values) / scale))
            cached = cached_tracing(scaler.optimizer, session)
            _step(state, cached, reached if var_list is None else var_list)
    finally:
        state.gradients = gradients
    with not_recording():
        flag = Variable.of((), np.dtype(np.bool_), "finite")
        update, fed = Update(scaler.adjusted(flag)), {flag: np.array(finite)}
        session.evaluate(Request([], [update], fed, True, computed=True))


def _have_others(state: State, step: BackwardPass, wanted: Sequence[Variable]) -> bool:
    """Whether some wanted parameter has a gradient of other costs alone: the step takes it too."""
    others = set(wanted).difference(step.parameters)
    return bool(others) and state.has_gradients(others)


def _fused_backward(
    state: State, cached: CachedTracing, step: BackwardPass, wanted: Sequence[Variable]
) -> bool:
    """Compute a backward pass and the update from it in one program, if there is an update."""
    pattern = step.trace.pattern
    # `fetched` gradients are results of the program, others are computed on demand
    fetched = not step.known.on_demand or pattern.fetches_gradients
    fetched = fetched or state.session.observers.sees_recorded(state.session)
    key = ("update", step.name, ref(cached.optimizer), tuple(map(ref, wanted)), fetched)
    known = step.trace.noted(key)
    if known is None or not known.holds(cached):
        chosen = [w for w in dict.fromkeys(wanted) if w.trainable and w in step.parameters]
        if not chosen:
            return False
        indices = tuple([(step.owners.index(w), *_own(w)) for w in chosen])
        settings = cached.settings()
        name = (*step.name, ref(cached.optimizer), settings, indices, fetched)
        known = _Step(name, settings, list(map(ref, chosen)), _trained(step.parameters))
        step.trace.note(key, known)

    make = partial(_fused_targets, step, known, cached, fetched)
    elsewhere = [ref(w) for w in step.trace.read_elsewhere]
    state.waiting = None
    try:
        plan, values = state.evaluate(
            known.name, step.trace, make, before=lambda plan: state.before_plan(plan, elsewhere)
        )
    except BackendError:
        step.fail()
        raise
    except Exception:
        state.waiting = step
        raise
    if fetched:
        step.finish(plan, values)
        return True
    step.finish_update(plan, values)
    if wanted is step.parameters:
        pattern.step_after_backward = Again(ref(cached.optimizer), ref(cached), known, step.known)
    return True


def _fused_targets(
    step: BackwardPass, known: "_Step", cached: CachedTracing, fetched: bool, of: Of
) -> Targets:
    """The targets of a backward pass and the update, where a Variable of the trace is `of(it)`."""
    gradients = step.gradients(of)
    by_owner: dict[Variable, list] = {}
    for owner, g in zip(step.owners, gradients, strict=True):
        by_owner.setdefault(owner, []).append(g)
    parameters = [w() for w in known.parameters]
    pairs = [(w, _sum(w, by_owner[w])) for w in parameters]
    update = cached.update([(w, g) for w, g in pairs if g is not None])
    return step.targets(gradients if fetched else [], of, update)


def _fused_again(state: State, session: Session, optimizer: Any, step: BackwardPass) -> bool:
    """Take a step as `_fused_backward` does, if it is like the last one of its pattern."""
    pattern = step.trace.pattern
    again = None if pattern is None else pattern.step_after_backward
    if again is None or again.backward is not step.known or again.optimizer() is not optimizer:
        return False
    cached, plan = again.cached(), pattern.last_plan(again.step.name, session)
    if plan is None or cached is None or pattern.fetches_gradients or not again.step.holds(cached):
        return False
    if not plan.covers(step.trace):
        return False
    state.waiting = None
    if state.unread:
        state.compute_unread(plan.updated)
    try:
        values = plan.run(session, step.trace)
    except BackendError as error:
        make = partial(_fused_targets, step, again.step, cached, False)
        explained = state.failed(error, session, plan, step.trace, make)
        step.fail()
        raise explained from error.__cause__
    except BaseException:
        state.waiting = step
        raise
    step.finish_update(plan, values)
    return True


def _step(state: State, cached: CachedTracing, parameters: Sequence[Variable]) -> None:
    """Update parameters with the gradients that they have."""
    pairs: list = [(w, state.gradients.get(w)) for w in dict.fromkeys(parameters) if w.trainable]
    pairs = [(w, g) for w, g in pairs if g is not None]
    if not pairs:
        raise GraphError(f"minimize: none of {[w.name for w in parameters]} has a gradient")
    key = (tuple([(_own(w), g.rows is None) for w, g in pairs]), cached.settings())
    updates = cached.updates.setdefault(pairs[0][0], {})
    template = updates.get(key)
    if template is None:
        if len(updates) >= _MOST_UPDATES:
            updates.clear()
        with not_recording():
            template = updates[key] = _template(cached, pairs)
    slots, update = template
    arrays = [a for _, g in pairs for a in ((g.values,) if g.rows is None else (g.rows, g.values))]
    fed = dict(zip(slots, arrays, strict=True))
    state.session.evaluate(Request([], [update], fed, True, computed=True))


def _own(w: Variable) -> tuple:
    """The key of a parameter in the cache of updates: its identity and its own settings."""
    options = w.options
    return ref(w), options.learning_rate, options.regularizer, options.clip


def _template(
    cached: CachedTracing, pairs: Sequence[tuple[Variable, Gradient]]
) -> tuple[list[Variable], Update]:
    """Feed slots for the gradients, and the update from them."""
    slots: list[Variable] = []
    gradients: list[tuple[Variable, Any]] = []
    for w, g in pairs:
        if g.rows is None:
            slots.append(Variable.of(w.dims, w.dtype, f"{w.name}_gradient"))
            gradients.append((w, slots[-1]))
        else:
            count = fresh_dim()
            rows = Variable.of((count,), "int64", f"{w.name}_rows")
            values = Variable.of((count, *w.dims[1:]), w.dtype, f"{w.name}_gradient")
            slots += [rows, values]
            gradients.append((w, RowGradient(rows, values)))
    return slots, cached.update(gradients)


def _fused_step(
    state: State,
    cached: CachedTracing,
    costs: Sequence[Variable],
    var_list: Sequence[Variable] | None,
    retain_graph: bool,
) -> None:
    """Compute gradients and update in one program."""
    check_tracked("minimize", costs)
    trace = state.patterns.traced(costs, state, through=True)
    chosen = None if var_list is None else tuple(map(ref, var_list))
    key = ("minimize", ref(cached.optimizer), chosen, retain_graph)
    step = trace.noted(key)
    if step is None or not step.holds(cached):
        step = _new_step(cached, trace, costs, var_list, retain_graph)
        trace.note(key, step)
    make = partial(_targets, trace, costs, step, cached)
    elsewhere = [ref(w) for w in trace.read_elsewhere]
    plan, values = state.evaluate(
        step.name, trace, make, before=lambda plan: state.before_plan(plan, elsewhere)
    )
    ended = {trace.fetches[k] for k in step.ended}
    pattern = trace.pattern
    # no read is held here: one that is in use after the step keeps the value before it
    state.finish(trace, plan, values, ended)
    if pattern is not None and var_list is None and len(costs) == 1 and not retain_graph:
        pattern.step = Again(ref(cached.optimizer), ref(cached), step)


def _targets(
    trace: Trace, costs: Sequence[Variable], step: "_Step", cached: CachedTracing, of: Of
) -> Targets:
    """The targets of a step, where a Variable of the trace is `of(it)`."""
    reads = _reads(trace, trace.differentiated())
    parameters = [w() for w in step.parameters]
    wrt = [of(v) for w in parameters for v in reads[w]]
    parts = iter(gradients_by_rows([of(c) for c in costs], wrt))
    gradients = [(w, _sum(w, [next(parts) for _ in reads[w]])) for w in parameters]
    update = cached.update([(w, g) for w, g in gradients if g is not None])
    changes = [(a.variable, a.value) for a in update.assignments]
    assigned = [(v, of(x)) for v, x in trace.updates]
    return [of(v) for v in trace.fetches], [*assigned, *changes], None, update


class Again(NamedTuple):
    """The last step of a pattern, for the next one that is like it."""

    optimizer: Any  # a reference
    cached: Any  # a reference
    step: "_Step"
    backward: Any = None  # what is known of the backward pass before it


def minimize_again(state: State, optimizer: Any, cost: Any) -> bool:
    """Take a step of one cost if it is like the last one of its pattern; return whether it is.

    Nothing is looked for then, but all that decides about a step is compared.
    """
    if type(cost) is not RecordedVariable:
        return False
    session = state.session
    with session.lock:
        return _taken_again(state, session, optimizer, cost)


def _taken_again(state: State, session: Session, optimizer: Any, cost: Variable) -> bool:
    """Take a step as `_fused_step` does.

    No node is held here: a read that it has counts as one in use.
    """
    attributes = cost.__dict__
    waiting = state.waiting
    if waiting is not None:
        return waiting.loss is cost and _fused_again(state, session, optimizer, waiting)
    if type(attributes["node"]) is not RecordedCall:
        return False
    if "history" in attributes:  # of `backward`, whose gradients are taken
        return False
    key = True, attributes["node"].template.kind
    for pattern in state.patterns.ending.get(key, ()):
        again = pattern.step
        if again is None or again.optimizer() is not optimizer:
            continue
        cached, plan = again.cached(), pattern.last_plan(again.step.name, session)
        if plan is None or cached is None or not again.step.holds(cached):
            continue
        trace = pattern.match(cost, state)
        if trace is None or not plan.covers(trace):
            continue
        state.patterns.met(key)
        if state.unread:
            state.compute_unread(plan.updated)
        try:
            values = plan.run(session, trace)
        except BackendError as error:
            make = partial(_targets, trace, [cost], again.step, cached)
            raise state.failed(error, session, plan, trace, make) from error.__cause__
        state.finish_again(trace, plan, values, again.step.is_ended)
        return True
    return False


class _Step(NamedTuple):
    """What a step with certain traces and one optimizer is: see `_fused_step`.

    `parameters` are those that it trains, and `found` those that gradients flow to, which may be
    frozen: references, with how they are trained. `ended` are the indices of the fetches behind
    which the graph ends, `is_ended` of each fetch whether it is one.
    """

    name: tuple
    settings: tuple
    parameters: Sequence[Any]
    found: Sequence[tuple[Any, TrainingOptions, bool]]
    ended: Sequence[int] = ()
    is_ended: Sequence[bool] = ()

    def holds(self, cached: CachedTracing) -> bool:
        """Return whether the settings of the optimizer and of the parameters are the same."""
        if cached.settings() is not self.settings:
            return False
        for reference, options, trainable in self.found:  # in each step
            w = reference()
            if w is None or w.options is not options or w.trainable is not trainable:
                return False
        return True


def _trained(found: Iterable[Variable]) -> list[tuple[Any, TrainingOptions, bool]]:
    """References to parameters, with how they are trained."""
    return [(ref(w), w.options, w.trainable) for w in dict.fromkeys(found)]


def _new_step(
    cached: CachedTracing,
    trace: Trace,
    costs: Sequence[Variable],
    var_list: Sequence[Variable] | None,
    retain_graph: bool,
) -> _Step:
    """The step of a trace; GraphError if there is nothing to update."""
    trace.check_history()
    reached = trace.differentiated()
    reads = _reads(trace, reached)
    chosen = dict.fromkeys(reads if var_list is None else var_list)
    parameters = [w for w in chosen if w in reads]
    if not parameters:
        wanted = "parameters" if var_list is None else [w.name for w in var_list]
        raise GraphError(f"minimize: {label(costs[0])} depends on no trainable ones of {wanted}")
    numbers = tuple([(_own(w), *[trace.number(v) for v in reads[w]]) for w in parameters])
    settings = cached.settings()
    name = ("minimize", ref(cached.optimizer), settings, len(costs), trace.flows, numbers)
    is_ended = [v in reached and not retain_graph for v in trace.fetches]
    ended = [k for k, end in enumerate(is_ended) if end]
    found = _trained(_reads(trace, reached, frozen=True))
    return _Step(name, settings, list(map(ref, parameters)), found, ended, is_ended)


def _reads(
    trace: Trace, reached: Container[Variable], frozen: bool = False
) -> dict[Variable, list[Variable]]:
    """The reads of each parameter that gradients flow to: at this value, or at earlier ones.

    With `frozen` those of parameters that were frozen since, too.
    """
    reads: dict[Variable, list[Variable]] = {}
    earlier = {
        v: v.source for v in trace.leaves if v.eager_value is not None and v.source is not None
    }
    for v, w in (trace.reads | earlier).items():
        if v in reached and w.is_persistent and (w.trainable or frozen):
            reads.setdefault(w, []).append(v)
    return reads


def _sum(w: Variable, gradients: Sequence[Any]) -> Any:
    """The gradient of a parameter from those of its reads."""
    parts = [g for g in gradients if g is not None]
    with gradient_of(w):
        return reduce(added, parts) if parts else None
