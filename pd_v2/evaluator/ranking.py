"""Metrics of rankings: the area under the ROC curve, and correctly ordered pairs."""

import numpy as np

import pd_core as pd
from pd_core.run.states import each, entries

from ..warning import warn
from . import base

_BINS = 2**24 - 1
_MERGE_AT = 2**20
_FARTHEST = np.float32(2**38)  # its bin still fits an int64
_ROUNDING = 1e-6  # ORT 1.31: a sigmoid may be 1.0000001


@base.of_steps
@base.evaluator
def auc(input, label, name=None, weight=None):
    """Area under the ROC curve (AUC) of the last column, with labels 0 and not 0.

    Scores are binned to 1 / (2^24 - 1). 2017 stopped at scores that are no probabilities; here any
    scores will do, only their order counts. Without rows of both classes it is 0.

    Of a list of two layers the second is the label, and `label` the weight. As in 2017 the metric
    is 0, with a warning, where the scores or the weight are ids.
    """
    scores, label, weight = base.by_role("auc", ("input", "label", "weight"), input, label, weight)
    if _without_values("auc", scores, weight):
        _declare_zero("last-column-auc", "auc", name, [scores, label, weight])
        return
    base.check_rows("auc", scores)
    base.check_weight("auc", weight)
    base.declare(
        "last-column-auc",
        "auc",
        name,
        [scores, label, weight],
        (base.last_column(scores), _single("auc", label), *_weights(weight)),
        Histogram,
    )


def _single(who, label):
    """Return a label as [rows]: ids, or one number per row, of which the integer part counts."""
    base.check_layers(who, label)
    if label.dtype.kind == "i" or label.ids is not None:
        return base.ids_of(who, label)
    if label.size != 1:
        raise pd.ShapeError(f"{who}: the label {label.name!r} is {label.size} wide, not 1")
    return pd.reshape(label, [-1])


def _without_values(who, scores, weight):
    """Return whether the metric is 0 since ids stand where numbers belong; warn if so."""
    for role, x in (("input", scores), ("weight", weight)):
        if x is not None and x.holds_ids:
            _warn_of_zero(who, role, x, "ids")
            return True
    return False


def _without_ids(who, label):
    """Return whether the metric is 0 since numbers stand where ids belong; warn if so."""
    if label.holds_ids or label.ids is not None:
        return False
    _warn_of_zero(who, "label", label, "numbers")
    return True


def _warn_of_zero(who, role, x, content):
    warn(
        f"{who}: the metric is 0, because the {role} {x.name!r} holds {content}\n"
        "  hint: of several layers the second is the label, the last may be the weight"
    )


def _declare_zero(kind, function, name, layers):
    base.declare(kind, function, name, layers, (), lambda: base.Sums(0, lambda: {"": 0.0}))


def _weights(weight):
    return () if weight is None else (pd.reshape(weight, [-1]),)


class Histogram:
    """The tally of AUC: a sparse histogram of the weights of positive and negative rows."""

    def __init__(self):
        self._bins = np.zeros(0, np.int64)
        self._counts = np.zeros((2, 0))
        self._pending, self._waiting = [], 0

    def update(self, scores, label, weights=None):
        """Add the rows of one batch."""
        scores = scores.astype(np.float32)
        if not np.isfinite(scores).all():
            raise ValueError(f"auc: a score is {scores[~np.isfinite(scores)][0]}")
        near = (scores > -_ROUNDING) & (scores < 1 + _ROUNDING)
        scores = np.where(near, np.clip(scores, 0.0, 1.0), np.clip(scores, -_FARTHEST, _FARTHEST))
        bins = np.floor(scores * np.float32(_BINS)).astype(np.int64)
        weights = np.ones(len(bins)) if weights is None else weights
        positive = label.astype(np.int64) != 0
        self._pending.append((bins, np.stack([weights * positive, weights * ~positive])))
        self._waiting += len(bins)
        if self._waiting > _MERGE_AT:
            self._merge()

    def _merge(self):
        bins, counts = zip((self._bins, self._counts), *self._pending, strict=True)
        self._bins, place = np.unique(np.concatenate(bins), return_inverse=True)
        joined = np.concatenate(counts, axis=1)
        self._counts = np.stack(
            [np.bincount(place, side, minlength=len(self._bins)) for side in joined]
        )
        self._pending, self._waiting = [], 0

    def compute(self):
        """Return the area, by trapezoids from the highest score down."""
        self._merge()
        positive, negative = self._counts[:, ::-1]
        if not positive.sum() or not negative.sum():
            return {"": 0.0}
        above = np.cumsum(positive)
        area = np.sum(negative * (above - positive / 2.0))
        return {"": area / (positive.sum() * negative.sum())}

    def state(self):
        """Return the bins that have rows, [K], and the weights in them, [2, K]."""
        self._merge()
        return {"bins": self._bins, "counts": self._counts}

    def restore(self, state):
        """Go back to a `state`."""
        found = entries(
            "auc", state, {"bins": lambda x: base.numbers(x, 1), "counts": base.numbers}
        )
        bins, counts = found["bins"], found["counts"]
        if counts.shape != (2, len(bins)):
            raise ValueError(f"{list(bins.shape)} bins with weights of shape {list(counts.shape)}")
        self._bins, self._counts = bins.astype(np.int64), counts.astype(np.float64)
        self._pending, self._waiting = [], 0


