"""Results that exports write as an operator: what they are elsewhere."""

import numpy as np

import pd_core as pd
from pd_core import ops
from pd_core.ops.onnx_form import onnx_form
from pd_core.training.graph_def import graph_def


def test_a_form_leaves_values_gradients_and_names_as_they_are():
    x = pd.Variable("x", shape=[3])
    square, half = ops.square(x), x * 0.5
    y, z = onnx_form("Anything", [square, half], x, None, alpha=1.0)
    assert (y.name, z.name) == (square.name, half.name)
    (dx,) = pd.gradients(pd.reduce_sum(y * z), [x])
    values = pd.eval([y, z, dx], {x: [1.0, 2.0, 3.0]})
    np.testing.assert_allclose(values, [[1, 4, 9], [0.5, 1, 1.5], [1.5, 6, 13.5]])


def test_a_form_adds_nothing_to_programs():
    x = pd.Variable("x", shape=[3])
    square = ops.square(x)
    (y,) = onnx_form("Anything", [square], x)
    plain, formed = ([node.op_type for node in pd.subgraph(v)] for v in (square, y))
    assert formed == plain


def test_pictures_of_graphs_leave_forms_out():
    x = pd.Variable("x", shape=[None, 4])
    drawn = {node.op for node in graph_def([pd.layer.layer_norm(x)]).node}
    assert "OnnxForm" not in drawn
    assert "Standardize" in drawn


def test_values_at_hand_have_no_forms():
    with pd.guard():
        y = pd.layer_norm(pd.to_variable(np.float32([[1, 2, 3]])))
        assert y.node.op_type != "OnnxForm"
        np.testing.assert_allclose(y.numpy(), [[-1.2247, 0, 1.2247]], atol=1e-3)
