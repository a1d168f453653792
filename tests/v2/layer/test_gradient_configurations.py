"""The configurations whose gradients 2017's core was tested with, in smaller batches.

The derivative along a random direction of all inputs and parameters is compared with a difference
of values. Values have formulas of their own in the tables of the other tests here.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.attr import Param

from .layer_rows import A, Dense, Ids, Image, L, P, T
from .test_math_layers import Positive


@dataclass(frozen=True)
class Volume(Dense):
    """A row that is an image [channels, depth, height, width]."""

    channels: int = 1
    sizes: tuple = ()

    def layer(self, name):
        depth, height, width = self.sizes
        kind = T.dense_vector(self.size)
        return L.data(name=name, type=kind, depth=depth, height=height, width=width)


def volume(channels, *sizes):
    return Volume(channels * int(np.prod(sizes)), channels, sizes)


@dataclass(frozen=True)
class Given:
    """Numbers that are no input of a gradient: rows made by draw(rng, n)."""

    size: int
    draw: Callable

    def layer(self, name):
        return L.data(name=name, type=T.dense_vector(self.size))


@dataclass(frozen=True)
class Steps(Dense):
    """Sequences of rows; `lengths` of a batch."""

    lengths: tuple = (3, 0, 1, 5)

    def layer(self, name):
        return L.data(name=name, type=T.dense_vector_sequence(self.size))

    def draw(self, rng, n):
        return rng.standard_normal((sum(self.lengths), self.size)).astype(np.float32)


def mixed(*projections, **options):
    return L.mixed(input=list(projections), **options)


def context(start, length, padding):
    return lambda x: mixed(
        L.context_projection(x, length, start, None if padding else False), act=A.Sigmoid()
    )


def selected(rng, n):
    """Rows with ones at 5 of 256 columns."""
    rows = np.zeros((n, 256), np.float32)
    for row in rows:
        row[rng.choice(256, 5, replace=False)] = 1.0
    return rows


def regions(rng, n):
    """Rows [image, x1, y1, x2, y2] in an image of 224 x 224 pixels."""
    starts = rng.integers(0, 200, (n, 2))
    ends = starts + rng.integers(0, 24, (n, 2))
    return np.concatenate([rng.integers(0, n, (n, 1)), starts, ends], 1).astype(np.float32)


def boxes(rng, n):
    return np.tile(np.float32([2, 4, 16, 32, 16, 32]), (n, 1))


def multibox(loc, conf):
    """One map of 3 x 3 cells, 21 classes, and an object in each image that a prior overlaps."""
    image = L.data(name="im", type=T.dense_vector(900), height=30, width=30)
    priors = L.priorbox(
        input=loc, image=image, aspect_ratio=[], variance=[0.1, 0.1, 0.2, 0.2], min_size=[9]
    )
    label = L.data(name="label", type=T.dense_vector_sequence(6))
    return L.multibox_loss(loc, conf, priors, label, num_classes=21)


IM, CHANNELS = Image(3, 16, 16), Image(16, 14, 14)
SIZES = {"filter_size": 2, "stride": 2, "padding": 0, "padding_y": 1}


def interpolated(size):
    def build(im):
        x = L.img_conv(im, filter_size=1, num_filters=4, act=A.Linear(), name="c")
        return L.bilinear_interp(x, out_size_x=size, out_size_y=size)

    return build


def pool(kind, **options):
    return lambda im: L.img_pool(im, pool_size=3, stride=2, pool_type=kind(), **options)


def pool3d(kind):
    return lambda im: L.img_pool3d(im, 3, stride=2, pool_type=kind(), num_channels=4)


def pyramid(kind, height):
    return lambda im: L.spp(im, pool_type=kind(), pyramid_height=height)


def prelu(channels):
    return lambda x: L.prelu(x, partial_sum=192 // channels)


def spatial(im, **options):
    return L.img_conv3d(im, 3, 6, stride=2, num_channels=3, act=A.Sigmoid(), **options)


# Columns: the inputs, the layer.
CONFIGURATIONS = {
    "context -2 5 trained": ({"x": Steps(10)}, context(-2, 5, True)),
    "context -2 5": ({"x": Steps(10)}, context(-2, 5, False)),
    "context -1 1 trained": ({"x": Steps(10)}, context(-1, 1, True)),
    "context 0 3 trained": ({"x": Steps(10)}, context(0, 3, True)),
    "context 1 2": ({"x": Steps(10)}, context(1, 2, False)),
    "trans_fc": ({"x": Dense(50)}, lambda x: mixed(L.trans_full_matrix_projection(x, 20))),
    "full matrix": ({"x": Dense(10)}, lambda x: mixed(L.full_matrix_projection(x, 20))),
    "dot_mul projection": ({"x": Dense(20)}, lambda x: mixed(L.dotmul_projection(x))),
    "scaling projection": ({"x": Dense(10)}, lambda x: mixed(L.scaling_projection(x))),
    "identity": ({"x": Dense(10)}, lambda x: mixed(L.identity_projection(x))),
    "table": ({"x": Ids(10)}, lambda x: mixed(L.table_projection(x, 20))),
    "dot_mul operator": (
        {"x": Dense(10), "z": Dense(10)},
        lambda x, z: mixed(L.dotmul_operator(x, z, scale=0.5)),
    ),
    "slices": (
        {"im": Image(10, 2, 5)},
        lambda im: mixed(
            L.slice_projection(
                L.img_conv(im, filter_size=1, num_filters=10, act=A.Tanh()), [(1, 2), (5, 7)]
            )
        ),
    ),
    "bilinear 32": ({"im": Image(4, 32, 32)}, interpolated(32)),
    "bilinear 64": ({"im": Image(4, 32, 32)}, interpolated(64)),
    "concat": ({"x": Dense(5), "z": Dense(10)}, lambda x, z: L.concat([x, z], act=A.Sigmoid())),
    "addto": (
        {"x": Dense(10), "z": Dense(10)},
        lambda x, z: L.addto([x, z], act=A.Sigmoid(), bias_attr=True),
    ),
    "cos": ({"x": Dense(50), "z": Dense(50)}, lambda x, z: L.cos_sim(x, z)),
    "cos_vm": (
        {"x": Dense(20), "z": Dense(100)},
        lambda x, z: L.cos_sim(x, z, size=5, scale=2.0),
    ),
    "depthwise": (
        {"im": Image(16, 8, 16)},
        lambda im: L.img_conv(
            im, **SIZES, filter_size_y=3, num_filters=32, groups=16, act=A.Tanh()
        ),
    ),
    "conv": (
        {"im": IM},
        lambda im: L.img_conv(im, **SIZES, num_filters=16, dilation=2, act=A.Tanh()),
    ),
    "conv transposed": (
        {"im": Image(16, 8, 8)},
        lambda im: L.img_conv(
            im, **SIZES, filter_size_y=4, num_filters=3, trans=True, act=A.Tanh()
        ),
    ),
    "conv operator": (
        {"im": Image(3, 9, 16), "w": Dense(2 * 3 * 3 * 16)},
        lambda im, w: mixed(
            L.conv_operator(im, w, filter_size_y=3, num_filters=16, num_channels=3, **SIZES)
        ),
    ),
    "conv operator transposed": (
        {"im": Image(3, 5, 8), "w": Dense(2 * 3 * 3 * 16)},
        lambda im, w: mixed(
            L.conv_operator(
                im, w, filter_size_y=3, num_filters=16, num_channels=3, trans=True, **SIZES
            )
        ),
    ),
    "conv projection in groups": (
        {"im": IM},
        lambda im: mixed(L.conv_projection(im, num_filters=18, num_channels=3, groups=3, **SIZES)),
    ),
    "conv projection transposed": (
        {"im": Image(3, 8, 8)},
        lambda im: mixed(
            L.conv_projection(im, num_filters=18, num_channels=3, groups=3, trans=True, **SIZES)
        ),
    ),
    "conv3d": ({"im": volume(3, 9, 9, 9)}, spatial),
    "deconv3d": ({"im": volume(3, 3, 3, 2)}, lambda im: spatial(im, trans=True)),
    "blockexpand": (
        {"im": Image(3, 32, 64)},
        lambda im: L.block_expand(im, block_x=4, block_y=32, stride_x=2, stride_y=2),
    ),
    "maxout": (
        {"im": Image(4, 32, 32)},
        lambda im: L.maxout(im, groups=2),
    ),
    "fc": ({"x": Dense(200)}, lambda x: L.fc(x, 100, A.Sigmoid())),
    "selective_fc": (
        {"x": Dense(16), "select": Given(256, selected)},
        lambda x, select: L.selective_fc(x, 256, select=select, act=A.Sigmoid()),
    ),
    "conv_shift": ({"x": Dense(10), "z": Dense(3)}, lambda x, z: L.conv_shift(x, z)),
    "power": ({"x": Positive(10), "w": Dense(1)}, lambda x, w: L.power(x, weight=w)),
    "convex_comb": (
        {"w": Dense(5), "x": Dense(100)},
        lambda w, x: L.convex_comb(weights=w, vectors=x, size=20),
    ),
    "interpolation": (
        {"x": Dense(10), "z": Dense(10), "w": Dense(1)},
        lambda x, z, w: L.interpolation([x, z], weight=w),
    ),
    "dot_prod": ({"x": Dense(10), "z": Dense(10)}, lambda x, z: L.dot_prod(x, z)),
    "out_prod": ({"x": Dense(10), "z": Dense(10)}, lambda x, z: L.out_prod(x, z)),
    "slope_intercept": (
        {"x": Dense(10)},
        lambda x: L.slope_intercept(x, slope=1.0, intercept=0.1),
    ),
    "scaling": ({"x": Dense(10), "w": Dense(1)}, lambda x, w: L.scaling(x, weight=w)),
    "cmrnorm": (
        {"im": Image(16, 7, 14)},
        lambda im: L.img_cmrnorm(im, size=5, scale=0.001, power=0.75),
    ),
    "pool avg": ({"im": CHANNELS}, pool(P.Avg)),
    "pool avg of whole windows": ({"im": CHANNELS}, pool(P.Avg, exclude_mode=False)),
    "pool max": ({"im": CHANNELS}, pool(P.Max)),
    "pool max with mask": ({"im": CHANNELS}, pool(P.MaxWithMask)),
    "pool max apart": (
        {"im": Image(16, 20, 10)},
        lambda im: L.img_pool(im, 3, pool_size_y=4, stride=2, stride_y=3, pool_type=P.CudnnMax()),
    ),
    "pool3d avg": ({"im": volume(4, 9, 9, 9)}, pool3d(P.Avg)),
    "pool3d max": ({"im": volume(4, 9, 9, 9)}, pool3d(P.Max)),
    "spp avg 1": ({"im": Image(16, 20, 10)}, pyramid(P.Avg, 1)),
    "spp avg 3": ({"im": Image(16, 20, 10)}, pyramid(P.Avg, 3)),
    "spp max 2": ({"im": Image(16, 20, 10)}, pyramid(P.Max, 2)),
    "spp max 3": ({"im": Image(16, 20, 10)}, pyramid(P.Max, 3)),
    "tensor": ({"x": Dense(5), "z": Dense(5)}, lambda x, z: L.tensor(x, z, 10, A.Sigmoid())),
    "prelu of all": ({"x": Image(3, 8, 8)}, prelu(1)),
    "prelu of channels": ({"x": Image(3, 8, 8)}, prelu(3)),
    "prelu of each": ({"x": Image(3, 8, 8)}, prelu(192)),
    "resize": ({"x": Dense(16)}, lambda x: L.resize(x, 64)),
    "rotate": ({"x": Dense(64)}, lambda x: L.rotate(x, height=8, width=4)),
    "trans": ({"x": Dense(25)}, lambda x: L.trans(x)),
    "batch_norm": ({"im": Image(10, 8, 16)}, lambda im: L.batch_norm(im, act=A.Sigmoid())),
    "batch_norm of volumes": (
        {"im": volume(10, 4, 4, 8)},
        lambda im: L.batch_norm(im, act=A.Sigmoid(), img3D=True, num_channels=10),
    ),
    "featmap_expand in rows": ({"x": Steps(100)}, lambda x: L.repeat(x, 10)),
    "featmap_expand in columns": (
        {"x": Steps(100)},
        lambda x: L.repeat(x, 10, as_row_vector=False),
    ),
    "multiplex": (
        {"k": Ids(2), "x": Dense(100), "z": Dense(100)},
        lambda k, x, z: L.multiplex([k, x, z]),
    ),
    "pad": (
        {"im": Image(4, 31, 36)},
        lambda im: L.pad(im, pad_c=[1, 2], pad_h=[2, 3], pad_w=[3, 5]),
    ),
    "cross-channel-norm": (
        {"im": Image(10, 2, 5)},
        lambda im: L.cross_channel_norm(im, param_attr=Param(initial_mean=1.0, initial_std=0.0)),
    ),
    "multibox_loss": ({"loc": Image(4, 3, 3), "conf": Image(21, 3, 3)}, multibox),
    "row_conv": ({"x": Steps(64)}, lambda x: L.row_conv(x, 3, act=A.Sigmoid())),
    "crop": (
        {"im": Image(4, 16, 16), "z": Image(2, 8, 8)},
        lambda im, z: L.crop([im, z], offset=[0, 0], axis=2),
    ),
    "roi_pool": (
        {"im": Image(3, 14, 14), "rois": Given(5, regions)},
        lambda im, rois: L.roi_pool(im, rois, 7, 7, spatial_scale=1 / 16),
    ),
    "switch_order": ({"im": Image(4, 16, 16)}, lambda im: L.switch_order(im, reshape_axis=3)),
    "clip": ({"x": Dense(512)}, lambda x: L.clip(x, min=0.2, max=0.7)),
    "row_l2_norm": ({"x": Dense(512)}, lambda x: L.row_l2_norm(x)),
    "sum_to_one_norm": ({"x": Positive(12)}, lambda x: L.sum_to_one_norm(x)),
    "scale_shift": ({"x": Dense(32)}, lambda x: L.scale_shift(x)),
    "scale_sub_region": (
        {"im": Image(4, 32, 32), "box": Given(6, boxes)},
        lambda im, box: L.scale_sub_region(im, box, value=2.0),
    ),
    "l2_distance": ({"x": Dense(27), "z": Dense(27)}, lambda x, z: L.l2_distance(x, z)),
    "factorization_machine": (
        {"x": Dense(128)},
        lambda x: L.factorization_machine(x, factor_size=10),
    ),
}


def apart(rng, shape):
    """Rows of numbers that differ by more than a step of the test, among them and from 0."""
    size = shape[1] + shape[1] % 2
    values = np.linspace(-2, 2, size, dtype=np.float32)[: shape[1]]
    return np.array([rng.permutation(values) for _ in range(shape[0])]).reshape(shape)


def fed(inputs, layers, rng, n):
    """(feeds by variable, the variables with a gradient)."""
    feeds, moved = {}, []
    for name, kind in inputs.items():
        x = layers[name]
        rows = kind.draw(rng, n)
        if type(kind) in (Image, Volume):
            rows = apart(rng, rows.shape)
        feeds[x] = rows
        if isinstance(kind, Steps):
            feeds[x.inputs[1]] = np.array(kind.lengths)
        if rows.dtype.kind == "f" and not isinstance(kind, Given):
            moved.append(x)
    return feeds, moved


def objects():
    """The label of `multibox` for one image: an object around the cell in the middle."""
    rows = np.float32([[3, 0.35, 0.35, 0.65, 0.65, 0]])
    return dict(zip(L.get_layer("label").inputs, [rows, np.array([1])], strict=True))


@pytest.mark.parametrize("inputs, build", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_derivative_along_a_direction(inputs, build, rng):
    layers = {name: kind.layer(name) for name, kind in inputs.items()}
    y = build(**layers)
    feeds, moved = fed(inputs, layers, rng, 1 if build is multibox else 4)
    feeds |= objects() if build is multibox else {}
    parameters = paddle.parameters.create(y)
    learned = [n for n in parameters.names() if not parameters.__param_conf__[n].is_static]
    start = [rng.normal(0, 0.5, parameters.get_shape(n)).astype(np.float32) for n in learned]

    def computed(targets, arrays, weights):
        for name, value in zip(learned, weights, strict=True):
            parameters.set(name, value)
        fed = feeds | dict(zip(moved, arrays, strict=True))
        return pd.eval(targets, fed, training=True)

    known = [feeds[x] for x in moved]
    value = computed(y, known, start)
    seed = rng.standard_normal(value.shape).astype(np.float32)
    targets = [*moved, *map(pd.get_variable, learned)]
    gradients = pd.gradients(y, targets, seeds=[pd.constant(seed)])
    ways = [rng.choice(np.float32([-1, 1]), v.shape) for v in (*known, *start)]
    reached = [k for k, g in enumerate(gradients) if g is not None]
    found = computed([gradients[k] for k in reached], known, start)
    flat = [np.float64(g).reshape(-1) for g in found]
    slope = sum(g @ ways[k].reshape(-1) for k, g in zip(reached, flat, strict=True))
    size = np.sqrt(sum(g @ g for g in flat))  # the expected size of a slope

    def projected(step):
        there = [v + np.float32(step) * w for v, w in zip((*known, *start), ways, strict=True)]
        result = computed(y, there[: len(moved)], there[len(moved) :])
        return np.sum(result.astype(np.float64) * seed)

    step = 2.0**-12
    assert size > 0
    assert abs(slope - (projected(step) - projected(-step)) / (2 * step)) < 0.01 * size
