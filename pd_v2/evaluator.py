"""Evaluators: metrics that the trainer computes beside the cost, per batch and per pass.

A function here declares one for the layers that it is given; it belongs to every topology that
holds all of them, and returns None.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pd_core as pd

from . import build
from .config_base import Layer
from .data_type import DataType
from .proto import EvaluatorConfig

__all__ = ["classification_error"]


@dataclass(frozen=True)
class Evaluator:
    """A metric: what to fetch from each batch, and what the sums over batches say."""

    config: EvaluatorConfig
    inputs: tuple
    statistics: tuple[pd.Variable, ...]
    result: Callable  # sums of the statistics -> {metric name: float}

    @property
    def name(self):
        """The key in `event.metrics`."""
        return self.config.name


class Accumulator:
    """Sums of the statistics of some evaluators: reset, update per batch, compute."""

    def __init__(self, evaluators):
        self.evaluators = evaluators
        self.reset()

    def reset(self):
        """Forget all batches."""
        self.sums = [[0.0] * len(e.statistics) for e in self.evaluators]

    def update(self, values):
        """Add the statistics of one batch, a list for each evaluator."""
        for sums, batch in zip(self.sums, values, strict=True):
            for k, value in enumerate(batch):
                sums[k] += float(value)

    def metrics(self):
        """{metric name: float}; of two evaluators with one name the first counts."""
        found = {}
        for e, sums in zip(self.evaluators, self.sums, strict=True):
            for name, value in e.result(sums).items():
                found.setdefault(name, value)
        return found


def classification_error(input, label, name=None, weight=None, top_k=None, threshold=None):
    """Share of rows whose label is not among the `top_k` (1) largest columns.

    With a dense label: wrong columns a row, where `threshold` (0.5) parts on from off.
    """
    _check(input, label, weight)
    config = _config("classification_error", name, [input, label, weight])
    if top_k is not None:
        config.top_k = top_k
    if threshold is not None:
        config.classification_threshold = threshold
    if label.data_type is not None and label.data_type.type == DataType.Index:
        wrong = _outside_top(input, label, top_k or 1)
    else:
        limit = 0.5 if threshold is None else threshold
        on, wanted = (pd.cast(x > limit, "float32") for x in (input, label))
        wrong = pd.reduce_sum(pd.abs(on - wanted), [1], keep_dim=True)
    rows = pd.ones_like(wrong) if weight is None else weight
    statistics = pd.reduce_sum(wrong * rows), pd.reduce_sum(rows)
    _declare(config, [input, label, weight], statistics, _share)


def _check(input, label, weight):
    for x in (input, label, *([] if weight is None else [weight])):
        if not isinstance(x, Layer):
            raise TypeError(f"classification_error: takes layers, not {x!r}")
    if label.size != input.size:
        raise pd.ShapeError(
            f"classification_error: {input.name!r} is {input.size} wide, its label "
            f"{label.name!r} {label.size}"
        )
    if weight is not None and (weight.rank != 2 or weight.size != 1):
        raise pd.ShapeError(
            f"classification_error: the weight {weight.name!r} is {weight.size} wide, not 1"
        )


def _outside_top(rows, label, k):
    """1 for each row whose label has k columns or more above it, [N, 1]."""
    label = pd.unsqueeze(label, 1)
    if k == 1:
        wrong = pd.logical_not(pd.equal(pd.arg_max(rows, 1, keep_dim=True), label))
        return pd.cast(wrong, "float32")
    above = pd.cast(rows > pd.gather_elements(rows, label, 1), "float32")
    return pd.cast(pd.reduce_sum(above, [1], keep_dim=True) >= float(k), "float32")


def _share(name, sums):
    return {name: sums[0] / sums[1] if sums[1] else 0.0}


def _config(kind, name, inputs):
    config = EvaluatorConfig(type=kind)
    config.name = name or build.current().next_name(f"{kind}_evaluator")
    config.input_layers.extend(x.full_name for x in inputs if x is not None)
    return config


def _declare(config, inputs, statistics, result):
    evaluator = Evaluator(
        config,
        tuple(x for x in inputs if x is not None),
        tuple(statistics),
        lambda sums: result(config.name, sums),
    )
    build.current().evaluators.append(evaluator)
