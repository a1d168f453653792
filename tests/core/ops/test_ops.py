"""Every row of the op tables: values, announced types, gradients, and the runtimes in agreement."""

from functools import cache

import numpy as np
import onnx
import pytest

import pd_core as pd
from pd_core.backend import ort, program
from pd_core.backend.lowering import lower

from . import CASES, DIFFERENTIABLE
from .tower import build, run, slopes, slots, tower

ROWS = pytest.mark.parametrize("row", CASES, ids=str)
GRADIENTS = pytest.mark.parametrize("row", DIFFERENTIABLE, ids=str)


# Rows for which ONNX's evaluator rounds to float32: numbers among the attributes, which are so in a
# file, and the weights of pixels.
ROUNDED = {"LeakyRelu": 1e-7, "hard_gates": 1e-7, "interpolate": 1e-5}


def generator():
    """Return a generator with a fixed seed, so that samples of all precisions are the same."""
    return np.random.default_rng(2017)


def close(got, want, rtol):
    """Check that values agree within rtol of the largest element; integers and bools exactly."""
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
    else:
        scale = np.abs(want).max(initial=1e-3)
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * scale)


def fits(variable, array, sizes=None):
    """Check that a value has the dtype, rank and sizes that were announced.

    `sizes` are those of names so far: where two axes have one name they have one size.
    """
    assert array.dtype == variable.dtype
    assert array.ndim == variable.rank
    for name, size in zip(variable.dims, array.shape, strict=True):
        if sizes is not None and isinstance(name, str):
            assert sizes.setdefault(name, size) == size, f"{variable!r} came out as {array.shape}"
    for announced, size in zip(variable.shape, array.shape, strict=True):
        assert announced in (None, size), f"{variable!r} came out as {array.shape}"


@ROWS
@pytest.mark.parametrize("batch", [False, True], ids=["static", "batch"])
def test_value(row, batch, rng, device):
    arrays = row.arrays(rng)
    inputs = slots(row, arrays, batch)
    results = build(row, inputs)
    feeds = dict(zip(inputs, arrays, strict=True))
    got = run(pd.Session(device), results, feeds, row.training)
    sizes = {d: n for x, a in feeds.items() for d, n in zip(x.dims, a.shape, strict=True)}
    for y, value, wanted in zip(results, got, row.expected(arrays), strict=True):
        fits(y, value, sizes)
        assert value.shape == np.shape(wanted)
        close(value, wanted, row.rtol)


@pytest.mark.parametrize("row", [r for r in CASES if r.name[0].isupper()], ids=str)
def test_named_operator_is_what_is_added(row, rng):
    y = build(row, slots(row, row.arrays(rng)))[0]
    assert y.node.op_type == row.name


@cache
def truth(row):
    """Compute slopes and gradients by ONNX's evaluator, and gradients on the CPU, in float64."""
    with pd.fresh():
        built = tower(row, generator(), "float64", batch=False)
        reference = pd.Session("reference")
        pairs = slopes(reference, built, row.training)
        exact = run(reference, built.gradients, built.feeds, row.training)
        return pairs, exact, run(pd.Session(), built.gradients, built.feeds, row.training)


@GRADIENTS
def test_gradients_of_every_order_are_slopes(row):
    pairs, _, _ = truth(row)
    assert pairs
    for numeric, analytic in pairs:
        assert analytic == pytest.approx(numeric, rel=1e-6, abs=1e-6)


@GRADIENTS
def test_gradients_in_double_precision_on_cpu(row):
    _, exact, got = truth(row)
    for value, wanted in zip(got, exact, strict=True):
        assert value.dtype == np.float64
        close(value, wanted, ROUNDED.get(row.name, 1e-10))


@GRADIENTS
def test_gradients_on_cpu_with_an_unknown_batch(row):
    """The model is valid, and optimising it changes nothing."""
    _, exact, _ = truth(row)
    built = tower(row, generator(), "float32", batch=True)
    targets = built.results + built.gradients
    plain, optimised = both_ways(targets, built.feeds, row.training)
    for y, value in zip(targets, plain, strict=True):
        fits(y, value)
    for value, same in zip(plain, optimised, strict=True):
        close(same, value, 10 * row.rtol)
    for value, wanted in zip(optimised[len(built.results) :], exact, strict=True):
        close(value, wanted, 10 * row.rtol)


@pytest.mark.parametrize("row", [r for r in CASES if not r.smooth], ids=str)
def test_model_without_gradients(row, rng):
    arrays = row.arrays(rng)
    inputs = slots(row, arrays, batch=True)
    feeds = dict(zip(inputs, arrays, strict=True))
    plain, optimised = both_ways(build(row, inputs), feeds, row.training)
    for value, same in zip(plain, optimised, strict=True):
        np.testing.assert_array_equal(value, same)


def both_ways(targets, feeds, training):
    """What a checked model of these targets gives without and with ONNX Runtime's optimisation."""
    graph = program.build(targets, [], list(feeds), training, {})
    lowered = lower(graph)
    onnx.checker.check_model(lowered.model, full_check=True)
    pairs = zip(graph.fed, graph.feeds, strict=True)
    values = {lowered.names[slot]: np.asarray(feeds[v], v.dtype) for v, slot in pairs}
    session = pd.default_session()
    values.update({lowered.names[v]: session.get(v) for v in graph.states})
    if graph.seed is not None:
        values[lowered.names[graph.seed]] = np.zeros(graph.seed.dims, np.int64)
    model = lowered.model.SerializeToString()
    return [ort.session(model, optimize=on).run(lowered.outputs, values) for on in (False, True)]
