"""Graph rewriting: the traversal behind substitution and every backend pass."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from .node import Block, Node, ancestors, located_at, rebuilt
from .variable import Dim, Inputs, OutputType, Variable

Rule = Callable[[Node, Inputs], Sequence[Variable] | None]


def rewrite(
    targets: Iterable[Variable],
    rule: Rule,
    stop: Container[Variable] = (),
    select: Callable[[Node], Inputs] | None = None,
    replacements: Mapping[Variable, Variable] | None = None,
    sizes: Mapping[Dim, Dim] | None = None,
    only: Container[str] | None = None,
    order: Sequence[Node] | None = None,
) -> list[Variable]:
    """Return the targets after applying rule(node, inputs) -> outputs, or None to keep the node.

    `inputs` are the rewritten inputs of the node. A kept node whose inputs changed is rebuilt with
    the same types; new nodes inherit the line and namespace of the node they replace. The bodies of
    loops and branches are rewritten too. `replacements` maps variables to those that take their
    place, and `sizes` the sizes in the types of rebuilt nodes to new ones. The rule is applied to
    operators of the types `only`, to all if it is None. `order` are the nodes behind the targets,
    if they are known.
    """
    replacements = replacements or {}
    new = dict(replacements)
    order = ancestors(targets, stop, select) if order is None else order
    are_kept = new.keys().isdisjoint
    for node in order if only is None else _visited(order, only, new):
        inputs = node.inputs
        if not are_kept(inputs):
            inputs = tuple([new.get(x, x) for x in inputs])
        outputs = None
        if only is None or node.op_type in only:
            with located_at(node):
                outputs = rule(node, inputs)
        if outputs is None:
            if (inputs is node.inputs or inputs == node.inputs) and not node.blocks:
                continue
            outputs = rebuilt_if_changed(node, inputs, rule, select, sizes, only)
        if outputs is not None:
            for old, output in zip(node.outputs, outputs, strict=True):
                if old not in replacements:
                    new[old] = output
    return [new.get(v, v) for v in targets]


def _visited(order: Iterable[Node], only: Container[str], new: Mapping) -> Iterator[Node]:
    """The nodes that may change: as long as nothing is new, those that the rule is for."""
    nodes = iter(order)
    if not new:
        for node in nodes:
            if node.op_type in only or node.blocks:
                yield node
                if new:
                    break
    yield from nodes


def substitute(
    targets: Iterable[Variable],
    replacements: Mapping[Variable, Variable],
    stop: Container[Variable] = (),
    sizes: Mapping[Dim, Dim] | None = None,
) -> list[Variable]:
    """Return the targets with some variables replaced by others, and sizes of rebuilt nodes too."""
    return rewrite(targets, _keep, stop, replacements=replacements, sizes=sizes, only=())


def is_output_of(x: Variable, op_type: str) -> bool:
    """Return whether x is computed by an operator of this type."""
    return x.is_output_of(op_type)


def permutation(node: Node) -> list[int]:
    """Return the order of axes of a Transpose, which reverses them unless it says another."""
    return list(node.attributes.get("perm") or reversed(range(node.inputs[0].rank)))


def is_matrix_transposed(x: Variable) -> bool:
    """Return whether x is another variable with its last two axes exchanged."""
    if not is_output_of(x, "Transpose"):
        return False
    axes = list(range(x.rank))
    return permutation(x.node) == [*axes[:-2], *reversed(axes[-2:])]


def _keep(node: Node, inputs: Inputs) -> None:
    """The rule that keeps every node."""


def rebuilt_if_changed(
    node: Node,
    inputs: Inputs,
    rule: Rule,
    select: Callable[[Node], Inputs] | None = None,
    sizes: Mapping[Dim, Dim] | None = None,
    only: Container[str] | None = None,
) -> Sequence[Variable] | None:
    """Return the outputs of a node with other inputs and rewritten bodies, see `rewrite`.

    None if neither differs.
    """
    types = _resized(node.types, sizes) if sizes else None
    if not node.blocks:
        return None if inputs == node.inputs else rebuilt(node, inputs, types=types).outputs
    blocks, changed = {}, inputs != node.inputs
    for key, block in node.blocks.items():
        outputs = tuple(rewrite(block.outputs, rule, block.inputs, select, only=only))
        blocks[key] = Block(block.block_inputs, block.captured, outputs)
        changed = changed or outputs != block.outputs
    if not changed:
        return None
    inputs = _capture_again(node.op_type, inputs, blocks)
    return rebuilt(node, inputs, blocks, types).outputs


def _resized(types: Sequence[OutputType], sizes: Mapping[Dim, Dim]) -> list[OutputType]:
    return [(tuple([sizes.get(d, d) for d in dims]), dtype) for dims, dtype in types]


# ---- bodies


def close(
    bodies: Mapping[str, Sequence[Variable]],
    block_inputs: Mapping[str, Sequence[Variable]],
    inside: Callable[[Node], bool] | None = None,
) -> tuple[dict[str, Block], list[Variable]]:
    """Turn outputs computed from block inputs into closed Blocks; return (blocks, captures).

    `bodies` and `block_inputs` map a body's name to its output Variables and its inputs. What a
    body does not compute itself becomes a captured value, one list for all bodies. A node belongs
    to the body if it depends on an input of it or if `inside(node)` is true; the others run before
    it. All that reads a node inside is inside too.
    """
    own = {key: _body_nodes(outputs, block_inputs[key], inside) for key, outputs in bodies.items()}
    captures = []
    for key, outputs in bodies.items():
        computed = {*block_inputs[key], *(y for node in own[key] for y in node.outputs)}
        read = [x for node in own[key] for x in node.inputs if x is not None] + list(outputs)
        captures += [x for x in read if x not in computed and x.value is None]
    captures = list(dict.fromkeys(captures))
    blocks = {}
    for key, outputs in bodies.items():
        captured = tuple(Variable.of(x.dims, x.dtype, x.name) for x in captures)
        replacements = dict(zip(captures, captured, strict=True))
        out = substitute(outputs, replacements, stop={*block_inputs[key], *captures})
        blocks[key] = Block(tuple(block_inputs[key]), captured, tuple(out))
    return blocks, captures


def _body_nodes(
    outputs: Sequence[Variable],
    block_inputs: Sequence[Variable],
    inside: Callable[[Node], bool] | None,
) -> list[Node]:
    """The nodes behind outputs that belong to a body."""
    reached, own, select = set(block_inputs), [], None
    if inside is not None and not block_inputs:
        # nothing behind a node outside is inside, and that may be all of a large graph
        def select(node: Node) -> Inputs:
            return node.inputs if inside(node) else ()

    for node in ancestors(outputs, stop=reached, select=select):
        if (inside is not None and inside(node)) or not reached.isdisjoint(node.inputs):
            reached.update(node.outputs)
            own.append(node)
    return own


def _capture_again(op_type: str, inputs: Inputs, blocks: dict[str, Block]) -> Inputs:
    """Capture what rewritten bodies read in addition, and return the new inputs of their node.

    Changes `blocks`.
    """
    # the bodies of an If have no inputs by which their nodes could be recognised
    inside = (lambda node: True) if op_type == "If" else None
    block_inputs = {key: block.inputs for key, block in blocks.items()}
    closed, captures = close({k: b.outputs for k, b in blocks.items()}, block_inputs, inside)
    for key, block in closed.items():
        old = blocks[key]
        count = len(old.block_inputs)
        captured = (*block.block_inputs[count:], *block.captured)
        blocks[key] = Block(old.block_inputs, captured, block.outputs)
    return (*inputs, *captures)
