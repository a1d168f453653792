"""What has a state: how each is made, what a step of it is, and where its state is."""

import copy
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pd_core as pd
from pd_core.graph import names as naming
from pd_core.optimizers.base import Optimizer
from pd_core.training import metrics

from ..core.layers import test_reference as layers
from ..core.training.metrics import test_base as metric_rows

WIDTH = 3


@dataclass
class Subject:
    """A thing with state: `step(thing, k)` returns what can be compared."""

    make: Callable[[], Any]
    step: Callable[[Any, int], Any]
    save: Callable[[Any], Any] = lambda thing: thing.state()
    load: Callable[[Any, Any], Any] = lambda thing, state: thing.restore(state)
    # of what is not copied None
    copy: Callable[[Any, Callable], Any] | None = lambda thing, copier: copier(thing)
    set: Callable[[Any, str, Any], Any] = setattr
    settings: dict[str, Any] = field(default_factory=dict)  # other values of public attributes
    takes: Callable[[str], Any] = lambda what: False  # whether a state may be so
    damages: int = 8  # of all that are possible, evenly spread


class World:
    """A graph in a session and names of its own."""

    def __init__(self, build):
        self.context, self.session = copy_context(), pd.Session(seed=5)
        self.context.run(naming._names.set, naming.Names())
        self.context.run(self.session.__enter__)
        self.parts = self.context.run(build)

    def run(self, function, *args):
        return self.context.run(function, self.parts, *args)


def numbers(k, *shape):
    """Data of step k."""
    return np.random.default_rng(k).normal(size=shape or (4, WIDTH)).astype("float32")


# ---- optimizers, inside pd.guard() and in a static graph


def weights():
    return [
        pd.Variable(name, data=numbers(99 + k, WIDTH, 2)) for k, name in enumerate(("one", "two"))
    ]


class Training:
    """Two matrices and their optimizer; only the state of the optimizer is restored."""

    def __init__(self, kind, is_static, **options):
        self.weights, self.is_static = weights(), is_static
        self.optimizer = kind(0.05, **options)
        self.x = pd.Variable([None, WIDTH])
        self.update = None
        if is_static:
            self.update = self.optimizer.minimize(self.cost(self.x))

    def cost(self, x):
        return pd.reduce_mean(pd.square(x @ self.weights[0] - pd.tanh(x @ self.weights[1])))

    def step(self, k):
        for v, value in zip(
            self.weights, (numbers(k, WIDTH, 2), numbers(-k - 1 + 99, WIDTH, 2)), strict=True
        ):
            pd.default_session().set(v, value)
        if self.is_static:
            pd.eval(self.update, {self.x: numbers(k)})
        else:
            with pd.guard():
                self.optimizer.minimize(self.cost(numbers(k)))
        return [v.val() for v in self.weights]


OPTIMIZERS = {
    name: kind
    for name, kind in vars(pd).items()
    if isinstance(kind, type) and issubclass(kind, Optimizer)
}


def is_by_adamw(w):
    """Whether a parameter is for AdamW beside Muon."""
    return w.rank != 2 or w.name.startswith("two")


def muon(rate, **settings):
    groups = [{"params": is_by_adamw, "use_muon": False}]
    return pd.MuonOptimizer(rate, groups=groups, **settings)


def lookahead(rate, **settings):
    return pd.Lookahead(pd.AdamOptimizer(rate, **settings), k=2)


MAKERS = {**OPTIMIZERS, "MuonOptimizer": muon, "Lookahead": lookahead}
_OTHERS = {"learning_rate": 0.011, "regularizer": pd.L2(0.3), "clip": pd.ClipElements(1e-3)}


def copied_training(world, copier):
    """A training that goes on with a copy of the optimizer, for the same parameters."""

    def make(t):
        twin = copy.copy(t)
        twin.optimizer = copier(t.optimizer)
        if t.is_static:
            twin.update = twin.optimizer.minimize(twin.cost(twin.x))
        return twin

    other = copy.copy(world)
    other.parts = world.run(make)
    return other


