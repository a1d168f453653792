"""The same network trained by the face and by the core: equal parameters after 20 batches."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle

RATE, ROWS, BATCHES = 0.05, 8, 20
A, B = 0.01, 0.5  # of the schedule


def data():
    rng = np.random.default_rng(5)
    for _ in range(BATCHES):
        yield rng.normal(size=(ROWS, 6)).astype("f"), rng.integers(0, 3, ROWS)


def by_the_face(optimizer):
    """{parameter name: value} before and after, and the costs."""
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(6))
    label = paddle.layer.data(name="label", type=paddle.data_type.integer_value(3))
    fast = paddle.attr.Param(learning_rate=2.0)
    h = paddle.layer.fc(input=x, size=5, name="h", param_attr=fast)
    p = paddle.layer.fc(input=h, size=3, name="p", act=paddle.activation.Softmax())
    cost = paddle.layer.cross_entropy_cost(input=p, label=label)
    pool = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost=cost, parameters=pool, update_equation=optimizer)
    start = {name: pool.get(name).reshape(pool.get_shape(name)) for name in pool.names()}
    costs = []

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            costs.append(event.cost)

    def reader():
        for rows, labels in data():
            yield [(r, int(k)) for r, k in zip(rows, labels, strict=True)]

    trainer.train(reader, event_handler=handler)
    return start, {name: pool.get(name) for name in pool.names()}, costs


def by_the_core(start, optimizer):
    """The same from the same start: (values by name, costs)."""
    with pd.fresh():
        x, label = pd.Variable([None, 6]), pd.Variable([None], dtype="int64")
        rates = {"_h.w0": 2.0}
        w, b, v, c = (
            pd.Variable(name, data=start[name], learning_rate=rates.get(name, 1.0))
            for name in ("_h.w0", "_h.wbias", "_p.w0", "_p.wbias")
        )
        p = pd.softmax(pd.matmul(pd.tanh(pd.matmul(x, w) + b), v) + c)
        cost = pd.reduce_sum(pd.cross_entropy(p, label))
        step = optimizer.minimize(cost)
        costs = [float(pd.eval([step, cost], {x: r, label: k})[1]) / ROWS for r, k in data()]
        return {variable.name: variable.val() for variable in (w, b, v, c)}, costs


def schedule(steps):
    """2017's poly schedule counts samples, those of the coming batch included."""
    return pd.pow(1.0 + (steps + 1.0) * (ROWS * A), -B) * RATE


CASES = {
    "sgd": (lambda **k: paddle.optimizer.Momentum(**k), pd.SGDOptimizer),
    "momentum": (
        lambda **k: paddle.optimizer.Momentum(momentum=0.9, **k),
        lambda rate, **k: pd.MomentumOptimizer(rate, 0.9, **k),
    ),
    # 2017 added epsilon to the moment before its correction: one that is too small to matter
    "adam": (
        lambda **k: paddle.optimizer.Adam(epsilon=1e-14, **k),
        lambda rate, **k: pd.AdamOptimizer(rate, epsilon=1e-14, **k),
    ),
}
SETTINGS = {
    "plain": ({}, {}),
    "l2": (
        {"regularization": paddle.optimizer.L2Regularization(0.3)},
        {"regularizer": pd.L2(0.3)},
    ),
    "clipped": ({"gradient_clipping_threshold": 0.5}, {"clip": pd.ClipElements(0.5)}),
    "scheduled": ({"learning_rate_decay_a": A, "learning_rate_decay_b": B}, {}),
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", CASES)
def test_the_face_and_the_core_give_the_same_numbers(name, setting):
    face, core = CASES[name]
    ours, theirs = SETTINGS[setting]
    if name == "adam" and setting == "l2":
        theirs = {}  # 2017's Adam does not see L2
    start, after, costs = by_the_face(face(learning_rate=RATE, **ours))
    rate = schedule if setting == "scheduled" else RATE
    found, core_costs = by_the_core(start, core(rate, **theirs))
    assert np.allclose(costs, core_costs, atol=1e-6) and costs[-1] != costs[0]
    for parameter, value in after.items():
        assert np.allclose(value, found[parameter].ravel(), atol=1e-6), parameter
