"""Operators of integers in programs: no division ends the process; which are left as they are."""

import json
import subprocess
import sys

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend import ort, program
from pd_core.graph.node import ancestors

from .divisions import TYPES, operands

# NumPy's, of overflow and of x // 0
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(scope="module")
def results():
    """Run `divisions` in a process; return {name of an evaluation: list}."""
    command = [sys.executable, "-m", "tests.core.backend.divisions"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("dtype", TYPES)
def test_no_division_ends_the_process(results, dtype):
    """Those of files are toward zero, as ONNX has them; operators and loops divide as NumPy."""
    a, b = operands(dtype)
    toward_zero = a // b + ((a % b != 0) & ((a < 0) != (b < 0)))
    want = {"Div": toward_zero.astype(dtype), "Mod": a % b, "fmod": np.fmod(a, b)}
    for kind in ("", " by a constant"):
        for name, y in want.items():
            assert results[f"{name} {dtype}{kind}"] == y.tolist(), name
    assert results[f"guard {dtype}"] == (a // b).tolist()
    assert results[f"loop {dtype}"] == (a // b + a % b).tolist()


def built(y, *feeds):
    """The operators of the program of one target."""
    return [n.op_type for n in ancestors(program.build([y], [], feeds, False, {}).outputs)]


def test_operators_that_lose_nothing_stay():
    """Divisors that are known, and sums of masks, counts and sizes, cost what they did."""
    x, i = pd.Variable([None, 4]), pd.Variable([None], dtype="int64")
    assert built(i % 7, i) == ["Mod"]
    assert built(pd.apply("Div", i, 7), i) == ["Div"]
    assert built(pd.apply("Mod", i, np.int64(-2)), i) == ["Mod"]
    assert built(pd.count_nonzero(x), x).count("MatMul") == 0
    assert built(pd.reduce_sum(pd.cast(x > 0, "int32")), x) == ["Greater", "Cast", "ReduceSum"]
    assert built(pd.reduce_prod(pd.shape_of(x)), x) == ["Shape", "ReduceProd"]
    assert built(pd.reduce_sum(pd.shape_of(x)[:1]), x) == ["Shape", "Slice", "ReduceSum"]
    assert built(pd.reduce_max(pd.cast(i, "int32")), i) == ["Cast", "ReduceMax"]
    at_least_one = pd.maximum(i, 1)
    assert built(pd.apply("Div", i, at_least_one), i) == ["Less", "Where", "Div"]
    assert "MatMul" in built(pd.reduce_sum(i), i)
    assert "ArgMax" in built(pd.reduce_max(i), i)


def test_one_by_a_number_times_another():
    """ONNX Runtime makes c / b of (1 / b) c, which integers are not."""
    i = pd.Variable([None], dtype="int64")
    b = pd.maximum(i, 1)
    quotient = pd.apply("Div", np.int64(1), b)
    results = pd.eval([quotient * 7, 1 // b * 7, pd.fmod(1, b)], {i: [1, 2, 5]})
    assert [y.tolist() for y in results] == [[7, 0, 0], [7, 0, 0], [0, 1, 1]]


def test_an_exported_file_computes_the_same(tmp_path):
    """A plain session of ONNX Runtime does not lose what the session here keeps."""
    x = pd.Variable("x", shape=[None], dtype="int64")
    results = [pd.reduce_sum(x), x**3, x // -1, x % 3, pd.maximum(x, 0), pd.reduce_max(x)]
    a = np.array([np.iinfo("int64").min, 2**53 + 1, 2**31, -5, 0])
    file = tmp_path / "whole.onnx"
    pd.export_onnx(str(file), results, inputs=[x])
    found = ort.session(file.read_bytes()).run(None, {"x": a})
    want = [a.sum(), a**3, a // -1, a % 3, np.maximum(a, 0), a.max()]
    for y, w in zip(found, want, strict=True):
        np.testing.assert_array_equal(y, w)
