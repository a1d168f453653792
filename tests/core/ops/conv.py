"""Rows of convolution and pooling."""

from pd_core import ops

from . import reference_conv as naive
from .case import case, distinct, normal


def _conv(label, x, w, bias=False, **options):
    """One row each for the convolution and for the operators its gradients are made of."""
    samples = [normal(*x), normal(*w), *([normal(w[0])] if bias else [])]
    return case("Conv", ops.conv, naive.conv, samples, label=label, **options)


CONV = [
    _conv("1-D", (2, 3, 7), (4, 3, 3)),
    _conv("1-D", (2, 3, 8), (4, 3, 3), strides=2, pads=[0, 2], dilations=2),
    _conv("1-D", (2, 2, 5), (2, 2, 1), strides=2),
    _conv("bias", (2, 3, 5, 6), (4, 3, 3, 3), bias=True),
    _conv("bias", (2, 3, 5), (4, 3, 2), bias=True, pads=1),
    _conv("1x1", (2, 3, 4, 5), (4, 3, 1, 1)),
    _conv("1x1", (2, 3, 5, 5), (4, 3, 1, 1), strides=2),
    _conv("whole image", (2, 3, 4, 5), (4, 3, 4, 5)),
    _conv("oblong", (2, 1, 5, 6), (2, 1, 2, 3), strides=[2, 1], pads=[1, 0]),
    _conv("remainder", (2, 2, 6, 8), (3, 2, 3, 3), strides=2),
    _conv("same", (2, 2, 4, 5), (3, 2, 3, 3), pads=1),
    _conv("asymmetric", (2, 2, 5, 5), (3, 2, 3, 3), strides=2, pads=[0, 1, 2, 0]),
    _conv("padded more than the window", (1, 1, 2, 2), (1, 1, 2, 2), pads=2),
    _conv("dilated", (2, 2, 7, 6), (3, 2, 3, 2), dilations=[2, 3], pads=1),
    _conv("dilated", (1, 2, 9, 9), (2, 2, 3, 3), dilations=2, strides=3, pads=[1, 0, 0, 2]),
    _conv("groups", (2, 4, 5, 5), (6, 2, 3, 3), group=2, pads=1),
    _conv("groups", (2, 4, 5), (4, 2, 2), group=2, strides=2),
    _conv("depthwise", (2, 3, 5, 5), (3, 1, 3, 3), group=3, strides=2, pads=1),
    _conv("depthwise", (2, 3, 5, 5), (6, 1, 3, 2), group=3, dilations=2),
    _conv("many channels", (1, 9, 4, 4), (2, 9, 3, 3), pads=1),
    _conv("many channels", (1, 18, 5, 6), (4, 9, 3, 3), group=2, strides=[2, 1], dilations=[1, 2]),
    _conv("many channels", (2, 33, 6), (2, 33, 2), strides=2),
    _conv("3-D", (1, 2, 3, 4, 3), (2, 2, 2, 2, 2)),
    _conv(
        "3-D", (1, 2, 4, 4, 5), (2, 1, 2, 1, 3), group=2, strides=[1, 2, 2], pads=[1, 0, 0, 0, 1, 1]
    ),
    _conv("3-D, many channels", (1, 9, 3, 3, 3), (2, 9, 2, 2, 2), pads=1, dilations=2),
]

# "same" and "valid", and what TensorFlow pads
NAMED = [
    ((2, 2, 6, 5), (3, 2, 3, 4), {"pads": "same"}, [1, 1, 1, 2]),
    ((2, 2, 7, 6), (2, 2, 3, 2), {"pads": "same", "strides": [2, 3]}, [1, 0, 1, 0]),
    ((1, 2, 9), (2, 2, 3), {"pads": "same", "dilations": 3}, [3, 3]),
    ((1, 2, 9), (2, 2, 2), {"pads": "same", "strides": 4}, [0, 1]),
    ((1, 2, 5), (2, 2, 2), {"pads": "valid"}, [0, 0]),
]
CONV += [
    case(
        "Conv",
        ops.conv,
        lambda x, w, widths=widths, **options: naive.conv(x, w, **{**options, "pads": widths}),
        [normal(*x), normal(*w)],
        **options,
    )
    for x, w, options, widths in NAMED
]


def _transposed(label, x, w, bias=False, **options):
    channels = w[1] * options.get("group", 1)
    samples = [normal(*x), normal(*w), *([normal(channels)] if bias else [])]
    return case(
        "ConvTranspose", ops.conv_transpose, naive.conv_transpose, samples, label=label, **options
    )


TRANSPOSED = [
    _transposed("1-D", (2, 3, 4), (3, 2, 3), strides=2),
    _transposed("", (2, 3, 3, 4), (3, 2, 3, 3)),
    _transposed("bias", (2, 3, 3, 4), (3, 2, 2, 2), bias=True, strides=2),
    _transposed("padded", (2, 3, 3, 4), (3, 2, 3, 3), strides=2, pads=[1, 0, 0, 1]),
    _transposed("larger", (2, 2, 3, 3), (2, 2, 3, 3), strides=2, pads=1, output_padding=1),
    _transposed("dilated", (1, 2, 3, 3), (2, 2, 2, 2), dilations=[2, 1]),
    _transposed("groups", (2, 4, 3, 3), (4, 1, 3, 3), group=2, strides=2, bias=True),
    _transposed("3-D", (1, 2, 2, 2, 3), (2, 1, 2, 2, 2), strides=2),
]

