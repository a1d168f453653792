"""Operators that ONNX Runtime's optimizers write for several operators of ONNX, as functions.

Each is read by its formula, with gradients, as a function that the file might define itself.
"""

from collections.abc import Callable, Sequence
from typing import Any

from onnx import ModelProto, TensorProto, helper

from .functions import called_by, functions_of
from .fused_attention import attention, multi_head_attention, rotary_embedding
from .fused_calls import Call, axes_text, number_text
from .loading import STANDARD, inferred_dims
from .low_bits import MICROSOFT
from .order import all_nodes

_SINCE = {"LayerNormalization": 17}  # in older opsets it is ONNX Runtime's, of the same form
_OURS = ("SimplifiedLayerNormalization", *_SINCE)  # which have no domain
_HINT = "  hint: import the model as it was before onnxruntime optimized it"


def with_fused_operators(model: ModelProto) -> ModelProto:
    """Return a model whose fused operators are calls of functions; the model is not changed.

    ModelError for outputs and attributes that have no meaning outside of ONNX Runtime.
    """
    opset = next((o.version for o in model.opset_import if o.domain in STANDARD), 0)
    own = set(functions_of(model.functions))
    if not any(_is_fused(node, opset, own) for node in _every_node(model)):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    copy.ir_version = max(copy.ir_version, 8)
    if MICROSOFT not in {o.domain for o in copy.opset_import}:
        copy.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
    dims, doubles = _dims(model), set(_doubles(model.graph))
    names: dict[Any, str] = {}
    nodes: list[tuple] = [(node, dims) for node in all_nodes(copy.graph.node)]
    nodes += [(node, {}) for f in copy.functions for node in all_nodes(f.node)]
    for node, known in nodes:
        if not _is_fused(node, opset, own):
            continue
        call = Call(node, known, doubles)
        body = _BODIES[node.op_type](call)
        key = node.op_type, call.key(), body
        if key not in names:
            taken = {name for _, name, _ in own} | set(names.values())
            every = (f"{node.op_type}{k or ''}" for k in range(len(taken) + 1))
            names[key] = next(name for name in every if name not in taken)
            copy.functions.append(call.function(names[key], body))
        node.domain, node.op_type = MICROSOFT, names[key]
        del node.attribute[:]
    return copy


def refusal(domain: str) -> str:
    """Return why an operator of ONNX Runtime's own is not read."""
    return f"it is ONNX Runtime's own operator, of the domain {domain!r}\n{_HINT}"


def _every_node(model):
    for owner in (model.graph, *model.functions):
        yield from all_nodes(owner.node)


def _is_fused(node, opset, own):
    if node.op_type not in _BODIES or called_by(node) in own:
        return False
    if any(a.ref_attr_name for a in node.attribute):
        return False
    if node.domain in STANDARD:
        return node.op_type in _OURS and opset < _SINCE.get(node.op_type, 99)
    return node.domain == MICROSOFT


def _doubles(graph):
    """Yield the names of values that the file says to be of float64."""
    for t in graph.initializer:
        if t.data_type == TensorProto.DOUBLE:
            yield t.name
    for i in (*graph.input, *graph.value_info):
        if i.type.tensor_type.elem_type == TensorProto.DOUBLE:
            yield i.name


def _dims(model):
    """Return the dims of values as far as the file gives them."""
    graph, given = model.graph, inferred_dims(model)
    for i in graph.input:
        if i.type.tensor_type.HasField("shape"):
            dims = i.type.tensor_type.shape.dim
            given[i.name] = tuple(d.dim_param or d.dim_value or None for d in dims)
    return given | {t.name: tuple(t.dims) for t in graph.initializer}


# ---- text of bodies


def _attributes(values):
    """Attributes of a node, as text."""

    def text(v):
        if isinstance(v, bytes):
            return f'"{v.decode()}"'
        return repr(list(v)) if isinstance(v, Sequence) else repr(v)

    return f"<{', '.join(f'{k} = {text(v)}' for k, v in values.items())}>" if values else ""


