"""Layers that multiply by a matrix."""

import numpy as np

import pd_core as pd

from .. import build
from ..activation import Linear, Sigmoid, Tanh
from .base import layer, param_list
from .mixed import dotmul_operator, mixed, table_projection, times

_EXTRA = ("drop_rate", "error_clipping_threshold")


@layer("fc", "fc_layer", Tanh, several=True, supports=_EXTRA, sparse=("input",))
def fc(scope, input, size, act=None, name=None, param_attr=None, bias_attr=None, layer_attr=None):
    """act(sum of x W over the inputs, plus b).

    `size` is the width of the result. A list of inputs takes a list of `param_attr`, or one that
    serves as the pattern of each.
    """
    attrs = param_list(param_attr, len(input))
    y = None
    for i, (x, attr) in enumerate(zip(input, attrs, strict=True)):
        product = times(x, scope.weight(i, [x.size, size], attr))
        y = product if y is None else y + product
    bias = scope.bias([1, size], bias_attr)
    return y if bias is None else y + bias


def embedding(input, size, name=None, param_attr=None, layer_attr=None):
    """The row of a learned table for each id, `size` wide; zeros for an id of -1."""
    return mixed(
        size=size,
        input=table_projection(input=input, size=size, param_attr=param_attr),
        name=name or build.current().next_name("embedding"),
        layer_attr=layer_attr,
    )


def gated_unit(
    input,
    size,
    act=None,
    name=None,
    gate_attr=None,
    gate_param_attr=None,
    gate_bias_attr=True,
    inproj_attr=None,
    inproj_param_attr=None,
    inproj_bias_attr=True,
    layer_attr=None,
):
    """act(x W + b) times sigmoid(x V + c), elementwise (Dauphin et al. 2016).

    The layers are `<name>_input_proj`, `<name>_gate` and the result, `<name>_gated_act`.
    """
    name = name or build.current().next_name("gated_unit_layer")
    value = fc(
        input=input,
        size=size,
        name=f"{name}_input_proj",
        act=act or Linear(),
        layer_attr=inproj_attr,
        param_attr=inproj_param_attr,
        bias_attr=inproj_bias_attr,
    )
    gate = fc(
        input=input,
        size=size,
        name=f"{name}_gate",
        act=Sigmoid(),
        layer_attr=gate_attr,
        param_attr=gate_param_attr,
        bias_attr=gate_bias_attr,
    )
    product = dotmul_operator(value, gate)
    return mixed(name=f"{name}_gated_act", input=product, layer_attr=layer_attr)


@layer("tensor", "tensor_layer", Linear, inputs=("a", "b"), supports=_EXTRA, rows=("a", "b"))
def tensor(
    scope, a, b, size, act=None, name=None, param_attr=None, bias_attr=None, layer_attr=None
):
    """act(y + c) with y_k = a W_k b' for `size` matrices W_k, which are stored one by one."""
    w = scope.weight(0, [size, a.size, b.size], param_attr, dims=[a.size, b.size, size])
    blocks = pd.reshape(pd.transpose(w, [1, 0, 2]), [a.size, size * b.size])
    rows = pd.reshape(pd.matmul(a, blocks), [-1, size, b.size])
    y = pd.squeeze(pd.matmul(rows, pd.unsqueeze(b, 2)), 2)
    bias = scope.bias([1, size], bias_attr)
    return y if bias is None else pd.add(y, bias)


@layer("factorization_machine", "factorization_machine", Linear, sparse=("input",))
def factorization_machine(
    scope, input, factor_size, act=None, name=None, param_attr=None, layer_attr=None
):
    """The pairs of a row: act(sum over i < j of x_i x_j <v_i, v_j>) (Rendle 2010).

    Each column has a learned vector v of `factor_size` numbers.
    """
    v = scope.weight(0, [input.size, factor_size], param_attr)
    scope.config.factor_size = factor_size
    all_pairs = pd.square(times(input, v))
    if input.sparse is None:
        with_itself = pd.matmul(pd.square(input), pd.square(v))
    else:  # the rows of v squared, not all of v
        with_itself = input.sparse.square().matmul(v, pd.square)
    return pd.mul(pd.reduce_sum(pd.sub(all_pairs, with_itself), [1], keep_dim=True), 0.5)


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
