"""Random nodes of neural networks, images, signals and quantization."""

import numpy as np

from .draw import Draw
from .elementwise import recipe


def _windows(d: Draw, dims, bias=True):
    """Return attributes of windows over an image: kernel, strides, dilations, padding."""
    n = len(dims)
    kernel = [d.number(1, min(3, max(1, k))) for k in dims]
    a = {"strides": d.one((None, [d.number(1, 2) for _ in dims]))}
    a["dilations"] = d.one((None, None, [d.number(1, 2) if k > 4 else 1 for k in dims]))
    kind = d.number(0, 4)
    if kind == 0:
        a["auto_pad"] = d.one(("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"))
        if a["auto_pad"].startswith("SAME"):
            a["dilations"] = None
    elif kind < 3:
        a["pads"] = [d.number(0, kernel[k % n] - 1) for k in range(2 * n)]
    return kernel, a


@recipe(7, "Conv")
def conv(d: Draw, op_type: str):
    n = d.one((1, 2, 2, 3))
    dims = [d.number(3, 5) for _ in range(n)]
    kernel, a = _windows(d, dims)
    group, each, out = d.number(1, 2), d.number(1, 2), d.number(1, 2)
    x = d.any(("float32",), shape=(d.number(1, 2), group * each, *dims))
    w = d.new(group * out, each, *kernel)
    bias = [d.new(group * out)] if d.chance(0.5) else [""] if d.chance(0.1) else []
    a["kernel_shape"] = d.one((None, kernel))
    return d.node(op_type, [x, w, *bias], group=group if group > 1 else d.one((None, 1)), **a)


@recipe(7, "ConvTranspose")
def conv_transpose(d: Draw, op_type: str):
    n = d.one((1, 2, 2))
    dims = [d.number(2, 4) for _ in range(n)]
    kernel, a = _windows(d, dims)
    group, each, out = d.number(1, 2), d.number(1, 2), d.number(1, 2)
    x = d.any(("float32",), shape=(d.number(1, 2), group * each, *dims))
    w = d.new(group * each, out, *kernel)
    bias = [d.new(group * out)] if d.chance(0.5) else []
    strides = a["strides"] or [1] * n
    if d.chance(0.3):
        a["output_padding"] = [d.number(0, s - 1) for s in strides]
    elif d.chance(0.2):
        a["output_shape"] = [k * s + d.number(-1, 1) for k, s in zip(dims, strides, strict=True)]
        a.pop("pads", None)
    a["kernel_shape"] = d.one((None, kernel))
    return d.node(op_type, [x, w, *bias], group=group if group > 1 else None, **a)


@recipe(7, "MaxPool", "AveragePool", "LpPool")
def pool(d: Draw, op_type: str):
    n = d.one((1, 2, 2, 3))
    dims = [d.number(3, 6) for _ in range(n)]
    kernel, a = _windows(d, dims)
    if d.opset < (10 if op_type == "MaxPool" else 19 if op_type == "AveragePool" else 18):
        a.pop("dilations")
    if d.opset >= (18 if op_type == "LpPool" else 10) and d.chance(0.4):
        a["ceil_mode"] = 1
    if op_type == "AveragePool":
        a["count_include_pad"] = d.one((None, 0, 1))
    if op_type == "LpPool":
        a["p"] = d.one((None, 1, 2, 3))
    outputs = 1
    if op_type == "MaxPool" and d.opset >= 8:
        outputs = d.number(1, 2)
        a["storage_order"] = d.one((None, None, 0, 1)) if outputs == 2 else None
    x = d.any(("float32",), shape=(d.number(1, 2), d.number(1, 2), *dims))
    return d.node(op_type, [x], outputs, kernel_shape=kernel, **a)


