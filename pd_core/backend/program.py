"""From targets to a Graph: modes resolved, composites lowered, only what the targets need."""

import numpy as np

from ..graph.broadcast import meetings
from ..graph.errors import MissingFeed
from ..graph.names import fresh_names
from ..graph.node import ancestors, apply
from ..graph.rewrite import rewrite
from ..graph.site import site_text
from ..graph.variable import Variable
from .base import Graph
from .passes import lowerings, rewrites
from .passes.loops import lighten_loops
from .passes.portable import for_webgpu
from .passes.unread import without_unread

_FORWARD_IDENTITY = {
    *("Identity", "StopGradient", "StraightThrough", "ClipGradient", "ScaleGradient")
}


def select(training):
    """Which inputs of a node count: one side of a mode switch, all of any other node."""
    side = 0 if training else 1
    return lambda node: (node.inputs[side],) if node.op_type == "ModeSwitch" else node.inputs


def build(fetches, updates, feeds, training, sizes, complete=True, portable=False) -> Graph:
    """The Graph of these targets. Feeds that it does not need are not in it.

    `portable` takes the forms that run on WebGPU too.
    """
    rules = dict(lowerings)
    if portable:
        rules |= for_webgpu({d for v in feeds for d in v.dims})
    fetches, updates = list(fetches), list(updates)
    slots = {v: Variable.of(v.dims, v.dtype, v.name) for v in feeds}
    targets = [*fetches, *(new for _, new in updates)]
    with fresh_names():  # what is built here takes no name from the user's world
        targets = _resolved(targets, slots, training)
        equal = _equal_sizes(targets)
        draws = tuple(dict.fromkeys(_draws(targets)))
        seed = Variable.of((len(draws), 2), np.int64, "random_seed")
        targets = lighten_loops(rewrite(targets, _expansion(rules, draws, seed, sizes)))
    used = leaves(targets)
    if complete:
        _check_fed(used, {seed, *slots.values()})
    count = len(fetches)
    return Graph(
        fed=tuple(v for v, slot in slots.items() if slot in used),
        feeds=tuple(slot for slot in slots.values() if slot in used),
        states=tuple(v for v in used if v.is_persistent),
        fetches=tuple(targets[:count]),
        updates=tuple((v, new) for (v, _), new in zip(updates, targets[count:], strict=True)),
        seed=seed if seed in used else None,
        draws=draws,
        sizes=sizes,
        equal=tuple(dict.fromkeys([*equal, *_equal_sizes(targets)])),
    )


def _resolved(targets, slots, training):
    """The targets in one mode, cut at the feeds, after the rewrites that every program gets."""
    side = 0 if training else 1

    def resolve(node, inputs):
        if node.op_type == "ModeSwitch":
            return (inputs[side],)
        return inputs[:1] if node.op_type in _FORWARD_IDENTITY else None

    targets = rewrite(targets, resolve, set(slots), select(training), given=slots)
    targets = without_unread(targets)
    for change in rewrites:
        targets = rewrite(targets, change)
    return targets


def _draws(targets):
    """The keys of the random draws behind the targets, bodies included."""
    for node in ancestors(targets):
        if node.op_type == "Uniform":
            yield node.attributes["key"]
        for block in node.blocks.values():
            yield from _draws(block.outputs)


def _expansion(rules, draws, seed, sizes):
    """The rule that lowers composites; a random draw gets its own row of the seed."""

    def expand(node, inputs):
        lowering = rules.get(node.op_type)
        if lowering is None:
            return None
        row = None
        if node.op_type == "Uniform":
            row = apply("Gather", seed, np.int64(draws.index(node.attributes["key"])), axis=0)
        return lowering(node, inputs, sizes, row)

    return expand


def leaves(targets):
    """What the targets read: slots, persistent variables and the seed, in order of use."""
    inputs = (x for node in ancestors(targets) for x in node.inputs if x is not None)
    return dict.fromkeys(v for v in (*inputs, *targets) if v.node is None and v.value is None)


def _check_fed(used, given):
    for v in used:
        if v.unfit is not None:
            raise type(v.unfit)(str(v.unfit))
        if v not in given and not v.is_persistent:
            made = f"\n  made at {site_text(v.site)}" if v.site else ""
            raise MissingFeed(f"the targets need a value for {v!r}, which is not fed{made}")


def feed_slots(targets, training=False):
    """The variables that must be fed for these targets, by order of use."""
    graph = build(targets, [], [], training, sizes={}, complete=False)
    return [v for v in leaves(graph.outputs) if v.is_feed and v is not graph.seed]


def _equal_sizes(targets):
    """Pairs of sizes that these targets take to be equal at run time."""
    return [pair for node in ancestors(targets) for pair in meetings(node)]
