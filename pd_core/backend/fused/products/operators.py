"""Products of a transposed matrix with another one, in a model, as operators of their own."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from onnx import ModelProto, helper

from ..clusters import ordered
from ..operators import FLOAT, attributes
from ..parts import LOOPS, PRODUCTS, Part, Source, base, header
from ..sizes import Dim, Kind, Values, estimate

DOMAIN = "pd.products"
# Sizes from which the operator is faster than the runtime's product: rows and columns of the
# result, and rows of the factors, such as those of all steps of sequences. The batch alone, whose
# size is not known, is too few.
_SIDE, _DEPTH = 64, 512


def fuse(
    model: ModelProto, kinds: Mapping[str, Kind], equal: Iterable[tuple[Dim, Dim]] = ()
) -> tuple[Source | None, int]:
    """Replace products whose first factor is transposed by operators of the domain `pd.products`.

    `kinds` are the types of all values, `equal` pairs of sizes that are equal at run time. Returns
    (the C source of the operators, or None if there are none, how many there are).
    """
    values, count = Values(model, kinds, equal), 0
    makers = {y: node for node in model.graph.node for y in node.output if y}
    for node in model.graph.node:
        if node.op_type != "MatMul" or node.domain or node.input[0] not in makers:
            continue
        turn = makers[node.input[0]]
        if turn.op_type != "Transpose" or turn.domain or not _fits(turn.input[0], node, values):
            continue
        if list(attributes(turn).get("perm", (1, 0))) != [1, 0]:
            continue
        y = node.output[0]
        made = helper.make_node(
            "Turned",
            [turn.input[0], node.input[1]],
            [y, f"{y}/scratch"],
            name=node.name,
            domain=DOMAIN,
        )
        node.CopyFrom(made)
        count += 1
    if not count:
        return None, count
    nodes = ordered(list(model.graph.node), [v.name for v in model.graph.output])
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return _source(), count


def _fits(x, node, values):
    """Whether the factors x, transposed, and the node's second one are large matrices of floats."""
    names = (x, node.input[1], node.output[0])
    if any(v not in values or values.kind(v) != FLOAT for v in names):
        return False
    a, b, y = map(values.dims, names)
    if len(a) != 2 or len(b) != 2 or len(y) != 2:
        return False
    known = not any(d[1] for d in y) and min(d[0] for d in y) >= _SIDE
    return known and a[0] == b[0] and estimate(a[0]) >= _DEPTH


@cache
def _source() -> Source:
    here = Path(__file__).parent
    tiles = (here.parent / "recurrences" / "products.c").read_text(encoding="utf-8")
    code = (here / "turned.c").read_text(encoding="utf-8")
    table = (
        "static const unsigned char kinds[] = {1, 1, 1, 2};\n"
        'static const Row rows[] = {{"Turned", 2, 2, kinds, run_turned, 0}};\n'
        f'REGISTER("{DOMAIN}")\n'
    )
    own = header() + tiles + code
    return Source(
        (
            Part("", base()),
            Part(own, table, alone=True),
            Part(header() + tiles, f"#define TURNED\n{code}", LOOPS),
            Part(header(), f"#define PRODUCTS\n{tiles}\n{code}", PRODUCTS),
        )
    )


__all__ = ["DOMAIN", "fuse"]
