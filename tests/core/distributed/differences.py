"""Ranks that differ, in one job: `python -m tests.core.distributed.differences`.

Each case of CASES is a way to train and what rank 1 does otherwise; those that are named, or all of
them, are tried. All ranks print how it ended,
`<way-kind> rank, steps: text`, with the error or "trained".
"""

import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

import pd_core as pd
from pd_core import distributed, training

EVERY, STEPS, TURN = 4, 10, 2  # steps between comparisons, all of them, those before a change
rng = np.random.default_rng(3)
X = rng.standard_normal((6, 3)).astype(np.float32)
Y = rng.standard_normal((6, 1)).astype(np.float32)
done = [0]  # steps of the case


def second():
    return distributed.rank() == 1


def nothing(*_):
    """Change nothing."""


class Net(pd.nn.Layer):
    def __init__(self, act, name="net"):
        super().__init__(name)
        self.act, self.dense = act, pd.nn.FC(1)

    def forward(self, x):
        return self.act(self.dense(x))


def squared(y, target, factor):
    return pd.reduce_mean(pd.square(y - target)) * factor


# ---- ways to train: `make` returns an optimizer, `turn(optimizer, net)` comes before step TURN


def static(make, turn=nothing, act=pd.tanh, factor=1.0):
    x, y, net = pd.Variable([None, 3]), pd.Variable([None, 1]), Net(act)
    cost = squared(net(x), y, factor)
    optimizer = make(net)
    step = optimizer.minimize(cost)
    for k in range(STEPS):
        if k == TURN:
            turn(optimizer, net)
        pd.eval(step, {x: X, y: Y})
        done[0] += 1


def dynamic(make, turn=nothing, act=pd.tanh, factor=1.0):
    net = Net(act)
    with pd.guard():
        net(X)
        optimizer = make(net)
        for k in range(STEPS):
            if k == TURN:
                turn(optimizer, net)
            optimizer.minimize(squared(net(X), Y, factor))
            done[0] += 1


class Turn(training.RunnerItem):
    def __init__(self, turn):
        self.turn = turn

    def on_batch_begin(self, following):
        if done[0] == TURN:
            self.turn()
        return following()

    def on_batch_end(self, following):
        done[0] += 1
        return following()


class FittedNet(Net, pd.nn.Module):
    pass


def fit(make, turn=nothing, act=pd.tanh, factor=1.0, x=X):
    net = FittedNet(act)
    net.compile([X.shape])
    optimizer = make(net)
    item = Turn(lambda: turn(optimizer, net))
    loss = partial(squared, factor=factor)
    net.fit(x, Y, optimizer=optimizer, loss=loss, epochs=STEPS, batch_size=6, callbacks=[item])


def runner(make, turn=nothing, act=pd.tanh, factor=1.0, items=(), x=X):
    reader = training.ArrayReader(x, Y, batch_size=6)
    x, y, net = pd.Variable([None, 3]), pd.Variable([None, 1]), Net(act)
    cost = squared(net(x), y, factor)
    optimizer = make(net)
    data = training.Data(reader, inputs=[x, y], split=True)
    every = [training.Device(), training.Counter(), data, Turn(lambda: turn(optimizer, net))]
    every += [*items, training.ForwardBackward(cost), training.Update(optimizer)]
    with training.runner_of(every) as one:
        one.run(STEPS)


WAYS = static, dynamic, fit, runner


# ---- what differs: arguments of a way


def settings(name, first, other):
    """Another setting of the optimizer on rank 1."""

    def make(_):
        return pd.AdamOptimizer(**{name: other if second() else first})

    return {"make": make}


def adam(_=None, **options):
    return pd.AdamOptimizer(0.01, **options)


def turned(change):
    """A change on rank 1 in the middle: `change(optimizer, net)`."""

    def turn(optimizer, net):
        if second():
            change(optimizer, net)

    return {"make": adam, "turn": turn}


def in_halves(y):
    """The hyperbolic tangent of a product in float16."""
    return pd.autocast(pd.tanh(y))


def own_rate(net):
    weight = net.parameters()[0]
    weight.learning_rate = 2.0 if second() else 1.0
    return adam()


def load(_, net):
    net.load_dict({name: value + 1.0 for name, value in net.state_dict().items()})


def assign(_, net):
    for w in net.parameters():
        pd.eval(pd.assign(w, w * 2.0))


def slot(*_):
    session = pd.default_session()
    m = next(v for v in session.store.variables() if v.name.endswith("/m"))
    session.set(m, session.get(m) + 1.0)


