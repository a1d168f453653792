"""The stages of a step: programs that run one after the other and hand on values.

Most steps are one program, because each value that is handed on costs a binding in every run. A
step is divided in two cases:

- after the gradients, where the caller exchanges them, and among the operators that compute them,
  so that the first ones may be exchanged meanwhile;
- before values that are summed over the ranks of a job;
- before row writes, which go into a table's own buffer: nothing reads the table once that stage has
  begun, so only the rows are written, and the table needs no second buffer. A backend that can make
  operators wait for all others has them in the same stage.
"""

from dataclasses import dataclass, replace
from itertools import accumulate, count
from math import prod

from ..graph.names import fresh_names
from ..graph.node import Node, ancestors
from ..graph.rewrite import substitute
from ..graph.variable import Variable
from .base import NO_SEAM, Graph, Seam


@dataclass(frozen=True)
class Stage:
    """A program of a step; `fetched` and `updated` index its fetches and updates in the step.

    Values are handed on in numbered slots: `inputs` are (slot, variable in this graph) that it
    reads, `hands` are (slot, value) that it fills. The updates `in_place`, by their indices in the
    step, are written into the buffers of the states that they update; if the stage `waits`, they
    must come after everything else in it, and so may others. `exchanged` marks the stage that runs
    after the exchange of the values at the seam, `divided` those after a part of its values is
    computed. What the slots `summed` hold is summed over the ranks before the stage runs, with
    their weights where it is `weighted`.
    """

    graph: Graph
    fetched: tuple[int, ...]
    updated: tuple[int, ...]
    inputs: tuple[tuple[int, Variable], ...] = ()
    hands: tuple[tuple[int, Variable], ...] = ()
    in_place: tuple[int, ...] = ()
    waits: bool = False
    exchanged: bool = False
    divided: bool = False
    summed: tuple[int, ...] = ()
    weighted: tuple[bool, ...] = ()


def stages(graph: Graph, seam: Seam = NO_SEAM, writes_wait: bool = False) -> list[Stage]:
    """Return the stages of a step, in order.

    Values at the seam are handed on in the slots 0, 1, …. Where `writes_wait`, row writes are in
    the last stage: whoever runs it has them wait for everything else in it.
    """
    slots = count()
    indices = tuple(range(len(graph.fetches))), tuple(range(len(graph.updates)))
    divided = [Stage(graph, *indices)]
    if seam:
        later = _after_exchange(graph, seam)
        first, second = _split(divided.pop(), later, slots, seam)
        # the exchange of a division must not meet with that of a sum
        parts = [first] if _has_sums(first) else _divisions(first, seam, slots)
        divided += [*parts, replace(second, exchanged=True)]
    divided = [part for stage in divided for part in _pauses(stage, slots)]
    writes = _row_writes(divided[-1].graph)
    if writes_wait:
        last = divided.pop()
        news = zip(last.updated, last.graph.updates, strict=True)
        in_place = tuple([k for k, (_, new) in news if new.node in writes])
        divided.append(replace(last, in_place=in_place, waits=True))
    elif writes:
        first, second = _split(divided.pop(), writes | _views_before(writes), slots)
        divided += [first, replace(second, in_place=second.updated)]
    return divided


_WRITES = {("ScatterND", "none"), ("ScatterElements", "add")}
WRITING = {name for name, _ in _WRITES}


def _row_writes(graph) -> set[Node]:
    """The nodes that write rows of the variable that they update and have no other use.

    They set rows by ScatterND, or add to them by ScatterElements, which has one thread: rows may
    repeat. None of them reads what another one writes, and something is computed before them.
    """
    updated = {v for v, _ in graph.updates}
    needed = [x for node in ancestors(graph.outputs) for x in node.inputs if x is not None]
    needed += graph.fetches
    new_values = [new for _, new in graph.updates]
    writes = {
        new.node
        for v, new in graph.updates
        if new.node is not None
        and (new.node.op_type, new.node.attributes.get("reduction", "none")) in _WRITES
        and new.node.inputs[0] is v
        and updated.isdisjoint(map(_viewed, new.node.inputs[1:]))
        and new not in needed
        and new_values.count(new) == 1
    }
    if all(node in writes for node in ancestors(graph.outputs)):
        return set()
    return writes


_VIEWS = {"Reshape", "Unsqueeze", "Squeeze", "Flatten", "Identity"}


def _viewed(x):
    """Return the Variable behind the views, whose memory a value may share."""
    while x is not None and x.node is not None and x.node.op_type in _VIEWS:
        x = x.node.inputs[0]
    return x


def _views_before(nodes) -> set[Node]:
    """The views that nodes read, which are so few operations that the second stage has them, too.

    What they are views of is handed on in their place, unless it is fed.
    """
    found: set[Node] = set()
    pending = [x for node in nodes for x in node.inputs]
    while pending:
        x = pending.pop()
        node = None if x is None or x.is_feed else x.node
        if node is None or node.op_type not in _VIEWS or node in found:
            continue
        if all(more is None or more.value is not None for more in node.inputs[1:]):
            found.add(node)
            pending.append(node.inputs[0])
    return found


