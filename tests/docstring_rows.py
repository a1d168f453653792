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


def closed():
    session = pd.Session()
    session.close()
    return session


def restored(**changes):
    session = pd.Session()
    session.restore({**session.state(), **changes})


def restored_shape():
    v, session = w(3), pd.Session()
    session.get(v)
    session.restore({**session.state(), "values": {v.name: np.ones(7, np.float32)}})


def fed(v, array):
    return pd.Session().eval(v * 2.0, {v: array})


def two_lengths(run):
    a, b = f(2), f(2)
    run(a * b, {a: np.ones((3, 2), np.float32), b: np.ones((4, 2), np.float32)})


def inside_guard(function):
    with pd.guard():
        function()


def outside():
    """An evaluation that reads row 7 of two."""
    return pd.gather(np.ones(2, np.float32), pd.Variable(data=7, dtype="int64"))


SESSIONS = [
    ("Session", "PlaceError", lambda: pd.Session("abacus")),
    ("Session.eval", "FeedError", lambda: pd.Session().eval(f(2), {"nobody": 1.0})),
    ("Session.eval", "MissingFeed", lambda: pd.Session().eval(f(None) * 2.0)),
    ("Session.eval", "OutOfRange", lambda: pd.Session().eval(outside())),
    ("Session.eval", "RuntimeError", lambda: closed().eval(w(2))),
    ("Session.eval", "ShapeError", lambda: fed(f(2), np.ones(3, np.float32))),
    ("Session.eval", "TypeError", lambda: pd.Session().eval(object())),
    ("eval", "OutOfRange", lambda: pd.eval(outside())),
    ("eval", "ShapeError", lambda: pd.eval(w(2) * 2.0, {w(3): 1.0})),
    ("eval", "TypeError", lambda: pd.eval(object())),
    ("Session.run_steps", "FeedError", lambda: pd.Session().run_steps(w(2), {})),
    ("Session.run_steps", "ShapeError", lambda: two_lengths(pd.Session().run_steps)),
    ("run_steps", "FeedError", lambda: pd.run_steps(w(2), {})),
    ("run_steps", "ShapeError", lambda: two_lengths(pd.run_steps)),
    ("Session.exchanging", "TypeError", lambda: pd.Session().exchanging(3).__enter__()),
    ("Session.get", "NotInitialized", lambda: pd.Session().get(f(2) * 2.0)),
    ("Session.get", "RuntimeError", lambda: closed().get(w(2))),
    ("Session.set", "FeedError", lambda: pd.Session().set(w(2), ["a", "b"])),
    ("Session.set", "ShapeError", lambda: pd.Session().set(w(2), np.ones(7))),
    ("Session.val", "NotComputed", lambda: pd.Session().val(f(2) * 2.0)),
    ("Session.load_values", "ShapeError", lambda: pd.Session().load_values({w(2): np.ones(7)})),
    ("Session.state", "RuntimeError", lambda: closed().state()),
    ("Session.restore", "GraphError", lambda: restored(tables=["nobody"])),
    ("Session.restore", "ShapeError", restored_shape),
    ("Session.restore", "ValueError", lambda: pd.Session().restore({})),
    ("use_device", "PlaceError", lambda: pd.use_device("abacus")),
    ("fresh", "PlaceError", lambda: pd.fresh(device="abacus").__enter__()),
    ("guard", "PlaceError", lambda: pd.guard("abacus")),
    ("to_variable", "GraphError", lambda: pd.to_variable(3.0)),
    ("enable_dynamic", "GraphError", lambda: inside_guard(pd.enable_dynamic)),
    ("disable_dynamic", "GraphError", lambda: inside_guard(pd.disable_dynamic)),
]

product = pd.hessian_vector_product
GRADIENTS = [
    ("gradients", "DTypeError", lambda: pd.gradients((a := w(3)), [a], [i(3)])),
    ("gradients", "GraphError", lambda: pd.gradients((a := w(3)), [a], [1.0, 1.0])),
    ("gradients", "NoGradient", lambda: pd.gradients(i(2), [w(3)])),
    ("gradients", "ShapeError", lambda: pd.gradients((a := w(3)), [a], [f(4)])),
    ("gradients", "TypeError", lambda: pd.gradients(3.0, [w(3)])),
    ("jacobian", "NoGradient", lambda: pd.jacobian(i(2), w(3))),
    ("jacobian", "TypeError", lambda: pd.jacobian(3.0, w(3))),
    ("hessian", "NoGradient", lambda: pd.hessian(i(), w(3))),
    ("hessian", "ShapeError", lambda: pd.hessian((a := w(3)), a)),
    ("hessian", "TypeError", lambda: pd.hessian(3.0, w(3))),
    ("hessian_vector_product", "DTypeError", lambda: product((t := total(3))[0], t[1:], [i(3)])),
    ("hessian_vector_product", "GraphError", lambda: product((t := total(3))[0], t[1:], [])),
    ("hessian_vector_product", "NoGradient", lambda: product(i(), [w(3)], [f(3)])),
    ("hessian_vector_product", "ShapeError", lambda: product((a := w(3)), [a], [f(3)])),
    ("hessian_vector_product", "TypeError", lambda: product(3.0, [w(3)], [f(3)])),
    ("jvp", "DTypeError", lambda: pd.jvp((a := w(3)) * 2.0, [a], [i(3)])),
    ("jvp", "GraphError", lambda: pd.jvp((a := w(3)) * 2.0, [a], [])),
    ("jvp", "NoGradient", lambda: pd.jvp(i(3), [w(3)], [f(3)])),
    ("jvp", "ShapeError", lambda: pd.jvp((a := w(3)) * 2.0, [a], [f(4)])),
    ("jvp", "TypeError", lambda: pd.jvp(3.0, [w(3)], [f(3)])),
    ("recompute", "GraphError", lambda: pd.recompute(lambda x: x, f(2))),
    ("custom_gradient", "TypeError", lambda: pd.custom_gradient(lambda x: x)),
]
TRAINING = [*OPTIMIZERS, *SESSIONS, *GRADIENTS]
