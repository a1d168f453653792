"""A layer that computes only some of its columns."""

import numpy as np

import pd_core as pd

from ..activation import Tanh
from .base import layer, param_list


@layer(
    "selective_fc",
    "selective_fc_layer",
    Tanh,
    inputs=("input", "select"),
    several=True,
    supports=("drop_rate", "error_clipping_threshold"),
    sparse=("select",),
)
def selective_fc(
    scope,
    input,
    size,
    select=None,
    act=None,
    name=None,
    pass_generation=False,
    has_selected_colums=True,
    mul_ratio=0.02,
    param_attr=None,
    bias_attr=None,
    layer_attr=None,
):
    """The columns of act(sum of x W' + b) that `select` names, side by side in their order.

    `select` is a sparse row of columns, or a row of `size` numbers that are not 0 there; all rows
    select equally many. Of W, stored as [size, input size], only the selected rows are read. The
    last three arguments before `param_attr` steered how 2017 computed it.
    """
    if select is None or select.size != size:
        raise pd.ShapeError(f"select is a layer of {size} columns, not {select!r}")
    conf = scope.config
    conf.selective_fc_pass_generation = pass_generation
    conf.has_selected_colums = has_selected_colums
    conf.selective_fc_full_mul_ratio = mul_ratio
    scope.size = size
    chosen = _chosen(select)
    y = None
    for i, (x, attr) in enumerate(zip(input, param_list(param_attr, len(input)), strict=True)):
        w = scope.weight(i, [size, x.size], attr)
        made = scope.made(conf.inputs[i].input_parameter_name)
        if made is not None:
            made.config.is_sparse = False
        product = chosen.segments.repeat(x) * pd.gather(w, chosen.columns)
        product = pd.reduce_sum(product, [1])
        y = product if y is None else y + product
    bias = scope.bias([1, size], bias_attr)
    if bias is not None:
        y = y + pd.gather(pd.reshape(bias, [size]), chosen.columns)
    return _in_rows(y, chosen, select)


def _chosen(select):
    """The columns of each row that are selected."""
    if select.sparse is not None:
        return select.sparse
    flags = pd.logical_not(pd.equal(select, 0.0))
    counts = pd.reduce_sum(pd.cast(flags, np.int64), [1])
    places = pd.apply("NonZero", flags)
    columns = pd.reshape(pd.slice(places, [1], [2], [0]), [-1])
    return pd.SparseRows(columns, counts, select.size)


def _in_rows(y, chosen, select):
    """The products of a row beside each other; rows of unequal numbers do not fit."""
    shape = pd.concat([chosen.segments.count, chosen.segments.longest])
    known = (chosen.counts.dims[0], f"{select.name}.selected")
    return pd.apply("Reshape", y, shape, known=known, allowzero=1)
