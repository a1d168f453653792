"""Image ops beside PyTorch's and their limits: sizes at run time, points at borders, mistakes."""

from itertools import product

import numpy as np
import pytest

import pd_core as pd

MODES = [
    ("nearest", None, False),
    ("nearest-exact", None, False),
    *product(("linear", "cubic"), (True, False), (False,)),
    *product(("linear", "cubic"), (False,), (True,)),
]
AMOUNTS = [{"sizes": [8, 3]}, {"sizes": [1, 2]}, {"scale": 1.7}, {"scale": [2.0, 0.6]}]


def test_interpolate_is_pytorchs(rng):
    torch = pytest.importorskip("torch")
    x = rng.standard_normal((2, 3, 5, 7)).astype("float32")
    slot = pd.Variable([None] * 4)
    wanted, results = [], []
    for (mode, corners, antialias), amount in product(MODES, AMOUNTS):
        results.append(
            pd.interpolate(slot, None, mode, corners, antialias=antialias, **amount)
            if "scale" in amount
            else pd.interpolate(slot, amount["sizes"], mode, corners, antialias=antialias)
        )
        wanted.append(
            torch.nn.functional.interpolate(
                torch.tensor(x),
                amount.get("sizes"),
                amount.get("scale"),
                {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode),
                corners,
                antialias=antialias,
            ).numpy()
        )
    for value, want in zip(pd.eval(results, feeds={slot: x}), wanted, strict=True):
        np.testing.assert_allclose(value, want, rtol=1e-4, atol=1e-5)


def test_interpolate_to_sizes_of_another_image(rng):
    x, other = pd.Variable([None] * 4), pd.Variable([None] * 4)
    sizes = pd.slice(pd.shape_of(other), [2], [4], [0])
    y = pd.interpolate(x, sizes, "nearest")
    image = np.arange(6, dtype="float32").reshape(1, 1, 2, 3)
    value = pd.eval(y, feeds={x: image, other: np.zeros((1, 1, 4, 6), "float32")})
    np.testing.assert_array_equal(value, image.repeat(2, 2).repeat(2, 3))


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_gradients_of_grid_sample_are_slopes(mode, padding, rng):
    """On ONNX Runtime: its evaluator rounds points to float32, and clips cubic ones otherwise."""
    x, grid = pd.Variable([2, 2, 3, 4]), pd.Variable([2, 3, 3, 2])
    y = pd.grid_sample(x, grid, mode, padding)
    weight = rng.standard_normal((2, 2, 3, 3)).astype("float32")
    cost = pd.reduce_sum(y * weight)
    gradients = pd.gradients(cost, [x, grid])
    shapes = [(2, 2, 3, 4), (2, 3, 3, 2)]
    image, step = (rng.standard_normal(shapes[0]).astype("float32") for _ in range(2))
    # away from pixels, where the slope changes
    points = (rng.integers(-4, 5, shapes[1]) + rng.uniform(0.2, 0.8, shapes[1])) / 3
    points = points.astype("float32")
    dx, dgrid = pd.eval(gradients, feeds={x: image, grid: points})

    def slope(image_step, grid_step):
        ends = [
            pd.eval(y, feeds={x: image + s * image_step, grid: points + s * grid_step})
            for s in (1, -1)
        ]
        return np.vdot((ends[0] - ends[1]).astype("float64"), weight) / 2

    # y is linear in the image
    assert np.vdot(dx, step) == pytest.approx(slope(step, 0 * points), rel=1e-4, abs=1e-4)
    direction = 1e-3 * rng.standard_normal(shapes[1]).astype("float32")
    numeric = slope(0 * step, direction)
    assert np.vdot(dgrid, direction) == pytest.approx(numeric, rel=2e-2, abs=2e-4)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: pd.interpolate(x), "interpolate: takes either sizes or a scale"),
        (lambda x: pd.interpolate(x, 3, scale=2.0), "interpolate: takes either sizes or a scale"),
        (lambda x: pd.interpolate(x, 3, "area"), "there is no mode 'area'; there is linear, cubic"),
        (lambda x: pd.interpolate(x, 3, "nearest", True), "for linear and cubic, not 'nearest'"),
        (lambda x: pd.interpolate(x, 3, antialias=True), "antialias is for align_corners=False"),
        (lambda x: pd.interpolate(x, scale=[1.0] * 3), "are no scales of 2 spatial axes"),
        (lambda x: pd.interpolate(x, 0), "a size is a positive integer, not \\[0, 0\\]"),
        (lambda x: pd.interpolate(x, pd.Variable([3], dtype="int64")), "takes int64 sizes \\[2\\]"),
        (lambda x: pd.pad(x, [0] * 4, [0, 0, 4, 0], mode="reflect"), "4 elements at an axis of 4"),
        (lambda x: pd.pad(x, [0] * 4, [0] * 4, mode="circular"), "mode is constant, edge, reflect"),
        (lambda x: pd.conv(x, np.ones((1, 1, 2, 2)), pads="full"), "'same' or 'valid', not 'full'"),
        (lambda x: pd.max_pool(x, 2, 2, "same", True), "ceil_mode is without pads='same'"),
        (
            lambda x: pd.avg_pool(pd.Variable([1, 1, None, 4]), 2, 2, "same"),
            "with strides takes images of known sizes",
        ),
        (lambda x: pd.grid_sample(x, np.zeros((1, 2, 2, 3))), "grid_sample: float32"),
        (lambda x: pd.grid_sample(x, np.zeros((1, 2, 2, 2)), "bilinear"), "not 'bilinear'"),
        (lambda x: pd.affine_grid(np.zeros((1, 2, 3)), [1, 1, 2]), "are no maps of images"),
        (lambda x: pd.global_avg_pool(pd.Variable([2, 3])), "with axes to pool"),
    ],
)
def test_mistakes(build, message):
    with pytest.raises(pd.GraphError, match=message):
        build(pd.Variable([1, 1, 4, 4]))


