"""A program of several steps: a Scan over the feeds of one step each."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .. import ops
from ..graph.loop import scan_node
from ..graph.names import fresh_names
from ..graph.recording import not_recording
from ..graph.rewrite import close, substitute
from ..graph.variable import Variable, constant, fresh_dim, static
from .base import Graph


def scanned(graph: Graph) -> Graph:
    """Return the program that runs a step once for each entry along the first axis of its feeds.

    The seed has that axis too. Updated variables are carried from step to step, and fetches are
    stacked along a first axis.
    """
    with fresh_names(), not_recording():
        steps = fresh_dim()
        stacks = [Variable.of((steps, *x.dims), x.dtype, x.name) for x in graph.feeds]
        xs, slices, seed = list(stacks), list(graph.feeds), None
        if graph.seed is not None:
            seed = Variable.of((steps, *graph.seed.dims), graph.seed.dtype, graph.seed.name)
            xs.append(seed)
            slices.append(graph.seed)
        states = [v for v, _ in graph.updates]
        block_inputs = [Variable.of(v.dims, v.dtype, v.name) for v in states]
        carried = dict(zip(states, block_inputs, strict=True))
        new = substitute([x for _, x in graph.updates], carried, stop=set(carried))
        fetches = substitute(graph.fetches, carried, stop=set(carried))
        final, stacked = _scan(graph, carried, xs, slices, new, fetches)
    return replace(
        graph,
        feeds=tuple(stacks),
        fetches=tuple(stacked),
        updates=tuple(zip(states, final, strict=True)),
        seed=seed,
    )


def _scan(
    graph: Graph,
    carried: dict[Variable, Variable],
    xs: list[Variable],
    slices: list[Variable],
    new: Sequence[Variable],
    fetches: Sequence[Variable],
) -> tuple[Sequence[Variable], Sequence[Variable]]:
    """The last values of the states, and the fetches of all steps."""
    # what no step reads before it is written may have no value yet
    init = [v if v in graph.states else _zeros(v) for v in carried]
    block_inputs = [*carried.values(), *slices]
    blocks, captures = close({"body": [*new, *fetches]}, {"body": block_inputs})
    out = scan_node(init, xs, captures, blocks["body"], fetches, reverse=False, intermediates=False)
    return out[: len(init)], out[len(init) :]


def _zeros(v):
    return ops.expand(constant(np.zeros((), v.dtype)), np.array(static(v.dims), np.int64))
