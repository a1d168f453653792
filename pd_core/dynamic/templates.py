"""Templates: the nodes that a call of an op adds, to add them again without running the op.

What an op adds depends on the types of its Variables and on its other arguments alone. Ops that
read anything else (parameters that they create, random draws, bodies of loops) have no template.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ..graph.variable import Variable
from ..ops.mode import mode
from .recorded_node import Form, RecordedNode, type_key

_PLAIN = {int, float, bool, str, type(None), type, np.dtype}
_LARGEST = 64  # elements of a constant

_templates: dict[tuple, "Template | None"] = {}
_MOST = 1 << 12
# Functions that have added one node, and several: to find the template of one node takes longer
# than to run the op.
_single: set[Callable] = set()
_several: set[Callable] = set()


class Template:
    """Nodes as (form, indices of inputs, outputs that are read), and the result of the op.

    The indices are those of a list of the constants, the Variables of the call, and the outputs
    that are read, in this order.
    """

    __slots__ = ("constants", "nodes", "result")

    def __init__(
        self,
        constants: list[Variable],
        nodes: list[tuple[Form, tuple[int | None, ...], tuple[int, ...]]],
        result: Any,
    ) -> None:
        self.constants, self.nodes, self.result = constants, nodes, result

    def replay(self, variables: Sequence[Variable], detached: bool) -> tuple[Any, RecordedNode]:
        """Add the nodes for other Variables: the result of the op, and the last node."""
        values = [*self.constants, *variables]
        for form, inputs, outputs in self.nodes:
            operands = tuple([None if k is None else values[k] for k in inputs])
            node = RecordedNode(form, operands, detached)
            for k in outputs:
                values.append(node.output(k))
        return _restored(self.result, values), node


def key_of(
    function: Callable, args: Sequence, kwargs: Mapping[str, Any]
) -> tuple[tuple | None, list[Variable]]:
    """Return what decides the nodes that a call adds, None if more does, and its Variables.

    None too for a function that adds one node.
    """
    if function in _single and function not in _several:
        return None, []
    key: list[Any] = [function, mode()]
    variables: list[Variable] = []
    if kwargs:
        key += kwargs
        args = [*args, *kwargs.values()]
    return (tuple(key) if _add(args, key, variables) else None), variables


def _add(args: Sequence, key: list[Any], variables: list[Variable]) -> bool:
    """Append what arguments contribute to a key; return False if one of them cannot be in one."""
    for a in args:
        kind = type(a)
        if kind in _PLAIN:
            key += kind, a if a else repr(a)  # -0.0 is not 0.0
        elif isinstance(a, Variable):
            if a.value is not None and a.value.size > _LARGEST:
                return False
            key += a.__dict__.get("type_key") or type_key(a), a.literal
            for k, b in enumerate(variables):  # x * x is not x * y
                if b is a:
                    key.append(k)
            variables.append(a)
        elif kind in (list, tuple):
            key += kind, len(a)
            if not _add(a, key, variables):
                return False
        else:
            return False
    return True


def find(key: tuple) -> "Template | None":
    """Return the template of a key, None without one; KeyError if it was not looked for yet."""
    return _templates[key]


def remember(
    key: tuple, variables: Sequence[Variable], nodes: list[RecordedNode], result: Any
) -> None:
    """Keep the template of a call that has added nodes, or that there is none."""
    if len(_templates) >= _MOST:
        _templates.clear()
    _templates[key] = _template(variables, nodes, result)
    (_several if len(nodes) > 1 else _single).add(key[0])


def _template(
    variables: Sequence[Variable], nodes: list[RecordedNode], result: Any
) -> Template | None:
    if any(node.form.blocks or node.form.effects or node.op_type == "Uniform" for node in nodes):
        return None
    made = {y for node in nodes for y in node.outputs}
    read = [x for node in nodes for x in node.inputs if x is not None]
    constants = [x for x in dict.fromkeys(read) if x.value is not None and x not in variables]
    indices = {x: k for k, x in enumerate([*constants, *variables])}
    if any(x not in indices and x not in made for x in read):
        return None
    large = any(cast(np.ndarray, x.value).size > _LARGEST for x in constants)
    if large or not _is_made_of(result, {*made, *indices}):
        return None
    needed = {*read, *_variables(result)}
    steps, count = [], len(constants) + len(variables)  # a Variable may be there twice
    for node in nodes:
        inputs = tuple([None if x is None else indices[x] for x in node.inputs])
        outputs = tuple([k for k, y in enumerate(node.outputs) if y in needed])
        for k in outputs:
            indices[node.outputs[k]] = count
            count += 1
        steps.append((node.form, inputs, outputs))
    return Template(constants, steps, _stored(result, indices)) if steps else None


def _is_made_of(result: Any, variables: Container[Variable]) -> bool:
    if isinstance(result, Variable):
        return result in variables
    if type(result) in (list, tuple):
        return all(_is_made_of(r, variables) for r in result)
    return False


def _variables(result: Any) -> list[Variable]:
    if isinstance(result, Variable):
        return [result]
    return [v for r in result for v in _variables(r)]


def _stored(result: Any, indices: Mapping[Variable, int]) -> Any:
    if isinstance(result, Variable):
        return indices[result]
    return type(result)([_stored(r, indices) for r in result])


def _restored(result: Any, values: Sequence[Variable]) -> Any:
    if type(result) is int:
        return values[result]
    return type(result)([_restored(r, values) for r in result])
