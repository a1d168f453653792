"""Mixed layers: a sum of projections of layers, and projections side by side.

A projection is a function of one layer with at most one weight; an operator is a function of
several layers without a weight. Neither is a layer: `mixed` adds them up, `concat` concatenates
projections.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import pd_core as pd

from .. import build
from ..activation import Linear
from ..attr import ParameterAttribute
from ..config_base import Layer, MixedLayerType
from ..formats.proto import OperatorConfig, ProjectionConfig
from .base import layer

_EXTRA = ("drop_rate", "error_clipping_threshold")


@dataclass(frozen=True)
class Projection:
    """compute(x, w, size) with w of the shape dims(input size, size), w None if `dims` is None.

    `size` is the width of the result, 0 for that of the layer. `record` are fields of the
    ProjectionConfig, `recorded_dims` the sizes in the ParameterConfig if they differ from w's.
    """

    kind: str
    input: Layer
    size: int
    compute: Callable
    dims: Callable | None = None
    attr: ParameterAttribute | None = None
    record: dict = field(default_factory=dict)
    ids: bool = False
    recorded_dims: list | None = None

    @property
    def inputs(self):
        return (self.input,)


@dataclass(frozen=True)
class Operator:
    """compute(*inputs), `size` wide; `record` are fields of the OperatorConfig."""

    kind: str
    inputs: tuple
    size: int
    compute: Callable
    record: dict = field(default_factory=dict)


def full_matrix_projection(input, size=0, param_attr=None):
    """x W."""
    return _projection("fc", input, size, _product, lambda n, m: [n, m], param_attr)


def trans_full_matrix_projection(input, size=0, param_attr=None):
    """x W', for a W that another layer stores as [size, input size]."""
    return _projection(
        "trans_fc", input, size, _transposed_product, lambda n, m: [m, n], param_attr
    )


def table_projection(input, size=0, param_attr=None):
    """The row of W for each id; a row of zeros for an id of -1."""
    return _projection("table", input, size, _lookup, lambda n, m: [n, m], param_attr, ids=True)


def identity_projection(input, offset=None, size=None):
    """x, or the columns of x from `offset` on: `size` of them, or as many as the layer is wide."""
    if offset is None:
        return _projection("identity", input, _size_of(input), lambda x, w, m: x)
    end = offset + (_size_of(input) - offset if size is None else size)
    if not 0 <= offset < end <= input.size:
        raise pd.ShapeError(
            f"identity_projection: columns {offset} to {end} of {input.name!r}, {input.size} wide"
        )

    def columns(x, w, width):
        if offset + width > end:
            raise pd.ShapeError(f"{x.name!r} has {end - offset} columns from {offset}, not {width}")
        return pd.slice(x, [offset], [offset + width], [1])

    return _projection("identity_offset", input, 0, columns, record={"offset": offset})


def slice_projection(input, slices):
    """The channels start to end of a convolution, for each (start, end), side by side."""
    _size_of(input)
    if input.config.type not in ("exconv", "cudnn_conv"):
        raise pd.GraphError(f"slice_projection: {input.name!r} is no convolution")
    edges = [edge for pair in slices for edge in pair]
    if not edges or edges != sorted(edges) or edges[0] < 0 or edges[-1] > input.num_filters:
        raise pd.GraphError(
            f"slice_projection: slices are ascending within the {input.num_filters} channels "
            f"of {input.name!r}, not {slices!r}"
        )
    pixels = input.size // input.num_filters
    slices = [{"start": a * pixels, "end": b * pixels} for a, b in slices]

    def columns(x, w, width):
        return pd.concat([pd.slice(x, [s["start"]], [s["end"]], [1]) for s in slices], axis=1)

    size = sum(s["end"] - s["start"] for s in slices)
    return _projection("slice", input, size, columns, record={"slices": slices})


def scaling_projection(input, param_attr=None):
    """w x, with one learned number w."""
    return _projection("scaling", input, _size_of(input), _times, lambda n, m: [1, 1], param_attr)


