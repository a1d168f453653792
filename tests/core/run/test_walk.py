"""The way of a feed from the call of an evaluation to ONNX Runtime.

A stop is a function of pd_core that is entered on the way; the same one several times in a row, for
nested targets or for several feeds, is one stop. A return is a stop in a file that was left before.
What is made once and kept is beside the way: the program, initial values, and the buffers that are
bound. So is the walk through a graph that was recorded inside `pd.guard()`.
"""

import gc
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_core.backend.bound import consume
from pd_core.backend.ort import OrtExecutable
from pd_core.dynamic.pattern import Patterns
from pd_core.dynamic.state import State
from pd_core.dynamic.trace import Trace
from pd_core.run.compiler import Compiler
from pd_core.run.program import Program
from pd_core.run.values import Values
from pd_core.training import ArrayReader, Counter, Data, Device, ForwardBackward, Runner, Update

STOPS, RETURNS, METHODS = 15, 5, 15
PACKAGE = str(Path(pd.__file__).parent)
BESIDE = [Compiler.prepare, Values.start, OrtExecutable.bindings, Trace.__init__, Patterns.traced]
BATCH = np.ones((4, 3), np.float32)


class Walk:
    """Notes the functions that are entered from `begin` until ONNX Runtime runs."""

    def __init__(self, begin=None):
        self.begin, self.beside = begin, None
        self.stops = []
        self.codes = {function.__code__ for function in BESIDE}
        self.is_there = False

    def __call__(self, frame, event, arg):
        code = frame.f_code
        if event == "return" and frame is self.beside:
            self.beside = None
        self.is_there = self.is_there or (event == "c_call" and arg == consume)
        if event != "call" or self.beside is not None or self.is_there:
            return
        if code in self.codes:
            self.beside = frame
        elif code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<"):
            has_begun = self.begin is None or self.stops or code is self.begin.__code__
            stop = code.co_filename[len(PACKAGE) + 1 :], code.co_qualname
            if has_begun and self.stops[-1:] != [stop]:
                self.stops.append(stop)

    @property
    def returns(self):
        """The number of stops in files that were left before."""
        left, count = set(), 0
        for (before, _), (file, _) in itertools.pairwise(self.stops):
            if file != before:
                left.add(before)
                count += file in left
        return count


def walk_of(function, begin=None):
    """The walk of a feed in a function."""
    walk = Walk(begin)
    gc.disable()  # a collection in between would be stops of what other tests have left
    sys.setprofile(walk)
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    assert walk.is_there
    return walk


def static(targets):
    """An evaluation of a small network: of its output, or a training step."""
    x = pd.Variable("x", shape=[None, 3])
    y = pd.fc(x, 2)
    cost = pd.reduce_mean(pd.square(y))
    step = pd.MomentumOptimizer(0.1).minimize(cost)
    chosen = y if targets == "output" else [cost, step]
    session = pd.default_session()
    return lambda: session.eval(chosen, {x: BATCH})


def several():
    x = pd.Variable("x", shape=[None, 3])
    cost = pd.reduce_mean(pd.square(pd.fc(x, 2)))
    step = pd.MomentumOptimizer(0.1).minimize(cost)
    feeds = {x: np.stack([BATCH, BATCH])}
    session = pd.default_session()
    return lambda: session.run_steps([cost, step], feeds)


def recorded():
    def evaluate():
        with pd.guard():
            (pd.to_variable(BATCH) * 2.0).numpy()

    return evaluate


# name: a function that makes the evaluation, how often it was made before, where the way begins
WALKS = {
    "first eval": (lambda: static("output"), 0, None),
    "repeated eval": (lambda: static("output"), 3, None),
    "first training step": (lambda: static("step"), 0, None),
    "second training step": (lambda: static("step"), 1, None),
    "repeated training step": (lambda: static("step"), 5, None),
    "repeated run_steps": (several, 3, None),
    "repeated evaluation in guard": (recorded, 3, State.force),
}


@pytest.mark.parametrize("name", WALKS)
def test_a_feed_takes_a_short_way(name):
    make, before, begin = WALKS[name]
    evaluate = make()
    for _ in range(before):
        evaluate()
    walk = walk_of(evaluate, begin)
    text = f"{len(walk.stops)} stops, {walk.returns} returns: {walk.stops}"
    assert len(walk.stops) <= STOPS and walk.returns <= RETURNS, text
    assert walk.stops[-1] == ("backend/bound.py", "Bound.run") or "Bound._bind" in walk.stops[-1]


def test_sessions_have_few_methods():
    public = [name for name in vars(pd.Session) if not name.startswith("_")]
    assert 0 < sum(callable(getattr(pd.Session, name)) for name in public) <= METHODS


def evaluated():
    static("step")()


def stacked():
    several()()


def rings():
    """A Runner's training of two batches."""
    x, label = pd.Variable("x", shape=[None, 3]), pd.Variable("label", shape=[None, 1])
    runner = Runner()
    for item in (
        Device(),
        Counter(),
        Data(ArrayReader(BATCH, BATCH[:, :1], batch_size=2), inputs=[x, label]),
        ForwardBackward(pd.reduce_mean(pd.square(pd.fc(x, 1) - label))),
        Update(pd.SGDOptimizer(0.1)),
    ):
        runner.add_item(item)
    with runner:
        runner.run(1)


def trainer():
    """The same of 2017."""
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(3))
    label = paddle.layer.data(name="label", type=paddle.data_type.dense_vector(1))
    cost = paddle.layer.square_error_cost(input=paddle.layer.fc(x, size=1), label=label)
    optimizer = paddle.optimizer.Momentum(learning_rate=0.1)
    machine = paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizer)
    machine.train(lambda: iter([[(row, row[:1]) for row in BATCH]] * 2))


def guarded():
    """A training step inside `pd.guard()`, and a value."""
    net, optimizer = pd.nn.FC(1), pd.SGDOptimizer(0.1)
    with pd.guard():
        cost = pd.reduce_mean(pd.square(net(BATCH)))
        cost.backward()
        optimizer.minimize(cost)
        cost.numpy()


@pytest.mark.parametrize("train", [evaluated, stacked, guarded, rings, trainer])
def test_there_is_one_way_to_the_runtime(train, monkeypatch):
    callers, run = [], OrtExecutable.run

    def noted(*args, **kwargs):
        callers.append(sys._getframe(1).f_code)
        return run(*args, **kwargs)

    monkeypatch.setattr(OrtExecutable, "run", noted)
    train()
    assert set(callers) == {Program.run.__code__}
