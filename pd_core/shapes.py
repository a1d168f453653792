"""Output types of a node: ONNX's own inference, what it does not check, and what it loses.

`checks[op_type](node)` raises ShapeError or DTypeError where ONNX is silent or terse.
`refinements[op_type](node)` returns the dims of the first output where ONNX forgets them, or None.
`unshaped[op_type](node, k)` gives dims and dtype of an output of which ONNX infers not even a rank.
Sizes that stay unnamed get a fresh name, so a rank is always known.
"""

import re
from functools import cache

import numpy as np
from onnx import AttributeProto, NodeProto, checker, defs, helper, numpy_helper, shape_inference

from .errors import DTypeError, GraphError, ShapeError
from .site import function
from .type_cache import remembered
from .variable import Variable, constant, describe, fresh_dim, is_open, open_dim, shown

OPSET = 21
CEILING = 26  # the newest opset that ONNX Runtime 1.31 loads
_SMALL = 64  # constants up to this many elements are shown to ONNX's inference (shapes, axes)

checks = {}
refinements = {}
unshaped = {}


def check(*op_types):
    """Register fn(node) as the check of these operators."""
    return lambda fn: checks.update(dict.fromkeys(op_types, fn)) or fn


def without_shape(*op_types):
    """Register fn(node, k) -> (dims, dtype) of an output where ONNX infers no rank at all."""
    return lambda fn: unshaped.update(dict.fromkeys(op_types, fn)) or fn


def refinement(*op_types):
    """Register fn(node) -> dims of the first output, or None, for these operators."""
    return lambda fn: refinements.update(dict.fromkeys(op_types, fn)) or fn


def opset_of(op_type, inputs, attributes, newest=0):
    """The opset that a program with this operator needs: OPSET, or the first later one that has it
    with so many inputs and these attributes; one up to `newest`, if OPSET has no such operator.
    """
    versions = versions_of(op_type, inputs, frozenset(attributes))
    if versions and versions[0] <= OPSET:
        return OPSET
    if versions:
        return max((v for v in versions if v <= newest), default=versions[0])
    if any(s.since_version <= OPSET for s in _schemas(op_type)):
        return OPSET  # whose schema says what does not fit
    since = min((s.since_version for s in _schemas(op_type)), default=CEILING)
    later = f", only from {since} on" if since > CEILING else ""
    raise GraphError(f"ONNX has no operator {op_type!r} in opset {CEILING}{later}")


@cache
def versions_of(op_type, inputs, attributes):
    """The versions of an operator that a runtime loads and that take these; the pinned one alone
    of those up to OPSET.
    """
    loaded = [s for s in _schemas(op_type) if s.since_version <= CEILING]
    pinned = max((s.since_version for s in loaded if s.since_version <= OPSET), default=0)
    return sorted(
        s.since_version
        for s in loaded
        if s.since_version >= max(pinned, 1)
        and s.max_input >= inputs
        and attributes <= s.attributes.keys()
    )


def _schemas(op_type):
    return _history().get(op_type, ())


@cache
def _history():
    """All schemas of ONNX's own operators by name; ONNX takes milliseconds to list them."""
    found = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            found.setdefault(schema.name, []).append(schema)
    return found


def infer(node, outputs, known):
    """Dims and dtype of each output of a node of the ONNX domain."""
    return remembered(node, outputs, known, _SMALL, _inferred)


def _inferred(node, outputs, known):
    if node.op_type in checks:
        checks[node.op_type](node)
    proto, types, data = _single_node(node, outputs)
    try:
        found = shape_inference.infer_node_outputs(
            defs.get_schema(node.op_type, node.opset),
            proto,
            types,
            data,
            opset_imports=[helper.make_opsetid("", node.opset)],
        )
    except checker.ValidationError as error:
        raise _invalid(str(error)) from None
    for k in range(outputs):
        tensor = found[f"o{k}"].tensor_type if f"o{k}" in found else None
        if node.op_type in unshaped and (tensor is None or not tensor.HasField("shape")):
            yield unshaped[node.op_type](node, k)
            continue
        if tensor is None:
            raise ShapeError(f"ONNX cannot tell the type of output {k} from these inputs")
        yield _output_type(node, k, tensor, known)


