"""2017's rules at the edges of image layers: regions, crops and blocks beyond the image."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle

from .layer_rows import A, L, P, T


def image(name, channels, height, width):
    size = channels * height * width
    return L.data(name=name, type=T.dense_vector(size), height=height, width=width)


def dense(name, size):
    return L.data(name=name, type=T.dense_vector(size))


def f32(*rows):
    return np.array(rows, np.float32)


# ---- regions of interest


def pooled_region(region, pixels, size=1):
    """(value, gradient) of roi_pool of one image of 3 x 3 pixels and one region."""
    im, rois = image("im", 1, 3, 3), dense("rois", 5)
    y = L.roi_pool(
        input=im,
        rois=rois,
        pooled_width=size,
        pooled_height=size,
        spatial_scale=0.5,
        num_channels=1,
    )
    return pd.eval([y, *pd.gradients(y, [im])], {im: f32(pixels), rois: f32(region)})


PIXELS = [9, 1, 2, 3, 4, 5, 6, 7, 8]


def test_the_first_pixel_of_a_region_has_its_gradient():
    value, gradient = pooled_region([0, 0, 0, 2, 2], PIXELS)
    np.testing.assert_array_equal(value, [[9]])
    np.testing.assert_array_equal(gradient, [[1, 0, 0, 0, 0, 0, 0, 0, 0]])


@pytest.mark.parametrize(
    "region, expected",
    [
        ([0, 2, 2, 4, 4], 8),  # pixels 1 to 2 in both directions
        ([0, 3, 3, 3, 3], 8),  # 1.5 is rounded to 2
        ([0, 1, 2, 1, 2], 4),  # 0.5 is rounded to 1
        ([0, 4, 4, 2, 2], 8),  # an end before the start is one pixel
        ([0, -4, -4, 0, 0], 9),  # what is outside is left out
        ([0, 8, 8, 9, 9], 0),  # nothing is inside
    ],
)
def test_regions_are_rounded_to_pixels_and_cut_at_the_image(region, expected):
    np.testing.assert_array_equal(pooled_region(region, PIXELS)[0], [[expected]])


def test_a_region_of_an_image_that_is_not_there():
    with pytest.raises(
        pd.OutOfRange, match=r"(?s)1 in row 0 is outside .* 0\n.*built at .*test_image_"
    ):
        pooled_region([1, 0, 0, 2, 2], PIXELS)


def test_a_box_may_reach_beyond_the_image():
    im, box = image("im", 1, 2, 2), dense("box", 6)
    y = L.scale_sub_region(im, box, value=10.0)
    feeds = {im: f32([1, 2, 3, 4], [1, 2, 3, 4]), box: f32([1, 5, 2, 9, 1, 9], [1, 1, 1, 2, 2, 2])}
    np.testing.assert_array_equal(pd.eval(y, feeds), [[1, 2, 30, 40], [1, 20, 3, 40]])


# ---- cuts


def test_channels_are_cropped_to_those_of_the_other_layer():
    im, other = image("im", 3, 2, 2), image("other", 2, 1, 1)
    y = L.crop([im, other], axis=1, offset=[1, 0, 1])
    assert y.size == 2
    feeds = {im: np.arange(12, dtype=np.float32)[None], other: np.zeros((1, 2), np.float32)}
    np.testing.assert_array_equal(pd.eval(y, feeds), [[5, 9]])


def test_a_block_larger_than_the_image_is_one_step():
    im = image("im", 1, 2, 2)
    y = L.block_expand(im, block_x=3, block_y=3, stride_x=1, stride_y=1, num_channels=1)
    np.testing.assert_array_equal(
        pd.eval(y, {im: f32([1, 2, 3, 4])}), [[1, 2, 0, 3, 4, 0, 0, 0, 0]]
    )


def test_the_last_block_reaches_beyond_the_image():
    im = image("im", 1, 1, 4)
    y = L.block_expand(im, block_x=2, block_y=1, stride_x=3, stride_y=1, num_channels=1)
    np.testing.assert_array_equal(pd.eval(y, {im: f32([1, 2, 3, 4])}), [[1, 2], [4, 0]])


@pytest.mark.parametrize("height, width", [(1, 1), (1, 4), (3, 1)])
def test_one_interpolated_pixel_is_the_first(height, width):
    im = image("im", 1, 3, 4)
    y = L.bilinear_interp(
        L.img_conv(im, filter_size=1, num_filters=1, num_channels=1, act=A.Linear(), name="c"),
        out_size_x=width,
        out_size_y=height,
    )
    pool = paddle.parameters.create(y)
    pool.set("_c.w0", f32([1]))
    pixels = np.arange(12, dtype=np.float32)
    rows = pixels.reshape(3, 4)[: height if height > 1 else 1, : width if width > 1 else 1]
    np.testing.assert_allclose(pd.eval(y, {im: pixels[None]}), rows.reshape(1, -1), atol=1e-6)


# ---- windows


@pytest.mark.parametrize(
    "size, window, stride, pad, rounded_up, rounded_down",
    [
        (5, 2, 2, 0, 3, 2),
        (6, 3, 2, 1, 4, 3),
        (7, 7, 1, 3, 7, 7),
        (4, 1, 3, 0, 2, 2),
        (1, 1, 9, 0, 1, 1),
    ],
)
def test_counts_of_windows(size, window, stride, pad, rounded_up, rounded_down):
    im = image("im", 1, size, size)
    for ceil, count in ((True, rounded_up), (False, rounded_down)):
        y = L.img_pool(im, window, stride=stride, padding=pad, num_channels=1, ceil_mode=ceil)
        assert (y.height, y.width, y.size) == (count, count, count * count)
    conv = L.img_conv(
        im, window, 2, stride=stride, padding=pad, num_channels=1, param_attr=paddle.attr.Param()
    )
    assert conv.size == 2 * rounded_down**2


@pytest.mark.parametrize("exclude", [None, True, False])
def test_means_over_windows_that_reach_into_the_padding(exclude):
    im = image("im", 1, 2, 2)
    y = L.img_pool(
        im, 3, stride=2, padding=1, num_channels=1, pool_type=P.Avg(), exclude_mode=exclude
    )
    share = 9 if exclude is False else np.array([4, 2, 2, 1])  # the second windows have one row
    found = pd.eval(y, {im: f32([1, 2, 3, 4])})
    np.testing.assert_allclose(found[0], np.array([10, 6, 7, 4]) / share, rtol=1e-6)
