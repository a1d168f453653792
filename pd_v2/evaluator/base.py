"""What evaluators are made of: what to fetch from a batch, and how batches add up."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import pd_core as pd

from .. import build
from ..config_base import Layer
from ..formats.proto import EvaluatorConfig
from ..unfit import warn_at_line


@dataclass(frozen=True, eq=False)
class Evaluator:
    """A metric or a printer of the layers `inputs`.

    `tally()` makes an object that collects batches: `update(*arrays)` takes what `statistics` gave,
    and after them the gradients of the layers `gradients` (they exist in training only);
    `compute()` gives {part: number}, where the part "" is the metric itself. What `prints` does so
    in `update`; `begin()` prepares its place.
    """

    config: EvaluatorConfig
    inputs: tuple
    statistics: tuple[pd.Variable, ...]
    tally: Callable
    prints: bool = False
    begin: Callable = lambda: None
    gradients: tuple = ()
    unfit: Exception | None = None  # of one that cannot be computed

    @property
    def name(self):
        """The key in `event.metrics`, or its first part."""
        return self.config.name

    @property
    def within(self):
        """The recurrent group whose step it is declared in, None outside of any."""
        return self.inputs[0].within


class Accumulator:
    """Some evaluators over batches: reset, update per batch, metrics of all since then.

    Of several that see the same batches only one should print.
    """

    def __init__(self, evaluators, prints=True):
        self.evaluators, self.prints = list(evaluators), prints
        for e in self.evaluators if prints else ():
            e.begin()
        self.reset()

    def reset(self):
        """Forget all batches."""
        self.tallies = [
            Silence() if e.prints and not self.prints else e.tally() for e in self.evaluators
        ]

    def update(self, values):
        """Add what was fetched from one batch, a list for each evaluator."""
        for tally, batch in zip(self.tallies, values, strict=True):
            tally.update(*batch)

    def metrics(self):
        """{metric name: float}; of two evaluators with one name the first counts."""
        found = {}
        for e, tally in zip(self.evaluators, self.tallies, strict=True):
            for part, value in tally.compute().items():
                found.setdefault(f"{e.name}.{part}" if part else e.name, float(value))
        return found


class LastBatch(Accumulator):
    """Some evaluators of one batch at a time; a metric that nobody asks for is not computed."""

    def reset(self):
        """Forget the batch."""
        self._seen = None

    def update(self, values):
        """Take what was fetched from a batch in the place of the last, and print it."""
        self._seen = values
        for e, batch in zip(self.evaluators, values, strict=True):
            if e.prints:
                e.tally().update(*batch)

    def metrics(self):
        """{metric name: float}; of two evaluators with one name the first counts."""
        whole = Accumulator(self.evaluators, prints=False)
        if self._seen is not None:
            whole.update(self._seen)
        return whole.metrics()


def fetched(evaluators, costs=()):
    """What to fetch for each of some evaluators; gradients where there are costs."""
    layers = list(dict.fromkeys(x for e in evaluators for x in e.gradients))
    if not costs or not layers:
        return [list(e.statistics) for e in evaluators]
    # the image of a layer is what its rows are made from
    found = pd.gradients(costs, [x if x.image is None else x.image for x in layers])
    pairs = zip(layers, found, strict=True)
    of = {x: pd.zeros_like(x) if g is None else pd.reshape_like(g, x) for x, g in pairs}
    return [[*e.statistics, *(of[x] for x in e.gradients)] for e in evaluators]


class Sums:
    """Sums over batches of what `measure(*arrays)` gives, and `compute(*sums)` of them."""

    def __init__(self, count, compute, measure=lambda *arrays: arrays):
        self.sums = [np.float64(0.0)] * count
        self._compute, self._measure = compute, measure

    def update(self, *arrays):
        """One batch."""
        parts = self._measure(*arrays)
        for k, part in enumerate(parts):
            self.sums[k] = self.sums[k] + part

    def compute(self):
        """The metrics of the sums."""
        return self._compute(*self.sums)


class Silence:
    """Collects nothing."""

    def update(self, *arrays):
        """Ignore a batch."""

    def compute(self):
        """No metric."""
        return {}


class Printing:
    """A printer's tally: writes each batch, gives no metric."""

    def __init__(self, write):
        self._write = write

    def update(self, *arrays):
        """One batch."""
        self._write(*arrays)

    def compute(self):
        """No metric."""
        return {}