def dotmul_projection(input, param_attr=None):
    """w x elementwise, with one learned number per column."""
    return _projection("dot_mul", input, _size_of(input), _times, lambda n, m: [1, n], param_attr)


def dotmul_operator(a=None, b=None, scale=1, **kwargs):
    """scale a b, elementwise; 2017 also called the arguments `x` and `y`."""
    a, b = kwargs.pop("x", a), kwargs.pop("y", b)
    if kwargs:
        raise TypeError(f"dotmul_operator() has no argument {', '.join(kwargs)}")
    if _size_of(a) != _size_of(b):
        raise pd.ShapeError(f"dotmul_operator: {a.name!r} is {a.size} wide, {b.name!r} is {b.size}")

    def compute(x, y):
        product = x * y
        return product if scale == 1 else product * float(scale)

    return Operator("dot_mul", (a, b), a.size, compute, {"dotmul_scale": scale})


def _projection(kind, input, size, compute, dims=None, attr=None, record=None, ids=False):
    _size_of(input)
    return Projection(kind, input, size or 0, compute, dims, attr, record or {}, ids)


def _size_of(input):
    if not isinstance(input, Layer):
        raise TypeError(f"a projection is of a layer, not of {input!r}")
    return input.size


def times(x, w):
    """Multiply the rows of a layer by a matrix; sparse rows read only the rows of w they name."""
    return pd.matmul(x, w) if x.sparse is None else x.sparse.matmul(w)


def _product(x, w, size):
    return times(x, w)


def _transposed_product(x, w, size):
    return pd.matmul(x, pd.transpose(w))


def _times(x, w, size):
    return x * w


def _lookup(ids, w, size):
    valid = pd.cast(pd.unsqueeze(ids >= 0, 1), w.dtype)
    return pd.gather(w, pd.maximum(ids, 0)) * valid  # `where` takes twice as long


# ---- layers of projections


def mixed(size=0, input=None, name=None, act=None, bias_attr=False, layer_attr=None):
    """act(sum of projections and operators, plus b); no bias by default.

    `size` 0 is the width of the items. Without `input` they are added in a `with` block::

        with paddle.layer.mixed(size=256) as m:
            m += paddle.layer.full_matrix_projection(input=x)
    """
    name = name or build.current().next_name("mixed")

    def complete(items, output=None):
        return _mixed(
            input=_layers_of(name, items, (Projection, Operator)),
            name=name,
            items=items,
            size=size,
            output=output,
            act=act,
            bias_attr=bias_attr,
            layer_attr=layer_attr,
        )

    if input is None:
        return MixedLayerType(name, size, act or Linear(), complete)
    return complete(list(input) if isinstance(input, (list, tuple)) else [input])


def _layers_of(name, items, kinds):
    """Return the input layers in recorded order: the first of each item, then all others."""
    if not items:
        raise pd.GraphError(f"mixed layer {name!r}: there is no projection in it")
    for item in items:
        if not isinstance(item, kinds):
            names = " or ".join(kind.__name__.lower() for kind in kinds)
            raise TypeError(f"layer {name!r}: an input is a {names}, not {item!r}")
    return [item.inputs[0] for item in items] + [x for item in items for x in item.inputs[1:]]


@layer("mixed", "mixed", Linear, several=True, supports=_EXTRA, rows=(), sparse=("input",))
def _mixed(scope, input, items, size, output, act, name, bias_attr, layer_attr):
    size = _common_size(size, items)
    total, rest = None, len(items)
    for slot, item in enumerate(items):
        if isinstance(item, Operator):
            _record_operator(scope, slot, rest, item)
            rest += len(item.inputs) - 1
            part = item.compute(*item.inputs)
        else:
            part = _projected(scope, slot, item, size)
        total = part if total is None else total + part
    return _with_bias(scope, items, total, bias_attr or None)