def _invalid(text):
    """ONNX's complaint about an element type or a number of inputs, in our words."""
    found = re.match(r"(\w+) (typestr: .*)?has \w+ type:? tensor\((\w+)\)", text)
    if found is None:
        return GraphError(text)
    what, unsupported, tensor = found.groups()
    dtype = {"float": "float32", "double": "float64"}.get(tensor, tensor)
    if unsupported or what == "output":
        return DTypeError(f"{what} cannot be {dtype}")
    return DTypeError(f"{what} is {dtype}, other inputs are not\n  hint: cast() one of them")


def _output_type(node, k, tensor, known):
    dims = known if k == 0 else None
    if dims is None and k == 0 and node.op_type in refinements:
        dims = refinements[node.op_type](node)
    if dims is None:
        if not tensor.HasField("shape"):
            raise ShapeError("the rank of the result is not known before it runs")
        dims = tuple(
            d.dim_value if d.HasField("dim_value") else d.dim_param or fresh_dim()
            for d in tensor.shape.dim
        )
    return tuple(dims), helper.tensor_dtype_to_np_dtype(tensor.elem_type)


def _single_node(node, outputs):
    proto = NodeProto(op_type=node.op_type, output=[f"o{k}" for k in range(outputs)])
    types, data = {}, {}
    for k, x in enumerate(node.inputs):
        if x is None:
            proto.input.append("")
            continue
        name = f"i{k}"
        proto.input.append(name)
        types[name] = type_proto(x)
        if x.value is not None and x.value.size <= _SMALL:
            data[name] = numpy_helper.from_array(x.value, name)
    proto.attribute.extend(attribute(k, v) for k, v in node.attributes.items())
    return proto, types, data


def attribute(name, value) -> AttributeProto:
    """An ONNX attribute; an empty list is a list of ints."""
    if isinstance(value, (list, tuple)) and not value:
        return AttributeProto(name=name, type=AttributeProto.INTS)
    return helper.make_attribute(name, value)


def element_type(dtype):
    try:
        return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    except (KeyError, ValueError, TypeError):
        raise DTypeError(f"ONNX has no element type for {dtype}") from None


def type_proto(x: Variable):
    """The ONNX type of a variable."""
    return helper.make_tensor_type_proto(element_type(x.dtype), x.dims)


# ---- arguments


def axis_of(x, axis):
    """An axis of x counted from the front."""
    if not -x.rank <= axis < x.rank:
        raise ShapeError(f"{function()}: axis {axis} of {x!r}, which has {x.rank} axes")
    return axis % x.rank


def per_axis(value, n):
    """One whole number for each of n axes."""
    values = whole(value).value.reshape(-1).tolist()
    if len(values) not in (1, n):
        raise ShapeError(f"{function()}: {len(values)} numbers {values} for {n} spatial axes")
    return values * n if len(values) == 1 else values


def whole(values) -> Variable:
    """A constant of int64, such as sizes; a Variable as it is."""
    return constant(values, np.int64)


# ---- what two sizes give


def meet(a, b):
    """The size that two broadcast sizes give, or None where they cannot meet.

    A 1 stretches; a named size is never taken to be 1 at run time, so where one meets another
    or a number above 1 the two are equal (`meetings` lists them for the session to check). Only
    an open size may be 1.
    """
    if is_open(a) and is_open(b) and a != b:
        return open_dim()
    if a == 1 or is_open(a):
        return b if b != 1 else a
    if b == 1 or a == b or isinstance(b, str):
        return a
    return b if isinstance(a, str) else None


def broadcast_dims(*operands):
    """Dims of an elementwise result, or None where the operands do not fit."""
    rank = max(map(len, operands))
    padded = [(1,) * (rank - len(dims)) + tuple(dims) for dims in operands]
    out = []
    for sizes in zip(*padded, strict=True):
        size = 1
        for d in sizes:
            size = meet(size, d)
            if size is None:
                return None
        out.append(size)
    return tuple(out)


def meetings(node):
    """Pairs of unequal sizes, one of them a name, that a node takes to be equal at run time."""
    for operands in _aligned(node):
        rank = max(map(len, operands))
        padded = [(1,) * (rank - len(dims)) + tuple(dims) for dims in operands]
        for sizes in zip(*padded, strict=True):
            settled = (d for d in sizes if d != 1 and not is_open(d))
            first, *others = dict.fromkeys(settled) or [1]
            yield from ((first, d) for d in others if isinstance(first, str) or isinstance(d, str))