@recipe(7, "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(d: Draw, op_type: str):
    a = {"p": d.one((None, 1, 3))} if op_type == "GlobalLpPool" else {}
    return d.node(op_type, [d.any(("float32",), least=3)], **a)


@recipe(11, "MaxUnpool")
def unpool(d: Draw, op_type: str):
    x = d.any(("float32",), shape=(1, d.number(1, 2), 4, 6))
    y, index = d.node("MaxPool", [x], 2, kernel_shape=[2, 2], strides=[2, 2])
    return d.node(op_type, [y, index], kernel_shape=[2, 2], strides=[2, 2])


@recipe(7, "BatchNormalization")
def batch_norm(d: Draw, op_type: str):
    x = d.any(("float32", "float64"), least=2)
    c, kind = d.shape(x)[1], d.dtype(x)
    rest = [d.new(c, dtype=kind, low=a, high=2.0) for a in (-2.0, -2.0, -2.0, 0.3)]
    a = {"epsilon": d.one((None, 1e-2)), "momentum": d.one((None, 0.5))}
    return d.node(op_type, [x, *rest], **a)


@recipe(7, "InstanceNormalization")
@recipe(17, "LayerNormalization")
@recipe(21, "GroupNormalization")
@recipe(23, "RMSNormalization")
def normalization(d: Draw, op_type: str):
    a = {"epsilon": d.one((None, 1e-2))}
    if op_type == "InstanceNormalization":
        x = d.any(("float32",), least=3)
        return d.node(op_type, [x, d.new(d.shape(x)[1]), d.new(d.shape(x)[1])], **a)
    if op_type == "GroupNormalization":
        x = d.any(("float32",), shape=(2, 4, *d.dims(d.number(1, 2))))
        return d.node(op_type, [x, d.new(4), d.new(4)], num_groups=d.one((1, 2, 4)), **a)
    x = d.any(("float32", "float64"), least=1)
    dims = d.shape(x)
    axis = d.axis(len(dims))
    a["axis"], kind = d.one((None, axis)) if axis == -1 else axis, d.dtype(x)
    if op_type == "RMSNormalization":
        return d.node(op_type, [x, d.new(*dims[axis:], dtype=kind)], **a)
    bias = [d.new(*dims[axis:], dtype=kind)] if d.chance(0.5) else []
    return d.node(op_type, [x, d.new(*dims[axis:], dtype=kind), *bias], d.number(1, 3), **a)


@recipe(7, "LRN")
def lrn(d: Draw, op_type: str):
    x = d.any(("float32",), least=3)
    return d.node(
        op_type,
        [x],
        size=d.one((1, 3, 2, 5)),
        alpha=d.one((None, 0.3)),
        beta=d.one((None, 0.5)),
        bias=d.one((None, 2.0)),
    )


@recipe(7, "LpNormalization")
@recipe(13, "MeanVarianceNormalization")
def lp_norm(d: Draw, op_type: str):
    x = d.any(("float32",), least=1 if op_type[0] == "L" else 4)
    rank = len(d.shape(x))
    if op_type[0] == "L":
        return d.node(op_type, [x], p=d.one((None, 1, 2)), axis=d.one((None, d.axis(rank))))
    axes = d.one((None, sorted(int(k) for k in d.rng.permutation(rank)[: d.number(1, rank)])))
    return d.node(op_type, [x], axes=axes)


@recipe(7, "Gemm")
def gemm(d: Draw, op_type: str):
    m, n = d.number(1, 4), d.number(1, 4)
    x = d.any(("float32", "float64"), rank=2)
    a = {"transA": d.one((None, 0, 1)), "transB": d.one((None, 0, 1))}
    a |= {"alpha": d.one((None, 0.5)), "beta": d.one((None, 1.5, 0.0))}
    m, k = d.shape(x)[::-1] if a["transA"] else d.shape(x)
    kind = d.dtype(x)
    w = d.any((kind,), shape=(n, k) if a["transB"] else (k, n))
    shapes = [(n,), (m, n), (1, n), (m, 1), (1,), ()]
    bias = [d.any((kind,), shape=d.one(shapes))] if d.opset < 11 or d.chance(0.6) else []
    return d.node(op_type, [x, w, *bias], **a)


@recipe(7, "MatMul")
def matmul(d: Draw, op_type: str):
    x = d.any(("float32", "float64", *(("int32",) if d.opset >= 9 else ())), least=1)
    *batch, k = d.shape(x)
    batch = [1 if d.chance(0.3) else n for n in batch[:-1]]
    batch = batch[d.number(0, len(batch)) if d.chance(0.3) else 0 :]
    shape = d.one(((*batch, k, d.number(1, 3)), (k,), (k, 2)))
    return d.node(op_type, [x, d.any((d.dtype(x),), shape=shape)])


@recipe(12, "Einsum")
def einsum(d: Draw, op_type: str):
    i, j, k = (d.number(1, 4) for _ in range(3))
    rows = (
        ("ij,jk->ik", (i, j), (j, k)), ("ij,jk", (i, j), (j, k)), ("bij,bkj->bik", (2, i, j), (2, k, j)),  # noqa: E501
        ("...ij,...jk->...ik", (2, 1, i, j), (3, j, k)), ("ii->i", (i, i)), ("ij->", (i, j)),
        ("ij,ij->i", (i, j), (i, j)), ("i,j->ij", (i,), (j,)), ("ij->ji", (i, j)), ("...i->...", (2, i)),  # noqa: E501
        ("ij,jk,kl->il", (i, j), (j, k), (k, 2)), ("ba,b->a", (i, j), (i,)), ("i j , j k -> i k", (i, j), (j, k)),  # noqa: E501
    )  # fmt: skip
    equation, *shapes = d.one(rows)
    kind = d.one(("float32", "float32", "float64"))
    return d.node(op_type, [d.any((kind,), shape=s) for s in shapes], equation=equation)


@recipe(7, "RNN", "GRU", "LSTM")
def recurrent(d: Draw, op_type: str):
    t, b, n, h = d.number(1, 4), d.number(1, 3), d.number(1, 3), d.number(1, 3)
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op_type]
    direction = d.one((None, "forward", "reverse", "bidirectional"))
    k = 2 if direction == "bidirectional" else 1
    layout = d.one((None, 0, 0, 1)) if d.opset >= 14 and op_type == "RNN" else None
    x = d.any(("float32",), shape=(b, t, n) if layout else (t, b, n))
    more = [
        d.new(k, 2 * gates * h) if d.chance(0.6) else "",
        d.fixed([d.number(1, t) for _ in range(b)], "int32") if d.chance(0.4) else "",
        d.new(*((b, k, h) if layout else (k, b, h))) if d.chance(0.4) else "",
    ]
    a = {"direction": direction, "hidden_size": h, "layout": layout}
    a["clip"] = d.one((None, None, 0.7))
    if op_type == "GRU":
        a["linear_before_reset"] = d.one((None, 0, 1))
    if op_type == "LSTM":
        more += [d.new(k, b, h) if d.chance(0.4) else "", d.new(k, 3 * h) if d.chance(0.4) else ""]
        a["input_forget"] = d.one((None, None, 0, 1))
    if d.chance(0.3):
        count = {"RNN": 1, "GRU": 2, "LSTM": 3}[op_type] * k
        names = (
            "Tanh",
            "Sigmoid",
            "Relu",
            "Softsign",
            "Softplus",
            "Elu",
            "LeakyRelu",
            "HardSigmoid",
            "Affine",
            "ThresholdedRelu",
            "ScaledTanh",
        )
        a["activations"] = [d.one(names) for _ in range(count)]
        if d.chance(0.6):
            a["activation_alpha"] = [0.5] * count
            a["activation_beta"] = [0.3] * count
    while more and not more[-1] and d.chance(0.8):
        more.pop()
    outputs = d.number(1, 3 if op_type == "LSTM" else 2)
    w, r = d.new(k, gates * h, n), d.new(k, gates * h, h)
    return d.node(op_type, [x, w, r, *more], outputs, **a)


