"""Metrics of classifiers: error rate, precision and recall."""

import numpy as np

import pd_core as pd

from . import base


@base.of_steps
@base.evaluator
def classification_error(input, label, name=None, weight=None, top_k=None, threshold=None):
    """Error rate: the share of rows whose label is not among the `top_k` (1) largest columns.

    With a label of dense rows: the number of wrong columns per row, where a column is on above
    `threshold` (0.5). With a sparse label: the share of wrong columns, where the label's columns
    are on, and so are those of the input from the threshold on.
    """
    who = "classification_error"
    input, label, weight = base.by_role(who, ("input", "label", "weight"), input, label, weight)
    wrong = row_errors(who, input, label, top_k or 1, 0.5 if threshold is None else threshold)
    base.check_weight(who, weight)
    rows = pd.ones_like(wrong) if weight is None else weight
    base.declare(
        "classification_error",
        "classification_error",
        name,
        [input, label, weight],
        (pd.reduce_sum(wrong * rows), pd.reduce_sum(rows)),
        lambda: base.Sums(2, lambda wrong, rows: {"": base.share(wrong, rows)}),
        top_k=top_k,
        classification_threshold=threshold,
    )


@base.evaluator
def seq_classification_error(input, label, name=None):
    """Sequence error rate: the share of sequences with any row classified wrongly.

    2017 had it in its configuration only, without a function.
    """
    who = "seq_classification_error"
    input, label = base.by_role(who, ("input", "label"), input, label)
    sequences = base.sequences_of(who, input)
    wrong = sequences.max(row_errors(who, input, label, 1, 0.5))
    base.declare(
        who,
        who,
        name,
        [input, label],
        (
            pd.reduce_sum(pd.cast(wrong > 0.0, "float32")),
            pd.cast(pd.reduce_sum(pd.ones_like(sequences.lengths)), "float32"),
        ),
        lambda: base.Sums(2, lambda wrong, count: {"": base.share(wrong, count)}),
    )


def row_errors(who, input, label, top_k, threshold):
    """Return the error of each row as `classification_error` counts it, [rows, 1]."""
    _check(who, input, label)
    if label.sparse is not None:
        on, named = pd.cast(input >= threshold, "float32"), label.sparse.occurrences()
        wrong = pd.reduce_sum(on + named - 2.0 * on * named, [1], keep_dim=True)
        return wrong / float(input.size)
    if label.holds_ids:
        return _outside_top(who, input, label, top_k)
    wrong = _differ(input > threshold, label > threshold)
    return pd.reduce_sum(wrong, [1], keep_dim=True)


def _differ(a, b):
    return pd.abs(pd.cast(a, "float32") - pd.cast(b, "float32"))


def _check(who, input, label):
    base.check_rows(who, input)
    base.check_layers(who, label)
    if not label.holds_ids and label.size != input.size:
        raise pd.ShapeError(
            f"{who}: {input.name!r} is {input.size} wide, its label {label.name!r} {label.size}"
        )


def _outside_top(who, rows, label, k):
    """Return 1 for each row with k columns or more before the label's, [rows, 1].

    They are greater, or equal and further to the left. A label that is no column is an error.
    """
    if k > rows.size:
        raise pd.ShapeError(f"{who}: {rows.name!r} has {rows.size} columns, not the {k} of top_k")
    within = 1 < label.size <= rows.size  # a data layer of one class takes ids of any range
    column = pd.unsqueeze(label, 1)
    if k == 1 and within:
        wrong = pd.logical_not(pd.equal(pd.arg_max(rows, 1, keep_dim=True), column))
        return pd.cast(wrong, "float32")
    own = pd.gather_elements(rows, column, 1)
    further = pd.constant(np.arange(rows.size)[None]) >= column
    behind = pd.logical_or(rows < own, pd.logical_and(pd.equal(rows, own), further))
    before = pd.cast(pd.logical_not(behind), "float32")
    return pd.cast(pd.reduce_sum(before, [1], keep_dim=True) >= float(k), "float32")


@base.of_steps
@base.evaluator
def precision_recall(input, label, positive_label=None, weight=None, name=None):
    """Precision, recall and F1 score of classification by the largest column.

    `precision`, `recal` (2017's spelling) and `F1-score` are those of the class `positive_label`.
    Without one, or with -1, they are NaN, and there are `macro-average-precision`, `-recall` and
    `-F1-score` (of the means over classes) and `micro-average-precision` (of the sums over
    classes). 0/0 is 1.

    With a sparse label a row may be in several classes, and is predicted to be in those from 0.5
    on; then there are `micro-average-recall` and `-F1-score` too.
    """
    who = "precision_recall"
    input, label, weight = base.by_role(who, ("input", "label", "weight"), input, label, weight)
    _check(who, input, label)
    base.check_weight(who, weight)
    size, sparse = input.size, label.sparse is not None
    counts = _sparse_counts if sparse else _counts
    positive = None if positive_label == -1 else positive_label
    if positive is not None and not 0 <= positive < size:
        raise ValueError(
            f"{who}: the positive label {positive_label!r} is none of the {size} classes"
        )
    base.declare(
        "precision_recall",
        "precision_recall",
        name,
        [input, label, weight],
        counts(input, label, None if weight is None else pd.reshape(weight, [-1])),
        lambda: base.Sums(3, lambda *counts: _precision_recall(counts, size, positive, sparse)),
        positive_label=positive_label,
    )


def _counts(input, label, weight):
    """Return the weights of true positives, false positives and false negatives by class."""
    label, predicted = base.ids_of("precision_recall", label), pd.arg_max(input, 1)
    right = pd.cast(pd.equal(predicted, label), "float32")
    wrong = 1.0 - right
    if weight is not None:
        right, wrong = weight * right, weight * wrong
    zeros = pd.constant(np.zeros(input.size, np.float32))
    pairs = (label, right), (predicted, wrong), (label, wrong)
    return tuple(pd.scatter_add(zeros, index, values) for index, values in pairs)


def _sparse_counts(input, label, weight):
    """Return `_counts` where a row may be in several classes."""
    predicted, true = pd.cast(input >= 0.5, "float32"), label.sparse.occurrences()
    cases = predicted * true, predicted * (1.0 - true), (1.0 - predicted) * true
    if weight is not None:
        cases = tuple(pd.unsqueeze(weight, 1) * x for x in cases)
    return tuple(pd.reduce_sum(x, [0]) for x in cases)


def _precision_recall(counts, size, positive, sparse):
    true, false, missed = (np.broadcast_to(c, size) for c in counts)
    precision, recall = _rates(true, false), _rates(true, missed)
    if positive is not None:
        return _scores("", precision[positive], recall[positive], "recal")
    undefined = dict.fromkeys(("precision", "recal", "F1-score"), float("nan"))
    micro = [_rates(true.sum(), wrong.sum()).item() for wrong in (false, missed)]
    scores = _scores("micro-average-", *micro, "recall")
    if not sparse:  # all three are equal
        scores = {"micro-average-precision": micro[0]}
    return {
        **undefined,
        **_scores("macro-average-", precision.mean(), recall.mean(), "recall"),
        **scores,
    }


def _scores(prefix, precision, recall, name_of_recall):
    return {
        f"{prefix}precision": precision,
        f"{prefix}{name_of_recall}": recall,
        f"{prefix}F1-score": base.f1_score(precision, recall),
    }


def _rates(right, wrong):
    """Return right / (right + wrong), 1 where both are 0."""
    total = right + wrong
    return np.where(total > 0, right / np.where(total > 0, total, 1.0), 1.0)
