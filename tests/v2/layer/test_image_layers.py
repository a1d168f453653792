"""Layers over images of two and of three axes: each against its formula, geometry, mistakes."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import settings
from pd_v2.attr import Param

from . import layer_checks as layers
from .image_rows import IM, ROWS, Boxes, Volume, pyramid
from .layer_rows import Dense, Image, L, P, T


class TestRows(layers.LayerChecks):
    """Layers over images, each against its formula."""

    rows = ROWS


# ---- names, geometry and records


def image(name="im"):
    return L.data(name=name, type=T.dense_vector(2 * 6 * 8), height=6, width=8)


def volume(name="vol"):
    return Volume(2, (4, 6, 8)).layer(name)


def test_automatic_names():
    x, v = image(), volume()
    made = [
        L.img_conv(x, filter_size=1, num_filters=1, trans=True),
        L.img_conv3d(v, filter_size=1, num_filters=1),
        L.img_pool3d(v, pool_size=1),
        L.spp(x, pyramid_height=1),
        L.img_cmrnorm(x, size=3),
        L.cross_channel_norm(x),
        L.maxout(x, groups=2),
        L.pad(x),
        L.crop(x, offset=0, shape=[1, 2, 1, 1]),
        L.bilinear_interp(x, out_size_x=1, out_size_y=1),
        L.scale_sub_region(x, L.data(name="box", type=T.dense_vector(6)), 1),
        L.roi_pool(x, L.get_layer("box"), 1, 1, 1.0),
        L.switch_order(x),
    ]
    assert [y.name for y in made] == [
        *("__conv_0__", "__conv3d_0__", "__pool3d_0__", "__spp_0__", "__crmnorm_0__"),
        *("__cross_channel_norm_0__", "__maxout_layer_0__", "__pad_0__", "__crop_layer_0__"),
        *("__bilinear_interp_layer_0__", "__scale_sub_region_0__", "__roi_pool_0__"),
        "__switch_order_0__",
    ]


# Columns: what is built, its channels, depth, height and width, its layer_type.
# fmt: off
GEOMETRY = [
    (lambda im, **_: L.img_conv(im, 3, 5, stride=2, padding=1, trans=True),
     (5, 1, 11, 15), "convt"),
    (lambda vol, **_: L.img_conv3d(vol, (1, 2, 3), 5), (5, 2, 5, 8), "conv3d"),
    (lambda vol, **_: L.img_conv3d(vol, 2, 5, stride=2, trans=True), (5, 8, 12, 16), "deconv3d"),
    (lambda vol, **_: L.img_pool3d(vol, 3, stride=2), (2, 2, 3, 4), "pool"),
    (lambda vol, **_: L.img_pool3d(vol, 3, stride=2, ceil_mode=False), (2, 1, 2, 3), "pool"),
    (lambda vol, **_: L.batch_norm(vol, img3D=True), (2, 4, 6, 8), "batch_norm"),
    (lambda vol, **_: L.batch_norm(L.img_conv3d(vol, 3, 5), img3D=True),
     (5, 2, 4, 6), "batch_norm"),
    (lambda im, **_: L.spp(im, pyramid_height=3), (2, 1, 1, 21), "spp"),
    (lambda im, **_: L.img_cmrnorm(im, size=5), (2, 1, 6, 8), "norm"),
    (lambda im, **_: L.cross_channel_norm(im), (2, 1, 6, 8), "norm"),
    (lambda im, **_: L.maxout(im, groups=2), (None, 1, 6, 8), "maxout"),
    (lambda im, **_: L.pad(im, pad_c=[1, 0], pad_h=[2, 3]), (3, 1, 11, 8), "pad"),
    (lambda im, **_: L.crop(im, offset=1, shape=[1, 2, 3, 4]), (None, 1, 3, 4), "crop"),
    (lambda im, **_: L.bilinear_interp(im, out_size_x=5, out_size_y=9),
     (2, 1, 9, 5), "bilinear_interp"),
    (lambda im, box, **_: L.roi_pool(im, box, 3, 4, 0.5), (None, 1, 4, 3), "roi_pool"),
    (lambda im, box, **_: L.scale_sub_region(im, box, 2.0), (2, 1, 6, 8), "scale_sub_region"),
]
# fmt: on


@pytest.mark.parametrize(("build_layer", "geometry", "layer_type"), GEOMETRY)
def test_geometry(build_layer, geometry, layer_type):
    box = L.data(name="box", type=T.dense_vector(6))
    y = build_layer(im=image(), vol=volume(), box=box)
    assert (y.num_filters, y.depth, y.height, y.width) == geometry
    assert y.layer_type == layer_type
    if y.num_filters:
        assert y.size == np.prod(geometry)


def test_a_gpu_changes_the_type_of_a_transposed_convolution(monkeypatch):
    monkeypatch.setattr(settings._process, "settings", settings.Settings(use_gpu=True))
    conv = L.img_conv(image(), filter_size=1, num_filters=1, trans=True)
    plain = L.img_conv(conv, filter_size=1, num_filters=1, trans=True, layer_type="exconvt")
    assert (conv.config.type, plain.config.type) == ("cudnn_convt", "exconvt")


def test_parameters_of_transposed_filters():
    y = L.img_conv(image(), filter_size=(3, 5), num_filters=4, groups=2, trans=True, name="y")
    conf = paddle.parameters.create(y).__param_conf__
    assert (list(conf["_y.w0"].dims), conf["_y.w0"].size) == ([], 2 * 2 * 5 * 3)
    assert conf["_y.w0"].initial_std == pytest.approx(np.sqrt(2 / (3**2 * 2)))
    assert list(conf["_y.wbias"].dims) == [4, 1]


def test_a_weight_per_channel_starts_as_it_is_told():
    y = L.cross_channel_norm(image(), name="y", param_attr=Param(initial_mean=20, initial_std=0))
    pool = paddle.parameters.create(y)
    np.testing.assert_array_equal(pool.get("_y.w0"), np.full((2, 1), 20.0))


def test_the_width_of_a_cropped_layer_and_its_record():
    y = L.crop([image(), Image(1, 2, 3).layer("ref")], offset=[1, 2])
    assert (y.size, y.config.size) == (2 * 2 * 3, 1 * 2 * 3)
    assert L.fc(y, size=3).size == 3


@pytest.mark.parametrize("axis", [2, 3])
def test_pixels_become_rows(axis, rng):
    x = IM.layer("x")
    y = L.switch_order(x, reshape_axis=axis)
    value = IM.draw(rng, 3)
    expected = IM.of(value).transpose(0, 2, 3, 1).reshape(-1, 12 if axis == 2 else 2)
    np.testing.assert_array_equal(pd.eval(y, {x: value}), expected)
    assert pd.eval(y, {x: value[:0]}).shape == (0, y.size)
    (found,) = pd.gradients(pd.square(y), [x])
    np.testing.assert_allclose(pd.eval(found, {x: value}), 2 * value, rtol=1e-6)
    conf = y.config.reshape_conf
    assert [*conf.height_axis] == [0, 1, 2][:axis]
    assert [*conf.height_axis, *conf.width_axis] == [0, 1, 2, 3]


def test_a_window_of_the_pyramid_that_lies_outside_gives_0():
    x = L.data(name="x", type=T.dense_vector(5), height=1, width=5)
    y = L.spp(x, pyramid_height=3)
    found = pd.eval(y, {x: [[-1.0, -2.0, -3.0, -4.0, -5.0]]})
    expected = pyramid(-np.arange(1.0, 6.0).reshape(1, 1, 1, 5), 3, "max")
    np.testing.assert_array_equal(found, expected)
    assert (expected == 0).any()


# fmt: off
MISTAKES = [
    (lambda x, **_: L.maxout(x, groups=2), pd.ShapeError,
     "(?s)maxout layer .*the number of channels of 'x' is not known.*hint: give num_channels"),
    (lambda im, **_: L.maxout(im, groups=3), pd.ShapeError,
     "2 channels do not split into groups of 3"),
    (lambda im, **_: L.maxout(im, groups=1), pd.GraphError,
     "groups is a whole number of at least 2, not 1"),
    (lambda im, **_: L.pad(im, pad_h=[1]), pd.GraphError,
     r"pad layer .*: pad_h is two widths \[before, after\], not \[1\]"),
    (lambda im, **_: L.pad(im, pad_c=[1, -1]), pd.GraphError,
     "pad_c is a whole number of at least 0, not -1"),
    (lambda im, **_: L.pad(im, pad_w=3), pd.GraphError, "pad_w is two widths .* not 3"),
    (lambda im, **_: L.crop(im, offset=1), pd.GraphError,
     "crop layer .*: takes one layer and a shape, or two layers"),
    (lambda im, **_: L.crop([im, im], offset=1, shape=[1, 2, 2, 2]), pd.GraphError,
     "takes one layer and a shape, or two layers"),
    (lambda im, **_: L.crop([im, im, im], offset=1), pd.GraphError,
     "takes one layer and a shape, or two layers"),
    (lambda im, **_: L.crop(im, offset=1, axis=0, shape=[1, 1, 1, 1]), pd.GraphError,
     r"axis is 1, 2 or 3 \(channel, height, width\), not 0"),
    (lambda im, **_: L.crop(im, offset=[1, 2, 3], shape=[1, 1, 1, 1]), pd.GraphError,
     r"an offset for each of the axes 2 to 3, or one, not \[1, 2, 3\]"),
    (lambda im, **_: L.crop(im, offset=[1, 2], shape=[1, 2, 3, 7]), pd.ShapeError,
     "2 to 9 on axis 3 is not within 8"),
    (lambda im, **_: L.crop(im, offset=[-1], shape=[1, 2, 3, 7]), pd.GraphError,
     "offset is a whole number of at least 0, not -1"),
    (lambda im, **_: L.crop(im, offset=[0], shape=[3, 7]), pd.ShapeError,
     r"the result has four sizes, known from axis 2 on, not \[3, 7\]"),
    (lambda im, x, **_: L.crop([im, x], offset=[0]), pd.ShapeError,
     r"the result has four sizes, known from axis 2 on, not \[None, None, 0, 0\]"),
    (lambda im, **_: L.bilinear_interp(im, out_size_x=3), pd.GraphError,
     "bilinear_interp layer .*: out_size_y is a whole number of at least 1, not None"),
    (lambda im, x, **_: L.scale_sub_region(im, x, 1.0), pd.ShapeError,
     "scale_sub_region layer .*: a box is 6 numbers, not x: float32"),
    (lambda im, x, **_: L.roi_pool(im, x, 1, 1, 1.0), pd.ShapeError,
     "roi_pool layer .*: a region is 5 numbers or more, not x: float32"),
    (lambda im, box, **_: L.roi_pool(im, box, 0, 1, 1.0), pd.GraphError,
     "pooled_width is a whole number of at least 1, not 0"),
    (lambda im, **_: L.switch_order(im, reshape_axis=4), pd.GraphError,
     r"reshape_axis is 1, 2 or 3 \(height, width, channel\), not 4"),
    (lambda im, **_: L.spp(im), pd.GraphError,
     "spp layer .*: pyramid_height is a whole number of at least 1, not None"),
    (lambda im, **_: L.spp(im, pyramid_height=0), pd.GraphError,
     "pyramid_height is a whole number of at least 1, not 0"),
    (lambda im, **_: L.spp(im, pyramid_height=1, pool_type=P.Sum()), TypeError,
     "layer '__spp_0__': pool_type is one of Max, Avg"),
    (lambda im, **_: L.img_cmrnorm(im, size=0), pd.GraphError,
     "img_cmrnorm layer .*: size is a whole number of at least 1, not 0"),
    (lambda x, **_: L.cross_channel_norm(x), pd.ShapeError, "the number of channels of 'x'"),
    (lambda im, **_: L.img_conv(im, 3, 4, trans=True, layer_type="exconv"), pd.GraphError,
     "layer_type is exconvt or cudnn_convt, not 'exconv'"),
    (lambda im, **_: L.img_conv(im, 3, 3, trans=True, groups=2), pd.ShapeError,
     "2 channels and 3 filters do not split into 2 groups"),
    (lambda im, **_: L.img_conv(im, 1, 4, padding=4, trans=True), pd.ShapeError,
     "img_conv layer .*: conv_transpose: the result is 6 wide on axis 2, 8 are cut"),
    (lambda im, **_: L.img_conv3d(im, 3, 4), pd.ShapeError,
     "img_conv3d layer .*: conv: the window is 3 wide on axis 2"),
    (lambda x, **_: L.img_conv3d(x, 3, 4, num_channels=1), pd.ShapeError,
     "'x' is 4 wide, which is not 1 channels of 1 x 0 x 0 pixels"),
    (lambda vol, **_: L.img_conv3d(vol, (3, 3), 4), pd.GraphError,
     r"filter_size is one number or three \(x, y, z\), not \(3, 3\)"),
    (lambda vol, **_: L.img_conv3d(vol, 3, 4, layer_type="deconv3d"), pd.GraphError,
     "layer_type is conv3d, not 'deconv3d'"),
    (lambda vol, **_: L.img_conv(vol, 3, 4), pd.ShapeError,
     "'vol' is 384 wide, which is not 2 channels of 6 x 8 pixels"),
    (lambda vol, **_: L.img_pool3d(vol, 5), pd.ShapeError,
     "img_pool3d layer .*: the window is 5 wide, the padded image 4"),
]
# fmt: on


@pytest.mark.parametrize(("mistake", "error", "message"), MISTAKES)
def test_mistake(mistake, error, message):
    net = {"x": Dense(4).layer("x"), "im": image(), "vol": volume(), "box": Boxes(()).layer("box")}
    known = set(paddle.build.current().layers)
    with pytest.raises(error, match=message):
        mistake(**net)
    assert set(paddle.build.current().layers) == known


def gradient_by_image(build_layer, value):
    x = L.data(name="x", type=T.dense_vector(np.size(value)), height=2, width=4)
    x.num_filters = np.size(value) // 8
    (gradient,) = pd.gradients(build_layer(x), [x])
    return pd.eval(gradient, {x: np.reshape(value, (1, -1))}).reshape(np.shape(value))


@pytest.mark.parametrize("kind", [P.Max, P.CudnnMax, P.MaxWithMask])
def test_all_of_equal_pixels_have_the_gradient_of_a_pooling(kind):
    value = np.array([[[1, 1, 0, 2], [0, 1, 2, 2]]], np.float32)
    found = gradient_by_image(lambda x: L.img_pool(x, 2, stride=2, pool_type=kind()), value)
    np.testing.assert_array_equal(found, value == [[[1, 1, 2, 2]]])


def test_maxout_gives_its_gradient_to_the_first_of_equals():
    value = np.array([[[1, 1, 0, 2]] * 2, [[1, 2, 0, 1]] * 2], np.float32)
    found = gradient_by_image(lambda x: L.maxout(x, groups=2), value)
    np.testing.assert_array_equal(found, [[[1, 0, 1, 1]] * 2, [[0, 1, 0, 0]] * 2])
