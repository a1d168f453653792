"""Functional layers of convolution and normalisation: parameters, their forms, mistakes."""

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


def ones(*shape):
    return np.ones(shape, f32)


def names():
    return {v.name: v.shape for v in pd.persistent_variables()}


@pytest.mark.parametrize(
    ("build", "want"),
    [
        (
            lambda: pd.layer.conv1d(ones(2, 4, 5), 6, 3, groups=2),
            {"conv1d_0.W": (6, 2, 3), "conv1d_0.B": (6,)},
        ),
        (
            lambda: pd.layer.conv3d(ones(2, 4, 5, 5, 5), 6, (1, 2, 3), B=False),
            {"conv3d_0.W": (6, 4, 1, 2, 3)},
        ),
        (
            lambda: pd.layer.conv_transpose2d(ones(2, 4, 5, 5), 6, 3, groups=2),
            {"conv_transpose2d_0.W": (4, 3, 3, 3), "conv_transpose2d_0.B": (6,)},
        ),
        (
            lambda: pd.layer.conv_transpose1d(ones(2, 4, 5), 6, 3, B=False),
            {"conv_transpose1d_0.W": (4, 6, 3)},
        ),
        (
            lambda: pd.layer.conv_transpose3d(ones(2, 4, 5, 5, 5), 6, 3, groups=2),
            {"conv_transpose3d_0.W": (4, 3, 3, 3, 3), "conv_transpose3d_0.B": (6,)},
        ),
        (lambda: pd.layer.prelu(ones(2, 4, 5)), {"prelu_0.W": (1,)}),
        (lambda: pd.layer.prelu(ones(2, 4, 5), True), {"prelu_0.W": (4,)}),
        (
            lambda: pd.layer.multi_head_attention(ones(2, 3, 4), 2, ones(2, 5, 6), B=False),
            {
                f"multi_head_attention_0.{part}.W": (6 if part in ("key", "value") else 4, 4)
                for part in ("query", "key", "value", "output")
            },
        ),
        (
            lambda: pd.layer.batch_norm(ones(2, 4)),
            {f"batch_norm_0.{k}": (4,) for k in ("scale", "bias", "mean", "variance")},
        ),
        (
            lambda: pd.layer.layer_norm(ones(2, 3, 4), axis=1),
            {"layer_norm_0.scale": (3, 4), "layer_norm_0.bias": (3, 4)},
        ),
        (lambda: pd.layer.rms_norm(ones(2, 3)), {"rms_norm_0.scale": (3,)}),
        (
            lambda: pd.layer.group_norm(ones(2, 4), 2, bias=False),
            {"group_norm_0.scale": (4,)},
        ),
        (
            lambda: pd.layer.instance_norm(ones(2, 4, 5), scale=False),
            {"instance_norm_0.bias": (4,)},
        ),
    ],
)
def test_parameters(build, want):
    build()
    assert names() == want


def test_slope_of_prelu_starts_at_a_quarter():
    np.testing.assert_array_equal(pd.eval(pd.layer.prelu(-4 * ones(1, 2, 3), True)), -ones(1, 2, 3))


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_that_of_the_layer_object(causal, rng):
    """From equal weights, with a mask."""
    x = rng.standard_normal((2, 3, 4)).astype(f32)
    y = rng.standard_normal((2, 5, 4)).astype(f32)
    mask = rng.integers(0, 2, (2, 3, 5)).astype(bool)
    layer = pd.nn.MultiHeadAttention(4, 2, causal=causal)
    want = layer(x, y, y, mask)
    parts = (layer.query, layer.key, layer.value, layer.output)
    got = pd.layer.multi_head_attention(
        x, 2, y, mask=mask, causal=causal, W=[p.W for p in parts], B=[p.B for p in parts]
    )
    np.testing.assert_array_equal(*pd.eval([got, want]))


def test_mistakes_of_attention():
    x = ones(1, 2, 6)
    with pytest.raises(pd.GraphError, match="multi_head_attention: 6 does not split into 4 heads"):
        pd.layer.multi_head_attention(x, 4)
    with pytest.raises(pd.GraphError, match="W has 3 parts for query, key, value, output"):
        pd.layer.multi_head_attention(x, 2, W=[None] * 3)
    with pytest.raises(pd.ShapeError, match="queries whose width is known"):
        pd.layer.multi_head_attention(pd.Variable([1, 2, None]), 2)
    with pytest.raises(pd.ShapeError, match=r"prelu: takes \[N, C, ...\] with known C"):
        pd.layer.prelu(pd.Variable([None, None]), True)


