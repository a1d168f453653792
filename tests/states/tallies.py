"""Evaluators and readers of paddle.v2, and adapters: what they count, their place, their file."""

import re
import tempfile
from pathlib import Path

import numpy as np

import pd_core as pd
from pd_core.storage.tensors import read_tensors, write_tensors
from pd_core.training import positions
from pd_core.training.checkpoint import checking
from pd_core.training.generators import encoded, generators_state, set_generators
from pd_core.training.tuning.low_rank import lora
from pd_v2 import reader
from pd_v2.evaluator import base, detection, ranking
from pd_v2.formats.proto import EvaluatorConfig
from pd_v2.minibatch import batch
from pd_v2.reader import creator

from .subjects import WIDTH, Subject, World, numbers

# ---- evaluators


def scored(k):
    """Scores, labels and queries of four rows."""
    rng = np.random.default_rng(k)
    return rng.random(4, dtype=np.float32), rng.integers(0, 2, 4), rng.integers(0, 2, 4)


def boxes(k):
    """Detections of two images, their true boxes, and how many each has."""
    rng = np.random.default_rng(k)
    corners = np.sort(rng.random((2, 4, 2)), axis=0).transpose(1, 0, 2).reshape(4, 4)
    found = np.column_stack([[0, 0, 1, 1], rng.integers(0, 2, 4), rng.random(4), corners])
    true = np.column_stack([rng.integers(0, 2, 4), corners + 0.01, np.zeros(4)])
    return found, true, np.array([2, 2])


# The tally of each kind, and the arrays of a batch.
TALLIES = {
    "sums": (
        lambda: base.Sums(2, lambda total, rows: {"": (total / rows).sum()}),
        lambda k: (numbers(k, 3), 3.0),
    ),
    "auc": (ranking.Histogram, lambda k: scored(k)[:2]),
    "pnpair": (ranking.Pairs, scored),
    "detection": (lambda: detection.Detections(0.5, False, "Integral"), boxes),
    "printer": (lambda: base.Printing(lambda *arrays: None), lambda k: (k,)),
    "none": (base.NoTally, lambda k: ()),
}


def evaluators():
    """An accumulator of all kinds."""
    return base.Accumulator(
        [
            base.Evaluator(EvaluatorConfig(type=name, name=name), (), (), make)
            for name, (make, _) in TALLIES.items()
        ]
    )


def counted(accumulator, k):
    accumulator.update([batch_of(k) for _, batch_of in TALLIES.values()])
    return accumulator.metrics()


# ---- readers


def drawn():
    """Ten samples that depend on the global generator."""
    for k in range(10):
        yield k + np.random.normal()


LISTED = creator.np_array(np.arange(20.0).reshape(10, 2))
READERS = {
    "np_array": LISTED,
    "shuffle": reader.shuffle(reader.map_readers(lambda x: x * 2, drawn), 4),
    "chain": reader.chain(reader.firstn(LISTED, 4), reader.shuffle(LISTED, 3)),
    "compose": reader.compose(reader.map_readers(len, LISTED), drawn),
    "threads": batch(reader.buffered(reader.xmap_readers(len, LISTED, 2, 2, order=True), 2), 3),
}


class Place:
    """Passes over a reader, one sample after another."""

    def __init__(self, source):
        self.source = source
        np.random.seed(5)
        self.items = positions.positioned(source)

    def step(self, k):
        found = next(self.items, None)
        if found is None:
            self.items = positions.positioned(self.source)
        return found

    def state(self):
        return encoded({"items": self.items.state(), "generators": generators_state()})

    def restore(self, state):
        before = generators_state()
        try:
            with checking("the place"):
                items = positions.restored(self.source, state["items"])
                set_generators(state["generators"], but=positions.draws_ahead(items))
        except ValueError:
            set_generators(before)
            raise
        self.items = items


# ---- adapters


class Adapted:
    """A matrix with an adapter of rank 2 and its optimizer, which forgets."""

    def __init__(self):
        weight = pd.Variable("weight", data=numbers(1, WIDTH, 4))
        self.x = pd.Variable([None, WIDTH])
        y = pd.square(self.x @ weight)
        self.lora = lora(y, rank=2)
        self.cost = pd.reduce_mean(self.lora.outputs[0])
        self.update = pd.SGDOptimizer(0.1).minimize(self.cost)

    def step(self, k):
        found = pd.eval([self.cost, self.update], {self.x: numbers(k)})
        return [found[0], [v.val() for v in self.lora.parameters()]]

    def state(self):
        with tempfile.TemporaryDirectory() as folder:
            self.lora.save(Path(folder) / "file")
            arrays, metadata = read_tensors(Path(folder) / "file")
        return {"arrays": dict(arrays), "metadata": metadata}

    def restore(self, state):
        with tempfile.TemporaryDirectory() as folder:
            with checking("what a file is written of"):
                arrays = {name: a.astype(a.dtype.type) for name, a in state["arrays"].items()}
                if {a.dtype.kind for a in arrays.values()} - {"f"}:
                    raise TypeError("a file of adapters has floats")
                write_tensors(Path(folder) / "file", arrays, state["metadata"])
            self.lora.load(Path(folder) / "file")


# Not of a state: the names of what is read again, which a warning has; generators that are no part
# of it; and None for an iterator from which nothing was taken.
_OPTIONAL = re.compile(r"read_again|/generators is|(random|numpy|items|source|sources/\d) is None")

TALLIED = {
    # a sum has the shape of the first batch
    "evaluators": Subject(
        evaluators,
        counted,
        copy=None,
        takes=lambda what: what == "0/tally/0 is another shape",
        damages=60,
    ),
    "LoRA": Subject(
        make=lambda: World(Adapted),
        step=lambda world, k: world.run(Adapted.step, k),
        save=lambda world: world.run(Adapted.state),
        load=lambda world, state: world.run(Adapted.restore, state),
        copy=None,
        takes=lambda what: what.startswith("metadata/") and what.endswith(("deleted", "renamed")),
    ),
    **{
        f"reader {name}": Subject(
            lambda source=source: Place(source), Place.step, copy=None, takes=_OPTIONAL.search
        )
        for name, source in READERS.items()
    },
}


def kinds_of_tallies():
    """Return the classes that subjects are of, or hold."""
    found = {base.Accumulator, base.Printing, *(type(make()) for make, _ in TALLIES.values())}
    found |= {type(Place(source).items) for source in READERS.values()}
    return found | {type(World(Adapted).parts.lora)}