def _floats(call, name, count):
    numbers = list(call.get(name, []))
    if len(numbers) < count:
        raise call.fail(f"{name} has {len(numbers)} numbers, {call.get('activation', '')} {count}")
    return numbers[:count]


def _activated(call, x, numbers):
    """Text that gives y0 as the activation of x; `numbers(count)` are its parameters."""
    name = call.get("activation", "")
    if not name:
        return f"y0 = Identity({x})\n"
    if name in ("Relu", "Tanh", "Sigmoid"):
        return f"y0 = {name}({x})\n"
    if name == "LeakyRelu":
        return f"y0 = LeakyRelu<alpha = {numbers(1)[0]!r}>({x})\n"
    if name == "HardSigmoid":
        alpha, beta = numbers(2)
        return f"y0 = HardSigmoid<alpha = {alpha!r}, beta = {beta!r}>({x})\n"
    if name == "Clip":
        low, high = numbers(2)
        bounds = number_text("low", low, x) + number_text("high", high, x)
        return f"{bounds} y0 = Clip({x}, low, high)\n"
    raise call.fail(f"the activation {name!r} is not known")


def _rms(call, x, scale, epsilon, axes):
    """Text that gives y0 = scale x / sqrt(mean(x^2) + epsilon).

    Halves are computed in float32, as kernels do.
    """
    kind = TensorProto.DOUBLE if call.in_double else TensorProto.FLOAT
    return (
        f"wide = Cast<to = {kind}>({x}) squares = Mul(wide, wide)\n"
        f"{axes_text('axes', axes)} mean = ReduceMean(squares, axes)\n"
        f"{number_text('epsilon', epsilon, 'wide')} more = Add(mean, epsilon)\n"
        "deviation = Sqrt(more)\n"
        f"standard = Div(wide, deviation) narrow = CastLike(standard, {x})\n"
        f"y0 = Mul(narrow, {scale})\n"
    )


# ---- bodies


def _gelu(call):
    return "y0 = Gelu(x0)"


def _quick_gelu(call):
    alpha = call.get("alpha", 1.702)
    return f"{number_text('alpha', alpha)} a = Mul(x0, alpha) s = Sigmoid(a) y0 = Mul(x0, s)"


def _bias_gelu(call):
    return "s = Add(x0, x1) y0 = Gelu(s)"


def _fast_gelu(call):
    s = "s = Add(x0, x1)" if call.has(1) else "s = Identity(x0)"
    return f'{s} y0 = Gelu<approximate = "tanh">(s)'


def _fused_matmul(call):
    """alpha A B, of which factors may be transposed in their last axes, or in those before."""
    text = ""
    for k, letter in enumerate("AB"):
        last, batch = (call.get(f"{kind}{letter}", 0) for kind in ("trans", "transBatch"))
        rank = call.ranks[k]
        if batch:
            text += f'm{k} = Einsum<equation = "a...j->...{"ja" if last else "aj"}">(x{k})\n'
        elif not last or rank == 1:
            text += f"m{k} = Identity(x{k})\n"
        elif rank is None:
            text += f'm{k} = Einsum<equation = "...ij->...ji">(x{k})\n'
        else:
            perm = [*range(rank - 2), rank - 1, rank - 2]
            text += f"m{k} = Transpose<perm = {perm}>(x{k})\n"
    alpha = call.get("alpha", 1.0)
    if alpha == 1.0:
        return f"{text} y0 = MatMul(m0, m1)"
    return f"{text} p = MatMul(m0, m1) {number_text('alpha', alpha)} y0 = Mul(p, alpha)"


def _fused_gemm(call):
    kept = {k: v for k, v in call.attributes.items() if not k.startswith("activation")}
    arguments = ", ".join(x for x in call.inputs if x)

    def numbers(count):
        keys = ("activation_alpha", "activation_beta")[:count]
        missing = [k for k in keys if k not in call.attributes]
        if missing:
            raise call.fail(f"{call.get('activation', '')} without {missing[0]}")
        return [call.attributes[k] for k in keys]

    return f"g = Gemm{_attributes(kept)}({arguments})\n{_activated(call, 'g', numbers)}"


