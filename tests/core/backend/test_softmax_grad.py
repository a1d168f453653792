"""The gradient of a softmax whose rows are the weights of a sum, from fewer numbers."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend import program
from pd_core.graph.node import ancestors


def weighted(scores, v):
    """softmax(scores) v."""
    return pd.matmul(pd.softmax(scores), v)


def expected(scores, v, dz):
    """The gradient of sum(softmax(scores) v dz) in the scores."""
    y = np.exp(scores - scores.max(-1, keepdims=True))
    y /= y.sum(-1, keepdims=True)
    dy = dz @ np.swapaxes(v, -1, -2)
    return y * (dy - (dy * y).sum(-1, keepdims=True))


def summed(targets, feeds, sizes=()):
    """The sizes of what a program sums over."""
    graph = program.build(targets, [], feeds, True, dict(sizes))
    order = ancestors(graph.outputs)
    return [node.inputs[0].dims for node in order if node.op_type == "ReduceSum"]


def check_slope(cost, gradient, x, feeds, rng):
    """Compare the gradient of a cost in x, along a random direction, with a finite difference."""
    values = {v: rng.normal(size=v.dims).astype("float32") for v in feeds}
    ahead = rng.normal(size=x.dims).astype("float32")
    got = np.sum(pd.eval(gradient, values) * ahead)
    up, down = (pd.eval(cost, {**values, x: values[x] + h * ahead}) for h in (1e-2, -1e-2))
    np.testing.assert_allclose(got, (up - down) / 2e-2, rtol=5e-3)


@pytest.mark.parametrize("lead", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize(("width", "taken"), [(4, True), (7, False), (9, False)])
def test_sums_run_over_the_shorter_rows(lead, width, taken, rng):
    shapes = [(*lead, 5, 7), (*lead, 7, width), (*lead, 5, width)]
    scores, v, dz = feeds = [pd.Variable(list(shape)) for shape in shapes]
    z = weighted(scores, v)
    (dscores,) = pd.gradients(z, [scores], [dz])
    assert summed([z, dscores], feeds) == [(*lead, 5, width if taken else 7)]
    arrays = [rng.normal(size=shape) for shape in shapes]
    _, got = pd.eval(
        [z, dscores], {k: a.astype("float32") for k, a in zip(feeds, arrays, strict=True)}
    )
    np.testing.assert_allclose(got, expected(*arrays), atol=2e-6)


def test_values_that_all_sequences_share(rng):
    shapes = [(2, 3, 5, 7), (7, 4), (2, 3, 5, 4)]
    scores, v, dz = feeds = [pd.Variable(list(shape)) for shape in shapes]
    z = weighted(scores, v)
    (dscores,) = pd.gradients(z, [scores], [dz])
    arrays = [rng.normal(size=shape) for shape in shapes]
    _, got = pd.eval(
        [z, dscores], {k: a.astype("float32") for k, a in zip(feeds, arrays, strict=True)}
    )
    np.testing.assert_allclose(got, expected(*arrays), atol=2e-6)


def test_lengths_seen_before_decide():
    scores, v, dz = feeds = [pd.Variable([None, None]), pd.Variable([None, 4]), pd.Variable([5, 4])]
    z = weighted(scores, v)
    (dscores,) = pd.gradients(z, [scores], [dz])
    columns = scores.dims[1]
    assert summed([z, dscores], feeds) == [scores.dims]
    assert summed([z, dscores], feeds, {columns: 3}.items()) == [scores.dims]
    (dims,) = summed([z, dscores], feeds, {columns: 30}.items())
    assert dims[-1] == 4


def weights_twice(scores, v):
    y = pd.softmax(scores)
    return pd.matmul(y, v) + pd.matmul(pd.square(y), v)


OTHERS = {
    "another axis": lambda scores, v: pd.matmul(pd.softmax(scores, axis=0), v),
    "weights that are changed before": lambda scores, v: pd.matmul(2.0 * pd.softmax(scores), v),
    "weights that are read twice": weights_twice,
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_stay_as_they_are(name, rng):
    scores, v = feeds = [pd.Variable([5, 7]), pd.Variable([7, 4])]
    z = OTHERS[name](scores, v)
    cost = pd.reduce_sum(pd.square(z))
    (dscores,) = pd.gradients(z, [scores], [2.0 * z])
    assert (5, 4) not in summed([z, dscores], feeds)
    check_slope(cost, dscores, scores, feeds, rng)


def test_second_derivatives(rng):
    scores, v = feeds = [pd.Variable([5, 7]), pd.Variable([7, 4])]
    (dscores,) = pd.gradients(pd.reduce_sum(pd.square(weighted(scores, v))), [scores])
    cost = pd.reduce_sum(pd.square(dscores))
    (second,) = pd.gradients(cost, [scores])
    check_slope(cost, second, scores, feeds, rng)
