"""Arrays without elements, on which kernels of ONNX Runtime would end the process."""

import subprocess
import sys

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend import program
from pd_core.backend.passes import CPU
from pd_core.backend.passes.device import for_device
from pd_core.graph.node import ancestors

from .empty_programs import EQUATIONS, LAYERS, SEQUENCES


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Run empty_programs in a process; return {name of an evaluation: array}."""
    file = tmp_path_factory.mktemp("empty") / "results.npz"
    command = [sys.executable, "-m", "tests.core.backend.empty_programs", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return np.load(file)


@pytest.mark.parametrize("kind", SEQUENCES)
@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_no_sequences_and_no_steps(results, name, kind):
    width = {"both directions": 10, "lstm": 5, "gru": 5}.get(name, 4)
    assert results[f"{name}: {kind}"].shape == (*SEQUENCES[kind][:2], width)


@pytest.mark.parametrize("text", EQUATIONS)
def test_equations(results, text):
    want = np.einsum(text, *(np.ones(shape, np.float32) for shape in EQUATIONS[text]))
    np.testing.assert_array_equal(results[text], want)


def test_a_state_of_no_steps_stays(results):
    assert (results["gru of 0 steps"] == 1).all()
    assert results["gru of 0 steps"].shape == results["gru of 1 step"].shape == (1, 2, 3)
    assert (results["gru of 1 step"] != 1).all()


def test_an_attention_without_keys_is_zero():
    q, k = pd.Variable([None, 2, None, 4]), pd.Variable([None, 2, None, 4])
    v = pd.Variable([None, 2, None, 3])
    y = pd.attention(q, k, v)
    feeds = {q: np.ones((1, 2, 5, 4)), k: np.ones((1, 2, 0, 4)), v: np.ones((1, 2, 0, 3))}
    assert (pd.eval(y, feeds) == np.zeros((1, 2, 5, 3))).all()


# ---- with elements


@pytest.mark.parametrize(
    "text",
    ["bij,bkj->bik", "ij,kj", "i...j,k...j->i...k", "aij,bja->...i", "ii,ji->j", "ij,jk,lk->li"],
)
@pytest.mark.parametrize("is_known", [False, True])
def test_operands_in_order(text, is_known, rng):
    sizes = dict(zip("abijkl", (2, 3, 4, 4, 5, 6), strict=True)) | {"...": 7}
    terms = [term.replace("...", "N") for term in text.split("->")[0].split(",")]
    arrays = [
        rng.normal(size=[7 if t == "N" else sizes[t] for t in term]).astype(np.float32)
        for term in terms
    ]
    xs = [pd.Variable(a.shape if is_known else [None] * a.ndim) for a in arrays]
    y = pd.einsum(text, *xs)
    found = pd.eval(y, dict(zip(xs, arrays, strict=True)))
    np.testing.assert_allclose(found, np.einsum(text, *arrays), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dims", [[None, 6, 4], [2, 6, 4]])
def test_a_branch_only_where_a_size_is_unknown(dims):
    x = pd.Variable(dims)
    w, r = np.ones((1, 12, 4), np.float32), np.ones((1, 12, 3), np.float32)
    outputs = pd.apply("LSTM", x, w, r, outputs=3, hidden_size=3)
    graph = program.build(list(outputs), [], [x], False, {})
    found = [node.op_type for node in ancestors(for_device(graph, CPU).outputs)]
    assert found.count("If") == (None in dims)  # one, whose outputs all are read


@pytest.mark.parametrize("shape", [(0, 4), (0, 3, 4), (2, 0, 4)])
def test_places_of_maxima_of_nothing_have_their_shape(shape):
    x, a = pd.Variable([None] * len(shape)), np.zeros(shape, np.float32)
    ys = [f(x, -1, keep_dim=keep) for f in (pd.arg_max, pd.arg_min) for keep in (False, True)]
    shapes = [y.shape for y in pd.eval(ys, {x: a})]
    assert shapes == [shape[:-1], (*shape[:-1], 1)] * 2


@pytest.mark.parametrize("shape", [(0, 4, 5), (2, 0, 4, 5), (0, 2, 4, 5), (2, 3, 4, 5), (2, 4, 0)])
@pytest.mark.parametrize("is_known", [False, True])
def test_a_matrix_times_matrices(shape, is_known, rng):
    a, b = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=shape).astype(np.float32)
    x, y = pd.Variable(a.shape if is_known else [None, None]), pd.Variable([None] * len(shape))
    found = pd.eval(pd.matmul(x, y), {x: a, y: b})
    np.testing.assert_allclose(found, a @ b, rtol=1e-5, atol=1e-6)