def drift(_, net):
    """Values that change without a trace, as by another arithmetic."""
    weight = net.parameters()[0]
    session = pd.default_session()
    session.store.arrays.set(weight, session.get(weight) * np.float32(1.0 + 2.0**-20))


def rate(optimizer, _):
    optimizer.learning_rate = 0.05


groups = [[{"params": "B", "learning_rate": r}] for r in (0.1, 0.2)]

# by kind: what differs, the steps before the error, and what it says
KINDS = {
    "rate": (
        lambda: settings("learning_rate", 0.01, 0.02),
        0,
        "rank 1 has AdamOptimizer: learning_rate=0.02; "
        "rank 0 has AdamOptimizer: learning_rate=0.01\n    built at .*differences.py",
    ),
    "beta": (lambda: settings("beta1", 0.9, 0.8), 0, "beta1=0.8; .*beta1=0.9"),
    "regularizer": (
        lambda: settings("regularizer", pd.L2(0.1), pd.L2(0.2)),
        0,
        r"regularizer=L2\(rate=0.2\); rank 0 has .*regularizer=L2\(rate=0.1\)",
    ),
    "no regularizer": (
        lambda: settings("regularizer", pd.L2(0.1), None),
        0,
        r"regularizer=None; rank 0 has .*regularizer=L2\(rate=0.1\)",
    ),
    "clip": (
        lambda: settings("clip", pd.ClipGlobalNorm(0.1), pd.ClipGlobalNorm(0.2)),
        0,
        r"clip=ClipGlobalNorm\(limit=0.2\); rank 0 has",
    ),
    "group": (lambda: settings("groups", *groups), 0, "learning_rate=0.2 of 'B'; rank 0 has"),
    "accumulate": (lambda: settings("accumulate", 1, 2), 0, "accumulate=2; rank 0 has"),
    "schedule": (
        lambda: settings(
            "learning_rate",
            pd.schedules.ExponentialDecay(0.1, 0.9),
            pd.schedules.ExponentialDecay(0.1, 0.8),
        ),
        0,
        r"ExponentialDecay\(rate=0.1, decay=0.8, every=1.0, staircase=False\); rank 0 has",
    ),
    "own rate": (lambda: {"make": own_rate}, 0, r"learning_rate=2.0; rank 0 does not"),
    "kind of schedule": (
        lambda: settings(
            "learning_rate",
            pd.schedules.ExponentialDecay(0.1, 0.9),
            pd.schedules.ReduceOnPlateau(0.1),
        ),
        0,
        r"rank 1 has AdamOptimizer: learning_rate=ReduceOnPlateau\(.*ExponentialDecay\(",
    ),
    "kind of clip": (
        lambda: settings("clip", pd.ClipGlobalNorm(0.1), pd.ClipNorm(0.1)),
        0,
        r"clip=ClipNorm\(limit=0.1\); rank 0 has .*clip=ClipGlobalNorm\(limit=0.1\)",
    ),
    "halves": (
        lambda: {"make": adam, "act": in_halves if second() else pd.tanh},
        0,
        r"rank 1 has Cast\(.*rank 0 has MatMul\(",
    ),
    "optimizer": (
        lambda: {"make": (lambda _: pd.LionOptimizer(0.01)) if second() else adam},
        0,
        "rank 1 has LionOptimizer.*; rank 0 has AdamOptimizer",
    ),
    "operator": (
        lambda: {"make": adam, "act": pd.relu if second() else pd.tanh},
        0,
        r"rank 1 has Relu\(…\); rank 0 has Tanh\(…\)\n    built at .*differences.py",
    ),
    "factor": (
        lambda: {"make": adam, "factor": 0.5 if second() else 0.25},
        0,
        r"Mul\(.*0.5\); rank 0 has Mul\(.*0.25\)\n    built at .*differences.py",
    ),
    "load": (
        lambda: turned(load),
        TURN,
        r"net/dense/W: rank 0: \[.*\]; rank 1: \[.*\]\n    set on rank 1 outside of the common ",
    ),
    "assign": (lambda: turned(assign), TURN, "set on rank 1 outside of the common steps"),
    "slot": (lambda: turned(slot), TURN, r"net.dense.[WB]/m: rank 0: .*; rank 1: "),
    "drift": (lambda: turned(drift), EVERY, r"net.dense.[WB]: rank 0: .*; rank 1: "),
    "data": (
        lambda: {"make": adam, "x": X + second()},
        0,
        "rank 1 has a first sample with the digest .*; rank 0 has a first sample with the digest",
    ),
    "changed rate": (lambda: turned(rate), TURN, r"learning_rate.*0.05|Mul\(.*variable .*Mul\("),
}
# What values inside pd.guard() are computed from may be another program on each rank.
LEFT_OUT = {("dynamic", "operator"), ("dynamic", "factor"), ("dynamic", "halves")}
LEFT_OUT |= {("static", "data"), ("dynamic", "data")}  # they read none
CASES = {
    f"{way.__name__}-{kind}": (way, kind)
    for number, kind in enumerate(KINDS)
    for way in (*WAYS[number % len(WAYS) :], *WAYS[: number % len(WAYS)])
    if (way.__name__, kind) not in LEFT_OUT
}


