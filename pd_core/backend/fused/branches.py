"""Small branches of If as operators of the graph around: both are computed, and one is chosen.

Running a graph of its own costs as much as some ten operators. A group that computes a few thousand
elements more does not, and needs not end at the If.
"""

from collections.abc import Callable, Iterator

from onnx import GraphProto, NodeProto, helper

from .operators import BOOL, C_TYPES, attributes
from .sizes import Dims, Values, product
from .steps import Map, Step

_FEW = 1 << 12  # elements of all values of both branches


def inline(
    graph: GraphProto, values: Values, steps_of: Callable[[NodeProto], list[Step] | None]
) -> None:
    """Replace each If of small branches by their operators and Where, in place, bodies first.

    `steps_of(node)` tells the steps of an operator, None for one that fits in no group. A branch
    that may end in an error stays, as a maximum of a number of elements that only a run tells, and
    so does one with operators that fit in no group.
    """
    for node in graph.node:
        for a in node.attribute:
            if a.type == a.GRAPH:
                inline(a.g, values, steps_of)
    taken = set(_names(graph))
    result: list[NodeProto] = []
    for node in graph.node:
        found = _chosen(node, values, steps_of, taken)
        if found is None:
            result.append(node)
            continue
        for branch in _branches(node):
            taken.update(_names(branch))
            graph.initializer.extend(branch.initializer)
        result += found
    if len(result) != len(graph.node):
        copies = [NodeProto.FromString(n.SerializeToString()) for n in result]
        del graph.node[:]
        graph.node.extend(copies)


def _branches(node: NodeProto) -> list[GraphProto]:
    given = attributes(node)
    return [given["then_branch"], given["else_branch"]]


def _names(graph: GraphProto) -> Iterator[str]:
    """The values that a graph makes or is given."""
    yield from (v.name for v in graph.input)
    yield from (t.name for t in graph.initializer)
    for node in graph.node:
        yield from filter(None, node.output)


def _chosen(node, values, steps_of, taken) -> list[NodeProto] | None:
    """The operators in place of an If; None if it stays."""
    if node.op_type != "If" or node.domain or node.input[0] not in values:
        return None
    then, other = _branches(node)
    names = [*_names(then), *_names(other)]
    if len(set(names)) < len(names) or not taken.isdisjoint(names):
        return None
    inside = [*then.node, *other.node]
    if any(not _is_harmless(steps_of(n)) for n in inside):
        return None
    sizes = [product(*values.dims(y)) for n in inside for y in (*n.output, *n.input) if y in values]
    if any(more for _, more in sizes) or sum(number for number, _ in sizes) > _FEW:
        return None
    condition, result = node.input[0], []
    for k, y in enumerate(node.output):
        pair = [g.output[k].name for g in (then, other)]
        if not y or not _are_alike([y, *pair], values):
            return None
        if len(values.dims(condition)) > len(values.dims(y)):
            return None
        result.append(helper.make_node("Where", [condition, *pair], [y], f"{node.name}/{k}"))
    return [*inside, *result]


def _is_harmless(found: list[Step] | None) -> bool:
    """Whether an operator has steps, of which none notes an error."""
    return found is not None and not any(isinstance(s, Map) and s.is_plain for s in found)


def _are_alike(names: list[str], values: Values) -> bool:
    """Whether values have the same sizes, and the same type, which Where takes."""
    if any(x not in values or values.kind(x) not in C_TYPES.keys() - {BOOL} for x in names):
        return False
    types: set[tuple[int, Dims]] = {(values.kind(x), values.dims(x)) for x in names}
    return len(types) == 1
