"""Random nodes with bodies: branches, loops, scans, and functions of the file."""

import numpy as np
from onnx import AttributeProto, helper

from .draw import Draw, Refused, body_of, info
from .elementwise import recipe, recipes

_SIMPLE = ("Add", "Mul", "Sub", "Sigmoid", "Tanh", "Neg", "Sin", "Softplus", "Abs")


def like(d: Draw, y: str) -> str:
    """Draw a chain that keeps the type and the shape of a float value."""
    shape, x = d.shape(y), y
    for _ in range(d.number(1, 2)):
        op_type = d.one(_SIMPLE)
        if op_type in ("Add", "Mul", "Sub"):
            dims = [1 if d.chance(0.3) else n for n in shape]
            other = d.any((d.dtype(x),), shape=dims)
            (x,) = d.node(op_type, [x, other])
        else:
            (x,) = d.node(op_type, [x])
    return x


def inner(d: Draw) -> Draw:
    """Begin a body."""
    return Draw(d.rng, d.opset, outer=d)


@recipe(7, "If")
def branch(d: Draw, op_type: str):
    x = d.any(("float32", "float64"))
    condition = d.give(np.array(d.chance(0.5)), d.one(("input", "input", "stored", "constant")))
    first, second = inner(d), inner(d)
    for _ in range(d.number(0, 2)):
        grow(first)
    y = like(first, x)
    if d.chance(0.4):
        (z,) = second.node("Identity", [x])
    else:
        z = like(second, x)
    outputs = [[y], [z]]
    if d.chance(0.3):
        outputs[0].append(first.node("Shape", [x])[0])
        outputs[1].append(second.node("Shape", [y_or(second, x)])[0])
    bodies = {
        "then_branch": body_of(first, "then", [], outputs[0]),
        "else_branch": body_of(second, "else", [], outputs[1]),
    }
    if d.chance(0.3):
        _same_names(*bodies.values())
    names = [d.name("v") for _ in outputs[0]]
    return d.add(helper.make_node("If", [condition], names, **bodies))


def y_or(d, x):
    return x


def _same_names(first, second):
    """Give the values of the second branch the names of the first one's, as far as they go."""
    own = [[y for n in g.node for y in n.output] for g in (first, second)]
    renamed = dict(zip(own[1], own[0], strict=False))
    for n in second.node:
        for k, x in enumerate(n.input):
            n.input[k] = renamed.get(x, x)
        for k, y in enumerate(n.output):
            n.output[k] = renamed.get(y, y)
    for y in second.output:
        y.name = renamed.get(y.name, y.name)


@recipe(11, "Loop")
def loop(d: Draw, op_type: str):
    state = d.any(("float32",), rank=d.number(0, 3))
    trips = d.one((0, 1, 2, 3, 3))
    body = inner(d)
    number, going, v = d.name("i"), d.name("g"), d.name("s")
    body.values |= {number: np.array(1, np.int64), going: np.array(True), v: d.of(state)}
    body.held |= {number, going}
    formal = [info(number, body.values[number], []), info(going, body.values[going], [])]
    formal.append(info(v, d.of(state), d.one((None, d.shape(state)))))
    new = like(body, v)
    if d.chance(0.3):
        (step,) = body.node("Cast", [number], to=1)
        (new,) = body.node("Mul", [new, step])
    outputs = [new]
    if d.chance(0.6):
        z = new if d.chance(0.5) else body.node("ReduceMax", [new], keepdims=0)[0]
        outputs.append(body.node("Identity", [z])[0])
    if d.chance(0.3):
        limit = body.fixed(d.number(0, 2))
        (still,) = body.node("Less", [number, limit])
    else:
        (still,) = body.node("Identity", [going])
    proto = body_of(body, "body", formal, [still, *outputs])
    count = d.fixed(d.one((trips, [trips]))) if d.chance(0.9) else ""
    if not count:
        count = d.fixed(trips)
    condition = d.one(("", d.fixed(True, "bool")))
    names = [d.name("v") for _ in outputs]
    return d.add(helper.make_node("Loop", [count, condition, state], names, body=proto))


