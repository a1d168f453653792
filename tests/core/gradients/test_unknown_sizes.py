"""Gradients where sizes are known at run time only: those of known sizes, and of empty batches."""

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


def ones(*shape):
    return np.ones(shape, f32)


IMAGES = {
    "conv": lambda x: pd.layer.conv2d(x, 3, 3, padding=1, W="W", B="B"),
    "conv with strides": lambda x: pd.layer.conv2d(x, 3, 3, stride=2, W="W", B="B"),
    "dilated conv": lambda x: pd.layer.conv2d(x, 3, 3, dilation=2, padding=2, W="W", B="B"),
    "conv in groups": lambda x: pd.layer.conv2d(x, 4, 3, padding=1, groups=2, W="W", B="B"),
    "transposed conv": lambda x: pd.layer.conv_transpose2d(x, 3, 3, stride=2, W="W", B="B"),
    "group norm": lambda x: pd.layer.group_norm(x, 2),
    "batch norm": pd.layer.batch_norm,
    "instance norm": pd.layer.instance_norm,
    "max pool": lambda x: pd.max_pool(x, 2, 2),
}


def gradients(build, dims, images):
    """The cost, and its gradients with respect to the images and the parameters."""
    with pd.fresh():
        x = pd.Variable(dims)
        y = build(x)
        weights = np.linspace(-1, 1, 4)[: y.dims[1]].reshape(-1, 1, 1).astype(f32)
        cost = pd.reduce_sum(pd.square(y * weights + 0.5))
        wanted = pd.gradients(cost, [x, *pd.trainable_variables()])
        return pd.eval([cost, *wanted], {x: images}, training=True)


@pytest.mark.parametrize("name", IMAGES)
def test_images_of_unknown_size(name, rng):
    images = rng.normal(size=(2, 4, 6, 7)).astype(f32)
    unknown = gradients(IMAGES[name], [None, 4, None, None], images)
    known = gradients(IMAGES[name], [None, 4, 6, 7], images)
    for a, b in zip(unknown, known, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("dims", [[None, 4, None, None], [None, 4, 6, 7]], ids=["unknown", "known"])
def test_no_images(name, dims):
    cost, dx, *rest = gradients(IMAGES[name], dims, ones(0, 4, 6, 7))
    assert cost == 0
    assert dx.shape == (0, 4, 6, 7)
    assert all((g == 0).all() for g in rest)


@pytest.mark.parametrize("dims", [[0, 4], [None, 4], [None, None]])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_mean_of_no_rows(dims, axis):
    x = pd.Variable(dims)
    (g,) = pd.gradients(pd.reduce_sum(pd.reduce_mean(x, [axis])), [x])
    assert pd.eval(g, {x: ones(0, 4)}).shape == (0, 4)


def test_a_mean_over_axes_of_run_time():
    x, axes = pd.Variable([None, None]), pd.Variable([1], dtype="int64")
    y = pd.apply("ReduceMean", x, axes, keepdims=1)
    (g,) = pd.gradients(pd.reduce_sum(y), [x])
    assert pd.eval(g, {x: ones(0, 4), axes: [1]}).shape == (0, 4)
    assert (pd.eval(g, {x: ones(2, 4), axes: [1]}) == 0.25).all()


def test_depth_to_space_of_unknown_channels(rng):
    x, weights = pd.Variable([None] * 4), rng.normal(size=(2, 2, 4, 6)).astype(f32)
    y = pd.apply("DepthToSpace", x, blocksize=2, mode="CRD")
    (g,) = pd.gradients(pd.reduce_sum(y * weights), [x])
    blocks = weights.reshape(2, 2, 2, 2, 3, 2).transpose(0, 1, 3, 5, 2, 4)  # n, c, row, column
    np.testing.assert_array_equal(pd.eval(g, {x: ones(2, 8, 2, 3)}), blocks.reshape(2, 8, 2, 3))


def test_a_slice_along_unknown_axes():
    x, starts, ends = pd.Variable([None, None]), *(pd.Variable([None], dtype="int64") for _ in "se")
    (g,) = pd.gradients(pd.reduce_sum(pd.apply("Slice", x, starts, ends, known=[None, None])), [x])
    found = pd.eval(g, {x: ones(3, 4), starts: [1, 0], ends: [3, 2]})
    assert found.tolist() == [[0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]]


def test_columns_of_images_with_an_unknown_number_of_axes():
    columns, sizes = pd.Variable([1, 4, 4]), [pd.Variable([None], dtype="int64") for _ in "ib"]
    image = pd.apply("Col2Im", columns, *sizes, known=[1, 1, None, None])
    with pytest.raises(pd.NoGradient, match=r"the number of axes of an image .* is not known"):
        pd.gradients(pd.reduce_sum(image), [columns])


@pytest.mark.parametrize("form, gates", [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_weights_of_unknown_size(form, gates, rng):
    arrays = [rng.normal(size=s) for s in ((3, 2, 4), (1, gates * 5, 4), (1, gates * 5, 5))]
    arrays = [a.astype(f32) for a in arrays]

    def slopes(shapes):
        xs = [pd.Variable(shape) for shape in shapes]
        y = pd.apply(form, *xs, outputs=1, hidden_size=5)
        y = y[0] if isinstance(y, tuple) else y
        return pd.eval(pd.gradients(pd.reduce_sum(y), xs), dict(zip(xs, arrays, strict=True)))

    known = slopes([a.shape for a in arrays])
    for a, b in zip(slopes([[None] * 3] * 3), known, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