def another(value):
    """Another value of a setting."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 0.5 if value > 0.1 else 0.35
    return [another(x) for x in value] if isinstance(value, tuple) else 0.5


def optimizer_subject(kind, is_static):
    others = {name: value for name, value in vars(kind(0.05)).items() if name[0] != "_"}
    others = {name: another(value) for name, value in others.items() if name != "name"}
    others |= {name: 50.0 for name in others if name.startswith("least")}
    options = {"regularizer": pd.L2(0.1), "clip": pd.ClipElements(10.0)}
    return Subject(
        make=lambda: World(lambda: Training(kind, is_static, **options)),
        step=lambda world, k: world.run(Training.step, k),
        save=lambda world: world.run(lambda t: t.optimizer.state()),
        load=lambda world, state: world.run(lambda t: t.optimizer.load_state(state)),
        copy=copied_training,
        set=lambda world, name, value: world.run(lambda t: setattr(t.optimizer, name, value)),
        settings={**others, **_OTHERS},
    )


# ---- sessions: programs whose state is in one


class Program:
    """A target that is evaluated with data again and again."""

    def __init__(self, targets, x, after=None):
        self.targets, self.x, self.after = targets, x, after or (lambda values, k: None)

    def step(self, k):
        values = pd.eval(self.targets, {self.x: numbers(k)}, training=True)
        self.after(values, k)
        return [v for v in values if v is not None]


def program(change):
    """Return a builder of a network whose step `change(cost)` makes from its cost."""

    def build():
        x = pd.Variable([None, WIDTH])
        y = pd.layer.fc(pd.dropout(pd.layer.batch_norm(pd.layer.fc(x, 4)), 0.3), 1)
        cost = pd.reduce_mean(pd.square(y - 1.0))
        made = change(cost)
        step, after = made if isinstance(made, tuple) else (made, None)
        return Program([cost, step], x, after)

    return build


def by_lbfgs(cost):
    optimizer, x = pd.LBFGSOptimizer(max_iter=3), pd.Variable([None, WIDTH])
    square = pd.reduce_mean(pd.square(pd.layer.fc(x, 1) - 1.0))
    return pd.Update(), lambda values, k: optimizer.step(square, {x: numbers(k)})


def on_plateau(cost):
    schedule = pd.schedules.ReduceOnPlateau(0.3, factor=0.5, patience=0)
    step = pd.SGDOptimizer(schedule).minimize(cost)
    return step, lambda values, k: schedule.observe(float(numbers(k)[0, 0]))


PROGRAMS = {
    **{name: lambda cost, kind=kind: kind(0.05).minimize(cost) for name, kind in MAKERS.items()},
    "accumulation": lambda cost: pd.AdamOptimizer(0.1, accumulate=3).minimize(cost),
    "MovingAverage": lambda cost: pd.MovingAverage(0.9).follow(pd.SGDOptimizer(0.1).minimize(cost)),
    "weight averaging": lambda cost: pd.MovingAverage(None, start=1, every=3).follow(
        pd.SGDOptimizer(0.1).minimize(cost)
    ),
    "LossScaler": lambda cost: pd.LossScaler(
        pd.AdamOptimizer(0.1), 4.0, growth_interval=2
    ).minimize(cost),
    "ReduceOnPlateau": on_plateau,
    "LBFGS": by_lbfgs,
    "cosine": lambda cost: pd.SGDOptimizer(pd.schedules.CosineDecay(0.3, 20)).minimize(cost),
}


def session_subject(change):
    return Subject(
        make=lambda: World(program(change)),
        step=lambda world, k: world.run(Program.step, k),
        save=lambda world: world.run(lambda p: world.session.state()),
        load=lambda world, state: world.run(lambda p: world.session.restore(state)),
        copy=lambda world, copier: copier(world.session),
        takes=lambda what: what.startswith("values/") and what.endswith(("deleted", "renamed")),
    )


# ---- layers, with and without parameters


def layer_inputs(name, k):
    """Arrays of the shapes that the page of layers gives."""
    letters = layers.SPATIAL | layers.SIZES | layers.ARGUMENTS.get(name, ({}, {}))[1]
    text = layers.ROWS[name][1].split(" → ")[0].split(" or ")[0]
    rng = np.random.default_rng(k)
    arrays = []
    for is_int, shape in layers.shapes_of(text):
        size = layers.sizes(shape, letters)
        arrays.append(
            rng.integers(0, 2, size) if is_int else rng.normal(size=size).astype("float32")
        )
    return arrays


class Trained:
    """A layer and an optimizer that forgets; draws would differ by name, so there are none."""

    def __init__(self, name):
        self.kind, arguments = name, layers.ARGUMENTS.get(name, ({}, {}))[0]
        self.layer = getattr(pd.nn, name)(**arguments)
        if name.startswith(("Transformer", "Dropout")):
            self.layer.eval()
        self.optimizer = pd.SGDOptimizer(0.01)

    def step(self, k):
        arrays = layer_inputs(self.kind, k)
        with pd.guard():
            output = self.layer(*arrays)
            first = output[0] if isinstance(output, tuple) else output
            cost = pd.reduce_mean(pd.square(first))
            if self.layer.parameters():
                self.optimizer.minimize(cost)
            return [cost.numpy(), self.layer.state_dict()]


LAYERS = [
    name
    for name, row in layers.ROWS.items()
    if "→" in row[1] and "labels" not in row[1] and name not in ("Sequential", "LayerList")
]


def copied_layer(world, copier):
    def make(t):
        twin = copy.copy(t)
        twin.layer = copier(t.layer)
        return twin

    other = copy.copy(world)
    other.parts = world.run(make)
    return other


def layer_subject(name):
    return Subject(
        make=lambda: World(lambda: Trained(name)),
        step=lambda world, k: world.run(Trained.step, k),
        save=lambda world: world.run(lambda t: t.layer.state_dict()),
        load=lambda world, state: world.run(lambda t: t.layer.load_dict(state)),
        copy=copied_layer,
    )


# ---- metrics and readers


def metric_subject(make, kind):
    parts = list(metric_rows.batches(kind, range(4, metric_rows.SIZE, 4), False))

    def step(metric, k):
        metric.update(*parts[k % len(parts)])
        return metric.result()

    return Subject(make=make, step=step)


class Pass:
    """Passes over a reader of arrays, one after another."""

    def __init__(self, **options):
        options = {"batch_size": 3, "shuffle": True, "seed": 3} | options
        self.reader = pd.training.ArrayReader(numbers(1, 10, 2), **options)
        self.batches = self.reader()

    def step(self, k):
        batch = next(self.batches, None)
        if batch is None:
            self.batches = self.reader()
            batch = next(self.batches)
        return batch

    def state(self):
        return self.batches.state()

    def restore(self, state):
        self.batches.restore(state)


SUBJECTS = {
    **{f"{n} inside pd.guard()": optimizer_subject(k, False) for n, k in MAKERS.items()},
    **{f"{n} of a static graph": optimizer_subject(k, True) for n, k in MAKERS.items()},
    **{f"session with {name}": session_subject(change) for name, change in PROGRAMS.items()},
    **{f"layer {name}": layer_subject(name) for name in LAYERS},
    **{
        f"metric {name}": metric_subject(*row)
        for name, row in metric_rows.CASES.items()
        if row[0] is not metrics.BLEU
    },
    "ArrayReader": Subject(
        Pass,
        Pass.step,
        # which the first versions did not write
        takes=lambda what: what.startswith("data") and what.endswith(("deleted", "renamed")),
    ),
}


def kinds():
    """Return the classes that subjects are of, or hold."""
    known = {pd.Session, pd.training.ArrayReader, type(Pass().batches)}
    known |= set(OPTIMIZERS.values()) | {getattr(pd.nn, name) for name in LAYERS}
    made = [row[0]() for row in metric_rows.CASES.values() if row[0] is not metrics.BLEU]
    known |= {type(metric) for metric in made}
    return known


# of each mechanism, those that are checked in every test run
_QUICK = {
    *("layer FC", "layer BatchNorm2d", "layer LSTM", "layer MultiHeadAttention"),
    *(f"session with {name}" for name in ("AdamOptimizer", "LAMBOptimizer")),
    *(f"{name} of a static graph" for name in ("AdaFactorOptimizer", "Lookahead")),
    *(f"{name} inside pd.guard()" for name in ("Lookahead", "MuonOptimizer")),
}
_LARGE = ("layer ", "session with ", "inside pd.guard()", "of a static graph")
QUICK = {
    name: subject
    for name, subject in SUBJECTS.items()
    if name in _QUICK
    or not any(part in name for part in _LARGE)
    or (not name.endswith("Optimizer") and name.startswith("session"))
}


FIRST, FOLLOWING = range(3), range(3, 8)


def run(subject, thing, steps):
    """Return the results of steps."""
    return [subject.step(thing, k) for k in steps]


def several(iterable, count):
    """Return some of many, evenly spread."""
    items = list(iterable)
    return items[:: -(-len(items) // count)]
