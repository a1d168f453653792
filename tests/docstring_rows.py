"""Calls that raise the errors which docstrings of training name: (name, error, call)."""

import numpy as np

import pd_core as pd


def f(*shape):
    """A feed slot of float32."""
    return pd.Variable(list(shape))


def i(*shape):
    """A feed slot of int64."""
    return pd.Variable(list(shape), dtype="int64")


def w(*shape):
    """A parameter of ones."""
    return pd.Variable(data=np.ones(shape, np.float32))


def total(*shape):
    """A cost, and the parameter that it depends on."""
    v = w(*shape)
    return pd.reduce_sum(v * v), v


def sgd(**settings):
    return pd.SGDOptimizer(0.1, **settings)


def in_two_groups():
    v = w(2)
    sgd(groups=[{"params": [v]}, {"params": [v]}])


def two_updates():
    optimizer, (cost, _) = pd.AdamOptimizer(), total(2)
    updates = optimizer.minimize(cost), optimizer.minimize(cost)
    optimizer.state()
    return updates


def loaded(name, value):
    optimizer, (cost, _) = pd.AdamOptimizer(), total(2)
    update = optimizer.minimize(cost)
    pd.eval(update)
    state = optimizer.state()
    key = next((k for k in state if k.endswith(name)), name)
    optimizer.load_state({**state, key: value})


def recorded_twice():
    average = pd.MovingAverage()
    average.record([pd.Variable("a", data=[1.0])])
    average.record([pd.Variable("b", data=[1.0])])


def half():
    v = pd.Variable("half", data=np.ones(2, np.float16))
    return pd.reduce_sum(v)


S = pd.schedules
OPTIMIZERS = [
    ("SGDOptimizer", "GraphError", in_two_groups),
    ("SGDOptimizer", "TypeError", lambda: sgd(accumulate=0.5)),
    ("SGDOptimizer", "ValueError", lambda: sgd(accumulate=0)),
    ("SGDOptimizer.minimize", "DTypeError", lambda: sgd().minimize(half())),
    ("SGDOptimizer.minimize", "GraphError", lambda: sgd().minimize(total(2)[0], [w(3)])),
    ("SGDOptimizer.minimize", "NoGradient", lambda: sgd().minimize(pd.cast(w(2), "int64"))),
    ("SGDOptimizer.minimize", "TypeError", lambda: sgd().minimize(total(2)[0], [{}])),
    (
        "SGDOptimizer.backward_and_update",
        "GraphError",
        lambda: sgd().backward_and_update(total(2)[0]),
    ),
    ("SGDOptimizer.state", "GraphError", two_updates),
    ("SGDOptimizer.load_state", "GraphError", lambda: loaded("nobody", 1.0)),
    ("SGDOptimizer.load_state", "ShapeError", lambda: loaded("/m", np.ones(7, np.float32))),
    ("Lookahead", "TypeError", lambda: pd.Lookahead(3)),
    ("Lookahead", "ValueError", lambda: pd.Lookahead(sgd(), k=0)),
    ("MovingAverage", "TypeError", lambda: pd.MovingAverage(start=0.5)),
    ("MovingAverage", "ValueError", lambda: pd.MovingAverage(1.0)),
    ("MovingAverage.record", "GraphError", recorded_twice),
    ("LBFGSOptimizer", "ValueError", lambda: pd.LBFGSOptimizer(max_iter=0)),
    (
        "LBFGSOptimizer.step",
        "GraphError",
        lambda: pd.LBFGSOptimizer().step(total(2)[0], var_list=[w(3)]),
    ),
    ("LBFGSOptimizer.step", "ShapeError", lambda: pd.LBFGSOptimizer().step(w(2))),
    ("LBFGSOptimizer.step", "TypeError", lambda: pd.LBFGSOptimizer().step(lambda: 3)),
    ("schedules.Piecewise", "ValueError", lambda: S.Piecewise((1,), (1.0,))),
    ("schedules.CosineRestarts", "ValueError", lambda: S.CosineRestarts(0.1, 0)),
    ("schedules.OneCycle", "ValueError", lambda: S.OneCycle(0.1, 10, anneal="square")),
    ("schedules.ReduceOnPlateau", "ValueError", lambda: S.ReduceOnPlateau(0.1, factor=2.0)),
]
TRAINING = [*OPTIMIZERS]
