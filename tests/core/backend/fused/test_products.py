"""Products with a transposed first factor, against NumPy in double precision."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import pd_core as pd
from pd_core.backend.fused import program
from pd_core.backend.fused.build import available, build
from pd_core.backend.fused.products import operators
from pd_core.backend.fused.products.operators import DOMAIN, fuse
from tests.core.backend.fused.alone import kinds_of, model_of, run

pytestmark = pytest.mark.skipif(not available(), reason="there is no C compiler here")

N = helper.make_node
FLOAT, DOUBLE = TensorProto.FLOAT, TensorProto.DOUBLE


def model(depth, rows, columns, kind=FLOAT, perm=(1, 0)):
    """Return a model of xᵀ z for x [depth, rows] and z [depth, columns]."""
    nodes = [N("Transpose", ["x"], ["t"], perm=list(perm)), N("MatMul", ["t", "z"], ["y"])]
    x = [depth, rows] if list(perm) == [1, 0] else [rows, depth]
    return model_of(nodes, {"x": (kind, x), "z": (kind, [depth, columns])}, ["y"])


def fused(made):
    """Return (the fused model, its library or None, how many products were replaced)."""
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    source, count = fuse(copy, kinds_of(made))
    return copy, None if source is None else build(source), count


@pytest.fixture
def any_size(monkeypatch):
    monkeypatch.setattr(operators, "_SIDE", 1)
    monkeypatch.setattr(operators, "_DEPTH", 1)


SIZES = [(1, 1, 1), (3, 7, 5), (127, 6, 16), (129, 13, 17), (600, 100, 40), (1100, 97, 530)]
SIZES += [(2100, 65, 64), (128, 1, 513), (130, 300, 1)]


@pytest.mark.parametrize("depth, rows, columns", SIZES)
def test_sizes(depth, rows, columns, any_size):
    made = model("k", rows, columns)
    changed, library, count = fused(made)
    assert count == 1 and [node.domain for node in changed.graph.node] == [DOMAIN]
    rng = np.random.default_rng(0)
    x, z = (rng.normal(size=(depth, n)).astype("f") for n in (rows, columns))
    y = run(changed, {"x": x, "z": z}, library)["y"]
    expected = x.astype(np.float64).T @ z
    bound = np.abs(x.astype(np.float64)).T @ np.abs(z)
    assert np.abs(y - expected).max() <= 1e-6 * bound.max()
    assert y.tobytes() == run(changed, {"x": x, "z": z}, library)["y"].tobytes()


def test_nothing(any_size):
    changed, library, _ = fused(model("k", 70, 80))
    y = run(changed, {"x": np.zeros((0, 70), "f"), "z": np.zeros((0, 80), "f")}, library)["y"]
    assert y.shape == (70, 80) and not y.any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e-41])
def test_special_values(value, any_size):
    """They reach the row, or column, of the result that they do in the runtime's product."""
    made = model(600, 70, 33)
    changed, library, _ = fused(made)
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.normal(size=(600, 70)).astype("f"),
        "z": rng.normal(size=(600, 33)).astype("f"),
    }
    for name in feeds:
        given = {**feeds, name: feeds[name].copy()}
        given[name][500, 7] = value
        with np.errstate(invalid="ignore"):
            expected, y = run(made, given)["y"], run(changed, given, library)["y"]
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-3)


def test_other_sizes_at_run_time_are_an_error(any_size):
    """By their types the factors have as many rows, but not at run time."""
    changed, library, _ = fused(model("k", 70, 80))
    with pytest.raises(Exception, match="do not have as many rows"):
        run(changed, {"x": np.zeros((3, 70), "f"), "z": np.zeros((4, 80), "f")}, library)


STAY = {
    "float64": model(600, 70, 80, DOUBLE),
    "not transposed": model(600, 70, 80, perm=(0, 1)),
    "few rows": model(600, 63, 80),
    "few columns": model(600, 70, 63),
    "short": model(511, 70, 80),
    "a batch of unknown size": model("k", 70, 80),
}


@pytest.mark.parametrize("made", STAY.values(), ids=STAY)
def test_what_stays(made):
    assert fused(made)[2] == 0


def test_gradients_of_weights(monkeypatch):
    """Those of a layer on all steps of sequences are such products."""
    counts = []

    def counted(*arguments):
        source, count = fuse(*arguments)
        counts.append(count)
        return source, count

    monkeypatch.setattr(program, "FUSERS", [program.Fuser(counted)])
    monkeypatch.setattr(program, "_remembered", lambda name: None)  # but libraries are
    pd.clear_programs()
    x = pd.Variable([None, 32, 64])
    cost = pd.reduce_mean(pd.square(pd.nn.FC(64)(x)))
    step = pd.SGDOptimizer(0.1).minimize(cost)
    feeds = {x: np.random.default_rng(0).normal(size=(20, 32, 64)).astype("f")}
    results = []
    for is_fused in (False, True):
        with pd.Session(fused=is_fused):
            results.append([pd.eval([cost, step], feeds)[0] for _ in range(3)])
    assert counts == [1]
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5)