@pytest.mark.parametrize(
    ("message", "make"),
    [
        (r"unfold: takes images \[N, C, ...\] with known C", lambda: pd.unfold(np.ones((2, 3)), 1)),
        ("unfold: a block of 5 does not fit into 4", lambda: pd.unfold(np.ones((1, 1, 4, 9)), 5)),
        ("unfold: takes a block, strides", lambda: pd.unfold(np.ones((1, 1, 4, 9)), 2, strides=0)),
        (r"fold: takes columns \[N, C K, P\]", lambda: pd.fold(np.ones((2, 3)), (2, 2), 1)),
        ("fold: 3 rows do not split into .* 4", lambda: pd.fold(np.ones((1, 3, 1)), (2, 2), 2)),
        (r"fold: 5 columns, but 1 blocks", lambda: pd.fold(np.ones((1, 4, 5)), (2, 2), 2)),
        ("fold: a block of 3 does not fit into 2", lambda: pd.fold(np.ones((1, 9, 1)), (2, 2), 3)),
    ],
)
def test_blocks_that_do_not_fit(message, make):
    with pytest.raises(pd.ShapeError, match=message):
        make()


def test_blocks_of_images_of_unknown_sizes(rng):
    x = pd.Variable([None, 2, None, None])
    array = rng.normal(size=(2, 2, 5, 6)).astype("float32")
    columns = pd.unfold(x, (2, 3), (1, 2), 1)
    back = pd.fold(columns, (5, 6), (2, 3), (1, 2), 1)
    (slope,) = pd.gradients(pd.reduce_sum(back), [x])
    count = pd.fold(pd.unfold(np.ones_like(array), (2, 3), (1, 2), 1), (5, 6), (2, 3), (1, 2), 1)
    got, grad = pd.eval([back, slope], feeds={x: array})
    assert columns.shape == (None, 12, None) and np.allclose(got, array * count.eval(), rtol=1e-5)
    assert np.allclose(grad, count.eval())
