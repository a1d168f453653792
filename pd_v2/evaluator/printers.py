"""Printers: evaluators that log the values of layers batch by batch, without a metric."""

import logging

import numpy as np

import pd_core as pd

from . import base
from .classification import row_errors

_LEVELS = "sequence pos", "sub-sequence pos"


def log(text):
    """Write to the logger of 2017, "paddle"."""
    logging.getLogger("paddle").info(text)


@base.evaluator
def value_printer(input, name=None):
    """Print the values or ids of a layer, or of a list of layers, and the starts of sequences."""
    layers = _as_tuple("value_printer", input)
    fetches, by_layer = values_of(layers)

    def write(*arrays):
        for x, fields in zip(layers, by_layer(arrays), strict=True):
            log(text_of(fields, f"layer={x.full_name} "))

    _declare("value_printer", "value_printer", name, layers, fetches, write)


@base.evaluator
def gradient_printer(input, name=None):
    """Print the gradient of a layer, or of a list of layers, in training."""
    layers = _as_tuple("gradient_printer", input)
    for x in layers:
        base.check_rows("gradient_printer", x)

    def write(*gradients):
        for x, gradient in zip(layers, gradients, strict=bool(gradients)):
            log(f"layer={x.full_name} grad matrix:\n{matrix(gradient)}")

    _declare("gradient_printer", "gradient_printer", name, layers, (), write, gradients=layers)


@base.evaluator
def maxid_printer(input, num_results=None, name=None):
    """Print the columns and values of the `num_results` (1) largest elements of each row."""
    layers = _as_tuple("maxid_printer", input)
    for x in layers:
        base.check_rows("maxid_printer", x)
    count = num_results or 1

    def write(*values):
        for x, rows in zip(layers, values, strict=True):
            text = "".join(_largest(row, count) + "\n" for row in rows)
            log(f"layer={x.full_name} row max id vector:\n{text}")

    _declare("max_id_printer", "maxid_printer", name, layers, layers, write, num_results)


@base.evaluator
def maxframe_printer(input, num_results=None, name=None):
    """Print the steps and values of the `num_results` (1) largest numbers of each sequence."""
    layers = _as_tuple("maxframe_printer", input)
    for x in layers:
        base.check_rows("maxframe_printer", x)
        if x.size != 1:
            raise pd.ShapeError(f"maxframe_printer: {x.name!r} is {x.size} wide, not 1")
    count = num_results or 1
    fetches = [v for x in layers for v in (x, base.sequences_of("maxframe_printer", x).lengths)]

    def write(*arrays):
        for x, values, lengths in zip(layers, arrays[::2], arrays[1::2], strict=True):
            frames = base.split(values[:, 0], lengths)
            text = "".join(f"{_largest(f, count)}total {len(f)} frames\n" for f in frames)
            log(f"layer={x.full_name} sequence max frames:\n{text}")

    _declare("max_frame_printer", "maxframe_printer", name, layers, fetches, write, num_results)


@base.evaluator
def classification_error_printer(input, label, threshold=0.5, name=None):
    """Print the error of each row, as classification_error counts it.

    A third layer, after a list of two, is a weight that multiplies the errors.
    """
    kind = "classification_error_printer"
    input, label, weight = base.by_role(kind, ("input", "label", "weight"), input, label)
    errors = row_errors(kind, input, label, 1, threshold)
    base.check_weight(kind, weight)
    errors = errors if weight is None else errors * weight
    lengths = () if input.sequences is None else (input.sequences.lengths,)

    def write(rows, *lengths):
        log(f"Printer={printer} Classification Error:\n{matrix(rows)}")
        for counts in lengths:
            log(f"Printer={printer} sequence pos vector:\n{vector(_starts(counts))}")

    inputs = [input, label, weight]
    config = _declare(kind, kind, name, inputs, (errors, *lengths), write, threshold=threshold)
    printer = config.name


def _declare(kind, function, name, inputs, fetches, write, num_results=None, threshold=None, **own):
    return base.declare(
        kind,
        function,
        name,
        inputs,
        fetches,
        lambda: base.Printing(write),
        prints=True,
        num_results=num_results,
        classification_threshold=threshold,
        **own,
    )


def _as_tuple(who, input):
    """Return a layer or a list of layers as a tuple."""
    layers = tuple(input) if isinstance(input, (list, tuple)) else (input,)
    base.check_layers(who, *layers)
    return layers


def values_of(layers):
    """Return the Variables to fetch for layers, and a function of their arrays.

    That returns {field: array} for each layer, as `text_of` takes it.
    """
    fields = [_fields(x) for x in layers]

    def by_layer(arrays):
        arrays = iter(arrays)
        return [{field: next(arrays) for field, _ in pairs} for pairs in fields]

    return [v for pairs in fields for _, v in pairs], by_layer


def _fields(x):
    """Return [(field, Variable)] of a layer's values, ids and lengths."""
    values, ids = (x, x.ids) if x.dtype.kind == "f" else (x.column, x)
    fields = [("value", values), ("ids", ids)]
    if x.sparse is not None:
        fields = [("row", x.sparse.counts), ("col", x), ("sparse value", x.sparse.values)]
    fields += zip(_LEVELS, (level.lengths for level in x.levels), strict=False)
    return [(field, v) for field, v in fields if v is not None]


def text_of(fields, prefix=""):
    """Format the values and ids of a layer, and the rows in which its sequences start.

    Of sparse rows, the places in the list of columns where the rows start, and the columns.
    """
    starts = [_starts(fields[k]) for k in _LEVELS if k in fields]
    if len(starts) > 1:
        starts[0] = starts[1][starts[0]]
    texts = {}
    if "value" in fields:
        texts["value"] = matrix(np.atleast_2d(fields["value"]))
    if "row" in fields:
        lists = {"row": _starts(fields["row"]), "col": fields["col"]}
        lists |= {"value": fields["sparse value"]} if "sparse value" in fields else {}
        texts["value"] = "".join(f"\n: {name} {vector(v)}" for name, v in lists.items())
    if "ids" in fields:
        texts["ids"] = vector(fields["ids"])
    texts |= zip(_LEVELS, map(vector, starts), strict=False)
    return "".join(f"{prefix}{field}:\n{text}" for field, text in texts.items())


def matrix(rows):
    """Format rows, one line each, with six digits per number."""
    return "".join(_spaced(row) + "\n" for row in rows)


def vector(numbers):
    """Format numbers on one line, in brackets."""
    return f"[{_spaced(numbers)}]\n"


def _spaced(numbers):
    form = "d" if numbers.dtype.kind == "i" else "g"
    return "".join(f"{v:{form}} " for v in numbers)


def _starts(lengths):
    return np.concatenate([[0], np.cumsum(lengths)])


def _largest(row, count):
    """Return `index : value, ` for the largest numbers, the first of equal ones first."""
    order = np.argsort(-row, kind="stable")[:count]
    return "".join(f"{k} : {row[k]:g}, " for k in order)
