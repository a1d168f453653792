"""Nodes: applications of ONNX operators, typed as they are built."""

from itertools import count

from onnx import shape_inference

from .errors import GraphError, ShapeError
from .inference import OPSET, infer, opset_of
from .names import current_namespace, names
from .site import function, site_text, user_site
from .variable import Variable, constant, describe

_serials = count()


class Block:
    """The body of a Scan, Loop or If: a function of formals and captured values.

    Both are Variables of the body's own, so that it reads nothing else; what `captured` stands for
    is the end of the node's inputs.
    """

    __slots__ = ("captured", "formals", "outputs")

    def __init__(self, formals, captured, outputs):
        self.formals, self.captured, self.outputs = formals, captured, outputs

    @property
    def inputs(self):
        """Formals, then captured values."""
        return (*self.formals, *self.captured)


class Node:
    """One application of one operator.

    `domain` is `""` for ONNX's own operators and `"pd"` for the few composites that a backend
    pass turns into ONNX operators when the program is compiled. `effects` are assignments that
    belong to a training step which runs this node (moving statistics). `blocks` are the bodies
    of a loop or branch by attribute name; what they capture stands at the end of `inputs`.
    `opset` is the oldest opset of a program that holds it.
    """

    __slots__ = (
        *("attributes", "blocks", "domain", "effects", "inputs", "op_type", "opset"),
        *("outputs", "scope", "serial", "site", "__weakref__"),
    )

    def __init__(self, op_type, inputs, attributes, domain="", scope="", site=None, opset=OPSET):
        self.op_type, self.inputs, self.attributes = op_type, inputs, attributes
        self.opset = opset
        self.domain, self.scope, self.site = domain, scope, site
        self.outputs, self.effects, self.blocks = (), (), {}
        self.serial = next(_serials)

    @property
    def captures(self):
        """The inputs that only the bodies read."""
        count = len(next(iter(self.blocks.values())).captured) if self.blocks else 0
        return self.inputs[len(self.inputs) - count :]

    def __repr__(self):
        return f"{self.op_type}({', '.join(x.name if x is not None else '' for x in self.inputs)})"


def apply(op_type, *inputs, outputs=1, known=None, opset=0, **attributes):
    """Add one ONNX operator and return its output Variable, a tuple of them if outputs > 1.

    Inputs that are no Variables become constants; None leaves an optional input out. `known`
    gives the dims of the first output where the op function knows more than ONNX can infer.
    `opset` says which version of an operator is meant that is newer than `inference.OPSET`.
    """
    node = _node(op_type, inputs, attributes, "")
    try:
        node.opset = opset_of(op_type, len(inputs), node.attributes, opset)
        types = infer(node, outputs, known)
    except GraphError as error:
        raise type(error)(explain(node, error)) from None
    except shape_inference.InferenceError as error:
        raise ShapeError(explain(node, error)) from None
    return _finish(node, types)


def composite(op_type, *inputs, types, **attributes):
    """Add one operator of ours, with the dims and dtype of each output given."""
    return _finish(_node(op_type, inputs, attributes, "pd"), types)


def control(op_type, inputs, blocks, types, **attributes):
    """Add a Scan, Loop or If, with the dims and dtype of each output given: a tuple of outputs."""
    node = _node(op_type, inputs, attributes, "")
    node.blocks = blocks
    _finish(node, types)
    return node.outputs


def scan_node(init, xs, captures, blocks, stacked, reverse):
    """Add a Scan: final states, then all steps of the `stacked` values of its body, in order."""
    steps = next((x.dims[0] for x in xs if isinstance(x.dims[0], int)), xs[0].dims[0])
    types = [(s.dims, s.dtype) for s in init]
    types += [((steps, *y.dims), y.dtype) for y in stacked]
    return control(
        "Scan",
        [*init, *xs, *captures],
        blocks,
        types,
        num_scan_inputs=len(xs),
        scan_input_directions=[int(reverse)] * len(xs),
        scan_output_directions=[int(reverse)] * len(stacked),
    )


def latest_serial():
    """A number that every node built from here on exceeds."""
    return next(_serials)


def _node(op_type, inputs, attributes, domain):
    inputs = tuple(x if x is None else constant(x) for x in inputs)
    attributes = {k: v for k, v in attributes.items() if v is not None}
    return Node(op_type, inputs, attributes, domain, current_namespace(), user_site())


def _finish(node, types):
    name = names().next(node.op_type.lower() + "_", node.scope)
    if len(types) == 1:
        y = Variable.of(*types[0], name, node=node)
        node.outputs = (y,)
        return y
    node.outputs = tuple(
        Variable.of(dims, dtype, name if k == 0 else f"{name}:{k}", node=node)
        for k, (dims, dtype) in enumerate(types)
    )
    return node.outputs


def explain(node, error) -> str:
    """The house form of an error: who and what, where the user wrote it, the inputs."""
    why = str(error).removeprefix("[ShapeInferenceError] ").removeprefix("[TypeInferenceError] ")
    why, _, hint = why.partition("\n")
    lines = [f"{function()}: {why}", f"  node   {node.op_type}, built at {site_text(node.site)}"]
    lines += [f"  input  {x.name}: {describe(x)}" for x in node.inputs if x is not None]
    if node.attributes:
        lines.append(f"  with   {', '.join(f'{k}={v}' for k, v in node.attributes.items())}")
    return "\n".join(lines + ([hint] if hint else []))


def ancestors(targets, stop=(), select=None):
    """Nodes behind the targets, each after the nodes it needs; nothing behind `stop`.

    `select(node)` may name the inputs of a node that count; all of them otherwise.
    """
    order, seen = [], set()
    # a None says that all inputs of the node below it are in order
    stack = [v.node for v in reversed(list(targets)) if v.node is not None and v not in stop]
    while stack:
        node = stack.pop()
        if node is None:
            order.append(stack.pop())
        elif node not in seen:
            seen.add(node)
            stack += (node, None)
            for x in reversed(node.inputs if select is None else select(node)):
                if x is not None and x.node is not None and x.node not in seen and x not in stop:
                    stack.append(x.node)
    return order
