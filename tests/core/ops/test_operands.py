"""Ops on arrays, where no operand is a Variable, and what they say of arguments that do not fit."""

import numpy as np
import pytest

import pd_core as pd

from .cells import gru, gru_reset_after, lstm, sigmoid


def array(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


ROWS = {
    "lstm_cell": (pd.lstm_cell, lstm, [array(2, 12), array(2, 3)]),
    "gru_cell": (pd.gru_cell, gru, [array(2, 9), array(2, 3), array(3, 6), array(3, 3)]),
    "gru_cell_reset_after": (
        pd.gru_cell_reset_after,
        gru_reset_after,
        [array(2, 9), array(2, 9), array(2, 3)],
    ),
    "square_error": (
        pd.square_error,
        lambda x, t: ((x - t) ** 2).sum(1, keepdims=True),
        [array(2, 3), array(2, 3) + 1],
    ),
    "sigmoid_cross_entropy": (
        pd.sigmoid_cross_entropy,
        lambda z, t: -t * np.log(sigmoid(z)) - (1 - t) * np.log(1 - sigmoid(z)),
        [array(2, 3), np.float32([[1, 0, 1], [0, 1, 0.5]])],
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_arrays_are_operands(name):
    op, plain, arrays = ROWS[name]
    want = plain(*arrays)
    for given in (arrays, [a.tolist() for a in arrays]):
        result = op(*given)
        found = pd.eval(list(result) if isinstance(result, tuple) else result)
        assert np.allclose(found, want, atol=1e-5)


MISTAKES = {
    "columns": (
        lambda: pd.lstm_cell(array(2, 11), array(2, 3)),
        r"lstm_cell: a state of 3 takes gates of 12 columns, not const: float32\[2, 11\]",
    ),
    "columns of a GRU": (
        lambda: pd.gru_cell(array(2, 8), array(2, 3), array(3, 6), array(3, 3)),
        r"gru_cell: a state of 3 takes x of 9 columns, not const: float32\[2, 8\]",
    ),
    "axes": (
        lambda: pd.gru_cell_reset_after(array(9), array(9), array(3)),
        r"takes a state \[B, n\] and x \[B, 3n\], not const: float32\[3\] and const: float32\[9\]",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_cells_that_do_not_fit(name):
    build, message = MISTAKES[name]
    with pytest.raises(pd.ShapeError, match=message):
        build()
    with pd.guard(), pytest.raises(pd.ShapeError, match=message.replace("const", "value")):
        build()


def test_gates_of_unknown_width():
    gates, c = array(2, 12), array(2, 3)
    x = pd.Variable([None, None])
    assert np.allclose(pd.eval(list(pd.lstm_cell(x, c)), {x: gates}), lstm(gates, c), atol=1e-5)


def test_statistics_that_are_no_variables():
    x, ones = array(2, 3), np.ones(3, np.float32)
    y = pd.batch_norm(x, ones, 0 * ones, 0 * ones, ones, epsilon=0.0, use_global_stats=True)
    assert np.allclose(pd.eval(y), x)
    with pytest.raises(TypeError, match=r"mean and variance are persistent Variables, .*not ndarr"):
        pd.batch_norm(x, ones, 0 * ones, 0 * ones, ones)