def _aligned(node):
    """Groups of dims whose last, next to last, … sizes meet in a node."""
    dims = [x.dims for x in node.inputs if x is not None]
    if node.op_type in BROADCASTING:
        return [dims]
    if node.op_type == "MatMul":
        a, b = dims
        return [(a[:-2], b[:-2]), (a[-1:], b[-2:-1] or b)]
    if node.op_type == "Expand":
        return [(dims[0], node.outputs[0].dims)]
    if node.op_type in ("GatherElements", "ScatterElements"):
        axis = node.attributes.get("axis", 0) % len(dims[0])
        return [[d[:axis] + d[axis + 1 :] for d in dims[:2]], dims[1:]]
    if node.op_type in _ROWS:
        return [(dims[0][:1], dims[_ROWS[node.op_type]][:1])]
    return []


# composites of packed rows: which input has as many rows as the first
_ROWS = dict.fromkeys(("PadRows", "ExchangeRows", "SegmentSum", "SegmentMax"), 2)
_ROWS |= dict.fromkeys(("PackRows", "RepeatRows"), 1)


BROADCASTING = (
    *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Where", "PRelu"),
    *("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "And", "Or", "Xor"),
)


@refinement(*BROADCASTING)
def _broadcast(node):
    return broadcast_dims(*(x.dims for x in node.inputs))


@check(*BROADCASTING)
def _check_broadcast(node):
    if broadcast_dims(*(x.dims for x in node.inputs)) is None:
        shapes = " and ".join(shown(x.dims) for x in node.inputs)
        raise ShapeError(f"sizes {shapes} do not broadcast")
    values = node.inputs[1:] if node.op_type == "Where" else node.inputs
    if len({x.dtype for x in values}) > 1 and node.op_type != "Pow":
        types = " and ".join(str(x.dtype) for x in values)
        raise DTypeError(f"element types differ, {types}\n  hint: cast() one of them")


# ---- operators whose result shape is a run-time value


@refinement("Expand")
def _expand(node):
    x, target = node.inputs
    dims = shape_of_source(target)
    return None if dims is None else broadcast_dims(x.dims, dims)


@refinement("Reshape")
def _reshape(node):
    return shape_of_source(node.inputs[1])


@refinement("MaxPool", "AveragePool", "LpPool")
def _pool(node):
    """With ceil_mode no window starts behind the image, which ONNX 21 does not say."""
    x, a = node.inputs[0], node.attributes
    n = x.rank - 2
    if not a.get("ceil_mode", 0) or a.get("auto_pad", "NOTSET") != "NOTSET":
        return None
    steps, holes = (a.get(k) or [1] * n for k in ("strides", "dilations"))
    pads, dims = a.get("pads") or [0] * (2 * n), list(x.dims[:2])
    for k, (size, window) in enumerate(zip(x.dims[2:], a["kernel_shape"], strict=True)):
        if isinstance(size, str):
            dims.append(fresh_dim())
            continue
        free = size + pads[k] + pads[n + k] - (window - 1) * holes[k] - 1
        count = -(-free // steps[k]) + 1
        dims.append(count - ((count - 1) * steps[k] >= size + pads[k]))
    return tuple(dims)


@refinement("GroupNormalization", "MeanVarianceNormalization")
def _as_the_first(node):
    return node.inputs[0].dims


@refinement("STFT")
def _spectra(node):
    """ONNX counts frequencies as if `onesided` were 0 by default, and loses the rank of a signal of
    unknown length.
    """
    signal, step, window, length = (*node.inputs, None, None)[:4]
    width = fresh_dim() if window is None else window.dims[0]
    if length is not None and length.value is not None:
        width = int(length.value.item())
    frames, bins, size = fresh_dim(), width, signal.dims[1]
    if node.attributes.get("onesided", 1):
        bins = width // 2 + 1 if isinstance(width, int) else fresh_dim()
    if isinstance(width, int) and isinstance(size, int) and step.value is not None:
        frames = (size - width) // int(step.value.item()) + 1
    return (signal.dims[0], frames, bins, 2)


@without_shape("Split")
def _part(node, k):
    x, axis = node.inputs[0], node.attributes.get("axis", 0)
    dims = list(x.dims)
    dims[axis] = fresh_dim()
    return tuple(dims), x.dtype


@without_shape(
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
    *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Squeeze", "Unsqueeze"),
)
def _other_axes(node, k):
    """Where the axes are known only at run time, but how many there are."""
    (x, axes), sign = node.inputs, 1 if node.op_type == "Unsqueeze" else -1
    if node.op_type.startswith("Reduce") and node.attributes.get("keepdims", 1):
        return _of_rank(x.rank, x)
    if not isinstance(axes.dims[0], int):
        raise ShapeError("the rank of the result is not known before it runs")
    return _of_rank(x.rank + sign * axes.dims[0], x)


@without_shape("Pad", "CenterCropPad")
def _of_the_same_rank(node, k):
    return _of_rank(node.inputs[0].rank, node.inputs[0])


def _of_rank(rank, x):
    return tuple(fresh_dim() for _ in range(rank)), x.dtype


@without_shape("Conv")
def _image(node, k):
    x, w = node.inputs[:2]
    return (x.dims[0], w.dims[0], *(fresh_dim() for _ in x.dims[2:])), x.dtype


@without_shape("ConvTranspose")
def _transposed_image(node, k):
    (x, w), group = node.inputs[:2], node.attributes.get("group", 1)
    channels = w.dims[1] * group if isinstance(w.dims[1], int) else fresh_dim()
    return (x.dims[0], channels, *(fresh_dim() for _ in x.dims[2:])), x.dtype


@without_shape("Attention")
def _heads_by_positions(node, k):
    return _of_rank(4, node.inputs[0])


def shape_of_source(target):
    """The dims that a shape vector stands for, when it is the Shape of a variable."""
    if target.node is not None and target.node.op_type == "Shape" and not target.node.attributes:
        return target.node.inputs[0].dims
    return None


# ---- checks with both numbers in the message


def _clash(a, b):
    return isinstance(a, int) and isinstance(b, int) and a != b


def differ(a, b):
    """Two Variables cannot have the same shape."""
    return a.rank != b.rank or any(map(_clash, a.dims, b.dims))


@check("MatMul")
def _check_matmul(node):
    a, b = node.inputs
    if a.rank == 0 or b.rank == 0:
        raise ShapeError("a scalar is no matrix")
    if broadcast_dims(a.dims[:-2], b.dims[:-2]) is None:
        leading = f"{shown(a.dims[:-2])} and {shown(b.dims[:-2])}"
        raise ShapeError(f"leading sizes {leading} do not broadcast")
    if _clash(a.dims[-1], b.dims[-2 if b.rank > 1 else 0]):
        raise ShapeError(
            f"inner sizes differ, {a.dims[-1]} against {b.dims[-2 if b.rank > 1 else 0]}"
        )


@check("Conv")
def _check_conv(node):
    x, w = node.inputs[:2]
    group = node.attributes.get("group", 1)
    if x.rank < 3 or x.rank != w.rank:
        raise ShapeError(f"an image of rank {x.rank} and filters of rank {w.rank}")
    if isinstance(w.dims[1], int) and _clash(x.dims[1], w.dims[1] * group):
        raise ShapeError(
            f"the image has {x.dims[1]} channels, the filters take {w.dims[1] * group}"
        )
    if isinstance(w.dims[0], int) and w.dims[0] % group:
        raise ShapeError(f"{w.dims[0]} filters do not split into {group} groups")
    _check_bias(node, w.dims[0])
    window = [
        (k - 1) * d + 1 if isinstance(k, int) else 1
        for k, d in zip(w.dims[2:], node.attributes.get("dilations", [1] * x.rank), strict=False)
    ]
    _check_window(x, window, node.attributes.get("pads"))


@check("ConvTranspose")
def _check_conv_transpose(node):
    (x, w), a = node.inputs[:2], node.attributes
    if x.rank < 3 or x.rank != w.rank:
        raise ShapeError(f"an image of rank {x.rank} and filters of rank {w.rank}")
    if _clash(x.dims[1], w.dims[0]):
        raise ShapeError(f"the image has {x.dims[1]} channels, the filters take {w.dims[0]}")
    for more, stride in zip(a.get("output_padding", ()), a.get("strides", ()), strict=False):
        if more >= stride:
            raise ShapeError(f"an output padding of {more} is not below the stride, {stride}")
    if isinstance(w.dims[1], int):
        _check_bias(node, w.dims[1] * a.get("group", 1))
    _check_transposed(x.dims[2:], w.dims[2:], a)


def _check_transposed(image, window, a):
    """Padding cuts a transposed convolution: something must be left."""
    n = len(image)
    pads = a.get("pads") or [0] * (2 * n)
    steps, more = a.get("strides") or [1] * n, a.get("output_padding") or [0] * n
    holes = a.get("dilations") or [1] * n
    for k, (size, width) in enumerate(zip(image, window, strict=True)):
        if isinstance(size, int) and isinstance(width, int):
            whole_size = (size - 1) * steps[k] + (width - 1) * holes[k] + 1 + more[k]
            if whole_size <= pads[k] + pads[k + n]:
                cut = pads[k] + pads[k + n]
                raise ShapeError(f"the result is {whole_size} wide on axis {k + 2}, {cut} are cut")


def _check_bias(node, filters):
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is not None and (bias.rank != 1 or _clash(bias.dims[0], filters)):
        raise ShapeError(f"a bias of {shown(bias.dims)} for {filters} filters")


@check("MaxPool", "AveragePool")
def _check_pool(node):
    x, window = node.inputs[0], node.attributes["kernel_shape"]
    if x.rank != len(window) + 2:
        raise ShapeError(f"a window of {len(window)} axes on an input of rank {x.rank}")
    for k, width in enumerate(node.attributes.get("pads", ())):
        axis = k % len(window)
        if width >= window[axis]:
            raise ShapeError(
                f"a padding of {width} on axis {2 + axis} holds a whole window of {window[axis]}"
            )
    _check_window(x, window, node.attributes.get("pads"))


def _check_window(x, window, pads):
    n = len(window)
    pads = pads or [0] * (2 * n)
    for axis, size in enumerate(window):
        have = x.dims[2 + axis]
        if isinstance(have, int) and have + pads[axis] + pads[axis + n] < size:
            raise ShapeError(
                f"the window is {size} wide on axis {2 + axis}, the padded input "
                f"{have + pads[axis] + pads[axis + n]}"
            )


@check("Concat")
def _check_concat(node):
    first, axis = node.inputs[0], node.attributes["axis"]
    for other in node.inputs[1:]:
        if other.rank != first.rank:
            raise ShapeError(f"ranks differ, {first.rank} against {other.rank}")
        for k, (a, b) in enumerate(zip(first.dims, other.dims, strict=True)):
            if k != axis % first.rank and _clash(a, b):
                raise ShapeError(f"sizes of axis {k} differ, {a} against {b}")


@check("Reshape")
def _check_reshape(node):
    x, target = node.inputs
    if target.value is None or not x.is_static:
        return
    copied = range(0 if node.attributes.get("allowzero") else x.rank)
    sizes = [x.dims[k] if d == 0 and k in copied else int(d) for k, d in enumerate(target.value)]
    have, want = int(np.prod(x.dims)), int(np.prod([d for d in sizes if d != -1]))
    if (have % want if want else have) if -1 in sizes else have != want:
        raise ShapeError(f"{have} elements do not fill {sizes}")


@check("Expand")
def _check_expand(node):
    x, target = node.inputs
    if target.value is not None and broadcast_dims(x.dims, tuple(target.value.tolist())) is None:
        raise ShapeError(f"sizes {shown(x.dims)} do not stretch to {target.value.tolist()}")


@check("Transpose")
def _check_transpose(node):
    (x,), order = node.inputs, node.attributes.get("perm")
    if order is not None and sorted(order) != list(range(x.rank)):
        raise ShapeError(f"{order} is no order of {x.rank} axes")


@check("Clip")
def _check_clip(node):
    for bound in node.inputs[1:]:
        if bound is not None and bound.rank:
            raise ShapeError(f"a bound is a scalar, not {describe(bound)}")


@check("Gather")
def _check_index(node):
    index = node.inputs[1]
    if index.dtype.kind != "i":
        raise DTypeError(f"an index is an integer, not {index.dtype}")


@check("GatherElements", "ScatterElements")
def _check_elements(node):
    _check_index(node)
    x, index, *values = node.inputs
    axis = node.attributes.get("axis", 0) % x.rank
    if index.rank != x.rank:
        raise ShapeError(f"an index of rank {index.rank} for rank {x.rank}")
    for k, (have, want) in enumerate(zip(x.dims, index.dims, strict=True)):
        if k != axis and _clash(have, want) and want > have:
            raise ShapeError(f"the index has {want} entries on axis {k}, {have} are there")
    for v in values:
        if v.rank != index.rank or any(map(_clash, v.dims, index.dims)):
            raise ShapeError(f"values of {shown(v.dims)} for an index of {shown(index.dims)}")
