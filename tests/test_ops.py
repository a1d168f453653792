"""Every row of the op tables: values, announced types, gradients, and the runtimes in agreement."""

import numpy as np
import onnx
import pytest

import pd_core as pd
from pd_core.backend import ort, program
from pd_core.backend.lowering import lower

from .ops import CASES, DIFFERENTIABLE
from .ops.tower import Directions, build, run, slopes, slots, tower

ROWS = pytest.mark.parametrize("row", CASES, ids=str)
GRADIENTS = pytest.mark.parametrize("row", DIFFERENTIABLE, ids=str)

# ONNX Runtime 1.31: operators without a float64 CPU kernel
SINGLE = {
    *("Conv", "ConvTranspose", "AveragePool", "Resize"),
    *("Softplus", "Softsign", "Erf", "LeakyRelu"),
}


def close(got, want, rtol):
    """Equal within rtol of the largest element."""
    want = np.asarray(want)
    scale = np.abs(want).max(initial=0) if want.dtype.kind == "f" else 0
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * max(scale, 1e-3))


def fits(variable, array):
    """The announced dtype, rank and sizes are those of the value."""
    assert array.dtype == variable.dtype
    assert array.ndim == variable.rank
    for announced, size in zip(variable.shape, array.shape, strict=True):
        assert announced in (None, size), f"{variable!r} came out as {array.shape}"


@ROWS
@pytest.mark.parametrize("batch", [False, True], ids=["static", "batch"])
def test_value(row, batch, rng, device):
    arrays = row.arrays(rng)
    inputs = slots(row, arrays, batch)
    results = build(row, inputs)
    session = pd.Session(device)
    got = run(session, results, dict(zip(inputs, arrays, strict=True)), row.training)
    for y, found, wanted in zip(results, got, row.expected(arrays), strict=True):
        fits(y, found)
        assert found.shape == np.shape(wanted)
        if row.discrete:
            np.testing.assert_array_equal(found, wanted)
        else:
            close(found, wanted, row.rtol)


@pytest.mark.parametrize("row", [r for r in CASES if r.name[0].isupper()], ids=str)
def test_named_operator_is_what_is_added(row, rng):
    y = build(row, slots(row, row.arrays(rng)))[0]
    assert y.node.op_type == row.name


def prepared(row, rng, dtype, batch):
    """The row's tower, its feeds, and where to go for a central difference."""
    arrays = row.arrays(rng, dtype)
    inputs = slots(row, arrays, batch)
    wide = [a.shape for a in arrays if a.dtype.kind == "f"]
    results = row.expected(arrays)
    shapes = wide + [np.shape(y) for y in results]
    directions = Directions(rng, shapes)
    points = [directions(-1, k) for k in range(len(shapes))]
    weights = [rng.standard_normal(np.shape(y)) for y in results]
    built = tower(row, inputs, directions)
    feeds = dict(zip(inputs, arrays, strict=True))
    feeds.update(zip(built.variables[len(wide) :], weights, strict=True))
    return built, feeds, dict(zip(built.variables, points, strict=True))


@GRADIENTS
def test_gradients_of_every_order_are_slopes(row, rng):
    built, feeds, points = prepared(row, rng, "float64", batch=False)
    session = pd.Session("reference")
    for numeric, analytic in slopes(session, built.levels, feeds, points, row):
        assert analytic == pytest.approx(numeric, rel=1e-6, abs=1e-6)


@GRADIENTS
def test_gradients_on_cpu_with_an_unknown_batch(row, rng):
    truth, feeds, _ = prepared(row, rng, "float64", batch=False)
    exact = run(pd.Session("reference"), truth.gradients, feeds, row.training)
    rng = np.random.default_rng(2017)
    built, feeds, _ = prepared(row, rng, "float32", batch=True)
    got = run(pd.Session(), built.gradients, feeds, row.training)
    for g, found, wanted in zip(built.gradients, got, exact, strict=True):
        fits(g, found)
        close(found, wanted, 10 * row.rtol)


@GRADIENTS
def test_gradients_in_double_precision_on_cpu(row, rng):
    built, feeds, _ = prepared(row, rng, "float64", batch=False)
    graph = program.build(built.gradients, [], list(feeds), row.training, {})
    missing = {n.op_type for n in pd.node.ancestors(graph.outputs)} & SINGLE
    if missing:
        pytest.skip(f"no float64 CPU kernel for {', '.join(sorted(missing))}")
    exact, got = (
        run(pd.Session(device), built.gradients, feeds, row.training)
        for device in ("reference", "cpu")
    )
    for found, wanted in zip(got, exact, strict=True):
        assert found.dtype == np.float64
        close(found, wanted, 1e-10)


@ROWS
def test_model_is_valid_and_optimisation_changes_nothing(row, rng):
    if row.discrete:
        arrays = row.arrays(rng)
        inputs = slots(row, arrays, batch=True)
        targets, feeds = build(row, inputs), dict(zip(inputs, arrays, strict=True))
    else:
        built, feeds, _ = prepared(row, rng, "float32", batch=True)
        targets = built.results + built.gradients
    graph = program.build(targets, [], list(feeds), row.training, {})
    lowered = lower(graph)
    onnx.checker.check_model(lowered.model, full_check=True)
    values = {lowered.names[v]: np.asarray(feeds[v], v.dtype) for v in graph.feeds}
    session = pd.Session()
    session.initialize(graph.states)
    values.update({lowered.names[v]: session.get(v) for v in graph.states})
    if graph.seed is not None:
        values[lowered.names[graph.seed]] = np.zeros(2, np.int64)
    plain, optimised = (
        ort.session(lowered.model.SerializeToString(), optimize=on).run(lowered.outputs, values)
        for on in (False, True)
    )
    for a, b in zip(plain, optimised, strict=True):
        close(b, a, row.rtol)