@recipe(10, "Resize")
def resize(d: Draw, op_type: str):
    mode = d.one(("nearest", "linear", "cubic"))
    dims = (1, d.number(1, 2), d.number(2, 5), d.number(2, 5))
    if mode == "nearest" and d.chance(0.3):
        dims = dims[1:]
    x = d.any(("float32",), shape=dims)
    rank = len(dims)
    scales = [1.0] * (rank - 2) + [d.one((0.5, 0.7, 1.0, 1.5, 2.0, 2.6)) for _ in range(2)]
    if d.opset < 11:
        if mode == "cubic":
            mode = "linear"
        return d.node(op_type, [x, d.fixed(scales, "float32")], mode=mode)
    coordinates = [
        "half_pixel",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        "tf_crop_and_resize",
    ]
    a = {"mode": mode, "coordinate_transformation_mode": d.one((None, *coordinates))}
    if d.opset >= 19 and d.chance(0.2):
        a["coordinate_transformation_mode"] = "half_pixel_symmetric"
    if mode == "nearest":
        modes = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        a["nearest_mode"] = d.one((None, *modes))
    if mode == "cubic":
        a["cubic_coeff_a"] = d.one((None, -0.5))
        a["exclude_outside"] = d.one((None, 0, 1))
    roi = ""
    if a["coordinate_transformation_mode"] == "tf_crop_and_resize":
        roi = d.fixed([0.0] * (rank - 2) + [0.1, 0.2] + [1.0] * (rank - 2) + [0.8, 1.1], "float32")
        a["extrapolation_value"] = d.one((None, 1.5))
    elif d.opset < 13:
        roi = d.fixed(np.zeros(0, np.float32), "float32")
    if d.opset >= 18:
        if mode != "nearest" and not roi:
            a["antialias"] = d.one((None, 0, 1))
        if d.chance(0.3) and not roi:
            a["axes"] = d.one(([rank - 2, rank - 1], [-2, -1]))
            a["keep_aspect_ratio_policy"] = d.one((None, "stretch", "not_larger", "not_smaller"))
            if d.chance(0.5):
                sizes = d.fixed([d.number(1, 7), d.number(1, 7)])
                return d.node(op_type, [x, "", "", sizes], **a)
            a.pop("keep_aspect_ratio_policy")
            return d.node(op_type, [x, "", d.fixed(scales[-2:], "float32")], **a)
    if d.chance(0.4):
        sizes = [*dims[:-2], d.number(1, 7), d.number(1, 7)]
        empty = "" if d.opset >= 13 else d.fixed(np.zeros(0, np.float32), "float32")
        return d.node(op_type, [x, roi, empty, d.fixed(sizes)], **a)
    return d.node(op_type, [x, roi, d.fixed(scales, "float32")], **a)


