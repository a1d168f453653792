"""Row-sparse gradients of tables, and updates of the gathered rows alone.

A step that gathers K rows of a table needs work and memory for K rows, whatever the height of the
table: no value of the table's own shape is computed. Optimizers update the gathered rows and their
rows of the slots, and leave all others unchanged (a lazy update): weight decay and momentum do not
reach a row that the step does not gather.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .. import ops
from ..gradients import gradients, zeros
from ..gradients.locations import gradient_of
from ..graph.errors import GraphError
from ..graph.node import ancestors, apply
from ..graph.site import site_text
from ..graph.variable import Operand, Variable, constant, fresh_dim
from ..ops.gather import gather_stored


@dataclass(frozen=True)
class RowGradient:
    """The gradient of a table: `values` [K, ...] of the distinct `rows` [K], zero elsewhere.

    `terms`, if they are known, are what was summed to it.
    """

    rows: Variable
    values: Variable
    terms: "RowTerms | None" = None


@dataclass(frozen=True)
class RowTerms(RowGradient):
    """The gradient of a table as terms: rows [K] may repeat, and their values are added.

    Rows may be counted from the last one, as -1, -2, ….
    """


Gradient = Variable | RowGradient


class Whole:
    """Access of a step to a whole parameter and its slots."""

    def __init__(self, parameter: Variable):
        self.parameter = parameter

    def read(self, stored: Variable) -> Variable:
        """Return the part of a persistent variable that the step reads."""
        return stored

    def stored(self, read: Variable) -> Variable:
        """Return the persistent variable that a value was read from."""
        return read

    def written(self, read: Variable, new: Variable) -> tuple[Variable, Variable]:
        """Return (persistent variable, its new value) for the new value of what was read."""
        return read, new


class Rows(Whole):
    """Access of a step to some rows, distinct indices [K], of a parameter and its slots."""

    def __init__(self, parameter: Variable, rows: Variable):
        super().__init__(parameter)
        self.rows = rows
        self._read: dict[Variable, Variable] = {}  # persistent variable -> its gathered rows
        self._stored: dict[Variable, Variable] = {}  # the inverse

    def read(self, stored: Variable) -> Variable:
        if stored not in self._read:
            value = self._read[stored] = gather_stored(stored, self.rows)
            self._stored[value] = stored
        return self._read[stored]

    def stored(self, read: Variable) -> Variable:
        return self._stored[read]

    def written(self, read: Variable, new: Variable) -> tuple[Variable, Variable]:
        stored = self._stored[read]
        return stored, apply("ScatterND", stored, self._index, new, known=stored.dims)

    @cached_property
    def _index(self) -> Variable:
        return ops.unsqueeze(self.rows, 1)


class Sums(Whole):
    """Access of a step to a table of one column that adds to rows [K], which may repeat.

    It reads 0, and what it writes is added. Rows need not be made distinct, which takes several
    times as long as such a step.
    """

    def __init__(self, parameter: Variable, rows: Variable):
        super().__init__(parameter)
        self.rows = rows

    def read(self, stored: Variable) -> Variable:
        return constant(0.0, stored.dtype)

    def written(self, read: Variable, new: Variable) -> tuple[Variable, Variable]:
        table = self.parameter
        column = [-1, *[1] * (table.rank - 1)]
        index, new = ops.reshape(self.rows, column), ops.reshape(new, column)
        return table, apply(
            "ScatterElements", table, index, new, known=table.dims, axis=0, reduction="add"
        )


def split(parameter: Variable, gradient: Gradient) -> tuple[Whole, Variable]:
    """Return (the part of the parameter that the step updates, the gradient of that part)."""
    if isinstance(gradient, RowTerms):
        return Sums(parameter, gradient.rows), ops.reshape(gradient.values, [-1])
    if isinstance(gradient, RowGradient):
        return Rows(parameter, gradient.rows), gradient.values
    return Whole(parameter), gradient


def gradients_by_rows(
    costs: Sequence[Variable],
    variables: Sequence[Variable],
    seeds: Sequence[Operand | None] | None = None,
) -> list[Gradient | None]:
    """Return gradients as `gradients` does, with a RowGradient for each `row_sparse` variable.

    GraphError where such a variable is used otherwise than by gathering rows of it (axis 0).
    """
    order = ancestors(costs)
    gathers = {v: _gathers(v, order, costs) for v in variables if v.row_sparse}
    dense = [v for v in variables if v not in gathers]
    gathered = [node.outputs[0] for nodes in gathers.values() for node in nodes]
    values = gradients(costs, [*dense, *gathered], seeds)
    by_variable = dict(zip([*dense, *gathered], values, strict=True))
    return [
        _row_gradient(v, gathers[v], by_variable) if v in gathers else by_variable[v]
        for v in variables
    ]


def _gathers(table, order, costs):
    """The nodes that gather rows of a table; GraphError if its gradient has another path."""
    nodes = [n for n in order if table in n.inputs and n.op_type not in zeros]
    for node in nodes:
        by_rows = node.op_type == "Gather" and node.attributes.get("axis", 0) in (0, -table.rank)
        if not by_rows:
            raise GraphError(
                f"{table!r} is row_sparse, and {node.op_type} reads it otherwise than by "
                f"gathering rows\n  node   {node.op_type}, built at {site_text(node.site)}\n"
                "  hint: row_sparse=False trains it as a whole"
            )
    if table in costs:
        raise GraphError(f"{table!r} is row_sparse, and a cost itself")
    return nodes


def _row_gradient(table, gathers, by_variable):
    """The RowGradient of a table from those of its gathered rows; None if there are none."""
    used = [(node.inputs[1], by_variable[node.outputs[0]]) for node in gathers]
    used = [(index, g) for index, g in used if g is not None]
    if not used:
        return None
    width = table.dims[1:]
    with gradient_of(gathers[0].outputs[0]):
        rows = _joined([_flat_index(index) for index, _ in used])
        each = [ops.reshape(g, [-1, *width]) if index.rank != 1 else g for index, g in used]
        values = _joined(each)
        from_first = ops.where(rows < 0, rows + table.dims[0], rows)
        return replace(summed_rows(from_first, values), terms=RowTerms(rows, values))


def added(a: Gradient, b: Gradient) -> Gradient:
    """Return the sum of two gradients of a variable, both RowGradients or none."""
    if isinstance(a, RowGradient) and isinstance(b, RowGradient):
        return summed_rows(ops.concat([a.rows, b.rows]), ops.concat([a.values, b.values]))
    assert isinstance(a, Variable) and isinstance(b, Variable)
    return a + b


def _joined(parts):
    """One or more values one behind the other."""
    return ops.concat(parts) if len(parts) > 1 else parts[0]


def _flat_index(index):
    """The index as int64 [K]."""
    return ops.reshape(ops.cast(index, np.int64), [-1])


def summed_rows(rows: Variable, values: Variable) -> RowGradient:
    """Sum values [K, ...] over equal rows [K]; the distinct rows are in ascending order.

    The first value of each row is gathered, the others are added in their order with
    ScatterElements: ScatterND(add) races on duplicates.
    """
    ordered, order = apply(
        "TopK", rows, ops.size_of(rows, 0), outputs=2, axis=0, largest=0, known=rows.dims
    )
    before = ops.slice(ops.concat([np.array([-1], np.int64), ordered]), [0], [-1], [0])
    starts = ops.logical_not(ops.equal(ordered, ops.reshape_like(before, ordered)))
    first, repeated = _nonzero(starts), _nonzero(ops.logical_not(starts))
    group = ops.cum_sum(ops.cast(starts, np.int64)) - 1
    total = ops.gather(values, ops.gather(order, first))
    rest = ops.gather(values, ops.gather(order, repeated))
    return RowGradient(
        ops.gather(ordered, first), _add_rows(total, ops.gather(group, repeated), rest)
    )


def _add_rows(total, index, values):
    """Add rows to those of `total` at an index that may repeat.

    On flat tensors, where ScatterElements does the least work for each element.
    """
    sizes = total.dims[1:]
    width = math.prod(sizes)
    elements = ops.unsqueeze(index, 1) * width + np.arange(width)
    total, elements, values = (ops.reshape(x, [-1]) for x in (total, elements, values))
    return ops.reshape(ops.scatter_add(total, elements, values), [-1, *sizes])


def _nonzero(flags):
    """The indices of the true flags [K], int64 [k]."""
    return ops.reshape(apply("NonZero", flags, known=(1, fresh_dim())), [-1])
