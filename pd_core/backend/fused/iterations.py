"""A Scan whose body is one group as one operator, which runs the group once for each step.

The runtime opens a frame, looks up and checks all values in each step, outer ones too: for a body
of some hundred values this takes longer than many a step. Here sizes are checked once, and a step
moves the addresses of what it reads and writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from onnx import GraphProto, NodeProto

from .groups import CHECKED, DOMAIN, Iteration, Library, Made, make
from .operators import RESHAPES, attributes
from .sizes import Dims, Values
from .steps import Map, Step, Unfit


@dataclass
class Group:
    """The steps of a group, and which of their values others read."""

    steps: list[Step]
    wanted: set[str]


def iterated(
    scan: NodeProto,
    groups: Mapping[str, Group],
    values: Values,
    library: Library,
    sources: Mapping[str, str],
) -> NodeProto | None:
    """Return the operator in the place of a Scan; None if its body is more than a group.

    `groups` has the groups by the first value that they make; `library` and `sources` are those
    of `groups.make`.
    """
    given = attributes(scan)
    body: GraphProto = given["body"]
    found = [node for node in body.node if node.domain == DOMAIN]
    axes = [*given.get("scan_input_axes", ()), *given.get("scan_output_axes", ())]
    if len(found) != 1 or any(axes) or body.initializer or not given["num_scan_inputs"]:
        return None
    if any(n.domain or n.op_type not in RESHAPES for n in body.node if n is not found[0]):
        return None
    group = groups.get(found[0].output[0])
    if group is None or "" in (*scan.input, *scan.output):
        return None
    try:
        made, order, every = _made(scan, given, group, values, library, sources)
    except Unfit:
        return None
    inside = found[0].name.partition(CHECKED)[0]
    return made.node(f"{scan.name} {inside}", order, every)


def _made(scan, given, group, values, library, sources) -> tuple[Made, list[str], list[Step]]:
    """The operator, the names of its outputs in their order, and its steps."""
    body, xs = given["body"], given["num_scan_inputs"]
    states = len(scan.input) - xs
    ys = len(scan.output) - states
    names = [v.name for v in body.input]
    if any(x not in values for x in (*names, *scan.input)):
        raise Unfit("a value of unknown type")
    count = values.dims(scan.input[states])[0]
    for k, (x, outer) in enumerate(zip(names, scan.input, strict=True)):
        dims = values.dims(outer)
        if (dims if k < states else dims[1:]) != values.dims(x):
            raise Unfit("another size inside than outside")
        if k >= states and dims[:1] != (count,):
            raise Unfit("another number of steps")
    views = {n.output[0]: n.input[0] for n in body.node if n.op_type in RESHAPES}
    copies = {n.output[0]: n.input[0] for n in body.node if n.op_type == "Identity"}
    made = {step.y for step in group.steps}
    steps, wanted = list(group.steps), set(group.wanted)
    outputs: dict[str, tuple[str, Dims]] = {}
    pairs: dict[str, str] = {}
    ways_in = given.get("scan_input_directions") or [0] * xs
    ways_out = given.get("scan_output_directions") or [0] * ys
    moved = dict(zip(names[states:], map(bool, ways_in), strict=True))
    for k, (v, outer) in enumerate(zip(body.output, scan.output, strict=True)):
        y = v.name
        while y not in values and y in copies:
            y = copies[y]
        if y not in values:
            raise Unfit("a value of unknown type")
        dims = values.dims(y)
        while y in views:
            y = views[y]
        if y not in wanted or y not in made:
            raise Unfit("a result that the group does not make")
        if y in outputs:  # once more, such as a state that is a result of all steps, too
            again = f"{y}/{k}"
            values.add(again, values.kind(y), values.dims(y))
            steps.append(Map(again, "{0}", [y]))
            wanted.add(again)
            y = again
        outputs[y] = outer, dims
        if k >= states:
            moved[y] = bool(ways_out[k - states])
        elif dims == values.dims(names[k]) and values.kind(y) == values.kind(names[k]):
            pairs[names[k]] = y
        else:
            raise Unfit("a state changes its size")
    given_to = dict(zip(names, scan.input, strict=True))
    loop = Iteration(count, given_to, pairs, moved, outputs)
    operator = make(steps, wanted & outputs.keys(), values, library, sources, loop)
    return operator, [outputs[y][0] for y in operator.outputs], steps