@recipe(7, "Upsample")
def upsample(d: Draw, op_type: str):
    if d.opset > 9:
        return resize(d, "Resize")
    x = d.any(("float32",), shape=(1, 2, d.number(1, 3), d.number(1, 3)))
    a, scales = {"mode": d.one((None, "nearest", "linear"))}, [1.0, 1.0, 2.0, d.one((1.0, 3.0))]
    if d.opset < 9:
        return d.node(op_type, [x], scales=scales, **a)
    return d.node(op_type, [x, d.fixed(scales, "float32")], **a)


@recipe(16, "GridSample")
def grid_sample(d: Draw, op_type: str):
    n, volume = d.number(1, 2), d.opset >= 20 and d.chance(0.3)
    dims = [d.number(2, 4) for _ in range(3 if volume else 2)]
    old = d.opset < 20
    modes = (None, "bilinear" if old else "linear", "nearest", "bicubic" if old else "cubic")
    a = {"mode": d.one(modes[:3] if volume else modes), "align_corners": d.one((None, 0, 1))}
    a["padding_mode"] = d.one((None, "zeros", "border", "reflection"))
    x = d.any(("float32",), shape=(n, 2, *dims))
    return d.node(op_type, [x, d.new(n, *dims, len(dims), low=-1.3, high=1.3)], **a)


@recipe(20, "AffineGrid")
def affine_grid(d: Draw, op_type: str):
    n, k = d.number(1, 2), d.number(2, 3)
    sizes = d.fixed([n, 2, *(d.number(1, 4) for _ in range(k))])
    return d.node(op_type, [d.new(n, k, k + 1), sizes], align_corners=d.one((None, 0, 1)))


@recipe(18, "Col2Im")
def col2im(d: Draw, op_type: str):
    h, w = d.number(3, 5), d.number(3, 5)
    x = d.any(("float32",), shape=(1, 2 * 4, (h - 1) * (w - 1)))
    return d.node(op_type, [x, d.fixed([h, w]), d.fixed([2, 2])])


@recipe(19, "DeformConv")
def deform_conv(d: Draw, op_type: str):
    x = d.any(("float32",), shape=(1, 2, 4, 4))
    more = [d.new(2)] if d.chance(0.5) else [""] if d.chance(0.5) else []
    if more and d.chance(0.5):
        more.append(d.new(1, 4, 3, 3))
    return d.node(op_type, [x, d.new(2, 2, 2, 2), d.new(1, 8, 3, 3), *more])


