"""Rows like those of `layer_rows` for the layers over images of two and of three axes."""

from dataclasses import dataclass

import numpy as np

from ...core.ops import reference_conv as cells
from ...core.ops.image import interpolate, roi
from .layer_rows import A, Dense, Image, L, P, Row, T, flat


@dataclass(frozen=True)
class Volume:
    """A row that is an image of three axes."""

    channels: int
    sizes: tuple  # depth, height, width

    @property
    def size(self):
        return self.channels * int(np.prod(self.sizes))

    def layer(self, name):
        return L.data(
            name=name,
            type=T.dense_vector(self.size),
            **dict(zip(("depth", "height", "width"), self.sizes, strict=True)),
        )

    def draw(self, rng, n):
        return rng.standard_normal((n, self.size)).astype(np.float32)

    def of(self, x):
        return x.reshape(-1, self.channels, *self.sizes)


@dataclass(frozen=True)
class Boxes:
    """Boxes [c1, c2, h1, h2, w1, w2] within an image of these sizes, counted from 1."""

    sizes: tuple

    def layer(self, name):
        return L.data(name=name, type=T.dense_vector(6))

    def draw(self, rng, n):
        ends = [np.sort(rng.integers(1, size + 1, (n, 2)), axis=1) for size in self.sizes]
        return np.concatenate(ends, axis=1).astype(np.float32)


@dataclass(frozen=True)
class Regions:
    """Rows [sample, x1, y1, x2, y2], one per sample, within and beyond an image of 6 x 5."""

    def layer(self, name):
        return L.data(name=name, type=T.dense_vector(5))

    def draw(self, rng, n):
        samples = rng.permutation(n)[:, None]
        corners = rng.integers(0, 4, (n, 2))
        return np.concatenate([samples, corners, corners + 3], axis=1).astype(np.float32)


IM, VOL = Image(2, 5, 6), Volume(2, (3, 4, 5))
WIDE = Image(4, 3, 4)


def im(v):
    return IM.of(v["im"])


def vol(v):
    return VOL.of(v["vol"])


def weighted(v, function, x, *shape, bias=True, **options):
    """A convolution of the tables of operators, over images of any rank."""
    shift = v["wbias"].reshape(-1) if bias else None
    return flat(function(x, v["w0"].reshape(shape), shift, **options))


CONVOLUTIONS = [
    Row(
        "trans",
        {"im": IM},
        lambda im: L.img_conv(
            im, filter_size=3, num_filters=4, stride=2, padding=1, trans=True, name="y"
        ),
        lambda v: np.maximum(
            weighted(v, cells.conv_transpose, im(v), 2, 4, 3, 3, strides=2, pads=1), 0
        ),
    ),
    Row(
        "trans-pairs-groups",
        {"im": IM},
        lambda im: L.img_conv(
            im,
            filter_size=(2, 3),
            num_filters=4,
            stride=(1, 2),
            padding=(1, 0),
            dilation=(2, 1),
            groups=2,
            trans=True,
            act=A.Linear(),
            bias_attr=False,
            name="y",
        ),
        lambda v: weighted(
            v,
            cells.conv_transpose,
            im(v),
            *(2, 2, 3, 2),
            bias=False,
            strides=[2, 1],
            pads=[0, 1],
            dilations=[1, 2],
            group=2,
        ),
    ),
    Row(
        "trans-bias-per-element",
        {"im": IM},
        lambda im: L.img_conv(
            im,
            filter_size=2,
            num_filters=1,
            trans=True,
            shared_biases=False,
            act=A.Tanh(),
            name="y",
        ),
        lambda v: np.tanh(
            weighted(v, cells.conv_transpose, im(v), 2, 1, 2, 2, bias=False) + v["wbias"].T
        ),
    ),
    Row(
        "3d",
        {"vol": VOL},
        lambda vol: L.img_conv3d(vol, filter_size=2, num_filters=3, name="y"),
        lambda v: np.maximum(weighted(v, cells.conv, vol(v), 3, 2, 2, 2, 2), 0),
    ),
    Row(
        "3d-triples-groups",
        {"vol": VOL},
        lambda vol: L.img_conv3d(
            vol,
            filter_size=(3, 2, 1),
            num_filters=2,
            stride=(2, 1, 1),
            padding=(1, 1, 0),
            groups=2,
            act=A.Linear(),
            name="y",
        ),
        lambda v: weighted(
            v, cells.conv, vol(v), 2, 1, 1, 2, 3, strides=[1, 1, 2], pads=[0, 1, 1], group=2
        ),
    ),
    Row(
        "3d-trans",
        {"vol": VOL},
        lambda vol: L.img_conv3d(
            vol, filter_size=2, num_filters=2, stride=2, trans=True, act=A.Linear(), name="y"
        ),
        lambda v: weighted(v, cells.conv_transpose, vol(v), 2, 2, 2, 2, 2, strides=2),
    ),
    Row(
        "3d-trans-of-other-channels",
        {"vol": VOL},
        lambda vol: L.img_conv3d(
            vol, filter_size=2, num_filters=1, padding=1, trans=True, act=A.Linear(), name="y"
        ),
        lambda v: weighted(v, cells.conv_transpose, vol(v), 2, 1, 2, 2, 2, pads=1),
    ),
]