@pytest.mark.parametrize("name", ["silu", "mish", "elu", "hard_swish", "relu6", "selu"])
def test_activations_have_names(name):
    x = np.linspace(-4, 8, 7, dtype=f32)[None]
    named = pd.fc(x, 7, act=name, W={"name": "W", "data": np.eye(7, dtype=f32)}, B=False)
    np.testing.assert_array_equal(*pd.eval([named, getattr(pd, name)(x)]))


def test_scales_start_at_one_in_every_form():
    x = np.array([[1.0, 3.0]], f32)
    plain = pd.eval(pd.layer_norm(x))
    for spec in (None, True, "shared", {"learning_rate": 0.5}, {"name": "other"}):
        assert (pd.eval(pd.layer.layer_norm(x, scale=spec, bias=False)) == plain).all()
    data = {"data": np.array([2.0, 2.0], f32)}
    given = pd.Variable(data=2 * ones(2))
    for spec in (pd.constant_initializer(2.0), data, given):
        assert (pd.eval(pd.layer.layer_norm(x, scale=spec)) == 2 * plain).all()
    with pytest.raises(
        TypeError, match=r"is a name, Variable, initializer, array or dict, not 0\.5"
    ):
        pd.layer.layer_norm(x, scale=0.5)


def test_statistics_are_stored_but_not_trained(rng):
    x = pd.Variable([None, 3])
    y = pd.layer.batch_norm(x, momentum=0.5, mean="mu", scale=False, bias=False)
    variance = pd.get_variable("batch_norm_0.variance")
    mean = pd.get_variable("mu")
    assert not mean.trainable and not variance.trainable
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(pd.fc(y, 1)))
    array = rng.normal(size=(8, 3)).astype(f32)
    pd.eval(step, feeds={x: array})
    assert np.allclose(mean.val(), 0.5 * array.mean(0), atol=1e-6)
    assert np.allclose(variance.val(), 0.5 + 0.5 * array.var(0), atol=1e-6)
    stored = (array - mean.val()) / np.sqrt(variance.val() + 1e-5)
    assert np.allclose(pd.eval(y, feeds={x: array}), stored, atol=1e-5)


def test_embedding_with_padding():
    ids = np.array([[0], [2]])
    y = pd.embedding(ids, [3, 2], W=pd.constant_initializer(1.0), padding_id=2)
    assert pd.eval(y).tolist() == [[1, 1], [0, 0]]
    assert pd.embedding(ids, [3, 2], squeeze=False).shape == (2, 1, 2)


@pytest.mark.parametrize(
    ("error", "message", "build"),
    [
        (
            pd.ShapeError,
            r"conv1d: takes sequences \[N, C, L\] with known C, not const: float32\[2, 4\]",
            lambda: pd.layer.conv1d(ones(2, 4), 1, 1),
        ),
        (
            pd.ShapeError,
            "conv_transpose2d: 4 channels do not split into 3 groups",
            lambda: pd.layer.conv_transpose2d(ones(2, 4, 5, 5), 3, 1, groups=3),
        ),
        (
            pd.ShapeError,
            r"batch_norm: takes \[N, C, ...\] with known C",
            lambda: pd.layer.batch_norm(pd.Variable([2, None])),
        ),
        (
            pd.ShapeError,
            "group_norm: 4 channels do not split into 0 groups",
            lambda: pd.layer.group_norm(ones(2, 4), 0),
        ),
        (
            pd.ShapeError,
            "rms_norm: axis 2 of",
            lambda: pd.layer.rms_norm(ones(2, 4), 2),
        ),
        (
            ValueError,
            "embedding: padding_id 3 is no id of 3 words",
            lambda: pd.embedding(np.array([0]), [3, 2], padding_id=3),
        ),
        (
            TypeError,
            r"embedding: size is two integers, not 3",
            lambda: pd.embedding(np.array([0]), 3),
        ),
        (
            pd.ShapeError,
            r"embedding: size is \(words, width\), both positive, not \[3, 0\]",
            lambda: pd.embedding(np.array([0]), [3, 0]),
        ),
        (
            pd.ShapeError,
            "conv2d: takes one filter and one group or more, not 0 and 1",
            lambda: pd.layer.conv2d(ones(2, 4, 5, 5), 0, 1),
        ),
        (
            pd.ShapeError,
            "conv_transpose1d: takes one filter and one group or more, not 4 and 0",
            lambda: pd.layer.conv_transpose1d(ones(2, 4, 5), 4, 1, groups=0),
        ),
    ],
)
def test_mistakes_are_found_before_parameters_are_made(error, message, build):
    with pytest.raises(error, match=message):
        build()
    assert names() == {}