def share(part, whole):
    """part / whole, 0 of nothing."""
    return part / whole if whole else 0.0


def f1_score(precision, recall):
    """The harmonic mean of precision and recall, 0 where both are."""
    total = precision + recall
    return 2.0 * precision * recall / total if total else 0.0


def check_layers(who, *inputs):
    """All but None must be layers."""
    for x in inputs:
        if x is not None and not isinstance(x, Layer):
            raise TypeError(f"{who}: takes layers, not {x!r}")


def check_weight(who, weight):
    """A weight is one number a row, or None."""
    check_layers(who, weight)
    if weight is not None and (weight.rank != 2 or weight.size != 1):
        raise pd.ShapeError(f"{who}: the weight {weight.name!r} is {weight.size} wide, not 1")


def check_rows(who, x):
    """A layer must hold rows of numbers, no sparse ones."""
    check_layers(who, x)
    if x.dtype.kind != "f":
        held = "ids" if x.sparse is None else "sparse rows"
        raise pd.DTypeError(f"{who}: {x.name!r} holds {held}, no rows of numbers")


def ids_of(who, x):
    """The ids of a layer that holds some, [rows]."""
    check_layers(who, x)
    ids = x if x.holds_ids else x.ids
    if ids is None:
        raise pd.DTypeError(f"{who}: {x.name!r} holds rows of numbers, no ids")
    return ids


def sequences_of(who, x):
    """The Segments of the samples of a layer that holds sequences."""
    check_layers(who, x)
    if x.sequences is None:
        raise pd.GraphError(f"{who}: {x.name!r} holds no sequences")
    return x.sequences


def pieces(items, lengths):
    """Consecutive pieces of these lengths, a list."""
    ends = np.cumsum(lengths)
    return [items[end - n : end] for end, n in zip(ends, lengths, strict=True)]


def last_column(x):
    """The last number of each row, [rows]."""
    return pd.reshape(pd.slice(x, [-1], [x.size], [1]), [-1])


def of_steps(function):
    """An evaluator that in the step of a recurrent group is one of the rows of all steps."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args, **kwargs):
        known = build.current()
        group = known.groups[0] if len(known.groups) == 1 else None
        if group is None or group.evaluated is None:
            return function(*args, **kwargs)
        given = signature.bind(*args, **kwargs).arguments
        name = given.get("name") or known.next_name(f"{function.__name__}_evaluator")
        given["name"] = known.full_name(name)
        group.evaluated.append((function, given))

    return call


def evaluator(function):
    """A function that declares an evaluator; one of layers that do not fit is described only."""
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
    given = [x for v in bound.arguments.values() for x in (v if isinstance(v, list) else [v])]
    layers = tuple(x for x in given if isinstance(x, Layer))
    if all(x.unfit is None for x in layers):
        warn_at_line(error)
    name = bound.arguments.get("name") or build.current().next_name(f"{function}_evaluator")
    config = EvaluatorConfig(type=function, name=name)
    config.input_layers.extend(x.full_name for x in layers)
    build.current().evaluators.append(Evaluator(config, layers, (), Silence, unfit=error))
    return config


def declare(kind, function, name, inputs, statistics, tally, prints=False, **options):
    """Add an evaluator to the build; its configuration.

    `kind` is its type in the configuration, `function` begins its automatic name. The options
    `begin` and `gradients` are fields of the Evaluator, all others of its configuration, where
    None leaves a field open.
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
    own = {k: options.pop(k) for k in ("begin", "gradients") if k in options}
    for field, value in options.items():
        if isinstance(value, (list, tuple)):
            getattr(config, field).extend(value)
        elif value is not None:
            setattr(config, field, value)
    inputs = tuple(x if x.inside is None else x.inside for x in inputs)
    evaluator = Evaluator(config, inputs, tuple(statistics), tally, prints, **own)
    build.current().evaluators.append(evaluator)
    return config
