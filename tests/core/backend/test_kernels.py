"""Operators of ONNX in the place of what they are the forms of, where a CPU has fast kernels."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend.base import NO_SEAM
from pd_core.graph.node import ancestors
from pd_core.run.programs import Source


def operators(targets, fed, training=False):
    backend = pd.Session().backend
    graph, _ = Source.of(targets, [], NO_SEAM, fed, training).graph(backend)
    return [node.op_type for node in ancestors(graph.outputs)]


def lstm(x):
    return pd.nn.LSTM(8)(x)[0]


def gru(x):
    return pd.nn.GRU(8)(x)[0]


def attention(x):
    return pd.nn.MultiHeadAttention(8, 2)(x, x, x)


def layer_norm(x):
    return pd.nn.LayerNorm()(x)


CASES = [
    (lstm, "LSTM"),
    (gru, "GRU"),
    (attention, "Attention"),
    (layer_norm, "LayerNormalization"),
]


@pytest.mark.parametrize(("layer", "kernel"), CASES, ids=[kernel for _, kernel in CASES])
def test_inference_is_computed_by_a_kernel(layer, kernel):
    x = pd.Variable([None, 5, 8])
    y = layer(x)
    a = np.random.default_rng(0).normal(size=(3, 5, 8)).astype(np.float32)
    assert kernel in operators([y], {x: a})
    values = {v: v.val() for v in pd.trainable_variables()}
    reference = pd.Session("reference")
    for v, value in values.items():
        reference.set(v, value)
    np.testing.assert_allclose(pd.eval(y, {x: a}), reference.eval(y, {x: a}), atol=2e-6)


@pytest.mark.parametrize(("layer", "kernel"), CASES[:3], ids=[k for _, k in CASES[:3]])
def test_what_a_gradient_reads_is_computed_once(layer, kernel):
    x = pd.Variable([None, 5, 8])
    y = layer(x)
    (slope,) = pd.gradients(pd.reduce_sum(y * y), [x])
    a = np.zeros((3, 5, 8), np.float32)
    assert kernel not in operators([y, slope], {x: a})


def test_rows_are_standardized_in_one_pass_in_training_too():
    x = pd.Variable([None, 8])
    y = pd.layer_norm(x, epsilon=0.1)
    a = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    (slope,) = pd.gradients(pd.reduce_sum(y * y * y), [x])
    assert operators([slope], {x: a}).count("LayerNormalization") == 1
    reference = pd.Session("reference").eval(slope, {x: a})
    np.testing.assert_allclose(pd.eval(slope, {x: a}), reference, atol=1e-5)


def test_rows_of_unknown_sizes_are_standardized_by_primitives():
    x = pd.Variable([None, None])
    y = pd.layer_norm(x)
    a = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    (slope,) = pd.gradients(pd.reduce_sum(y * y * y), [x])
    assert "LayerNormalization" not in operators([slope], {x: a})
    reference = pd.Session("reference").eval(slope, {x: a})
    np.testing.assert_allclose(pd.eval(slope, {x: a}), reference, atol=1e-5)
