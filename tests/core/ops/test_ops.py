"""Every row of the op tables: values, announced types, gradients, and the runtimes in agreement."""

import numpy as np
import onnx
import pytest

import pd_core as pd
from pd_core.backend import ort, program
from pd_core.backend.lowering import lower
from tests.conftest import DEVICES
from tests.thinned import EVERY, one_of_each

from . import CASES, DIFFERENTIABLE
from .tower import build, run, slopes, slots, tower

# of each operator with each set of options, and some others
SLOPES = one_of_each(DIFFERENTIABLE, lambda row: (row.name, *row.options), 6)
GRADIENTS = pytest.mark.parametrize("row", SLOPES, ids=str)


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


# ONNX's evaluator computes what is differentiated in `test_gradients`, too
VALUES = [("reference", row) for row in one_of_each(CASES, lambda row: row.name, 4)]
SOME = one_of_each(CASES, lambda row: (row.name, *row.options), 2)
VALUES += [(device, row) for device in DEVICES if device != "reference" for row in SOME]


_NUMBERS = {row: number for number, row in enumerate(CASES)}
_FIRST = set(one_of_each(CASES, lambda row: row.name, len(CASES)))


def batches(row, device):
    """Return whether the batch is unknown: yes and no for a row of each operator, else in turn."""
    if EVERY or (device != "reference" and row in _FIRST):
        return False, True
    return (_NUMBERS[row] % 2 == 0,)


@pytest.mark.parametrize("device, row", VALUES, ids=str, indirect=["device"])
def test_value(row, rng, device):
    """A row that has the name of an operator adds this one."""
    arrays = row.arrays(rng)
    expected = row.expected(arrays)
    for batch in batches(row, device):
        pd.reset(seed=0)
        inputs = slots(row, arrays, batch)
        results = build(row, inputs)
        assert not row.name[0].isupper() or results[0].node.op_type == row.name
        feeds = dict(zip(inputs, arrays, strict=True))
        got = run(pd.Session(device), results, feeds, row.training)
        sizes = {d: n for x, a in feeds.items() for d, n in zip(x.dims, a.shape, strict=True)}
        for y, value, wanted in zip(results, got, expected, strict=True):
            fits(y, value, sizes)
            assert value.shape == np.shape(wanted)
            close(value, wanted, row.rtol)


def exact_gradients(row):
    """Gradients of every order by ONNX's evaluator, in float64: slopes, and those of the CPU."""
    built = tower(row, generator(), "float64", batch=False)
    reference = pd.Session("reference")
    exact = run(reference, built.gradients, built.feeds, row.training)
    pairs = slopes(reference, built, row.training, exact)
    assert pairs
    for numeric, analytic in pairs:
        assert analytic == pytest.approx(numeric, rel=1e-6, abs=1e-6)
    got = run(pd.Session(), built.gradients, built.feeds, row.training)
    for value, wanted in zip(got, exact, strict=True):
        assert value.dtype == np.float64
        close(value, wanted, ROUNDED.get(row.name, 1e-10))
    return exact


@GRADIENTS
def test_gradients(row):
    """Those of an unknown batch in float32 are the exact ones: the model is valid, and optimising
    it changes nothing.

    A test for all, as the exact ones, of ONNX's evaluator in Python, take the longest.
    """
    exact = exact_gradients(row)
    pd.reset(seed=0)
    built = tower(row, generator(), "float32", batch=True)
    targets = built.results + built.gradients
    plain, optimised = both_ways(targets, built.feeds, row.training)
    for y, value in zip(targets, plain, strict=True):
        fits(y, value)
    for value, same in zip(plain, optimised, strict=True):
        close(same, value, 10 * row.rtol)
    for value, wanted in zip(optimised[len(built.results) :], exact, strict=True):
        close(value, wanted, 10 * row.rtol)


CONSTANT = one_of_each([r for r in CASES if not r.smooth], lambda row: (row.name, *row.options), 4)


@pytest.mark.parametrize("row", CONSTANT, ids=str)
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