def _common_size(size, items):
    """Return the layer's width; ShapeError if nothing fixes it, or two widths differ."""
    operators_first = sorted(items, key=lambda item: isinstance(item, Projection))
    sizes = [n for n in (size, *(item.size for item in operators_first)) if n]
    if not sizes:
        raise pd.ShapeError("no input says how wide the layer is\n  hint: give size")
    for n in sizes:
        if n != sizes[0]:
            raise pd.ShapeError(f"the layer is {sizes[0]} wide, a projection {n}")
    return sizes[0]


def _projected(scope, slot, item, size):
    """Return the value of a projection, with its weight and its record at input `slot`."""
    _check_ids(item)
    scope.config.inputs[slot].proj_conf.MergeFrom(
        ProjectionConfig(
            type=item.kind,
            name=f"_{scope.short_name}.w{slot}",
            input_size=item.input.size,
            output_size=size,
            **item.record,
        )
    )
    w = None
    if item.dims is not None:
        dims = item.dims(item.input.size, size)
        is_sparse = item.kind == "fc" and item.input.sparse is not None
        by_rows = is_sparse or item.kind == "table"
        w = scope.weight(slot, dims, item.attr, dims=item.recorded_dims, by_rows=by_rows)
    return item.compute(item.input, w, size)


def _check_ids(item):
    if item.input.sparse is not None:
        if item.kind != "fc":
            raise pd.DTypeError(
                f"{item.input.name!r} holds sparse rows, which only full_matrix_projection takes"
            )
        return
    ids = item.input.dtype.kind == "i"
    if ids != item.ids:
        what = "holds ids, no rows of numbers" if ids else "holds rows of numbers, no ids"
        raise pd.DTypeError(f"{item.input.name!r} {what}")


def _record_operator(scope, slot, rest, item):
    for x in item.inputs:
        if x.dtype.kind == "i":
            raise pd.DTypeError(f"{x.name!r} holds ids, no rows of numbers")
    conf = OperatorConfig(type=item.kind, output_size=item.size, **item.record)
    conf.input_indices.extend([slot, *range(rest, rest + len(item.inputs) - 1)])
    conf.input_sizes.extend(x.size for x in item.inputs)
    scope.config.operator_confs.append(conf)


def _with_bias(scope, items, y, attr):
    """Add a bias: a number per column, of convolutions per filter."""
    size, pixels = y.dims[1], 1
    if items[0].kind in _CONVOLUTIONS and isinstance(items[0], Projection):
        filters = sum(item.record.get("num_filters", 0) for item in items)
        if size % filters:
            raise pd.ShapeError(f"{size} columns do not split into {filters} filters")
        scope.config.shared_biases = True
        size, pixels = filters, size // filters
    if attr is None:
        return y
    scope.config.bias_size = size
    bias = scope.bias([1, size], attr)
    if pixels > 1:
        bias = pd.expand(pd.unsqueeze(bias, 2), [1, size, pixels])
    return y + pd.reshape(bias, [1, -1])


_CONVOLUTIONS = ("conv", "convt")


def concat_projections(input, name=None, act=None, layer_attr=None, bias_attr=None):
    """act of projections side by side; only a Param makes a bias."""
    name = name or build.current().next_name("concat")
    layers = _layers_of(name, input, (Projection,))
    return _concat(
        input=layers, items=input, name=name, act=act, layer_attr=layer_attr, bias_attr=bias_attr
    )


@layer("concat2", "concat", Linear, several=True, supports=_EXTRA, rows=(), sparse=("input",))
def _concat(scope, input, items, act=None, name=None, layer_attr=None, bias_attr=None):
    for item in items:
        if not item.size:
            raise pd.ShapeError(f"the projection of {item.input.name!r} needs a size")
    convolutions = [item.kind in _CONVOLUTIONS for item in items]
    if convolutions[0] and not all(convolutions):
        raise pd.GraphError("a convolution stands side by side with convolutions only")
    parts = [_projected(scope, slot, item, item.size) for slot, item in enumerate(items)]
    attr = bias_attr if isinstance(bias_attr, ParameterAttribute) else None
    return _with_bias(scope, items, pd.concat(parts, axis=1), attr)