def _divisions(stage, seam, slots) -> list[Stage]:
    """Divide a stage where equal parts of the bytes at the seam are computed."""
    divided = []
    for left in range(seam.divisions, 1, -1):
        order = ancestors(_outputs(stage))
        depth: dict[Variable, int] = {}  # the gradients of the last layers are the least deep
        for node in order:
            deepest = max((depth.get(x, 0) for x in node.inputs if x is not None), default=0)
            depth.update(dict.fromkeys(node.outputs, deepest + 1))
        computed = [v for slot, v in stage.hands if slot < len(seam)]
        computed.sort(key=lambda v: depth.get(v, 0))
        ends = list(accumulate(_size(v) for v in computed))
        first = [v for v, end in zip(computed, ends, strict=True) if end <= ends[-1] / left]
        earlier = set(ancestors(first or computed[:1]))
        later = {node for node in order if node not in earlier}
        parts = _split(stage, later, slots)
        if not all(any(slot < len(seam) for slot, _ in part.hands) for part in parts):
            break
        divided.append(parts[0])
        stage = replace(parts[1], divided=True)
    return [*divided, stage]


def _has_sums(stage):
    return any(node.op_type == "SumOverRanks" for node in ancestors(_outputs(stage)))


def _pauses(stage, slots) -> list[Stage]:
    """Divide a stage before sums over the ranks; those that do not depend on another at once."""
    divided: list[Stage] = []
    while True:
        order = ancestors(_outputs(stage))
        sums = [node.outputs[0] for node in order if node.op_type == "SumOverRanks"]
        dependent = _dependents(order, sums)
        first = [y for y in sums if y.node not in dependent]
        if not first:
            return [*divided, stage]
        earlier, stage = _split(stage, _dependents(order, first), slots, sums=first)
        divided.append(earlier)


def _size(v):
    """The elements of a value, without sizes that are known at run time only."""
    return prod(d for d in v.dims if isinstance(d, int))


def _after_exchange(graph, seam) -> set[Node]:
    """The nodes that run after the exchange of the values at the seam.

    Those are the ones that depend on it, and what only they need and is computed from variables and
    feeds alone, so that it is not handed on.
    """
    order = ancestors(graph.outputs)
    # a gradient that others are computed from is used as it is there, before the exchange
    later = _dependents(order, seam) - set(ancestors(seam))
    outputs = [v for v in graph.outputs if v.node not in later]
    earlier = set(ancestors([*outputs, *seam]))
    for node in order:
        inputs = [x.node for x in node.inputs if x is not None]
        if node not in earlier and all(n is None or n in later for n in inputs):
            later.add(node)
    return later


def _dependents(order, values) -> set[Node]:
    """The nodes that depend on the values."""
    later, reached = set(), set(values)
    for node in order:
        if not reached.isdisjoint(node.inputs):
            later.add(node)
            reached.update(node.outputs)
    return later


def _outputs(stage):
    return [*stage.graph.outputs, *(v for _, v in stage.hands)]


def _split(stage: Stage, later: set[Node], slots, seam=(), sums=()) -> tuple[Stage, Stage]:
    """Divide a stage in two; the second has the nodes `later` and reads what the first hands on.

    `slots` are the numbers of the next free slots. Of `sums` over the ranks the first hands on the
    terms.
    """
    graph, known = stage.graph, {v: slot for slot, v in stage.inputs}
    handed = {v: slot for slot, v in stage.hands if v not in sums}
    read = [x for node in ancestors(_outputs(stage)) if node in later for x in node.inputs]
    computed = [x for x in read if x is not None and x.node is not None and x.node not in later]
    given = dict.fromkeys([*seam, *sums, *computed, *(x for x in read if x in known)])
    numbers = {**known, **{v: slot for v, slot in handed.items() if v in given and v not in known}}
    numbers.update((x, next(slots)) for x in given if x not in numbers)
    with fresh_names():
        inputs = {x: Variable.of(x.dims, x.dtype, f"given_{k}") for k, x in enumerate(given)}
    fetches = _divided(zip(stage.fetched, graph.fetches, strict=True), later, sums)
    # an update that is itself a value at the seam stores the value after the exchange
    updates = _divided(zip(stage.updated, graph.updates, strict=True), later, (*seam, *sums))
    hands = _divided(stage.hands, later, sums)
    own = [
        (numbers[x], x.node.inputs[0] if x in sums else x)
        for x in given
        if x not in known and x not in handed
    ]
    first = _stage(graph, fetches[0], updates[0], stage.inputs, (*hands[0], *own))

    outputs = [v for _, v in fetches[1]] + [new for _, (_, new) in updates[1]]
    outputs += [v for _, v in hands[1]]
    renamed = iter(substitute(outputs, inputs, stop=set(inputs)))
    second = _stage(
        graph,
        [(index, next(renamed)) for index, _ in fetches[1]],
        [(index, (v, next(renamed))) for index, (v, _) in updates[1]],
        tuple((numbers[x], inputs[x]) for x in given),
        tuple((slot, next(renamed)) for slot, _ in hands[1]),
    )
    first = replace(
        first,
        in_place=stage.in_place,
        exchanged=stage.exchanged,
        divided=stage.divided,
        summed=stage.summed,
        weighted=stage.weighted,
    )
    second = replace(
        second,
        in_place=stage.in_place,
        summed=tuple(numbers[y] for y in sums),
        weighted=tuple(bool(y.node.attributes.get("weighted")) for y in sums),
    )
    return first, second


def _divided(items, later, values=()):
    """Divide (index, value or update) pairs into those of the first stage and of the second."""
    parts: tuple[list, list] = [], []
    for index, item in items:
        v = item[1] if isinstance(item, tuple) else item
        parts[v.node in later or v in values].append((index, item))
    return parts


def _stage(graph, fetches, updates, inputs, hands):
    own = replace(
        graph,
        fetches=tuple(v for _, v in fetches),
        updates=tuple(update for _, update in updates),
    )
    return Stage(
        own,
        tuple(index for index, _ in fetches),
        tuple(index for index, _ in updates),
        tuple(inputs),
        tuple(hands),
    )
