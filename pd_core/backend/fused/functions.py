"""The C functions of segments."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .arguments import Arguments
from .loops import Body, Loop
from .nests import Nest, Partial, Row, term
from .operators import FLOAT, literal
from .segments import Segment
from .sizes import ONE, ZERO, Size, product
from .steps import FEW, ROOM, Unfit


@dataclass
class Function:
    """The C of a segment, with @ for its name, and what it is called with.

    `rounds` is the number of rows, in blocks of `block`; `work` are the operations on elements, as
    products of a number and a size.
    """

    text: str
    given: Arguments
    rounds: Size
    work: list[tuple[float, Size]]
    partials: list[Partial]
    block: int = 1


def function(body: Body, segment: Segment, rows: Mapping[str, Size]) -> Function:
    """Return the function of a segment; of the buffers `rows` each part has one row alone."""
    given = Arguments(rows)
    work: list[tuple[float, Size]] = []
    partials: list[Partial] = []
    head: list[str] = []
    block = 1
    loop, axes = segment.loops[0]
    row = Row(segment.extents, given)
    if not axes and loop.product is not None:
        rounds, lines, block = _product_alone(body, loop, given)
        work.append(_product_work(loop))
    elif not axes:
        nest = Nest(body, loop, (), row, given)
        rounds, lines = nest.rounds, nest.lines()
        head, partials = nest.head, nest.partials
        work.append((nest.cost, product(*loop.dims)))
        block = 64 if len(nest.levels) == 1 else 1
    else:
        rounds, inside = product(*segment.extents), []
        for each, a in segment.loops:
            if each.product is not None:
                found = _product_in_row(body, each, a, row, given)
                work.append(_product_work(each))
            else:
                nest = Nest(body, each, a, row, given)
                found = nest.lines()
                head += nest.head
                partials += nest.partials
                work.append((nest.cost, product(*each.dims)))
            inside += ["  {", *("    " + line for line in found), "  }"]
        places = ["  " + line for line in row.lines]
        lines = ["for (int64_t i = lo; i < hi; i++) {", *places, *inside, "}"]
    text = "__attribute__((weak))\n"
    text += "void @(void *const *p, const int64_t *n, int64_t lo, int64_t hi, int64_t part) {\n"
    text += "".join(f"  {line}\n" for line in [*given.declared(), *head, *lines]) + "}\n"
    return Function(text, given, rounds, work, partials, block)


def _product_work(loop: Loop) -> tuple[float, Size]:
    read = loop.statements[0].reads[0]
    assert read is not None
    view = read[0]
    return 0.25, product(*loop.dims, view.dims[-1])


def _product_alone(body, loop, given):
    """A product: rows are divided, columns where rows are few, or the matrices of a batch.

    Returns (rounds, lines, rounds of a block).
    """
    batch = [k for k, d in enumerate(loop.dims[:-2]) if d != ONE]
    if not batch:
        axis = -1 if _is_few(loop) else -2
        return loop.dims[axis], [_call(body, loop, given, [], (), axis)], 64 if axis == -1 else 1
    lines = _batched(body, loop, given, [(batch[0], "i")], batch[1:])
    return loop.dims[batch[0]], ["for (int64_t i = lo; i < hi; i++) {", *lines, "}"], 1


def _product_in_row(body, loop, axes, row, given):
    batch = [k for k, d in enumerate(loop.dims[:-2]) if d != ONE and k not in axes]
    shared = [(k, row.place(j, j + 1)) for j, k in enumerate(axes)]
    return _batched(body, loop, given, shared, batch)


def _batched(body, loop, given, shared, batch):
    lines, terms = [], list(shared)
    for k in batch:
        inner = given.fresh("b")
        lines.append(
            f"for (int64_t {inner} = 0; {inner} < {given.number(loop.dims[k])}; {inner}++)"
        )
        terms.append((k, inner))
    return [*lines, "  " + _call(body, loop, given, terms, [k for k, _ in shared], 0)]


def _is_few(loop):
    """Whether a product reads its matrix once, as it lies in memory: of one row, or a large one."""
    (a, _), (_, along) = loop.statements[0].reads
    m, n, k = (d[0] for d in (*loop.dims[-2:], a.dims[-1]))
    if m == 1:
        return n > 1 and ONE in along[-2:]
    return m <= FEW and along[-1] == ONE and n * k > ROOM


def _call(body, loop, given, terms, shared, divided):
    """The call of a product's kernel; `divided` is the axis of the rows, or columns, lo to hi."""
    statement = loop.statements[0]
    (a, along_a), (b, along_b) = statement.reads
    views = [(statement.written, statement.along), (a, along_a), (b, along_b)]
    places = []
    for k, (view, along) in enumerate(views):
        text = [given.buffer(view.buffer, FLOAT), *map(given.number, view.offset)]
        for axis, name in terms:
            is_row = axis in shared and view.buffer in given.rows
            text += [] if is_row else term(name, along[axis], given)
        if divided and k != (2 if divided == -2 else 1):
            text += term("lo", along[divided], given)
        places.append(" + ".join(text))
    m, n, k = loop.dims[-2][0], loop.dims[-1][0], a.dims[-1][0]
    if loop.dims[-2][1] or loop.dims[-1][1] or a.dims[-1][1]:
        raise Unfit("a product of unknown sizes")
    alpha = literal(np.float32(loop.product.alpha))
    number = given.number
    c, x, y = places
    (am, ak), (bk, bn), (cm, cn) = along_a[-2:], along_b[-2:], statement.along[-2:]
    if _is_few(loop):
        columns = "hi - lo" if divided else str(n)
        if bn == ONE:
            left = f"{c}, {number(cm)}, {x}, {number(am)}, {number(ak)}, {y}, {number(bk)}"
            return f"few({left}, {m}, {columns}, {k}, {alpha});"
        steps = f"{y}, {number(bn)}, {x}, {number(ak)}"
        return f"vectors({c}, {number(cn)}, {steps}, {columns}, {k}, {alpha});"
    rows = "hi - lo" if divided else str(m)
    if n == 1 and ak == ONE:
        steps = f"{x}, {number(am)}, {y}, {number(bk)}"
        return f"vectors({c}, {number(cm)}, {steps}, {rows}, {k}, {alpha});"
    if n == 1:  # the transposed product, whose rows are neighbours
        (x, am, ak), (y, bk, bn), n, rows, cm = (y, ZERO, bk), (x, ak, am), rows, "1", ZERO
        columns = m
    else:
        columns = n
    sizes = f"{number(cm)}, {x}, {number(am)}, {number(ak)}, {y}, {number(bk)}, {number(bn)}"
    room = 1 if bn == ONE else k * columns
    if room > ROOM:
        raise Unfit("a large matrix whose rows are no neighbours")
    call = f"turned({c}, {sizes}, {rows}, {n}, {k}, {alpha}, room);"
    return f"{{ float room[{room}]; {call} }}"
