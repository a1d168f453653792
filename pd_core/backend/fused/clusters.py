"""Clustering of operators into convex groups, so that nothing outside lies between.

Each operator has a level: how many operators that fit in no group follow it on the way to the
outputs, at most, counted down. Along any path the level rises at an operator that fits in none.
So those of one level have only operators of that level between them, and can be one group. Lower
levels are as good, as long as that is so: those of sums are, which then are beside what they read.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from onnx import GraphProto, NodeProto


def reads(node: NodeProto) -> list[str]:
    """Return the values that a node reads, those that its bodies capture included."""
    names = [x for x in node.input if x]
    for a in node.attribute:
        if a.type == a.GRAPH:
            names += captured(a.g)
    return names


def captured(graph: GraphProto) -> list[str]:
    """Return the values of the graphs around that a body reads."""
    made = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    made |= {y for inner in graph.node for y in inner.output}
    names = [x for inner in graph.node for x in reads(inner)]
    return [x for x in [*names, *(v.name for v in graph.output)] if x not in made]


def clusters(
    nodes: Sequence[NodeProto],
    needs: Sequence[Iterable[str]],
    fits: Sequence[bool],
    small: Sequence[bool],
    early: Sequence[bool],
) -> list[list[int]]:
    """Return groups of operators that fit, by their indices in order; nodes come in order.

    `needs` has the values that each reads, without those that it does not read in a group.
    Operators are in one group if values connect them, or if all of their groups are `small`. They
    are in the last group that they can be in; those that are `early` in the first one, that of what
    they read.
    """
    makers = {y: k for k, node in enumerate(nodes) for y in node.output if y}
    before = [[makers[x] for x in names if x in makers] for names in needs]
    level = [0] * len(nodes)
    for k in reversed(range(len(nodes))):
        for j in before[k]:
            level[j] = min(level[j], level[k] - (not (fits[j] and fits[k])))
    for k, sources in enumerate(before):
        if early[k] and sources:
            level[k] = max(level[j] + (not (fits[j] and fits[k])) for j in sources)
    root = list(range(len(nodes)))

    def find(k: int) -> int:
        while root[k] != k:
            root[k] = root[root[k]]
            k = root[k]
        return k

    for k, sources in enumerate(before):
        for j in sources:
            if fits[j] and fits[k] and level[j] == level[k]:
                root[find(j)] = find(k)
    groups = defaultdict(list)
    for k in range(len(nodes)):
        if fits[k]:
            groups[find(k)].append(k)
    found: list[list[int]] = []
    beside: dict[int, list[int]] = defaultdict(list)
    for members in groups.values():
        if all(small[k] for k in members):
            beside[level[members[0]]] += members
        else:
            found.append(members)
    return sorted([*found, *map(sorted, beside.values())])


def needed(
    nodes: Sequence[NodeProto], needs: Sequence[Iterable[str]], wanted: Iterable[str]
) -> set[int]:
    """Return the indices of the nodes that values need, where `needs` is what each reads."""
    makers = {y: k for k, node in enumerate(nodes) for y in node.output if y}
    found = {makers[y] for y in wanted if y in makers}
    stack = list(found)
    while stack:
        for x in needs[stack.pop()]:
            if x in makers and makers[x] not in found:
                found.add(makers[x])
                stack.append(makers[x])
    return found


def ordered(nodes: Sequence[NodeProto], wanted: Iterable[str]) -> list[NodeProto]:
    """Return the nodes that values need, each after those that it needs."""
    result, circle = _walked(nodes, wanted)
    if circle:
        raise RuntimeError(f"{circle[-1].name} depends on itself")
    return result


def circle(nodes: Sequence[NodeProto], wanted: Iterable[str]) -> list[NodeProto]:
    """Return nodes of which each depends on itself, empty if there are none."""
    return _walked(nodes, wanted)[1]


def _walked(
    nodes: Sequence[NodeProto], wanted: Iterable[str]
) -> tuple[list[NodeProto], list[NodeProto]]:
    """The nodes that values need, in order, and those of the first circle that there is."""
    makers = {y: k for k, node in enumerate(nodes) for y in node.output if y}
    every = [reads(node) for node in nodes]
    needs = [[makers[x] for x in names if x in makers] for names in every]
    alive = needed(nodes, every, wanted)
    done: set[int] = set()
    opened: set[int] = set()
    result: list[NodeProto] = []
    for start in sorted(alive):
        stack = [start]
        while stack:
            k = stack[-1]
            missing = [j for j in needs[k] if j not in done]
            if missing and k not in done:
                if k in opened:
                    first = stack.index(k)
                    return result, [nodes[j] for j in stack[first:-1] if j in opened]
                opened.add(k)
                stack += missing
                continue
            stack.pop()
            if k not in done:
                done.add(k)
                result.append(nodes[k])
    return result, []
