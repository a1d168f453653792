"""How evaluators are declared: what is fetched from each batch, and how batches add up."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import pd_core as pd
from pd_core.run.states import array, each, entries, number, text

from .. import build
from ..config_base import Layer
from ..formats.proto import EvaluatorConfig
from ..unfit import warn_at_line


@dataclass(frozen=True, eq=False)
class Evaluator:
    """A metric or a printer of the layers `inputs`.

    `tally()` returns an object that accumulates batches: `update(*arrays)` takes the values of
    `statistics`, in training followed by the gradients of the layers `gradients`; `compute()`
    returns {part: number}, where the part "" is the metric itself. `state()` returns nested dicts
    and lists of numbers and arrays, to which `restore(state)` goes back on a new tally. One that
    `prints` writes in `update`; `begin()` is called before the first batch.
    """

    config: EvaluatorConfig
    inputs: tuple
    statistics: tuple[pd.Variable, ...]
    tally: Callable
    prints: bool = False
    begin: Callable = lambda: None
    gradients: tuple = ()
    unfit: Exception | None = None  # why it cannot be computed

    @property
    def name(self):
        """The key in `event.metrics`, or the first part of several keys."""
        return self.config.name

    @property
    def within(self):
        """The recurrent group in whose step it is declared, or None."""
        return self.inputs[0].within


_TOGETHER = 32  # batches


class Accumulator:
    """Evaluators accumulated over batches: `metrics` of all batches since `reset`.

    Of several accumulators of the same batches only one should print.
    """

    def __init__(self, evaluators, prints=True):
        self.evaluators, self.prints = list(evaluators), prints
        for e in self.evaluators if prints else ():
            e.begin()
        self.reset()

    def reset(self):
        """Forget all batches."""
        self.tallies = [
            NoTally() if e.prints and not self.prints else e.tally() for e in self.evaluators
        ]

    def update(self, values):
        """Add the fetched values of one batch, a list for each evaluator."""
        for tally, batch in zip(self.tallies, values, strict=True):
            tally.update(*batch)

    def state(self):
        """Return the tallies of all batches, for `restore`."""
        pairs = zip(self.evaluators, self.tallies, strict=True)
        return [{"evaluator": e.name, "tally": tally.state()} for e, tally in pairs]

    def restore(self, state):
        """Go back to a `state`; GraphError, and no change, if it has other evaluators."""
        states = each(lambda one: entries("evaluator", one, _KINDS))(state)
        names, own = [one["evaluator"] for one in states], [e.name for e in self.evaluators]
        if names != own:
            raise pd.GraphError(f"there are the evaluators {own}, in the state {names}")
        tallies = Accumulator(self.evaluators, self.prints).tallies
        for tally, one in zip(tallies, states, strict=True):
            tally.restore(one["tally"])
        self.tallies = tallies

    def metrics(self):
        """Return {metric name: float}; of two evaluators with one name the first counts."""
        metrics = {}
        for e, tally in zip(self.evaluators, self.tallies, strict=True):
            for part, value in tally.compute().items():
                metrics.setdefault(f"{e.name}.{part}" if part else e.name, float(value))
        return metrics


class LastBatch(Accumulator):
    """Evaluators of one batch at a time, computed only when `metrics` is called."""

    def __init__(self, evaluators, prints=True):
        super().__init__(evaluators, prints)
        printers = enumerate(self.evaluators if prints else ())
        self._printers = [(k, e) for k, e in printers if e.prints]

    def reset(self):
        """Forget the batch."""
        self._parts = []

    def update(self, values):
        """Add the fetched values of a part of the batch, and print."""
        self._parts.append(values)
        for k, e in self._printers:
            e.tally().update(*values[k])

    def metrics(self):
        """Return {metric name: float}; of two evaluators with one name the first counts."""
        accumulator = Accumulator(self.evaluators, prints=False)
        for values in self._parts:
            accumulator.update(values)
        return accumulator.metrics()


def gradients_of_layers(layers, costs):
    """Return {layer: the gradient of the costs} as Variables of their shapes."""
    if not layers:
        return {}
    # Later layers may read the image of a layer instead of its rows, so that has the gradient.
    gradients = pd.gradients(costs, [x if x.image is None else x.image for x in layers])
    return {
        x: pd.zeros_like(x) if g is None else pd.reshape_like(g, x)
        for x, g in zip(layers, gradients, strict=True)
    }


def fetched(evaluators, gradients=None):
    """Return the Variables to fetch for each evaluator; `gradients` are those by layer, if any."""
    if not gradients:
        return [list(e.statistics) for e in evaluators]
    return [[*e.statistics, *(gradients[x] for x in e.gradients)] for e in evaluators]


class Sums:
    """A tally of sums: of `measure(*arrays)` over batches, then `compute(*sums)`.

    Without `measure` the arrays themselves are added: scalars of some batches together, as that
    takes less time.
    """

    def __init__(self, count, compute, measure=None):
        self._sums = [np.float64(0.0)] * count
        self._compute, self._measure = compute, measure
        self._scalars = []  # of batches that are not in the sums yet

    def update(self, *arrays):
        """Add one batch."""
        if self._measure is not None:
            arrays = self._measure(*arrays)
        elif all(type(part) is np.ndarray and not part.ndim for part in arrays):
            self._scalars.append(arrays)
            if len(self._scalars) < _TOGETHER:
                return
            arrays = ()
        sums = self.sums
        for k, part in enumerate(arrays):
            sums[k] = sums[k] + _number(part)

    @property
    def sums(self):
        """The sums of all batches, numbers or arrays, in the order of the batches."""
        sums, scalars = self._sums, self._scalars
        if scalars:
            self._scalars = []
            for parts in scalars:
                for k, part in enumerate(parts):
                    sums[k] = sums[k] + _number(part)
        return sums

    @sums.setter
    def sums(self, sums):
        self._sums, self._scalars = sums, []

    def compute(self):
        """Return the metrics of the sums."""
        return self._compute(*self.sums)

    def state(self):
        """Return the sums, numbers or arrays."""
        return list(self.sums)

    def restore(self, state):
        """Go back to a `state`."""
        sums = each(lambda x: numbers(x) if np.ndim(x) else np.float64(number(x)))(state)
        if len(sums) != len(self.sums):
            raise ValueError(f"there are {len(self.sums)} sums, in the state {len(sums)}")
        self.sums = sums


def _number(part):
    """The number of Python in an array of no axes: exact, and added in a tenth of the time."""
    return part.item() if type(part) is np.ndarray and not part.ndim else part


class NoTally:
    """A tally that ignores all batches and has no metric."""

    def update(self, *arrays):
        """Ignore a batch."""

    def compute(self):
        """Return no metric."""
        return {}

    def state(self):
        """Return that there is nothing to keep."""

    def restore(self, state):
        """Take what `state` returned: nothing; ValueError for anything else."""
        if state is not None:
            raise ValueError(f"there is nothing to keep, in the state {state!r}")


class Printing(NoTally):
    """The tally of a printer: writes each batch, has no metric."""

    def __init__(self, write):
        self._write = write

    def update(self, *arrays):
        """Write one batch."""
        self._write(*arrays)


_KINDS = {"evaluator": text, "tally": lambda state: state}


def numbers(value, rank=None):
    """Return an array of real numbers from a state, of this rank if it is given; else TypeError."""
    if array(value).dtype.kind not in "fiu" or rank not in (None, value.ndim):
        raise TypeError(f"not {'' if rank is None else f'{rank}-D '}real numbers")
    return value


def share(part, whole):
    """Return part / whole, or 0 if whole is 0."""
    return part / whole if whole else 0.0


def f1_score(precision, recall):
    """Return the harmonic mean of precision and recall, 0 if both are 0."""
    total = precision + recall
    return 2.0 * precision * recall / total if total else 0.0


def check_layers(who, *inputs):
    """Check that all inputs but None are layers."""
    for x in inputs:
        if x is not None and not isinstance(x, Layer):
            raise TypeError(f"{who}: takes layers, not {x!r}")


def by_role(who, roles, *layers):
    """Return the layer of each role, None where there is none.

    2017 numbered all layers of an evaluator: those of a list first, then its label, weight and so
    on. So the second layer of a list is the label, and a label behind it the weight. GraphError if
    there are more layers than roles, or fewer than those that are not the weight.
    """
    inputs, *others = layers
    inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    given = [x for x in (*inputs, *others) if x is not None]
    check_layers(who, *given)
    least = len([role for role in roles if role != "weight"])
    if not least <= len(given) <= len(roles):
        names = ", ".join(repr(x.name) for x in given) or "none"
        raise pd.GraphError(f"{who}: takes the layers {', '.join(roles)}, and has {names}")
    return given + [None] * (len(roles) - len(given))


def check_weight(who, weight):
    """Check that a weight is None or one number per row."""
    check_layers(who, weight)
    if weight is not None and (weight.rank != 2 or weight.size != 1):
        raise pd.ShapeError(f"{who}: the weight {weight.name!r} is {weight.size} wide, not 1")


def check_rows(who, x):
    """Check that a layer holds dense rows of numbers."""
    check_layers(who, x)
    if x.dtype.kind != "f":
        content = "ids" if x.sparse is None else "sparse rows"
        raise pd.DTypeError(f"{who}: {x.name!r} holds {content}, no rows of numbers")


def ids_of(who, x):
    """Return the ids of a layer, [rows]; DTypeError if it has none."""
    check_layers(who, x)
    ids = x if x.holds_ids else x.ids
    if ids is None:
        raise pd.DTypeError(f"{who}: {x.name!r} holds rows of numbers, no ids")
    return ids


def sequences_of(who, x):
    """Return the Segments of rows by sample; GraphError without sequences."""
    check_layers(who, x)
    if x.sequences is None:
        raise pd.GraphError(f"{who}: {x.name!r} holds no sequences")
    return x.sequences


def split(items, lengths):
    """Split items into a list of consecutive parts of these lengths."""
    ends = np.cumsum(lengths)
    return [items[end - n : end] for end, n in zip(ends, lengths, strict=True)]


def last_column(x):
    """Return the last column, [rows]."""
    return pd.reshape(pd.slice(x, [-1], [x.size], [1]), [-1])


def of_steps(function):
    """Let an evaluator that is declared in the step of a recurrent group see the rows of all steps.

    It is declared when the group is closed, for the packed rows.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args, **kwargs):
        current = build.current()
        group = current.groups[0] if len(current.groups) == 1 else None
        if group is None or group.evaluated is None:
            return function(*args, **kwargs)
        arguments = signature.bind(*args, **kwargs).arguments
        name = arguments.get("name") or current.next_name(f"{function.__name__}_evaluator")
        arguments["name"] = current.full_name(name)
        group.evaluated.append((function, arguments))

    return call