FORM = [
    case(
        "ConvInputGrad",
        ops.conv_input_grad,
        naive.conv_input_grad,
        [normal(3, 2, 3, 3), normal(2, 3, 2, 3), normal(2, 2, 4, 5)],
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        dilations=[1, 1],
        group=1,
        batch=(1, 2),
    ),
    case(
        "ConvFilterGrad",
        ops.conv_filter_grad,
        naive.conv_filter_grad,
        [normal(2, 2, 4, 5), normal(2, 3, 2, 3), normal(3, 2, 3, 3)],
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        dilations=[1, 1],
        group=1,
        batch=(0, 1),
    ),
]

GEOMETRIES = {
    "tiled": ((2, 2, 4, 6), {"window": 2, "strides": 2}),
    "tiled, remainder": ((2, 2, 5, 7), {"window": [2, 3], "strides": [2, 3]}),
    "tiled, padded": ((2, 1, 5, 6), {"window": 3, "strides": 3, "pads": [1, 0, 0, 0]}),
    "tiled, ceil": ((2, 1, 5, 7), {"window": 2, "strides": 2, "ceil_mode": True}),
    "overlapping": ((2, 2, 5, 6), {"window": 3, "strides": 2}),
    "overlapping, padded": ((1, 2, 5, 6), {"window": 3, "strides": 2, "pads": 1}),
    "overlapping, ceil": ((1, 2, 6, 5), {"window": 3, "strides": 2, "ceil_mode": True}),
    "padded, ceil": (
        (1, 1, 6, 7),
        {"window": 3, "strides": 2, "pads": [1, 0, 0, 1], "ceil_mode": True},
    ),
    "ceil would start in the padding": (
        (1, 1, 4, 4),
        {"window": 2, "strides": 3, "pads": 1, "ceil_mode": True},
    ),
    "ceil, one window": ((1, 2, 2, 3), {"window": 3, "strides": 2, "ceil_mode": True}),
    "ceil, gaps": ((1, 1, 8, 7), {"window": 1, "strides": 5, "pads": 0, "ceil_mode": True}),
    "every place": ((1, 2, 4, 4), {"window": 2}),
    "gaps": ((1, 1, 7, 6), {"window": 2, "strides": 3}),
    "gaps, padded": ((1, 1, 6, 6), {"window": 2, "strides": 4, "pads": [1, 1, 1, 1]}),
    "whole image": ((2, 2, 3, 4), {"window": [3, 4]}),
    "1-D": ((2, 2, 7), {"window": 2, "strides": 2}),
    "1-D, overlapping": ((2, 2, 8), {"window": 3, "strides": 2, "pads": [1, 0]}),
    "3-D": ((1, 2, 4, 4, 2), {"window": 2, "strides": 2}),
    "3-D, overlapping": ((1, 1, 4, 3, 3), {"window": 2, "strides": 1}),
}
POOL = [
    case("MaxPool", ops.max_pool, naive.max_pool, [distinct(*x)], label=label, **options)
    for label, (x, options) in GEOMETRIES.items()
]
POOL += [
    case(
        "MaxPool",
        ops.max_pool,
        naive.max_pool,
        [distinct(1, 2, 7, 8)],
        label="dilated",
        window=[2, 3],
        strides=2,
        pads=1,
        dilations=[3, 2],
    )
]
POOL += [
    case(
        "avg_pool" if include and "ceil_mode" in options else "AveragePool",
        ops.avg_pool,
        naive.avg_pool,
        [normal(*x)],
        label=label,
        include_pad=include,
        **options,
    )
    for label, (x, options) in GEOMETRIES.items()
    for include in (False, True)
    if "pads" in options or not include
]
POOL += [
    case(
        "TiedMaxPool",
        ops.max_pool,
        naive.max_pool,
        [distinct(*x)],
        label=label,
        ties="all",
        **options,
    )
    for label, (x, options) in GEOMETRIES.items()
    if label in ("tiled", "overlapping, padded", "3-D, overlapping")
]
POOL += [
    case(
        "MaxPool", ops.pool2d, lambda x: naive.max_pool(x, 2, 2), [distinct(2, 2, 4, 4)], label="2d"
    ),
    case(
        "AveragePool",
        lambda x: ops.pool2d(x, 3, 2, "avg", 1),
        lambda x: naive.avg_pool(x, 3, 2, 1),
        [normal(2, 2, 5, 5)],
        label="2d",
    ),
]


def _picked(function):
    """max_pool_grad or max_pool_pick of x and its pooled image."""

    def result(x, third, window, strides):
        geometry = {"kernel_shape": [window] * 2, "strides": [strides] * 2, "pads": [0] * 4}
        return function(x, ops.max_pool(x, window, strides), third, ceil_mode=0, **geometry)

    return result


def _naively(function):
    def result(x, third, window, strides):
        return function(x, naive.max_pool(x, window, strides), third, window, strides)

    return result


POOL_FORM = [
    case(
        name,
        _picked(function),
        _naively(reference),
        [distinct(2, 2, 5, 5), normal(2, 2, *size)],
        window=window,
        strides=strides,
        batch=(0, 1),
    )
    for window, strides in [(2, 2), (3, 2)]
    for name, function, reference, size in [
        ("MaxPoolGrad", ops.max_pool_grad, naive.max_pool_grad, (2, 2)),
        ("MaxPoolPick", ops.max_pool_pick, naive.max_pool_pick, (5, 5)),
    ]
] + [
    case(
        "AveragePoolGrad",
        lambda x, dy: ops.avg_pool_grad(
            x,
            dy,
            kernel_shape=[3, 3],
            strides=[2, 2],
            pads=[1, 1, 1, 1],
            ceil_mode=0,
            count_include_pad=0,
        ),
        lambda x, dy: naive.avg_pool_grad(x, dy, 3, 2, 1),
        [normal(2, 2, 5, 5), normal(2, 2, 3, 3)],
        batch=(0, 1),
    )
]

CASES = CONV + TRANSPOSED + FORM + POOL + POOL_FORM