@recipe(10, "RoiAlign")
def roi_align(d: Draw, op_type: str):
    x = d.any(("float32",), shape=(2, 2, 6, 6))
    boxes = d.give(np.array([[0.5, 0.5, 4.2, 3.9], [1.1, 0.2, 5.0, 5.2]], np.float32))
    a = {"mode": d.one((None, "avg", "max")), "sampling_ratio": d.one((None, 0, 2))}
    a |= {"output_height": d.one((None, 2)), "output_width": d.one((None, 3))}
    if d.opset >= 16:
        a["coordinate_transformation_mode"] = d.one((None, "half_pixel", "output_half_pixel"))
    a["spatial_scale"] = d.one((None, 0.5))
    return d.node(op_type, [x, boxes, d.fixed([1, 0])], **a)


@recipe(23, "Attention")
def attention(d: Draw, op_type: str):
    b, t, s, n = d.number(1, 2), d.number(1, 3), d.number(1, 4), d.one((2, 4))
    kv = d.number(1, 2)
    heads = kv * d.number(1, 2)
    a = {
        "is_causal": d.one((None, 0, 1)),
        "softcap": d.one((None, 1.5)),
        "scale": d.one((None, 0.3)),
    }
    merged = d.chance(0.4)
    if merged:
        a |= {"q_num_heads": heads, "kv_num_heads": kv}
        xs = [
            d.any(("float32",), shape=(b, t, heads * n)),
            d.new(b, s, kv * n),
            d.new(b, s, kv * n),
        ]
    else:
        xs = [d.any(("float32",), shape=(b, heads, t, n)), d.new(b, kv, s, n), d.new(b, kv, s, n)]
    past = d.number(0, 2) if d.chance(0.4) else None
    total = s + (past or 0)
    mask = ""
    if d.chance(0.5):
        shape = d.one(((t, total), (1, 1, t, total), (b, heads, t, total)))
        mask = d.new(*shape, dtype=d.one(("float32", "bool")))
    outputs = d.one((1, 1, 3, 4))
    if past is not None:
        xs += [mask, d.new(b, kv, past, n), d.new(b, kv, past, n)]
        outputs = max(outputs, 3)
    elif mask:
        xs += [mask]
    if outputs == 3 and past is None:
        outputs = 1
    if outputs == 4:
        a["qk_matmul_output_mode"] = d.one((None, 0, 1, 2, 3))
    if d.opset >= 24 and past is None and d.chance(0.3):
        xs += [""] * (6 - len(xs)) + [d.fixed([d.number(1, s) for _ in range(b)])]
        outputs = 1
    return d.node(op_type, xs, outputs, **a)


@recipe(23, "RotaryEmbedding")
def rotary(d: Draw, op_type: str):
    b, t, h, n = d.number(1, 2), d.number(1, 3), d.number(1, 2), 4
    part = d.one((None, 0, 2, 4))
    width = (part or n) // 2
    a = {"rotary_embedding_dim": part, "interleaved": d.one((None, 0, 1))}
    if d.chance(0.5) or part:
        x = d.any(("float32",), shape=(b, t, h * n))
        a["num_heads"] = h
    else:
        x = d.any(("float32",), shape=(b, h, t, n))
    if d.chance(0.5):
        place = d.fixed(d.rng.integers(0, 6, (b, t)))
        return d.node(op_type, [x, d.new(6, width), d.new(6, width), place], **a)
    return d.node(op_type, [x, d.new(b, t, width), d.new(b, t, width)], **a)


