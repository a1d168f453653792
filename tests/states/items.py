"""Runners whose items have a state: a step is a batch, and the state is that of a checkpoint."""

import re
import warnings
from collections.abc import Callable, Sequence
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import pd_core as pd
from pd_core import training
from pd_core.run.undo import Undo
from pd_core.training.checkpoint import Checkpoint, checkpoint_of, restore_items

from .subjects import WIDTH, Subject, World, numbers

FOLDER = TemporaryDirectory()  # of the files that items write
SAMPLES, BATCH = 20, 4  # a state after three batches is in the middle of a pass


class Network:
    """What the items of a row are made for."""

    def __init__(self):
        self.x = pd.Variable("x", shape=[None, WIDTH])
        self.y = pd.Variable("y", shape=[None], dtype="int64")
        hidden = pd.dropout(pd.layer.fc(self.x, 4, act="tanh"), 0.3)
        self.scores = pd.layer.fc(hidden, 2)
        self.cost = pd.reduce_mean(pd.softmax_cross_entropy(self.scores, self.y))
        self.arrays = numbers(1, SAMPLES, WIDTH), np.arange(SAMPLES) % 2

    def reader(self):
        """Batches in another order in each pass."""
        return training.ArrayReader(*self.arrays, batch_size=BATCH, shuffle=True)

    def weighted(self):
        """Batches of samples that are drawn."""
        return training.ArrayReader(*self.arrays, batch_size=BATCH, weights=np.arange(SAMPLES))

    def lists(self):
        """The same samples in one order, from a generator, whose place is counted."""
        for k in range(0, SAMPLES, BATCH):
            yield tuple(array[k : k + BATCH] for array in self.arrays)


class Run:
    """A runner that goes from batch to batch."""

    def __init__(self, row):
        self.network = network = Network()
        usual = [training.Device(), training.Counter()]
        self.runner = training.runner_of([*usual, *row(network)])
        self.runner.__enter__()
        self.runner.context.num_passes = 100
        self.is_begun = False
        pd.default_session().store.initialize(pd.persistent_variables())

    def step(self, k):
        """Run a batch, and end the pass if it was the last one; all numbers that are seen."""
        runner, context = self.runner, self.runner.context
        if not self.is_begun:
            runner._pass_begin()
            self.is_begun = True
        runner._run_one_batch(context)
        if context.is_pass_over:
            runner._pass_end()
            context.is_pass_over = self.is_begun = False
            context.call_deferred()
        counts = [context.pass_id, context.batch_id, context.batches, context.samples]
        found = [context.cost, dict(context.pass_metrics), dict(context.test_metrics), counts]
        return [*found, context.rate_factor, context.is_stopped, self.values()]

    def values(self):
        return {v.name: a for v, a in pd.default_session().values().items()}

    def state(self):
        return checkpoint_of(self.runner.items, self.runner.context).parts

    def restore(self, parts):
        if not isinstance(parts, dict):
            raise TypeError(f"a checkpoint has parts, not {parts!r}")
        with Undo(pd.default_session()) as undo:
            restore_items(Checkpoint(parts), self.runner.items, "a checkpoint", undo)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "read again from the beginning")
                self.runner._pass_begin()  # which finds the place in the data
            self.is_begun = True


Row = Callable[[Network], Sequence[training.RunnerItem]]


def trained(network: Network, *more: training.RunnerItem, reader: Any = None, inputs: Any = None):
    """The items of a training, with more inside of them."""
    return [
        training.Data(reader or network.reader(), inputs or [network.x, network.y]),
        training.ForwardBackward(network.cost),
        training.Update(pd.AdamOptimizer(0.05)),
        *more,
    ]


def by_function(network):
    """A step that a function of the user takes."""
    weight = pd.Variable("weight", data=numbers(3, WIDTH, 1))
    optimizer = pd.MomentumOptimizer(0.05)

    def step(x, y):
        with pd.guard():
            cost = pd.reduce_mean(pd.square(x @ weight - np.asarray(y, np.float32)[:, None]))
            optimizer.minimize(cost)
            return cost

    return [training.Data(network.reader()), training.TrainStep(step)]


def two_steps(network):
    """Two costs by turns, each with an optimizer of its own."""
    second = pd.reduce_mean(pd.square(pd.layer.fc(network.x, 1)))
    more = [training.ForwardBackward(second), training.Update(pd.SGDOptimizer(0.1))]
    return trained(network, *more)


# How the items of a runner are made for a network. Each item with a state is in one of the rows.
ITEMS: dict[str, Row] = {
    "a training": trained,
    "a reader that is read again": lambda n: trained(n, reader=n.lists),
    "samples by their weights": lambda n: trained(n, reader=n.weighted()),
    "TrainStep": by_function,
    "two steps": two_steps,
    "Evaluate": lambda n: trained(n, training.Evaluate(n.scores, n.y, ["accuracy", "f1"])),
    "StopEarly": lambda n: trained(n, training.StopEarly("cost", 2, min_delta=10.0)),
    "StopEarly with the best values": lambda n: trained(
        n, training.StopEarly("cost", 2, min_delta=10.0, restore_best=True)
    ),
    "SaveBest": lambda n: trained(n, training.SaveBest(f"{FOLDER.name}/best", "cost")),
    "ReduceRate": lambda n: [
        training.ReduceRate(0.5, "cost", 1, min_delta=10.0),
        *trained(n),
    ],
}
# Values of a session, which are made anew; what older checkpoints lack; what may be None; of the
# watched number and the first sample, that they are others; what a warning says; best values; what
# is known of a program, without which results differ by rounding; numbers that callbacks may read.
_OPTIONAL = re.compile(
    r"Device/(values|draws)/.* is (deleted|renamed)|(settings|watched|data|read) is deleted"
    r"|(pass_batches|rate_factor|read|length|batches|random|numpy) is None"
    r"|Device/program|(cost|batch_size|metrics|pass_metrics) is deleted|Counter/(pass_)?metrics"
    r"|(first|watched) is text|position/items is|read_again|StopEarly/values is (deleted|None)"
)


def runner_subject(row):
    """A runner with the items of a row."""
    return Subject(
        make=lambda: World(lambda: Run(row)),
        step=lambda world, k: world.run(Run.step, k),
        save=lambda world: world.run(Run.state),
        load=lambda world, state: world.run(Run.restore, state),
        copy=None,
        damages=30,
        takes=_OPTIONAL.search,
    )


RUNNERS = {f"runner with {name}": runner_subject(row) for name, row in ITEMS.items()}


def kinds_of_items():
    """Return the classes of the items in the rows."""
    found = set()
    for row in ITEMS.values():
        world = World(lambda row=row: Run(row))
        found |= {type(item) for item in world.parts.runner.items}
    return found