def pyramid(x, height, kind):
    """Bin by bin: blocks [channels, bins] of each level."""
    blocks = []
    for level in range(height):
        bins = 2**level
        block = np.zeros((*x.shape[:2], bins, bins))
        for i, j in np.ndindex(bins, bins):
            spans = []
            for size, place in zip(x.shape[2:], (i, j), strict=True):
                window = -(-size // bins)
                first = place * window - (window * bins - size + 1) // 2
                spans.append(slice(max(first, 0), max(first + window, 0)))
            cell = x[:, :, spans[0], spans[1]].reshape(*x.shape[:2], -1)
            if cell.shape[2]:
                block[:, :, i, j] = cell.max(2) if kind == "max" else cell.mean(2)
        blocks.append(flat(block))
    return np.concatenate(blocks, 1)


POOLS = [
    Row(
        "pool3d-max",
        {"vol": VOL},
        lambda vol: L.img_pool3d(vol, pool_size=2, name="y"),
        lambda v: flat(cells.max_pool(vol(v), 2)),
    ),
    Row(
        "pool3d-max-triples",
        {"vol": VOL},
        lambda vol: L.img_pool3d(
            vol, pool_size=(3, 2, 2), stride=(2, 2, 1), padding=(1, 1, 0), name="y"
        ),
        lambda v: flat(cells.max_pool(vol(v), [2, 2, 3], [1, 2, 2], [0, 1, 1], ceil_mode=True)),
    ),
    Row(
        "pool3d-avg-sizes-apart",
        {"vol": VOL},
        lambda vol: L.img_pool3d(
            vol,
            pool_size=3,
            pool_size_y=2,
            pool_size_z=1,
            stride=1,
            stride_y=2,
            stride_z=1,
            padding=1,
            padding_y=0,
            padding_z=0,
            pool_type=P.Avg(),
            name="y",
        ),
        lambda v: flat(cells.avg_pool(vol(v), [1, 2, 3], [1, 2, 1], [0, 0, 1])),
    ),
    Row(
        "pool3d-floor",
        {"vol": VOL},
        lambda vol: L.img_pool3d(vol, pool_size=2, stride=2, ceil_mode=False, name="y"),
        lambda v: flat(cells.max_pool(vol(v), 2, 2)),
    ),
    *(
        Row(
            f"spp-{kind}-{height}",
            {"im": IM},
            lambda im, kind=kind, height=height: L.spp(
                im,
                pool_type={"max": P.Max, "avg": P.Avg}[kind](),
                pyramid_height=height,
                name="y",
            ),
            lambda v, kind=kind, height=height: pyramid(im(v), height, kind),
        )
        for kind, height in [("max", 1), ("max", 2), ("max", 4), ("avg", 3)]
    ),
]


def respond(x, size, scale, power=0.75):
    """Channel by channel, over those that lie in its window."""
    y = np.empty_like(x)
    for c in range(x.shape[1]):
        first = c - (size - 1) // 2
        around = x[:, max(first, 0) : first + size]
        y[:, c] = x[:, c] * (1 + scale / size * np.square(around).sum(1)) ** -power
    return y


def of_batch(v, x):
    """Normalised with the statistics of the batch, or the stored ones."""
    axes, column = (0, *range(2, x.ndim)), [1, -1] + [1] * (x.ndim - 2)
    mean, variance = (s.reshape(column) for s in (x.mean(axes), x.var(axes)))
    y = (x - mean) / np.sqrt(variance + 1e-5)
    return flat(y * v["w0"].reshape(column) + v["wbias"].reshape(column))


POOLS.append(
    Row(
        "roi-pool",
        {"im": IM, "rois": Regions()},
        lambda im, rois: L.roi_pool(im, rois, 4, 2, 1.0, name="y"),
        lambda v: flat(roi(im(v), v["rois"], [2, 4])),
    )
)

NORMS = [
    Row(
        "batch-norm-3d",
        {"vol": VOL},
        lambda vol: L.batch_norm(vol, img3D=True, use_global_stats=False, act=A.Linear(), name="y"),
        lambda v: of_batch(v, vol(v)),
    ),
    Row(
        "cmrnorm",
        {"wide": WIDE},
        lambda wide: L.img_cmrnorm(wide, size=3, scale=2.0, name="y"),
        lambda v: flat(respond(WIDE.of(v["wide"]), 3, 2.0)),
    ),
    Row(
        "cmrnorm-even",
        {"wide": WIDE},
        lambda wide: L.img_cmrnorm(wide, size=2, scale=1.0, power=0.5, name="y"),
        lambda v: flat(respond(WIDE.of(v["wide"]), 2, 1.0, 0.5)),
    ),
    Row(
        "cross-channel-norm",
        {"im": IM},
        lambda im: L.cross_channel_norm(im, name="y"),
        lambda v: flat(
            v["w0"].reshape(1, 2, 1, 1)
            * im(v)
            / np.sqrt(np.square(im(v)).sum(1, keepdims=True) + 1e-6)
        ),
    ),
]


def scaled(v, value):
    y = im(v).copy()
    for sample, box in zip(y, v["indices"].astype(int), strict=True):
        c1, c2, h1, h2, w1, w2 = box
        sample[c1 - 1 : c2, h1 - 1 : h2, w1 - 1 : w2] *= value
    return flat(y)


SHAPES = [
    Row(
        "maxout",
        {"wide": WIDE},
        lambda wide: L.maxout(wide, groups=2, name="y"),
        lambda v: flat(WIDE.of(v["wide"]).reshape(-1, 2, 2, 3, 4).max(2)),
    ),
    Row(
        "maxout-of-rows",
        {"x": Dense(27)},
        lambda x: L.maxout(x, groups=3, num_channels=3, name="y"),
        lambda v: v["x"].reshape(-1, 3, 9).max(1),
    ),
    Row(
        "pad",
        {"im": IM},
        lambda im: L.pad(im, pad_c=[1, 2], pad_w=[3, 0], name="y"),
        lambda v: flat(np.pad(im(v), [(0, 0), (1, 2), (0, 0), (3, 0)])),
    ),
    Row(
        "crop-to-a-layer",
        {"im": IM},
        lambda im: L.crop([im, L.img_pool(im, pool_size=3, name="p")], offset=[1, 2], name="y"),
        lambda v: flat(im(v)[:, :, 1:4, 2:6]),
    ),
    Row(
        "crop-one-offset",
        {"im": IM},
        lambda im: L.crop([im, L.img_pool(im, pool_size=3, name="p")], offset=1, name="y"),
        lambda v: flat(im(v)[:, :, 1:4, 1:5]),
    ),
    Row(
        "crop-to-a-shape",
        {"im": IM},
        lambda im: L.crop(im, offset=(1, 0, 2), axis=1, shape=[1, 1, 2, 3], name="y"),
        lambda v: flat(im(v)[:, 1:2, 0:2, 2:5]),
    ),
    Row(
        "crop-the-width",
        {"im": IM},
        lambda im: L.crop(im, offset=2, axis=3, shape=[1, 2, 5, 3], name="y"),
        lambda v: flat(im(v)[:, :, :, 2:5]),
    ),
    Row(
        "bilinear-interp",
        {"im": IM},
        lambda im: L.bilinear_interp(im, out_size_x=9, out_size_y=3, name="y"),
        lambda v: flat(interpolate(im(v), [3, 9])),
    ),
    Row(
        "switch-order",
        {"im": IM},
        lambda im: L.switch_order(im, act=A.Tanh(), name="y"),
        lambda v: flat(np.tanh(im(v).transpose(0, 2, 3, 1))),
    ),
    Row(
        "scale-sub-region",
        {"im": IM, "indices": Boxes((2, 5, 6))},
        lambda im, indices: L.scale_sub_region(im, indices=indices, value=-0.5, name="y"),
        lambda v: scaled(v, -0.5),
    ),
    Row(
        "layers-share-the-image",
        {"im": IM},
        lambda im: L.maxout(
            L.pad(L.bilinear_interp(im, out_size_x=3, out_size_y=2, name="b"), name="p"),
            groups=2,
            num_channels=2,
            name="y",
        ),
        lambda v: flat(interpolate(im(v), [2, 3]).max(1, keepdims=True)),
    ),
]

ROWS = [*CONVOLUTIONS, *POOLS, *NORMS, *SHAPES]