def _fused_conv(call):
    """activation(conv(X, W) + B + Z)."""
    kept = {k: v for k, v in call.attributes.items() if not k.startswith("activation")}
    arguments = ", ".join(x for x in call.inputs[:3] if x)
    text = f"c = Conv{_attributes(kept)}({arguments})\n"
    text += "s = Add(c, x3)\n" if call.has(3) else "s = Identity(c)\n"
    return text + _activated(call, "s", lambda count: _floats(call, "activation_params", count))


def _simplified(call):
    axis = call.get("axis", -1)
    if axis >= 0 and call.ranks[0] is None:
        raise call.fail(f"axis {axis} from the front, of a value whose rank the file does not give")
    call.refuse_statistics(1)
    axes = range(axis, 0) if axis < 0 else range(axis - call.ranks[0], 0)
    return _rms(call, "x0", "x1", call.get("epsilon", 1e-5), axes)


def _layer_normalization(call):
    call.refuse_statistics(1, 2)
    arguments = ", ".join(x for x in call.inputs if x)
    return f"y0 = LayerNormalization{_attributes(call.attributes)}({arguments})"


def _skipped(call, bias):
    """Text that gives the sum of input, skip and bias."""
    call.refuse_statistics(1, 2)
    text = f"x = Add(x0, x{bias})\n" if call.has(bias) else "x = Identity(x0)\n"
    text += "s = Add(x, x1)\n"
    return text + ("y3 = Identity(s)\n" if call.reads(3) else "")


def _normalized(call, gamma, beta, epsilon):
    shift = f", x{beta}" if call.has(beta) else ""
    return f"y0 = LayerNormalization<axis = -1, epsilon = {epsilon!r}>(s, x{gamma}{shift})\n"


def _skip_layer_normalization(call):
    return _skipped(call, 4) + _normalized(call, 2, 3, call.get("epsilon", 1e-12))


def _skip_simplified(call):
    return _skipped(call, 3) + _rms(call, "s", "x2", call.get("epsilon", 1e-12), [-1])


def _embed_layer_normalization(call):
    """The normalized sum of embeddings of words, places and, perhaps, segments."""
    text = "words = Gather(x2, x0)\n"
    if call.has(8):
        text += "places = Gather(x3, x8)\n"
    else:
        text += (
            "zero = Constant<value_ints = [0]>() n = Shape<start = 1, end = 2>(x0)\n"
            "places = Slice(x3, zero, n, zero)\n"
        )
    text += "two = Add(words, places)\n"
    if call.has(1) and call.has(4):
        text += "segments = Gather(x4, x1) s = Add(two, segments)\n"
    else:
        text += "s = Identity(two)\n"
    text += _normalized(call, 5, 6, call.get("epsilon", 1e-12))
    if call.reads(1) and call.has(7):
        text += f"{axes_text('one', [1])} y1 = ReduceSum<keepdims = 0>(x7, one)\n"
    elif call.reads(1):
        text += (
            "rows = Shape<start = 0, end = 1>(x0)\n"
            "y1 = ConstantOfShape<value = int32[1] {0}>(rows)\n"
        )
    return text + ("y2 = Identity(s)\n" if call.reads(2) else "")


_BODIES: dict[str, Callable[[Call], str]] = {
    "Gelu": _gelu,
    "QuickGelu": _quick_gelu,
    "BiasGelu": _bias_gelu,
    "FastGelu": _fast_gelu,
    "FusedMatMul": _fused_matmul,
    "TransposeMatMul": _fused_matmul,
    "FusedGemm": _fused_gemm,
    "FusedConv": _fused_conv,
    "Attention": attention,
    "MultiHeadAttention": multi_head_attention,
    "RotaryEmbedding": rotary_embedding,
    "LayerNormalization": _layer_normalization,
    "SimplifiedLayerNormalization": _simplified,
    "SkipLayerNormalization": _skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": _skip_simplified,
    "EmbedLayerNormalization": _embed_layer_normalization,
}
