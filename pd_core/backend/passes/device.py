"""Programs for a device: the passes on top of those that every program gets."""

from dataclasses import replace

from ...graph.names import fresh_names
from ..base import Graph, Length
from .context import Context, Pass, apply_passes


def for_device(
    graph: Graph,
    passes: tuple[Pass, ...],
    block: int = 0,
    contributed: frozenset[str] = frozenset(),
) -> Graph:
    """Return the same program after the passes of a device."""
    if graph.prepared:
        return graph
    lengths: list[Length] = []
    context = Context(sizes=graph.sizes, block=block, contributed=contributed, lengths=lengths)
    with fresh_names():
        outputs = apply_passes(graph.outputs, passes, context)
    count = len(graph.fetches)
    updates = zip(graph.updates, outputs[count:], strict=True)
    return replace(
        graph,
        fetches=tuple(outputs[:count]),
        updates=tuple((v, new) for (v, _), new in updates),
        prepared=True,
        lengths=tuple(dict.fromkeys(lengths)),
    )