@recipe(9, "Scan")
def scan(d: Draw, op_type: str):
    x = d.any(("float32",), least=1)
    rank = len(d.shape(x))
    axis = d.axis(rank) if d.opset >= 11 else d.number(0, rank - 1)
    dims = [n for k, n in enumerate(d.shape(x)) if k != axis % rank]
    state = d.any(("float32",), shape=dims)
    body = inner(d)
    s, row = d.name("s"), d.name("r")
    body.values |= {s: d.of(state), row: d.array(dims)}
    formal = [info(n, body.values[n], d.one((None, dims))) for n in (s, row)]
    (mixed,) = body.node("Mul", [s, row])
    new = like(body, mixed)
    (y,) = body.node("Identity", [new if d.chance(0.6) else row])
    a = {"num_scan_inputs": 1}
    if axis or d.chance(0.2):
        a["scan_input_axes"] = [axis]
    if d.chance(0.4):
        a["scan_input_directions"] = [d.number(0, 1)]
    if d.chance(0.3):
        a["scan_output_axes"] = [d.axis(rank) if d.opset >= 11 else d.number(0, rank - 1)]
    if d.chance(0.3):
        a["scan_output_directions"] = [d.number(0, 1)]
    proto = body_of(body, "body", formal, [new, y])
    names = [d.name("v"), d.name("v")]
    return d.add(helper.make_node("Scan", [state, x], names, body=proto, **a))


@recipe(15, "Function")
def function(d: Draw, op_type: str):
    """A function of the file, with an attribute that a node in it refers to; or nested ones."""
    x = d.any(("float32",))
    name = d.name("f")
    b = d.name("b")
    add = helper.make_node("Mul", ["x", "k"], ["m"])
    constant = helper.make_node("Constant", [], ["k"])
    reference = AttributeProto(
        name="value_float", ref_attr_name="factor", type=AttributeProto.FLOAT
    )
    constant.attribute.append(reference)
    act = helper.make_node(d.one(("Sigmoid", "Tanh", "Neg", "Elu")), ["m"], [b])
    if act.op_type == "Elu":
        act.attribute.append(
            AttributeProto(name="alpha", ref_attr_name="alpha", type=AttributeProto.FLOAT)
        )
    nodes, optional = [constant, add, act], d.chance(0.3)
    nodes.append(helper.make_node("Add", [b, "x"], ["y"]))
    imports = [helper.make_opsetid("", d.opset)]
    nested = [f for f in d.functions if len(f.input) == 1]
    if nested and d.chance(0.6):
        inner_name = d.one(nested).name
        nodes[2] = helper.make_node(inner_name, ["m"], [b], domain="own")
        imports.append(helper.make_opsetid("own", 1))
        if d.chance(0.5):
            nodes[2].attribute.append(
                AttributeProto(name="factor", ref_attr_name="factor", type=AttributeProto.FLOAT)
            )
    if d.chance(0.3):
        nodes = nodes[::-1]
    proto = helper.make_function(
        "own", name, ["x"], ["y"], nodes, imports,
        [*(["alpha"] if act.op_type == "Elu" and act in nodes else [])],
        [helper.make_attribute("factor", 1.5)],
    )  # fmt: skip
    del optional
    d.functions.append(proto)
    d.domains["own"] = 1
    a = {"factor": 0.75} if d.chance(0.5) else {}
    if "alpha" in proto.attribute:
        a["alpha"] = 0.5
    try:
        return d.node(name, [x], domain="own", **a)
    except Refused:
        d.functions.remove(proto)
        raise


_LEAVES = [n for n in recipes if n not in ("If", "Loop", "Scan", "Function")]


def grow(d: Draw, leaf: bool = True, tries: int = 30) -> list[str]:
    """Add a random node that ONNX Runtime takes; return the names of its outputs."""
    names = [n for n, (since, _) in recipes.items() if since <= d.opset]
    if leaf:
        names = [n for n in names if n not in ("If", "Loop", "Scan", "Function")]
    for _ in range(tries):
        before = len(d.nodes), set(d.values), list(d.inputs), list(d.stored), set(d.held)
        try:
            return recipes[d.one(names)][1](d)
        except Refused:
            del d.nodes[before[0] :]
            d.values = {n: a for n, a in d.values.items() if n in before[1]}
            d.inputs, d.stored, d.held = before[2], before[3], before[4]
    return []
