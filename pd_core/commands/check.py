"""tell which parameters get a gradient, and which operators end it

Each trained parameter gets a gradient if a path leads from it to the output over operators whose
derivative is not zero everywhere, as that of Round and ArgMax is. The exit code is 1 if a parameter
that is to be trained gets none, and 2 if an operator cannot be imported, whose node is named.
"""

import argparse

from ..gradients.registry import QUANTIZING, ROUNDED, reasons, zeros
from ..graph.node import Node, ancestors
from ..graph.variable import Variable
from ..training.tuning.objectives import input_slots
from .options import add_model, model_of

NAME = "check"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_model(parser)
    parser.add_argument("--output", metavar="NAME", help="a tensor instead of all outputs")


def run(options: argparse.Namespace) -> int:
    """Print the verdicts; return 1 if one is missing."""
    f = model_of(options)
    outputs = f(*input_slots(f).values(), output=options.output or list(f.outputs))
    targets = [outputs] if isinstance(outputs, Variable) else list(outputs)
    nodes = ancestors(targets)
    trained = {name: v for name, v in f.parameters.items() if v.trainable}
    without = []
    for name, v in trained.items():
        ends, reached = blocking(nodes, v, targets)
        if not reached:
            without.append(name)
            why = "; ".join(map(_verdict, ends)) or "the outputs do not depend on it"
            print(f"no gradient  {name}: {why}")
    for node in _blocking_any(nodes, list(trained.values()), targets):
        print(f"ends gradients  {_verdict(node)}")
    if not trained:
        print(f.stored.why_nothing())
        return 1
    count = len(trained) - len(without)
    print(f"{count} of {len(trained)} parameters that are to be trained get a gradient")
    return 1 if without else 0


def blocking(nodes: list[Node], v: Variable, targets: list[Variable]) -> tuple[list[Node], bool]:
    """Return the nodes that end gradients to a parameter, and whether one reaches it."""
    active, ends = {v}, []
    for node in nodes:
        if active.isdisjoint(node.inputs):
            continue
        if any(node.op_type in table for table in (zeros, reasons, QUANTIZING)):
            ends.append(node)
        else:
            active.update(y for y in node.outputs if y.dtype.kind == "f")
    return ends, not active.isdisjoint(targets)


def _blocking_any(nodes, parameters, targets):
    """Return the nodes that end gradients to parameters, in their order.

    Those of integers, such as Shape, are left out: they are no part of what is learned.
    """
    ends = {id(n) for v in parameters for n in blocking(nodes, v, targets)[0]}
    floats = [n for n in nodes if any(y.dtype.kind == "f" for y in n.outputs)]
    return [node for node in floats if id(node) in ends]


def _verdict(node):
    zero = "has a derivative of zero"
    why = zero if node.op_type in zeros else reasons.get(node.op_type, ROUNDED)
    return f"{node.op_type}, which gives {node.outputs[0].name!r}, {why.removeprefix('it ')}"