# ---- what is no difference


def loaded_everywhere():
    static(adam, load)


def broadcast_after_load():
    def turn(optimizer, net):
        if second():
            load(optimizer, net)
        distributed.broadcast()

    static(adam, turn)


def loaded_before():
    """Values of before the first step are rank 0's."""

    def make(net):
        if second():
            load(None, net)
        return adam()

    static(make)


def set_to_the_same():
    def turn(_, net):
        if second():
            net.load_dict(net.state_dict())

    static(adam, turn)


def told_costs():
    """A schedule that is told other costs on each rank, and takes their mean."""
    plateau = pd.schedules.ReduceOnPlateau(0.1, factor=0.5, patience=0)
    for cost in (3.0, 2.0, 1.0, 4.0):
        plateau.observe(4.0 - cost if second() else cost)
    static(lambda _: pd.SGDOptimizer(plateau))
    print(f"<rate> {distributed.rank()}: {float(plateau.rate.val())}", flush=True)


def own_numbers():
    """An item's number that each rank has of its own: they stop after the same pass."""

    class Own(training.RunnerItem):
        def on_pass_end(self, following):
            following()
            context = self.context
            context.pass_metrics["own"] = float(context.pass_id if second() else -context.pass_id)

    stop = training.StopEarly("own", patience=2, mode="min")
    rates = training.ReduceRate(0.5, "own", patience=3, mode="max")
    runner(adam, items=[stop, rates, Own()])
    done[0] = STEPS - done[0]


def statistics():
    """Moving statistics of each rank's own rows."""
    x = pd.Variable([None, 3])
    cost = pd.reduce_mean(pd.square(pd.layer.batch_norm(pd.fc(x, 4))))
    step = adam().minimize(cost)
    for _ in range(STEPS):
        pd.eval(step, {x: X * (2.0 if second() else 1.0)})
        done[0] += 1


def players():
    """Two optimizers that take turns, of which rank 1 has one more step in the end."""
    x = pd.Variable([None, 3])
    steps = [adam().minimize(pd.reduce_mean(pd.square(pd.fc(x, 1)))) for _ in range(2)]
    for k in range(STEPS):
        if k < STEPS - 1 or not second():
            pd.eval(steps[0], {x: X})
        pd.eval(steps[1], {x: X})
        done[0] += 1


def checkpoint():
    """A drift is found before a checkpoint has it."""
    folder = distributed.allgather(None if second() else tempfile.mkdtemp())[0]
    save = training.SaveEvery(batches=TURN + 1, path=folder)
    try:
        runner(**turned(drift), items=[save])
    finally:
        distributed.barrier()
        saved = [path.name for path in Path(folder).glob("batch-*")]
        print(f"<saved> {distributed.rank()}: {saved}", flush=True)
        distributed.barrier()
        if not second():
            shutil.rmtree(folder)


def compared():
    def turn(optimizer, net):
        if second():
            drift(optimizer, net)
        distributed.compare()

    static(adam, turn)


EQUAL = (
    loaded_everywhere,
    broadcast_after_load,
    loaded_before,
    set_to_the_same,
    told_costs,
    own_numbers,
    statistics,
)


def run(name, program):
    pd.reset()
    done[0] = 0
    try:
        program()
        text = "trained"
    except pd.GraphError as error:
        text = str(error)
    print(f"<{name}> {distributed.rank()}, {done[0]}: {text}".replace("\n", "|"), flush=True)


def main(*names):
    distributed.init(check_every=EVERY)
    for name in names or CASES:
        way, kind = CASES[name]
        run(name, lambda way=way, kind=kind: way(**KINDS[kind][0]()))
    for program in EQUAL:
        run(program.__name__, program)
    for program in (players, checkpoint, compared):
        run(program.__name__, program)


if __name__ == "__main__":
    main(*sys.argv[1:])
