"""An index out of range names the operator that it was for and its line, fused or not."""

import inspect

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


def two_gathers():
    first, second = pd.Variable(data=np.ones((5, 4), f32)), pd.Variable(data=np.ones((3, 4), f32))
    i, j = pd.Variable(shape=[None], dtype="int64"), pd.Variable(shape=[None], dtype="int64")
    a = pd.tanh(pd.gather(first, i * 1))
    b = pd.tanh(pd.gather(second, j * 1))  # here
    return pd.exp(a * b + 1.0), {i: [0, 1], j: [0, 4]}, "4 in row 1 is outside -3 … 2"


def before_a_scan():
    table, ids = pd.Variable(data=np.ones((5, 4), f32)), pd.Variable([None, 2], dtype="int64")

    def body(s, i):
        e = pd.gather(table, i + 0)  # here
        s = pd.tanh(s) * 2.0 + e
        return s, pd.exp(s)

    _, ys = pd.scan(body, pd.constant(np.zeros((2, 4), f32)), ids)
    return ys, {ids: [[0, 1], [7, 2]]}, "7 is outside -5 … 4"


def in_a_scan():
    tables = pd.Variable(data=np.ones((5, 4), f32)), pd.Variable(data=np.ones((9, 4), f32))
    steps = pd.Variable([None, 2])

    def body(s, x):
        i = pd.cast(pd.reduce_sum(s, axis=1), "int64")
        e = pd.gather(tables[1], i)
        e += pd.gather(tables[0], i)  # here
        return pd.tanh(e) + s + pd.unsqueeze(x, 1), pd.exp(e)

    _, ys = pd.scan(body, pd.constant(np.zeros((2, 4), f32)), steps)
    return ys, {steps: np.ones((3, 2), f32)}, "7 is outside -5 … 4"


def in_a_loop():
    table, n = pd.Variable(data=np.ones((5, 4), f32)), pd.Variable(shape=[], dtype="int64")

    def body(k, s):
        e = pd.gather(table, k)  # here
        return k + 1, pd.tanh(s + e) * 0.5

    start = [pd.constant(np.int64(0)), pd.constant(np.zeros(4, f32))]
    _, s = pd.while_loop(lambda k, s: k < n, body, start)
    return s, {n: 9}, "5 is outside -5 … 4"


def in_a_branch():
    table, i = pd.Variable(data=np.ones((5, 4), f32)), pd.Variable(shape=[None], dtype="int64")

    def then():
        h = pd.gather(table, i - 1)  # here
        return pd.reduce_sum(pd.exp(pd.tanh(h)))

    y = pd.cond(pd.reduce_sum(i) > 0, then, lambda: pd.reduce_sum(pd.tanh(table)))
    return y, {i: [0, 9]}, "8 in row 1 is outside -5 … 4"


def costs_of_steps():
    x, y = pd.Variable([None, 3]), pd.Variable([None, 2], dtype="int64")
    w = pd.Variable(data=np.ones((3, 4), f32))

    def body(s, labels):
        cost = pd.softmax_cross_entropy(pd.matmul(s, w), labels)  # here
        return s * 0.5 + pd.reduce_mean(cost) * 0.1, cost

    last, costs = pd.scan(body, x, y)
    total = pd.reduce_sum(last) + pd.reduce_mean(costs)
    return total, {x: np.ones((2, 3), f32), y: [[0, 1], [2, 9]]}, "9 is outside -4 … 3"


PROGRAMS = two_gathers, before_a_scan, in_a_scan, in_a_loop, in_a_branch, costs_of_steps


@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_line_of_the_index_is_named(program, fused):
    lines, start = inspect.getsourcelines(program)
    line = next(start + k for k, text in enumerate(lines) if text.endswith("# here\n"))
    target, feeds, text = program()
    with pytest.raises(pd.OutOfRange) as error, pd.fused(fused):
        pd.eval(target, feeds)
    said = str(error.value)
    assert text.split(" is ")[1] in said and text.split()[0] in said, said
    assert f"test_index_errors.py:{line}" in said, said
    assert "Gather" in said
