"""Graph to graph: the walk that substitution and every backend pass are written with."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from .node import Block, Node, ancestors, in_place_of, rebuilt
from .variable import Dim, Inputs, Variable

Rule = Callable[[Node, Inputs], Sequence[Variable] | None]


def rewrite(
    targets: Iterable[Variable],
    rule: Rule,
    stop: Container[Variable] = (),
    select: Callable[[Node], Inputs] | None = None,
    given: Mapping[Variable, Variable] | None = None,
    sizes: Mapping[Dim, Dim] | None = None,
    only: Container[str] | None = None,
) -> list[Variable]:
    """The targets after rule(node, inputs) -> outputs, or None to keep the node.

    `inputs` are the node's inputs after the rewriting of what is behind them. A kept node whose
    inputs changed is built again with the same types; new nodes inherit the line and namespace
    of the one they replace. The bodies of loops and branches are rewritten too. `given` maps
    variables to others that take their place, and `sizes` sizes to those that nodes which are built
    again have instead. The rule is asked about operators of the types `only`, about all if None.
    """
    given = given or {}
    new = dict(given)
    for node in ancestors(targets, stop, select):
        inputs = tuple([new.get(x, x) for x in node.inputs]) if new else node.inputs
        outputs = None
        if only is None or node.op_type in only:
            with in_place_of(node):
                outputs = rule(node, inputs)
        if outputs is None:
            if inputs == node.inputs and not node.blocks:
                continue
            outputs = _kept(node, inputs, rule, select, sizes, only)
        if outputs is not None:
            for old, made in zip(node.outputs, outputs, strict=True):
                if old not in given:
                    new[old] = made
    return [new.get(v, v) for v in targets]


def substitute(
    targets: Iterable[Variable],
    given: Mapping[Variable, Variable],
    stop: Container[Variable] = (),
    sizes: Mapping[Dim, Dim] | None = None,
    only: Container[str] | None = None,
) -> list[Variable]:
    """The targets with other variables in the place of some, and other sizes behind these."""
    return rewrite(targets, _nothing, stop, given=given, sizes=sizes, only=())


def is_output_of(x: Variable, op_type: str) -> bool:
    """Whether x is computed by an operator of this type."""
    return x.node is not None and x.node.op_type == op_type


def _nothing(node, inputs):
    """The rule that keeps every node."""


def _kept(node, inputs, rule, select, sizes=None, only=None):
    types = _resized(node.types, sizes) if sizes else None
    if not node.blocks:
        return None if inputs == node.inputs else rebuilt(node, inputs, types=types).outputs
    blocks, changed = {}, inputs != node.inputs
    for key, block in node.blocks.items():
        outputs = tuple(rewrite(block.outputs, rule, block.inputs, select, only=only))
        blocks[key] = Block(block.formals, block.captured, outputs)
        changed = changed or outputs != block.outputs
    if not changed:
        return None
    inputs = closed_again(node.op_type, inputs, blocks)
    return rebuilt(node, inputs, blocks, types).outputs


def _resized(types, sizes):
    return [(tuple([sizes.get(d, d) for d in dims]), dtype) for dims, dtype in types]


# ---- bodies


def close(
    bodies: Mapping[str, Sequence[Variable]],
    formals: Mapping[str, Sequence[Variable]],
    inside: Callable[[Node], bool] | None = None,
) -> tuple[dict[str, Block], list[Variable]]:
    """Turn outputs that were computed from formals into closed Blocks.

    `bodies` and `formals` map a body's name to its output Variables and its formals. What a body
    does not compute itself becomes a captured value, one list for all bodies. A node is computed
    inside if it depends on a formal, or if `inside(node)` says so: the rest is computed before.
    Returns (blocks, captures).
    """
    own = {key: _inside(outputs, formals[key], inside) for key, outputs in bodies.items()}
    captures = []
    for key, outputs in bodies.items():
        known = {*formals[key], *(y for node in own[key] for y in node.outputs)}
        read = [x for node in own[key] for x in node.inputs if x is not None] + list(outputs)
        captures += [x for x in read if x not in known and x.value is None]
    captures = list(dict.fromkeys(captures))
    blocks = {}
    for key, outputs in bodies.items():
        captured = tuple(Variable.of(x.dims, x.dtype, x.name) for x in captures)
        given = dict(zip(captures, captured, strict=True))
        out = substitute(outputs, given, stop={*formals[key], *captures})
        blocks[key] = Block(tuple(formals[key]), captured, tuple(out))
    return blocks, captures


def _inside(outputs, formals, inside):
    """The nodes behind outputs that belong to a body."""
    reached, own = set(formals), []
    for node in ancestors(outputs, stop=reached):
        if (inside is not None and inside(node)) or not reached.isdisjoint(node.inputs):
            reached.update(node.outputs)
            own.append(node)
    return own


def closed_again(op_type: str, inputs: Inputs, blocks: dict[str, Block]) -> Inputs:
    """Inputs of a node after a rewriting of its bodies: what they read anew is captured too."""
    every = (lambda node: True) if op_type == "If" else None
    formals = {key: block.inputs for key, block in blocks.items()}
    found, extra = close({k: b.outputs for k, b in blocks.items()}, formals, every)
    for key, block in found.items():
        old = blocks[key]
        count = len(old.formals)
        captured = (*block.formals[count:], *block.captured)
        blocks[key] = Block(old.formals, captured, block.outputs)
    return (*inputs, *extra)