@recipe(12, "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(d: Draw, op_type: str):
    c, rest = d.number(2, 4), d.dims(d.number(0, 2))
    x = d.any(("float32",), shape=(d.number(1, 3), c, *rest))
    shape = (d.shape(x)[0], *rest)
    ignored = d.one((None, None, 0, -1))
    labels = d.rng.integers(0 if ignored != -1 else -1, c, shape)
    weight = [d.new(c, low=0.1)] if d.chance(0.5) else []
    a = {"reduction": d.one((None, "none", "sum", "mean")), "ignore_index": ignored}
    outputs = d.number(1, 2) if op_type[0] == "S" else 1
    return d.node(op_type, [x, d.fixed(labels), *weight], outputs, **a)


@recipe(17, "DFT")
def dft(d: Draw, op_type: str):
    x = d.any(
        ("float32", "float64"),
        shape=(d.number(1, 2), d.number(2, 5), d.number(2, 4), d.number(1, 2)),
    )
    a = {"inverse": d.one((None, 0, 1)), "onesided": d.one((None, 0, 1))}
    length = d.fixed(d.number(2, 6)) if d.chance(0.4) else ""
    if d.opset < 20:
        return d.node(op_type, [x, length] if length else [x], axis=d.one((None, 1, 2, -2)), **a)
    more = [length, d.fixed(d.one((1, 2, -2, -3)))] if d.chance(0.6) else [length] if length else []
    return d.node(op_type, [x, *more], **a)


@recipe(17, "STFT")
def stft(d: Draw, op_type: str):
    x = d.any(("float32",), shape=(d.number(1, 2), d.number(8, 12), 1))
    a = {"onesided": d.one((None, 0, 1))}
    kind = d.number(0, 2)
    more = [[d.new(4, low=0.2)], [d.new(4, low=0.2), d.fixed(4)], ["", d.fixed(4)]][kind]
    return d.node(op_type, [x, d.fixed(d.number(1, 3)), *more], **a)


@recipe(17, "HannWindow", "HammingWindow", "BlackmanWindow")
def window(d: Draw, op_type: str):
    return d.node(
        op_type,
        [d.fixed(d.number(1, 6))],
        periodic=d.one((None, 0, 1)),
        output_datatype=d.one((None, 1, 11)),
    )


@recipe(17, "MelWeightMatrix")
def mel(d: Draw, op_type: str):
    return d.node(
        op_type,
        [
            d.fixed(4),
            d.fixed(16),
            d.fixed(8000),
            d.fixed(20.0, "float32"),
            d.fixed(3500.0, "float32"),
        ],
    )


@recipe(11, "Det")
def det(d: Draw, op_type: str):
    n = d.number(1, 3)
    return d.node(op_type, [d.any(("float32",), shape=(*d.dims(d.number(0, 2)), n, n))])


@recipe(10, "QuantizeLinear", "DequantizeLinear")
def quantized(d: Draw, op_type: str):
    x = d.any(("float32",), least=1)
    rank, a = len(d.shape(x)), {}
    kind = d.one(("uint8", "int8"))
    if d.opset >= 13 and d.chance(0.5):
        axis = d.axis(rank)
        a, n = {"axis": axis}, d.shape(x)[axis]
        scale, zero = d.give(d.array((n,), low=0.02, high=0.1)), d.give(d.array((n,), kind))
    else:
        scale, zero = d.give(np.float32(0.05)), d.give(d.array((), kind))
    if d.chance(0.2) and kind == "uint8":
        zero = ""
    parts = [scale, zero] if zero else [scale]
    (y,) = d.node("QuantizeLinear", [x, *parts], **a)
    return [y] if d.chance(0.2) else d.node("DequantizeLinear", [y, *parts], **a)


@recipe(11, "DynamicQuantizeLinear")
def dynamic(d: Draw, op_type: str):
    y, scale, zero = d.node(op_type, [d.any(("float32",))], 3)
    return d.node("DequantizeLinear", [y, scale, zero])


@recipe(10, "MatMulInteger", "ConvInteger")
def integers(d: Draw, op_type: str):
    if op_type == "ConvInteger":
        x, w = d.any(("uint8",), shape=(1, 2, 4, 4)), d.new(2, 2, 2, 2, dtype="uint8")
    else:
        x, w = d.any(("uint8", "int8"), shape=(2, 3)), d.new(3, 2, dtype=d.one(("uint8", "int8")))
    more = [d.give(np.array(1, d.dtype(x)))] if d.chance(0.5) else []
    if more and d.chance(0.5):
        more.append(d.give(np.array(2, d.dtype(w))))
    return d.node(op_type, [x, w, *more])


@recipe(10, "NonMaxSuppression")
def nms(d: Draw, op_type: str):
    boxes = np.sort(d.rng.random((1, 5, 2, 2)), 2).reshape(1, 5, 4).astype(np.float32)
    more = [d.fixed(3), d.fixed(0.4, "float32"), d.fixed(0.1, "float32")][: d.number(1, 3)]
    a = {"center_point_box": d.one((None, 0, 1))}
    return d.node(op_type, [d.give(boxes), d.new(1, 2, 5, low=0.0), *more], **a)
