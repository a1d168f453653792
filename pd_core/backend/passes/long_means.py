"""Normalization, pooling and more over many numbers, which kernels add one by one, as formulas.

Their means are taken in stages then, see `long_sums`.
"""

from collections import Counter
from math import prod

import numpy as np

from ... import ops
from ...graph.node import Node, apply
from ...graph.variable import Inputs, Variable
from .context import Context, Outputs
from .letters import axes_of_letters, terms_of

_ROW = 1 << 12  # numbers over which a normalization's kernel takes means
_WINDOW = 1 << 9  # numbers that pooling adds one by one
_TINY = 1e-9  # the epsilon of MeanVarianceNormalization, added to the standard deviation


def layer_normalization(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Normalize long rows by formula; return mean and 1 / deviation of each too."""
    x, scale, *shift = inputs
    axis = node.attributes.get("axis", -1) % x.rank
    if not _is_long(x, x.dims[axis:], context):
        return None
    y, mean, factor = _standardized(x, range(axis, x.rank), node.attributes.get("epsilon", 1e-5))
    y = y * scale
    y = y if not shift or shift[0] is None else y + shift[0]
    return _like(node, [y, mean, factor])


def rms_normalization(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Divide long rows by their root mean square, by formula."""
    x, scale = inputs
    axis = node.attributes.get("axis", -1) % x.rank
    if not _is_long(x, x.dims[axis:], context):
        return None
    power = _mean(x * x, range(axis, x.rank))
    return _like(node, [x / ops.sqrt(power + node.attributes.get("epsilon", 1e-5)) * scale])


def instance_normalization(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Normalize large channels by formula."""
    x, scale, shift = inputs
    if not _is_long(x, x.dims[2:], context):
        return None
    y, _, _ = _standardized(x, range(2, x.rank), node.attributes.get("epsilon", 1e-5))
    return _like(node, [y * _column(scale, x) + _column(shift, x)])


def group_normalization(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Normalize large groups of channels by formula."""
    x, scale, shift = inputs
    if not _is_long(x, x.dims[1:], context):
        return None
    groups = apply("Reshape", x, np.array([0, node.attributes["num_groups"], -1]))
    y, _, _ = _standardized(groups, [2], node.attributes.get("epsilon", 1e-5))
    y = ops.reshape_like(y, x)
    return _like(node, [y * _column(scale, x) + _column(shift, x)])


def mean_variance_normalization(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Normalize over many numbers by formula."""
    (x,), axes = inputs, [a % inputs[0].rank for a in node.attributes.get("axes", [0, 2, 3])]
    if not _is_long(x, [x.dims[a] for a in axes], context):
        return None
    centred = x - _mean(x, axes)
    return _like(node, [centred / (ops.sqrt(_mean(centred * centred, axes)) + _TINY)])


def lp_normalization(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Divide long rows by their 1-norm or 2-norm, by formula."""
    (x,), axis = inputs, node.attributes.get("axis", -1) % inputs[0].rank
    if not _is_long(x, [x.dims[axis]], context):
        return None
    op_type = "ReduceL2" if node.attributes.get("p", 2) == 2 else "ReduceL1"
    norm = apply(op_type, x, np.array([axis]))
    return _like(node, [x / ops.where(ops.equal(norm, 0.0), 1.0, norm)])


def global_average_pool(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Take the means of large images as a reduction."""
    (x,) = inputs
    if not _is_long(x, x.dims[2:], context):
        return None
    return _like(node, [_mean(x, range(2, x.rank))])


def global_lp_pool(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Take the 1-norms or 2-norms of large images as a reduction."""
    (x,), p = inputs, node.attributes.get("p", 2)
    if p not in (1, 2) or not _is_long(x, x.dims[2:], context):
        return None
    return _like(node, [apply(f"ReduceL{p}", x, np.arange(2, x.rank))])


def average_pool(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Average large windows along one axis after the other, or as a reduction if there is one.

    The pixels of a window that count are those of some rows and columns, so that the mean of their
    means is theirs.
    """
    (x,), a = inputs, node.attributes
    window = a["kernel_shape"]
    if x.dtype != np.float32 or prod(window) <= _WINDOW:
        return None
    if tuple(window) == x.dims[2:] and not any(a.get("pads", ())) and "auto_pad" not in a:
        return _like(node, [_mean(x, range(2, x.rank))])
    long = [k for k, n in enumerate(window) if n > 1]
    if len(long) == 1:
        return None
    for k in long:
        x = apply("AveragePool", x, **_along(a, k, len(window), is_first=k == long[0]))
    return _like(node, [x])


def einsum(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Sum over the letters of one operand alone as reductions, if they are long.

    Operands of the same letters are one, their product.
    """
    found, result = terms_of(node.attributes["equation"])
    operands = list(inputs)
    if len(found) == 2 and found[0] == found[1] and operands[0].dims == operands[1].dims:
        found, operands = found[:1], [operands[0] * operands[1]]
    count = Counter(letter for letters in found for letter in letters)
    terms, is_changed = [], False
    for x, letters in zip(operands, found, strict=True):
        alone = [k for k in letters if count[k] == 1 and k not in result]
        by_letter = axes_of_letters(letters, x.rank)
        axes = [a for k, its in zip(letters, by_letter, strict=True) if k in alone for a in its]
        if axes and _is_long(x, [x.dims[a] for a in axes], context):
            x = apply("ReduceSum", x, np.array(axes), keepdims=0)
            letters, is_changed = [k for k in letters if k not in alone], True
        terms.append((x, "".join(letters)))
    if not is_changed:
        return None
    equation = f"{','.join(letters for _, letters in terms)}->{''.join(result)}"
    return _like(node, [apply("Einsum", *(x for x, _ in terms), equation=equation)])


def classification_loss(node: Node, inputs: Inputs, context: Context) -> Outputs:
    """Sum the losses of many samples as a reduction."""
    attributes = dict(node.attributes)
    kind, labels = attributes.pop("reduction", "mean"), inputs[1]
    is_weighted = len(inputs) > 2 or "ignore_index" in attributes
    if kind == "none" or (kind == "mean" and is_weighted) or len(node.outputs) > 1:
        return None
    if not _is_long(inputs[0], labels.dims, context):
        return None
    losses = apply(node.op_type, *inputs, reduction="none", **attributes)
    return _like(node, [apply(f"Reduce{kind.capitalize()}", losses, keepdims=0)])


def _along(attributes, axis, count, is_first):
    """The attributes of a pooling along one axis, and along those that have windows of 1."""
    window = attributes["kernel_shape"]
    kept = [k == axis or (is_first and window[k] == 1) for k in range(count)]
    new = dict(attributes)
    for name, neutral in (("kernel_shape", 1), ("strides", 1), ("dilations", 1), ("pads", 0)):
        if name in attributes:
            mask = kept * 2 if name == "pads" else kept
            pairs = zip(attributes[name], mask, strict=True)
            new[name] = [n if keep else neutral for n, keep in pairs]
    return new


def _is_long(x, dims, context):
    """Whether a kernel has more numbers to add than it should; not where a run alone knows."""
    if x.dtype != np.float32 or 0 in x.dims:
        return False
    return not context.is_short(dims, _ROW) and None not in [context.size(d) for d in dims]


def _mean(x, axes):
    return apply("ReduceMean", x, np.array(list(axes)))


def _standardized(x, axes, epsilon):
    """(x - mean) / deviation, the mean, and 1 / deviation."""
    mean = _mean(x, axes)
    centred = x - mean
    factor = 1.0 / ops.sqrt(_mean(centred * centred, axes) + epsilon)
    return centred * factor, mean, factor


def _column(v: Variable, x: Variable) -> Variable:
    """Reshape a vector over channels to broadcast against [N, C, ...]."""
    return ops.reshape(v, [-1, *[1] * (x.rank - 2)])


def _like(node, results):
    """The results that a node has, with its sizes."""
    pairs = zip(results, node.outputs, strict=False)
    return [apply("Identity", y, known=out.dims) for y, out in pairs]


LONG_MEANS = {
    "AveragePool": average_pool,
    "Einsum": einsum,
    "GlobalAveragePool": global_average_pool,
    "GlobalLpPool": global_lp_pool,
    "GroupNormalization": group_normalization,
    "InstanceNormalization": instance_normalization,
    "LayerNormalization": layer_normalization,
    "LpNormalization": lp_normalization,
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), classification_loss),
    "MeanVarianceNormalization": mean_variance_normalization,
    "RMSNormalization": rms_normalization,
}
