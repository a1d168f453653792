"""Constant folding in exports: what depends on parameters and constants alone is computed once."""

from collections.abc import Sequence

import numpy as np

from ...graph.node import Node, ancestors
from ...graph.rewrite import substitute
from ...graph.variable import Variable
from ...run.session import Session

_SMALL = 1 << 16  # bytes; what gives a larger result than its inputs is kept
_KEPT = {
    # other numbers in every run
    *("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"),
    *("Bernoulli", "Multinomial"),
    # what runtimes look for to compute in 8 bits
    *("QuantizeLinear", "DequantizeLinear"),
}


def folded(
    targets: Sequence[Variable], session: Session
) -> tuple[list[Variable], dict[Variable, Variable]]:
    """Return the targets with folded constants, and {constant: a parameter it was computed from}.

    The values of parameters are the session's.
    """
    known: dict[Variable, Variable | None] = {}  # what can be folded: the first parameter behind it
    read: dict[Variable, None] = {}
    for node in ancestors(targets):
        inputs = [x for x in node.inputs if x is not None]
        if _is_foldable(node, inputs, known):
            first = next((p for p in (_parameter(x, known) for x in inputs) if p is not None), None)
            known.update(dict.fromkeys(node.outputs, first))
        else:
            read.update(dict.fromkeys(x for x in inputs if x in known))
    read.update(dict.fromkeys(v for v in targets if v in known))
    if not read:
        return list(targets), {}
    arrays = session.eval(list(read), training=False)
    taken: dict[str, int] = {}
    constants = {}
    for v, array in zip(read, arrays, strict=True):
        constants[v] = Variable.of(
            array.shape, array.dtype, _name(v, known[v], taken), value=np.asarray(array)
        )
    origins = {constants[v]: p for v, p in known.items() if v in constants and p is not None}
    return substitute(targets, constants), origins


def _is_foldable(node: Node, inputs, known):
    if node.blocks or node.domain or not inputs or node.op_type in _KEPT:
        return False
    if not all(x.value is not None or x.is_persistent or x in known for x in inputs):
        return False
    sizes = [d for y in node.outputs for d in y.dims]
    return all(isinstance(d, int) for d in sizes) and (
        _bytes(node.outputs) <= max(_SMALL, _bytes(inputs))
    )


def _bytes(variables):
    return sum(v.dtype.itemsize * int(np.prod(v.dims)) for v in variables)


def _parameter(x, known):
    return x if x.is_persistent else known.get(x)


def _name(v, parameter, taken):
    """`<parameter>/<operator>`, or `const` for what no parameter is behind."""
    if parameter is None:
        return "const"
    name = f"{parameter.name}/{v.node.op_type}"
    taken[name] = taken.get(name, -1) + 1
    return f"{name}_{taken[name]}" if taken[name] else name
