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
    """Fully connected layer: act(sum of x W over the inputs, plus b), `size` wide.

    A list of inputs takes a list of `param_attr`, or one that is copied for each input.
    """
    attrs = param_list(param_attr, len(input))
    y = None
    for i, (x, attr) in enumerate(zip(input, attrs, strict=True)):
        product = times(x, scope.weight(i, [x.size, size], attr, by_rows=x.sparse is not None))
        y = product if y is None else y + product
    bias = scope.bias([1, size], bias_attr)
    return y if bias is None else y + bias


def embedding(input, size, name=None, param_attr=None, layer_attr=None):
    """Look up each id in a learned table, `size` wide; zeros for an id of -1."""
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
    """Gated linear unit: act(x W + b) times sigmoid(x V + c), elementwise (Dauphin et al. 2016).

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
    """Bilinear layer: act(y + c) with y_k = a W_k b' for `size` matrices W_k."""
    w = scope.weight(0, [size, a.size, b.size], param_attr, dims=[a.size, b.size, size])
    blocks = pd.reshape(pd.transpose(w, [1, 0, 2]), [a.size, size * b.size])
    rows = pd.reshape(pd.matmul(a, blocks), [-1, size, b.size])
    y = pd.squeeze(pd.matmul(rows, pd.unsqueeze(b, 2)), 2)
    bias = scope.bias([1, size], bias_attr)
    return y if bias is None else y + bias


@layer("factorization_machine", "factorization_machine", Linear, sparse=("input",))
def factorization_machine(
    scope, input, factor_size, act=None, name=None, param_attr=None, layer_attr=None
):
    """Factorization machine: act(sum over i < j of x_i x_j <v_i, v_j>) (Rendle 2010).

    Each column i has a learned vector v_i of `factor_size` numbers.
    """
    is_sparse = input.sparse is not None
    v = scope.weight(0, [input.size, factor_size], param_attr, by_rows=is_sparse)
    scope.config.factor_size = factor_size
    # sum over i < j of x_i x_j <v_i, v_j> = ((sum of x_i v_i)² - sum of (x_i v_i)²) / 2
    square_of_sum = pd.square(times(input, v))
    if input.sparse is None:
        sum_of_squares = pd.matmul(pd.square(input), pd.square(v))
    else:  # squares only the rows of v that are read
        sum_of_squares = input.sparse.square().matmul(v, pd.square)
    return pd.reduce_sum(square_of_sum - sum_of_squares, [1], keep_dim=True) * 0.5


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
    """Compute selected columns of act(sum of x W' + b), side by side in the order of `select`.

    `select` names them for each row: sparse rows of columns, or rows of `size` numbers, nonzero
    where a column is selected. All rows select equally many. Of W, stored as [size, input size],
    only the selected rows are read. `pass_generation`, `has_selected_colums` and `mul_ratio` are
    recorded; 2017 chose its algorithm by them.
    """
    if select is None or select.size != size:
        raise pd.ShapeError(f"select is a layer of {size} columns, not {select!r}")
    conf = scope.config
    conf.selective_fc_pass_generation = pass_generation
    conf.has_selected_colums = has_selected_colums
    conf.selective_fc_full_mul_ratio = mul_ratio
    scope.size = size
    selected = _selected(select)
    y = None
    for i, (x, attr) in enumerate(zip(input, param_list(param_attr, len(input)), strict=True)):
        w = scope.weight(i, [size, x.size], attr, by_rows=True)
        parameter = scope.created(conf.inputs[i].input_parameter_name)
        if parameter is not None:
            parameter.config.is_sparse = False
        product = selected.segments.repeat(x) * pd.gather(w, selected.columns)
        product = pd.reduce_sum(product, [1])
        y = product if y is None else y + product
    bias = scope.bias([1, size], bias_attr)
    if bias is not None:
        y = y + pd.gather(pd.reshape(bias, [size]), selected.columns)
    return _in_rows(y, selected, select)


def _selected(select):
    """Return the selected columns of each row as SparseRows."""
    if select.sparse is not None:
        return select.sparse
    flags = pd.logical_not(pd.equal(select, 0.0))
    counts = pd.reduce_sum(pd.cast(flags, np.int64), [1])
    indices = pd.apply("NonZero", flags)
    columns = pd.reshape(pd.slice(indices, [1], [2], [0]), [-1])
    return pd.SparseRows(columns, counts, select.size)


def _in_rows(y, selected, select):
    """Reshape the flat products to [rows, columns]; rows that select unequally many do not fit."""
    shape = pd.concat([selected.segments.count, selected.segments.longest])
    dims = (selected.counts.dims[0], f"{select.name}.selected")
    return pd.apply("Reshape", y, shape, known=dims, allowzero=1)
