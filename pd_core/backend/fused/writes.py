"""Writes into the memory that is read, such as rows of a table, in one program with its readers.

The runtime knows nothing of memory that an input and an output share: it may compute what reads a
table after what writes it. So the writes have all other results of the program as more inputs, and
data alone puts them last. They come after whatever may fail, too: a step that fails has written
nothing. Rows of tables come before the group that writes whole values (`in_place`), since an index
may be outside.
"""

from collections.abc import Collection, Mapping

from onnx import ModelProto, helper

from .operators import INT32, INT64
from .rows import DOMAIN, source
from .sizes import Kind

_LAST = {"AddRows64": "AddRowsLast64", "AddRows32": "AddRowsLast32"}
_WAITS: dict[int, str] = {INT64: "Wait64", INT32: "Wait32"}  # by the type of an index


def wait(
    model: ModelProto, kinds: Mapping[str, Kind], results: Collection[str], writer: str = ""
) -> str:
    """Let the operators that make these results wait for all others.

    They read their table first, then its index, of which `kinds` has the type. Those of the runtime
    have no more inputs; they wait for their index, which waits for the rest. None of them waits for
    the operator of the name `writer`. Returns the C source of the operators.
    """
    graph = model.graph
    whole = [node for node in graph.node if writer and node.name == writer]
    rest_of_all = [node for node in graph.node if node not in whole]
    last = [node for node in rest_of_all if not set(results).isdisjoint(node.output)]
    nodes = [node for node in rest_of_all if set(results).isdisjoint(node.output)]
    made = {y for node in nodes for y in node.output if y}
    read = [*(v.name for v in graph.output), *(x for node in last for x in node.input[1:])]
    before = [x for x in dict.fromkeys(read) if x in made]
    for node in last:
        rest = [x for x in before if x not in node.input]
        if node.domain == DOMAIN and rest:
            node.op_type = _LAST[node.op_type]
            node.input.extend(rest)
        elif node.domain != DOMAIN and before:
            index = node.input[1]
            name = f"{node.name}/index"
            op = _WAITS[kinds[index][0]]
            nodes.append(helper.make_node(op, [index, *before], [name], name=name, domain=DOMAIN))
            node.input[1] = name
        nodes.append(node)
    del graph.node[:]
    graph.node.extend([*nodes, *whole])
    if all(known.domain != DOMAIN for known in model.opset_import):
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return source()


def wait_for_all(model: ModelProto, writer: str) -> None:
    """Let the group that writes whole values, the operator of this name, wait for all others."""
    graph = model.graph
    (last,) = [node for node in graph.node if node.name == writer]
    nodes = [node for node in graph.node if node.name != writer]
    made = {y for node in nodes for y in node.output if y}
    del last.input[-1]  # in the place of the others
    rest = [v.name for v in graph.output if v.name in made and v.name not in last.input]
    last.input.extend(rest or last.input[:1])
    del graph.node[:]
    graph.node.extend([*nodes, last])


__all__ = ["wait", "wait_for_all"]
