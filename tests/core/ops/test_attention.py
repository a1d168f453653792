"""Attention on whole programs: PyTorch's, dropout, and errors."""

import numpy as np
import pytest

import pd_core as pd


def heads(*sizes):
    return pd.Variable([None, sizes[0], None, sizes[1]])


@pytest.mark.parametrize("causal", [False, True])
def test_same_as_pytorch_with_grouped_heads(causal, rng):
    torch = pytest.importorskip("torch")
    shapes = (2, 4, 5, 6), (2, 2, 5, 6), (2, 2, 5, 3)
    arrays = [rng.standard_normal(s).astype("float32") for s in shapes]
    slots = heads(4, 6), heads(2, 6), heads(2, 3)
    y = pd.attention(*slots, causal=causal)
    gradients = pd.gradients(pd.reduce_sum(pd.square(y)), slots)
    got = pd.eval([y, *gradients], feeds=dict(zip(slots, arrays, strict=True)))
    leaves = [torch.tensor(a, requires_grad=True) for a in arrays]
    attend = torch.nn.functional.scaled_dot_product_attention
    wanted = attend(*leaves, is_causal=causal, enable_gqa=True)
    wanted.square().sum().backward()
    for a, b in zip(got, [wanted.detach(), *(x.grad for x in leaves)], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [-0.5, 0.0])
def test_scales_that_are_not_positive(scale, rng):
    """ONNX Runtime's operator for inference takes none of them."""
    arrays = [rng.standard_normal((2, 2, 5, 3)).astype("float32") for _ in range(3)]
    slots = heads(2, 3), heads(2, 3), heads(2, 3)
    q, k, v = arrays
    weights = np.exp(scale * q @ k.swapaxes(2, 3))
    wanted = weights @ v / weights.sum(-1, keepdims=True)
    got = pd.eval(pd.attention(*slots, scale=scale), dict(zip(slots, arrays, strict=True)))
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_dropout_zeroes_weights_in_training():
    one = np.ones((1, 1, 1, 1), "float32")
    y = pd.attention(
        one, np.ones((1, 1, 64, 1), "float32"), np.eye(64, dtype="float32")[None, None], dropout=0.5
    )
    assert np.allclose(pd.eval(y), 1 / 64)
    kept = pd.eval(y, training=True).ravel() * 64
    assert set(np.unique(kept.round(5))) == {0.0, 2.0}


@pytest.mark.parametrize(
    "sizes", [(0, 3, 3), (2, 0, 3), (2, 3, 0)], ids=["batch", "queries", "keys"]
)
def test_nothing_to_attend(sizes):
    batch, queries, keys = sizes
    slots = heads(4, 2), heads(2, 2), heads(2, 2)
    y = pd.attention(*slots, causal=True)
    shapes = (batch, 4, queries, 2), *[(batch, 2, keys, 2)] * 2
    feeds = {x: np.ones(s, "float32") for x, s in zip(slots, shapes, strict=True)}
    assert pd.eval(y, feeds=feeds).shape == (batch, 4, queries, 2)


def test_errors_of_attention():
    q = heads(4, 2)
    with pytest.raises(pd.ShapeError, match=r"attention: takes q, k, v \[B, heads, T, d\], not"):
        pd.attention(q, q, pd.Variable([None, 2]))
    with pytest.raises(pd.ShapeError, match="heads of known number and size"):
        pd.attention(q, q, pd.Variable([None, None, None, 2]))
    with pytest.raises(
        pd.ShapeError, match=r"heads do not fit: q, k, v are float32\[\?, 4, \?, 2\], "
    ):
        pd.attention(q, heads(3, 2), heads(3, 2))
    with pytest.raises(pd.GraphError, match=r"at most 4 axes, not int64\[\?\]"):
        pd.attention(q, q, q, pd.Variable([None], dtype="int64"))
    with pytest.raises(pd.ShapeError, match=r"rotary_embedding: takes \[..., T, d\] with even d"):
        pd.rotary_embedding(heads(4, 3))
