"""Attention and rotary positions: their expressions against ONNX's evaluator and ONNX Runtime,
their gradients against slopes and PyTorch."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph.errors import NoGradient
from tests.thinned import in_turn, thinned, words

from ..ops.case import fixed, normal, whole
from .operator import (
    by_expression,
    by_runtime,
    feeds_of,
    gradients,
    inputs_of,
    node_of,
    row,
    slopes,
)

QUERIES, KEYS, PAST = 3, 4, 2
HIDDEN = -np.inf
Q, K, V = normal(2, 2, QUERIES, 4), normal(2, 2, KEYS, 4), normal(2, 2, KEYS, 3)
PAST_K, PAST_V = normal(2, 2, PAST, 4), normal(2, 2, PAST, 3)
WEIGHTS = normal(QUERIES, KEYS)
FLAGS = fixed([[True, False, True, True], [True, True, False, True], [True, True, True, True]])
ROW_WITHOUT_KEYS = fixed([[True, False, True, True], [False] * 4, [True] * 4])
BESIDE_INFINITY = fixed([[0.5, HIDDEN, 0.1, 0.2], [HIDDEN] * 4, [0.0, 0.3, -0.4, HIDDEN]])


def attention(*samples, past=False, filled=None, opset=24, **options):
    samples = [*samples, *[None] * (4 - len(samples))]
    samples += [PAST_K, PAST_V] if past else [None, None]
    samples += [filled] if opset > 23 else []
    while samples[-1] is None:
        samples.pop()
    return row("Attention", samples, opset=opset, **options)


def together(heads, size):
    """Samples [B, T, features] with the heads in one axis, 2 of them of keys."""
    return [normal(2, QUERIES, heads * 4), normal(2, KEYS, 8), normal(2, KEYS, 2 * size)]


ATTENTION = [
    attention(Q, K, V, opset=23),
    attention(Q, K, V, scale=0.3),
    attention(Q, K, V, softcap=0.8),
    attention(Q, K, V, is_causal=1),
    attention(Q, K, V, WEIGHTS),
    attention(Q, K, V, normal(2, 1, QUERIES, KEYS), is_causal=1, label="by sequence"),
    attention(Q, K, V, normal(2, 2, QUERIES, KEYS), label="by head"),
    attention(Q, K, V, normal(1, KEYS), label="one row"),
    attention(Q, K, V, normal(QUERIES, KEYS - 1), label="short"),
    attention(Q, K, V, FLAGS, label="flags"),
    attention(Q, K, V, FLAGS, is_causal=1, label="flags"),
    attention(Q, K, V, ROW_WITHOUT_KEYS, kept=(0, 3), qk_matmul_output_mode=3, label="no keys"),
    attention(Q, K, V, BESIDE_INFINITY, label="infinite"),
    attention(Q, K, V, BESIDE_INFINITY, softcap=0.5, label="infinite"),
    attention(Q, K, V, normal(QUERIES, PAST + KEYS), past=True, kept=(0, 1, 2)),
    attention(Q, K, V, past=True, is_causal=1, kept=(0, 1, 2), opset=23),
    attention(Q, K, V, fixed([True, False, True]), label="short"),
    attention(Q, K, V, normal(2, 1, 1, PAST + KEYS), past=True, label="one row"),
    attention(Q, K, V, filled=whole(2, 4, 2)),
    attention(Q, K, V, filled=fixed([4, 3]), is_causal=1),
    attention(Q, K, V, filled=fixed([1, 2]), is_causal=1, label="no keys"),
    attention(Q, K, V, is_causal=1, left_window_size=1, opset=25),
    attention(Q, K, V, WEIGHTS, left_window_size=0, right_window_size=1, opset=25),
    attention(Q, K, V, past=True, left_window_size=2, right_window_size=1, opset=25),
    attention(Q, K, V, filled=fixed([4, 3]), right_window_size=0, opset=25),
    attention(normal(2, 4, QUERIES, 4), K, V, WEIGHTS, label="2 queries to a head"),
    attention(*together(2, 3), q_num_heads=2, kv_num_heads=2),
    attention(*together(4, 3), FLAGS, q_num_heads=4, kv_num_heads=2, is_causal=1),
    attention(*together(4, 3), past=True, q_num_heads=4, kv_num_heads=2, kept=(0, 1, 2)),
    *(
        attention(Q, K, V, WEIGHTS, past=False, kept=(0, 3), qk_matmul_output_mode=mode, **options)
        for mode, options in ((0, {}), (1, {"softcap": 0.8}), (2, {"softcap": 0.8}), (3, {}))
    ),
    attention(Q, K, V, softmax_precision=11, is_causal=1),
]
CACHE = [normal(6, 2), normal(6, 2)]
PLACES = whole(0, 6, 2, 3)
ROTARY = [
    row("RotaryEmbedding", [normal(2, 2, 3, 4), *CACHE, PLACES], opset=23),
    row("RotaryEmbedding", [normal(2, 2, 3, 4), *CACHE, PLACES], interleaved=1, opset=23),
    row("RotaryEmbedding", [normal(2, 2, 3, 6), *CACHE, PLACES], rotary_embedding_dim=4, opset=23),
    row(
        "RotaryEmbedding",
        [normal(2, 3, 12), normal(2, 3, 2), normal(2, 3, 2)],
        num_heads=2,
        rotary_embedding_dim=4,
        interleaved=1,
        opset=23,
    ),
    row("RotaryEmbedding", [normal(2, 3, 8), *CACHE, PLACES], num_heads=2, opset=23),
]


def lengths(_, rank):
    """The batch and the number of positions are unknown."""
    return {4: (0, 2), 3: (0, 1)}.get(rank, ())


@pytest.mark.parametrize("row, unknown", in_turn(ATTENTION + ROTARY, [None, lengths]), ids=words)
def test_the_expression_is_the_operator(row, unknown):
    arrays = row.arrays()
    announced, found = by_expression(row, arrays, unknown)
    wanted = by_runtime(row, arrays, reference=True)
    for y, got, value in zip(announced, found, wanted, strict=True):
        assert len(y.dims) == value.ndim
        assert all(d in (None, n) for d, n in zip(y.shape, value.shape, strict=True))
        np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("row", ATTENTION + ROTARY, ids=str)
def test_gradients_are_slopes(row):
    for numeric, analytic in slopes(row):
        assert analytic == pytest.approx(numeric, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("row", thinned(ATTENTION + ROTARY, 2), ids=str)
def test_gradients_on_cpu_with_unknown_sizes(row):
    exact = gradients(row, "float64", pd.Session("reference"))
    found = gradients(row, "float32", pd.Session(), lengths)
    for got, wanted in zip(found, exact, strict=True):
        scale = max(1.0, np.abs(wanted).max(initial=0.0))
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4 * scale)


def onnx_runtime_has(row):
    """No windows, and a mask is as wide and as high as the scores."""
    return row.opset < 25 and row.label not in ("one row", "short")


@pytest.mark.parametrize("row", [r for r in ATTENTION + ROTARY if onnx_runtime_has(r)], ids=str)
def test_the_expression_is_what_onnx_runtime_computes(row):
    arrays = row.arrays()
    _, found = by_expression(row, arrays)
    for got, value in zip(found, by_runtime(row, arrays), strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("row", [r for r in ATTENTION if not onnx_runtime_has(r)], ids=str)
@pytest.mark.parametrize("unknown", [None, lengths], ids=["static", "unknown"])
def test_windows_and_smaller_masks_become_whole_masks(row, unknown):
    """So that ONNX Runtime runs them."""
    arrays = row.arrays()
    inputs = inputs_of(arrays, unknown)
    node = node_of(row, inputs)
    found = pd.eval([node.outputs[k] for k in row.kept], feeds_of(inputs, arrays))
    for got, value in zip(found, by_runtime(row, arrays, reference=True), strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_those_of_torch(causal, rng):
    torch = pytest.importorskip("torch")
    shapes = [(2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 6)]
    arrays = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    towards = rng.standard_normal((2, 3, 5, 6)).astype("float32")
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    y = torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=causal)
    (y * torch.tensor(towards)).sum().backward()
    feeds = {pd.Variable([None, 3, None, a.shape[3]]): a for a in arrays}
    y = pd.apply("Attention", *feeds, is_causal=int(causal))
    cost = pd.reduce_sum(y * towards)
    for got, tensor in zip(pd.eval(pd.gradients(cost, list(feeds)), feeds), tensors, strict=True):
        np.testing.assert_allclose(got, tensor.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_a_hidden_key_gets_no_gradient():
    """Nor does a query whose keys are all masked, whatever its scores are."""
    arrays = attention(Q, K, V).arrays()[:3]
    flags = np.array([[True, True, False, True], [False] * 4, [True, True, False, True]])
    arrays[1][:, :, 2] = 1e30
    variables = [pd.Variable(data=a) for a in arrays]
    y = pd.apply("Attention", *variables, flags)
    by_q, by_k, by_v = pd.eval(pd.gradients(pd.reduce_sum(pd.square(y)), variables))
    assert all(np.isfinite(g).all() for g in (by_q, by_k, by_v))
    assert (by_q[:, :, 1] == 0).all() and (by_k[:, :, 2] == 0).all() and (by_v[:, :, 2] == 0).all()
    assert np.abs(by_k[:, :, 0]).max() > 1e-3


@pytest.mark.parametrize(
    "shapes, options, match",
    [
        ([[2, 3, None], [2, 3, 8], [2, 3, 8]], {"q_num_heads": 2, "kv_num_heads": 2}, "known size"),
        ([[2, 2, 3, None], [2, 2, 3, 4], [2, 2, 3, 4]], {}, "known size"),
        ([[2, 4, 3, 4], [2, None, 3, 4], [2, None, 3, 4]], {}, "known number"),
    ],
)
def test_heads_of_unknown_size_have_no_gradient(shapes, options, match):
    q, k, v = (pd.Variable(shape) for shape in shapes)
    y = pd.apply("Attention", q, k, v, **options)
    with pytest.raises(NoGradient, match=f"Attention: only heads of {match}"):
        pd.gradients(pd.reduce_sum(y), [v])
