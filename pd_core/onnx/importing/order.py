"""The nodes of a file in an order in which each reads what is computed before it."""

import heapq
from collections.abc import Iterable, Iterator, Sequence

from onnx import GraphProto, ModelProto, NodeProto

from ...graph.errors import DamagedModel


def sorted_model(model: ModelProto) -> ModelProto:
    """Sort the nodes of all graphs and functions, which ONNX Runtime takes in any order.

    The order of the file is kept as far as it holds. The model itself is not changed. DamagedModel
    for nodes that read one another in a circle.
    """
    if all(_is_sorted(nodes) for nodes in _lists(model)):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for nodes in _lists(copy):
        if not _is_sorted(nodes):
            moved = [_copied(nodes[k]) for k in _order(nodes)]
            del nodes[:]
            nodes.extend(moved)
    return copy


def _lists(model) -> Iterator:
    """Yield the nodes of each graph, body and function."""
    for owner in (model.graph, *model.functions):
        yield from _inner_lists(owner.node)


def _inner_lists(nodes):
    yield nodes
    for node in nodes:
        for graph in bodies(node):
            yield from _inner_lists(graph.node)


def all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Yield nodes and those of their bodies."""
    for node in nodes:
        yield node
        for graph in bodies(node):
            yield from all_nodes(graph.node)


def bodies(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the graphs that a node has as attributes."""
    for a in node.attribute:
        yield from [a.g] if a.HasField("g") else []
        yield from a.graphs


def _is_sorted(nodes: Sequence[NodeProto]) -> bool:
    later = {y for node in nodes for y in node.output if y}
    for node in nodes:
        if not later.isdisjoint(_reads(node)):
            return False
        later.difference_update(node.output)
    return True


def _order(nodes):
    """Return the indices of the nodes in order; the lowest first of those that can be next."""
    producers = {y: k for k, node in enumerate(nodes) for y in node.output if y}
    waits = [{producers[x] for x in _reads(node) if x in producers} for node in nodes]
    readers: dict[int, list[int]] = {}
    for k, sources in enumerate(waits):
        for source in sources:
            readers.setdefault(source, []).append(k)
    ready = [k for k, sources in enumerate(waits) if not sources]
    order = []
    while ready:
        k = heapq.heappop(ready)
        order.append(k)
        for reader in readers.get(k, ()):
            waits[reader].discard(k)
            if not waits[reader]:
                heapq.heappush(ready, reader)
    if len(order) < len(nodes):
        stuck = sorted(set(range(len(nodes))) - set(order))
        names = [next(filter(None, nodes[k].output), "") for k in stuck]
        raise DamagedModel(f"the values {names[:4]} are computed from one another in a circle")
    return order


def _reads(node):
    """Return the names that a node and its bodies read from the graph that the node is in."""
    names = {x for x in node.input if x}
    for graph in bodies(node):
        inside = {x.name for x in (*graph.input, *graph.initializer)}
        inside.update(y for inner in graph.node for y in inner.output)
        read = set().union(*map(_reads, graph.node), (y.name for y in graph.output))
        names |= read - inside
    return names


def _copied(node):
    copy = NodeProto()
    copy.CopyFrom(node)
    return copy