def evaluator(function):
    """Make a function declare an evaluator; one whose layers do not fit warns and is recorded."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except pd.GraphError as error:
            unfit = error
        return _declare_unfit(function.__name__, signature.bind(*args, **kwargs), unfit)

    return call


def _declare_unfit(function, bound, error):
    values = [x for v in bound.arguments.values() for x in (v if isinstance(v, list) else [v])]
    layers = tuple(x for x in values if isinstance(x, Layer))
    if all(x.unfit is None for x in layers):
        warn_at_line(error)
    name = bound.arguments.get("name") or build.current().next_name(f"{function}_evaluator")
    config = EvaluatorConfig(type=function, name=name)
    config.input_layers.extend(x.full_name for x in layers)
    build.current().evaluators.append(Evaluator(config, layers, (), NoTally, unfit=error))
    return config


def declare(kind, function, name, inputs, statistics, tally, prints=False, **options):
    """Add an evaluator to the build and return its configuration.

    `kind` is its type in the configuration, `function` the start of its automatic name. The
    options `begin` and `gradients` are fields of the Evaluator, all others fields of its
    configuration; None leaves a field unset.
    """
    inputs = [x for x in inputs if x is not None]
    if build.current().groups:
        raise pd.GraphError(
            f"{function}: in the step of a recurrent group only rows are evaluated, and not in a "
            "group within a group\n"
            "  hint: let the step return the layers, and evaluate what the group gives; "
            "classification_cost takes evaluator=[]"
        )
    config = EvaluatorConfig(type=kind)
    config.name = name or build.current().next_name(f"{function}_evaluator")
    config.input_layers.extend(x.full_name for x in inputs)
    fields = {k: options.pop(k) for k in ("begin", "gradients") if k in options}
    for field, value in options.items():
        if isinstance(value, (list, tuple)):
            getattr(config, field).extend(value)
        elif value is not None:
            setattr(config, field, value)
    inputs = tuple(x if x.inside is None else x.inside for x in inputs)
    evaluator = Evaluator(config, inputs, tuple(statistics), tally, prints, **fields)
    build.current().evaluators.append(evaluator)
    return config
