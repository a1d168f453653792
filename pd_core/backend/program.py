"""From targets to a Graph: modes resolved, composites lowered, only what the targets need."""

import numpy as np

from ..errors import MissingFeed
from ..node import ancestors
from ..shapes import BROADCASTING, meetings
from ..variable import Variable
from .base import Graph
from .passes import lowerings, rewrites
from .rewrite import rewrite


_FORWARD_IDENTITY = {"Identity", "StopGradient", "ClipGradient", "ScaleGradient"}


def select(training):
    """Which inputs of a node count: one side of a mode switch, all of any other node."""
    side = 0 if training else 1
    return lambda node: (node.inputs[side],) if node.op_type == "ModeSwitch" else node.inputs


def build(fetches, updates, feeds, training, sizes, complete=True) -> Graph:
    """The Graph of these targets. Feeds that it does not need are not in it."""
    fetches, updates = list(fetches), list(updates)
    targets = [*fetches, *(new for _, new in updates)]
    side = 0 if training else 1

    def resolve(node, inputs):
        if node.op_type == "ModeSwitch":
            return (inputs[side],)
        return inputs if node.op_type in _FORWARD_IDENTITY else None

    cut = set(feeds)
    targets = rewrite(targets, resolve, cut, select(training))
    for change in rewrites:
        targets = rewrite(targets, change, cut)
    seed = Variable.of((2,), np.int64, "random_seed")

    def expand(node, inputs):
        lowering = lowerings.get(node.op_type)
        return None if lowering is None else lowering(node, inputs, sizes, seed)

    targets = rewrite(targets, expand, cut)
    used = leaves(targets, cut)
    if complete:
        _check_fed(used, cut)
    count = len(fetches)
    return Graph(
        feeds=tuple(v for v in feeds if v in used),
        states=tuple(v for v in used if v.is_persistent and v not in cut),
        fetches=tuple(targets[:count]),
        updates=tuple((v, new) for (v, _), new in zip(updates, targets[count:], strict=True)),
        seed=seed if seed in used else None,
        sizes=sizes,
    )


def leaves(targets, cut):
    """What the targets read: feeds, persistent variables and the seed, in order of use."""
    order = ancestors(targets, stop=cut)
    inputs = [x for node in order for x in node.inputs if x is not None] + list(targets)
    return list(dict.fromkeys(v for v in inputs if v in cut or (v.node is None and v.value is None)))


def _check_fed(used, cut):
    for v in used:
        if v not in cut and not v.is_persistent and v.name != "random_seed":
            raise MissingFeed(f"the targets need a value for {v!r}, which is not fed")


def equal_sizes(graph: Graph):
    """Pairs of sizes that this program takes to be equal at run time."""
    found = []
    for node in ancestors(graph.outputs, stop=set(graph.inputs)):
        if node.op_type in BROADCASTING:
            found += meetings(node)
    return list(dict.fromkeys(found))
