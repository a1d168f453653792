"""Calls that raise the errors which docstrings of training name: (name, error, call)."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np

import pd_core as pd


def f(*shape):
    """A feed slot of float32."""
    return pd.Variable(list(shape))


def i(*shape):
    """A feed slot of int64."""
    return pd.Variable(list(shape), dtype="int64")


def s(*shape):
    """A feed slot of text."""
    return pd.Variable(list(shape), dtype="str")


def w(*shape):
    """A parameter of ones."""
    return pd.Variable(data=np.ones(shape, np.float32))


def total(*shape):
    """A cost, and the parameter that it depends on."""
    v = w(*shape)
    return pd.reduce_sum(v * v), v


def sgd(**settings):
    return pd.SGDOptimizer(0.1, **settings)


def normal_vectors(loc, covariance):
    return D.MultivariateNormal(loc, covariance)


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
    ("optimizers.Optimizer.minimize", "DTypeError", lambda: sgd().minimize(half())),
    ("optimizers.Optimizer.minimize", "GraphError", lambda: sgd().minimize(total(2)[0], [w(3)])),
    ("optimizers.Optimizer.minimize", "NoGradient", lambda: sgd().minimize(pd.cast(w(2), "int64"))),
    ("optimizers.Optimizer.minimize", "TypeError", lambda: sgd().minimize(total(2)[0], [{}])),
    (
        "optimizers.Optimizer.backward_and_update",
        "GraphError",
        lambda: sgd().backward_and_update(total(2)[0]),
    ),
    ("optimizers.Optimizer.state", "GraphError", two_updates),
    ("optimizers.Optimizer.load_state", "GraphError", lambda: loaded("nobody", 1.0)),
    ("optimizers.Optimizer.load_state", "ShapeError", lambda: loaded("/m", np.ones(7, np.float32))),
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


def without_compiler(function):
    """Call a function where PD_CC names no command."""
    with mock.patch.dict(os.environ, PD_CC="no-such-compiler"):
        function()


def outside():
    """An evaluation that reads row 7 of two."""
    return pd.gather(np.ones(2, np.float32), pd.Variable(data=7, dtype="int64"))


SESSIONS = [
    ("Session", "PlaceError", lambda: pd.Session("abacus")),
    ("Session", "CompilerError", lambda: without_compiler(lambda: pd.Session(fused=True))),
    ("fused", "CompilerError", lambda: without_compiler(lambda: pd.fused().__enter__())),
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
    ("Session.replay", "TypeError", lambda: pd.Session().replay(3)),
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
    ("recompute", "TypeError", lambda: pd.recompute(3)),
    ("recompute", "GraphError", lambda: pd.recompute(lambda x: x, f(2))),
    ("custom_gradient", "TypeError", lambda: pd.custom_gradient(lambda x: x)),
]

D, M = pd.distributions, pd.metrics
SEGMENTS = [
    (name, error, call)
    for name in ("max", "mean", "min", "softmax", "sum")
    for function in [getattr(pd, f"segment_{name}")]
    for name, error, call in [
        (f"segment_{name}", "DTypeError", lambda g=function: g(f(3, 2), f(3), 2)),
        (f"segment_{name}", "ShapeError", lambda g=function: g(f(3, 2), i(4), 2)),
    ]
]
OPS = [
    *SEGMENTS,
    ("odeint", "DTypeError", lambda: pd.odeint(lambda t, y: y, i(2), f(3))),
    ("odeint", "ShapeError", lambda: pd.odeint(lambda t, y: y, f(2), f(1))),
    ("odeint", "ValueError", lambda: pd.odeint(lambda t, y: y, f(2), f(3), method="rk5")),
    ("unfold", "ShapeError", lambda: pd.unfold(f(1, 5), 2)),
    ("fold", "ShapeError", lambda: pd.fold(f(1, 5, 4), [2, 2], 2)),
    ("stochastic_depth", "ShapeError", lambda: pd.stochastic_depth(f(), 0.5)),
    ("stochastic_depth", "ValueError", lambda: pd.stochastic_depth(f(2, 3), 1.0)),
]
TWO_SIZES = [
    row
    for kind in (
        D.Beta,
        D.Cauchy,
        D.Gamma,
        D.Gumbel,
        D.Laplace,
        D.LogNormal,
        D.Normal,
        D.StudentT,
        D.Uniform,
    )
    for row in [
        (
            f"distributions.{kind.__name__}",
            "DTypeError",
            lambda k=kind: k(f(2), pd.Variable([2], dtype="float64")),
        ),
        (f"distributions.{kind.__name__}", "ShapeError", lambda k=kind: k(f(2), f(3))),
    ]
]
DISTRIBUTIONS = [
    *TWO_SIZES,
    ("distributions.Bernoulli", "TypeError", lambda: D.Bernoulli()),
    ("distributions.Geometric", "TypeError", lambda: D.Geometric()),
    ("distributions.OneHotCategorical", "ShapeError", lambda: D.OneHotCategorical(f(None))),
    ("distributions.OneHotCategorical", "TypeError", lambda: D.OneHotCategorical()),
    ("distributions.MultivariateNormal", "ShapeError", lambda: normal_vectors(f(2), f(3, 3))),
    ("distributions.MultivariateNormal", "TypeError", lambda: D.MultivariateNormal(f(2))),
    (
        "distributions.MultivariateNormal",
        "DTypeError",
        lambda: normal_vectors(f(2), pd.Variable([2, 2], dtype="float64")),
    ),
    ("distributions.Dirichlet", "ShapeError", lambda: D.Dirichlet(f())),
    ("distributions.Independent", "ShapeError", lambda: D.Independent(D.Exponential(f(2)), 2)),
    (
        "distributions.MixtureSameFamily",
        "ShapeError",
        lambda: D.MixtureSameFamily(D.Categorical(f(3)), D.Exponential(f(2))),
    ),
    (
        "distributions.MixtureSameFamily",
        "TypeError",
        lambda: D.MixtureSameFamily(f(3), D.Exponential(f(2))),
    ),
    ("distributions.Categorical", "ShapeError", lambda: D.Categorical(f(None))),
    ("distributions.Categorical", "TypeError", lambda: D.Categorical()),
    (
        "distributions.Categorical.log_prob",
        "DTypeError",
        lambda: D.Categorical(f(2, 3)).log_prob(f(2)),
    ),
    (
        "distributions.Categorical.log_prob",
        "ShapeError",
        lambda: D.Categorical(f(2, 3)).log_prob(i(4)),
    ),
    (
        "distributions.kl_divergence",
        "GraphError",
        lambda: D.kl_divergence(D.Normal(f(2), f(2)), D.Laplace(f(2), f(2))),
    ),
    (
        "distributions.kl_divergence",
        "ShapeError",
        lambda: D.kl_divergence(D.Normal(f(2), f(2)), D.Normal(f(3), f(3))),
    ),
]
ONES = np.ones((2, 3))
UPDATES = {
    "Accuracy": (
        M.Accuracy,
        {
            "DTypeError": lambda m: m.update(["a"], [1]),
            "ShapeError": lambda m: m.update(ONES, [1, 0, 1]),
            "TypeError": lambda m: M.Accuracy(0.5).update([1, 0], [1, 0]),
            "ValueError": lambda m: m.update(ONES, [1, 9]),
        },
    ),
    "TopK": (
        M.TopK,
        {
            "DTypeError": lambda m: m.update(["a"], [1]),
            "ShapeError": lambda m: m.update(ONES, [1, 0]),
            "ValueError": lambda m: m.update(np.ones((2, 6)), [1, 9]),
        },
    ),
    "ClassMetric": (
        M.F1,
        {
            "DTypeError": lambda m: m.update(["a"], [1]),
            "ShapeError": lambda m: m.update(ONES, [1, 0, 1]),
            "TypeError": lambda m: M.F1(threshold=0.5).update([1, 0], [1, 0]),
            "ValueError": lambda m: m.update([1, 0], [1, 0]),
        },
    ),
    "ConfusionMatrix": (
        M.ConfusionMatrix,
        {
            "DTypeError": lambda m: m.update(["a"], [1]),
            "ShapeError": lambda m: m.update(ONES, [1, 0, 1]),
            "ValueError": lambda m: m.update([1, 0], [1, 0]),
        },
    ),
    "FunctionMetric": (
        lambda: M.FunctionMetric(max, name="largest"),
        {
            "DTypeError": lambda m: m.update(["a"], [1]),
            "ShapeError": lambda m: m.update(ONES, [1]),
            "ValueError": lambda m: m.update([1.0], [1.0], [-1.0]),
        },
    ),
    "Perplexity": (
        M.Perplexity,
        {
            "DTypeError": lambda m: m.update(["a"], [1]),
            "ShapeError": lambda m: m.update(ONES, [1, 0, 1]),
            "TypeError": lambda m: m.update(ONES),
            "ValueError": lambda m: m.update(ONES, [1, 2]),
        },
    ),
    "RankingMetric": (
        M.AUC,
        {
            "DTypeError": lambda m: m.update(["a"], [1]),
            "ShapeError": lambda m: m.update(ONES, [1, 0]),
            "TypeError": lambda m: m.update([1, 0], [1, 0]),
            "ValueError": lambda m: m.update(ONES[:, :2], [1, 0]),
        },
    ),
    "Mean": (
        M.Mean,
        {
            "DTypeError": lambda m: m.update("a"),
            "ShapeError": lambda m: m.update([1.0, 2.0], weight=[1.0, 1.0, 1.0]),
            "TypeError": lambda m: m.update(1.0, 2.0),
            "ValueError": lambda m: m.update(1.0, weight=-1.0),
        },
    ),
    **{
        kind.__name__: (
            kind,
            {
                "DTypeError": lambda m: m.update(["a"], ["b"]),
                "ShapeError": lambda m: m.update([1.0, 2.0], [1.0, 2.0, 3.0]),
                "ValueError": lambda m: m.update([1.0], [1.0], [-1.0]),
            },
        )
        for kind in (M.MeanAbsoluteError, M.MeanSquaredError, M.R2)
    },
}
METRICS = [
    *(
        (f"metrics.{name}.update", error, lambda kind=kind, call=call: call(kind()))
        for name, (kind, calls) in UPDATES.items()
        for error, call in calls.items()
    ),
    ("metrics.FunctionMetric", "TypeError", lambda: M.FunctionMetric(3)),
    ("metrics.FunctionMetric", "ValueError", lambda: M.FunctionMetric(lambda y, p: 0)),
    ("metrics.TopK", "ValueError", lambda: M.TopK(0)),
    *(
        (f"metrics.{kind.__name__}", "ValueError", lambda kind=kind: kind("square"))
        for kind in (M.F1, M.Perplexity, M.Precision, M.Recall)
    ),
    ("metrics.ClassMetric", "ValueError", lambda: M.F1("square")),
    ("metrics.RankingMetric", "ValueError", lambda: M.AUC(0)),
    ("metrics.AUC", "ValueError", lambda: M.AUC(0)),
    ("metrics.AveragePrecision", "ValueError", lambda: M.AveragePrecision(0)),
    ("metrics.Metric.merge", "TypeError", lambda: M.Mean().merge(M.AUC())),
    ("metrics.Metric.restore", "ValueError", lambda: M.Mean().restore({})),
    ("metrics.metric_by_name", "ValueError", lambda: M.metric_by_name("square")),
]


def other_shape():
    with TemporaryDirectory() as folder:
        pd.save(f"{folder}/w", pd.Variable("saved", data=[1.0]))
        pd.reset()
        pd.load(f"{folder}/w", pd.Variable("saved", data=[1.0, 2.0]))


def got(**settings):
    pd.get_variable("g", [2])
    pd.get_variable("g", **settings)


BASICS = [
    ("conv", "DTypeError", lambda: pd.conv(i(1, 3, 8, 8), i(4, 3, 3, 3))),
    ("conv", "ShapeError", lambda: pd.conv(f(1, 3, 8, 8), f(4, 2, 3, 3))),
    ("conv_transpose", "DTypeError", lambda: pd.conv_transpose(i(1, 3, 8, 8), i(3, 2, 3, 3))),
    ("conv_transpose", "ShapeError", lambda: pd.conv_transpose(f(1, 3, 8, 8), f(4, 2, 3, 3))),
    ("max_pool", "DTypeError", lambda: pd.max_pool(s(1, 3, 4, 4), 2)),
    ("max_pool", "GraphError", lambda: pd.max_pool(f(1, 3, 4, 4), 2, ties="last")),
    ("max_pool", "ShapeError", lambda: pd.max_pool(f(1, 3, 4, 4), 9)),
    ("avg_pool", "DTypeError", lambda: pd.avg_pool(i(1, 3, 4, 4), 2)),
    ("avg_pool", "ShapeError", lambda: pd.avg_pool(f(1, 3, 4, 4), 9)),
    ("lerp", "DTypeError", lambda: pd.lerp(i(2), i(2), 0.5)),
    ("lerp", "ShapeError", lambda: pd.lerp(f(2), f(3), 0.5)),
    ("celu", "DTypeError", lambda: pd.celu([True])),
    ("clip", "DTypeError", lambda: pd.clip([True], 0, 1)),
    ("permutation", "DTypeError", lambda: pd.permutation(1.5)),
    ("permutation", "ShapeError", lambda: pd.permutation(-1)),
    ("depth_to_space", "GraphError", lambda: pd.depth_to_space(f(1, 4, 2, 2), 2, "RCD")),
    ("clip", "ShapeError", lambda: pd.clip(f(2), f(3))),
    ("where", "DTypeError", lambda: pd.where(f(2), f(2), f(2))),
    ("where", "ShapeError", lambda: pd.where(pd.Variable([2], dtype="bool"), f(3), f(3))),
    ("cast", "DTypeError", lambda: pd.cast(f(2), "decimal")),
    ("linspace", "DTypeError", lambda: pd.linspace(0.0, 1.0, 2.5)),
    ("linspace", "ShapeError", lambda: pd.linspace([0.0, 1.0], 1.0, 2)),
    ("linspace", "ValueError", lambda: pd.linspace(0.0, 1.0, -1)),
    ("l2_normalize", "DTypeError", lambda: pd.l2_normalize(i(2))),
    ("l2_normalize", "ShapeError", lambda: pd.l2_normalize(f(2), 5)),
    ("constant", "DTypeError", lambda: pd.constant([[1], [1, 2]])),
    ("assign", "GraphError", lambda: pd.assign(f(2) * 2.0, 1.0)),
    ("assign", "TypeError", lambda: pd.assign(3, 1.0)),
    ("assign", "ShapeError", lambda: pd.assign(w(3), np.ones(7, np.float32))),
    ("get_variable", "DTypeError", lambda: got(dtype="int64")),
    ("get_variable", "KeyError", lambda: pd.get_variable("nobody")),
    ("get_variable", "NameConflict", lambda: got(shape=[2], reuse=False)),
    ("get_variable", "ShapeError", lambda: got(shape=[3])),
    ("namespace", "TypeError", lambda: pd.namespace(3)),
    ("load", "DamagedFile", lambda: pd.load(__file__, w(2))),
    ("load", "GraphError", other_shape),
]


def folder(**files):
    """A folder of a model with these files, as text, read."""
    with TemporaryDirectory() as path:
        for name, text in files.items():
            Path(path, f"{name}.json").write_text(text, "utf-8")
        pd.interchange.ModelFolder(path)


def torch(**state):
    """A layer of 2 units on 3 inputs, given a state dict."""
    layer = pd.nn.FC(2)
    layer.infer_shape((None, 3))
    whole = {"weight": np.ones((2, 3)), "bias": np.ones(2)}
    pd.interchange.from_pytorch(layer, {**whole, **state})


INTER = pd.interchange
INTERCHANGE = [
    ("interchange.from_pytorch", "DTypeError", lambda: torch(weight="text")),
    ("interchange.from_pytorch", "GraphError", lambda: torch(more=np.ones(2))),
    ("interchange.from_pytorch", "ShapeError", lambda: torch(weight=np.ones((3, 3)))),
    ("interchange.from_pytorch", "TypeError", lambda: INTER.from_pytorch(pd.nn.FC(2), "net.pt")),
    ("interchange.to_pytorch", "NotInitialized", lambda: INTER.to_pytorch(pd.nn.FC(2))),
    ("interchange.to_pytorch", "TypeError", lambda: INTER.to_pytorch(3)),
    ("interchange.ModelFolder", "DamagedFile", lambda: folder(config="{")),
    ("interchange.ModelFolder", "FileNotFoundError", folder),
    ("interchange.ModelFolder", "TypeError", lambda: INTER.ModelFolder(".", dtype="int8")),
    (
        "interchange.write_model_folder",
        "DTypeError",
        lambda: INTER.write_model_folder("m", {"a": "b"}),
    ),
    (
        "interchange.write_model_folder",
        "NotADirectoryError",
        lambda: INTER.write_model_folder(__file__, {"a": np.ones(2)}),
    ),
    (
        "interchange.write_model_folder",
        "TypeError",
        lambda: INTER.write_model_folder("m", {"a": np.ones(2)}, {"b": w(2)}),
    ),
    ("interchange.write_model_folder", "ValueError", lambda: INTER.write_model_folder("m", {})),
]
BREADTH = [
    ("logaddexp", "DTypeError", lambda: pd.logaddexp(i(3), i(3))),
    ("logaddexp", "ShapeError", lambda: pd.logaddexp(f(3), f(4))),
    ("xlogy", "DTypeError", lambda: pd.xlogy(i(3), i(3))),
    ("xlogy", "ShapeError", lambda: pd.xlogy(f(3), f(4))),
    ("nan_to_num", "DTypeError", lambda: pd.nan_to_num(s(3))),
    ("lgamma", "DTypeError", lambda: pd.lgamma(i(3))),
    ("digamma", "DTypeError", lambda: pd.digamma(i(3))),
    ("erfinv", "DTypeError", lambda: pd.erfinv(i(3))),
    ("cross", "DTypeError", lambda: pd.cross(s(3), s(3))),
    ("cross", "ShapeError", lambda: pd.cross(f(4), f(4))),
    ("cosine_similarity", "DTypeError", lambda: pd.cosine_similarity(i(2, 3), i(2, 3))),
    ("cosine_similarity", "ShapeError", lambda: pd.cosine_similarity(f(2, 3), f(2, 4))),
    ("cdist", "DTypeError", lambda: pd.cdist(i(2, 3), i(2, 3))),
    ("cdist", "GraphError", lambda: pd.cdist(f(2, 3), f(2, 3), p=0.0)),
    ("cdist", "ShapeError", lambda: pd.cdist(f(2, 3), f(2, 4))),
    ("quantile", "DTypeError", lambda: pd.quantile(s(3), 0.5)),
    ("quantile", "ShapeError", lambda: pd.quantile(f(0, 3), 0.5)),
    ("quantile", "ValueError", lambda: pd.quantile(f(3), 1.5)),
    ("median", "DTypeError", lambda: pd.median(s(3))),
    ("median", "ShapeError", lambda: pd.median(f(3), axis=4)),
    ("searchsorted", "DTypeError", lambda: pd.searchsorted(s(3), s(3))),
    ("searchsorted", "ShapeError", lambda: pd.searchsorted(f(2, 3), f(3))),
    ("searchsorted", "ValueError", lambda: pd.searchsorted(f(3), f(3), side="middle")),
    ("histogram", "DTypeError", lambda: pd.histogram(s(3))),
    ("histogram", "ShapeError", lambda: pd.histogram(f(3), weights=f(4))),
    ("histogram", "ValueError", lambda: pd.histogram(f(3), low=0.0)),
    ("diag_embed", "DTypeError", lambda: pd.diag_embed(s(3))),
    ("diag_embed", "ShapeError", lambda: pd.diag_embed(f())),
    ("full_like", "ShapeError", lambda: pd.full_like(f(3), [1.0, 2.0])),
    ("gumbel_softmax", "DTypeError", lambda: pd.gumbel_softmax(i(3))),
    ("gumbel_softmax", "ShapeError", lambda: pd.gumbel_softmax(f(3), axis=4)),
    ("gumbel_softmax", "ValueError", lambda: pd.gumbel_softmax(f(3), tau=0.0)),
]
TRAINING = [*BASICS, *OPTIMIZERS, *SESSIONS, *GRADIENTS, *OPS, *DISTRIBUTIONS, *METRICS]
TRAINING += [*INTERCHANGE, *BREADTH]
