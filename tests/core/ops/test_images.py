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


def test_gradients_of_interpolate_are_pytorchs(rng):
    torch = pytest.importorskip("torch")
    x = rng.standard_normal((2, 3, 5, 7)).astype("float32")
    slot = pd.Variable([None, None, 5, 7])
    wanted, results = [], []
    for (mode, corners, antialias), sizes in product(MODES, ([8, 3], [1, 2], [9, 14])):
        y = pd.interpolate(slot, sizes, mode, corners, antialias=antialias)
        results += pd.gradients(pd.reduce_sum(pd.sin(y)), [slot])
        image = torch.tensor(x, requires_grad=True)
        name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
        z = torch.nn.functional.interpolate(image, sizes, None, name, corners, antialias=antialias)
        torch.sin(z).sum().backward()
        wanted.append(image.grad.numpy())
    for value, want in zip(pd.eval(results, feeds={slot: x}), wanted, strict=True):
        np.testing.assert_allclose(value, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("corners", [True, False])
def test_grid_sample_is_pytorchs(corners, rng):
    torch = pytest.importorskip("torch")
    image = rng.standard_normal((2, 3, 5, 6)).astype("float32")
    points = rng.uniform(-1.6, 1.6, (2, 4, 3, 2)).astype("float32")
    slots = pd.Variable([None, None, 5, 6]), pd.Variable([None, 4, 3, 2])
    wanted, results = [], []
    for mode, padding in product(["nearest", "linear", "cubic"], ["zeros", "border", "reflection"]):
        y = pd.grid_sample(*slots, mode, padding, corners)
        results += [
            y,
            *pd.gradients(pd.reduce_sum(pd.sin(y)), list(slots))[: 1 + (mode != "nearest")],
        ]
        leaves = [torch.tensor(v, requires_grad=True) for v in (image, points)]
        name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
        z = torch.nn.functional.grid_sample(*leaves, name, padding, corners)
        torch.sin(z).sum().backward()
        wanted += [z.detach().numpy(), *(v.grad.numpy() for v in leaves[: 1 + (mode != "nearest")])]
    found = pd.eval(results, feeds=dict(zip(slots, (image, points), strict=True)))
    for value, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(value, want, rtol=1e-3, atol=2e-4)


def test_losses_of_spectra_are_pytorchs(rng):
    """Of magnitudes and of complex numbers: one-sided, of another length, of frames, of images."""
    torch = pytest.importorskip("torch")
    x, target = (rng.standard_normal((3, 16)).astype("float32") for _ in range(2))
    slot = pd.Variable([None, 16])

    def magnitudes(z):
        return pd.sqrt(pd.reduce_sum(pd.square(z), -1) + 1e-6)

    def spectra(v, length=None):
        return pd.dft(pd.unsqueeze(v, 2), length, axis=1, onesided=True)

    def both_axes(v):
        images = pd.reshape(v, [-1, 4, 4, 1])
        return pd.dft(pd.dft(images, axis=1), axis=2)

    def frames(v):
        rows = np.arange(0, 13, 4)[:, None] + np.arange(4)
        windows = pd.gather(v, rows, 1) * np.hanning(4).astype("float32")
        return pd.dft(pd.unsqueeze(windows, 3), axis=2, onesided=True)

    def torch_frames(v):
        window = torch.tensor(np.hanning(4).astype("float32"))
        return torch.fft.rfft(v.unfold(1, 4, 4) * window)

    pairs = [
        (spectra, torch.fft.rfft),
        (lambda v: spectra(v, 9), lambda v: torch.fft.rfft(v, 9)),
        (lambda v: spectra(v, 21), lambda v: torch.fft.rfft(v, 21)),
        (both_axes, lambda v: torch.fft.fft2(v.reshape(-1, 4, 4))),
        (frames, torch_frames),
    ]
    for ours, theirs in pairs:
        goal = ours(pd.constant(target))
        costs = [
            pd.reduce_mean(pd.abs(magnitudes(ours(slot)) - magnitudes(goal))),
            pd.reduce_sum(pd.square(ours(slot) - goal)),
        ]
        found = pd.eval([*costs, *(pd.gradients(c, [slot])[0] for c in costs)], {slot: x})
        leaf, wanted = torch.tensor(x, requires_grad=True), []
        z, to = theirs(leaf), theirs(torch.tensor(target))
        sizes = [torch.sqrt(w.real**2 + w.imag**2 + 1e-6) for w in (z, to)]
        losses = [(sizes[0] - sizes[1]).abs().mean(), ((z - to).abs() ** 2).sum()]
        wanted = [loss.item() for loss in losses]
        wanted += [torch.autograd.grad(c, leaf, retain_graph=True)[0].numpy() for c in losses]
        for value, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(value, want, rtol=1e-4, atol=1e-4)


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
        (lambda x: pd.interpolate(x, 3, "bilinear"), "no mode 'bilinear'; .*; here it is linear"),
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
    where = {"strides": (1, 2), "pads": 1}
    columns = pd.unfold(x, (2, 3), **where)
    back = pd.fold(columns, (5, 6), (2, 3), **where)
    (slope,) = pd.gradients(pd.reduce_sum(back), [x])
    count = pd.fold(pd.unfold(np.ones_like(array), (2, 3), **where), (5, 6), (2, 3), **where)
    got, grad = pd.eval([back, slope], feeds={x: array})
    assert columns.shape == (None, 12, None) and np.allclose(got, array * count.eval(), rtol=1e-5)
    assert np.allclose(grad, count.eval())