@base.of_steps
@base.evaluator
def pnpair(input, label, query_id, weight=None, name=None):
    """The number of correctly ordered pairs of rows over that of wrongly ordered ones.

    Pairs are rows of one query with different labels, ordered by the last column; pairs of equal
    scores are ignored. A pair has the mean weight of its rows. Without a wrong pair it is the
    number of right ones. As in 2017 the metric is 0, with a warning, where the scores or the weight
    are ids, or the label is none.
    """
    roles = "input", "label", "query_id", "weight"
    layers = base.by_role("pnpair", roles, input, label, query_id, weight)
    scores, label, query_id, weight = layers
    if _without_values("pnpair", scores, weight) or _without_ids("pnpair", label):
        _declare_zero("pnpair", "pnpair", name, layers)
        return
    base.check_rows("pnpair", scores)
    ids = [base.ids_of("pnpair", x) for x in (label, query_id)]
    base.check_weight("pnpair", weight)
    base.declare(
        "pnpair", "pnpair", name, layers, (base.last_column(scores), *ids, *_weights(weight)), Pairs
    )


class Pairs:
    """The tally of pairs: keeps all rows, because a query may have rows in several batches."""

    def __init__(self):
        self._batches = []

    def update(self, scores, label, query, weights=None):
        """Add the rows of one batch."""
        weights = np.ones(len(scores)) if weights is None else weights
        self._batches.append((scores, label, query, weights))

    def compute(self):
        """Return the weight of right pairs over that of wrong ones."""
        if not self._batches:
            return {"": 0.0}
        columns = self._columns()
        order = np.argsort(columns[2], kind="stable")
        right, wrong = _pairs(*(c[order] for c in columns))
        return {"": right / (wrong if wrong > 0 else 1.0)}

    def _columns(self):
        """Scores, labels, queries and weights of all rows."""
        return [np.concatenate(c) for c in zip(*self._batches, strict=True)]

    def state(self):
        """Return the columns of all rows, none before the first batch."""
        return self._columns() if self._batches else []

    def restore(self, state):
        """Go back to a `state`."""
        columns = each(lambda column: base.numbers(column, 1))(state)
        if columns and (len(columns) != 4 or len(set(map(len, columns))) != 1):
            rows = [len(column) for column in columns]
            raise ValueError(f"there are 4 columns of as many rows, in the state of {rows}")
        self._batches = [tuple(columns)] if columns else []


def _pairs(scores, label, query, weights):
    """Return the weights of right and wrong pairs of rows that are sorted by query."""
    right = wrong = 0.0
    for distance in range(1, len(query)):
        same = query[distance:] == query[:-distance]
        if not same.any():
            break
        signs = [np.sign(v[distance:] - v[:-distance]) for v in (scores, label)]
        agreement = np.prod(signs, axis=0)
        weight = (weights[distance:] + weights[:-distance]) / 2.0 * same
        right += weight[agreement > 0].sum(dtype=np.float64)
        wrong += weight[agreement < 0].sum(dtype=np.float64)
    return right, wrong
