"""Gradients of tables that are zero but for some rows, and updates of these rows alone.

A table of which a step gathers K rows takes work and memory for K rows, whatever its height: no
value of the table's own shape is computed. Optimizers update the rows that were gathered, with
their rows of the slots, and leave all others as they are (a lazy update): no decay and no momentum
reaches a row that the step did not read.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .. import ops
from ..gradients import gradients, zeros
from ..graph.errors import GraphError
from ..graph.node import ancestors, apply
from ..graph.site import site_text
from ..graph.variable import Variable, fresh_dim


@dataclass(frozen=True)
class RowGradient:
    """The gradient of a table: `values` [K, ...] of the distinct `rows` [K], zero elsewhere."""

    rows: Variable
    values: Variable


Gradient = Variable | RowGradient


class Whole:
    """All of a parameter and of its slots, as a step reads and writes them."""

    def __init__(self, parameter):
        self.parameter = parameter

    def read(self, stored) -> Variable:
        """What the step sees of a persistent variable."""
        return stored

    def stored(self, read) -> Variable:
        """The persistent variable that something was read from."""
        return read

    def written(self, read, new):
        """(persistent variable, its new value) where the step turns what it read into `new`."""
        return read, new


class Rows(Whole):
    """The same of some rows, a distinct index [K], of a parameter and of its slots."""

    def __init__(self, parameter, rows):
        super().__init__(parameter)
        self.rows = rows
        self._read, self._stored = {}, {}  # one to the other, in both directions

    def read(self, stored):
        if stored not in self._read:
            value = self._read[stored] = ops.gather(stored, self.rows)
            self._stored[value] = stored
        return self._read[stored]

    def stored(self, read):
        return self._stored[read]

    def written(self, read, new):
        stored = self._stored[read]
        return stored, apply("ScatterND", stored, self._index, new, known=stored.dims)

    @cached_property
    def _index(self):
        return ops.unsqueeze(self.rows, 1)


def split(parameter, gradient):
    """(the part of the parameter that a step concerns, the gradient of that part)."""
    if isinstance(gradient, RowGradient):
        return Rows(parameter, gradient.rows), gradient.values
    return Whole(parameter), gradient


def gradients_by_rows(costs, variables) -> list:
    """As `gradients`, with a RowGradient for each variable that is `row_sparse`.

    GraphError where such a variable is used otherwise than by gathering rows of it (axis 0).
    """
    order = ancestors(costs)
    gathers = {v: _gathers(v, order, costs) for v in variables if v.row_sparse}
    dense = [v for v in variables if v not in gathers]
    gathered = [node.outputs[0] for nodes in gathers.values() for node in nodes]
    found = gradients(costs, [*dense, *gathered])
    by_variable = dict(zip([*dense, *gathered], found, strict=True))
    return [
        _row_gradient(v, gathers[v], by_variable) if v in gathers else by_variable[v]
        for v in variables
    ]


def _gathers(table, order, costs):
    """The nodes that gather rows of a table; nothing else may let a gradient through to it."""
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


def _row_gradient(table, gathers, found):
    """The gradients of everything gathered from a table, row by row; None without any."""
    used = [(node.inputs[1], found[node.outputs[0]]) for node in gathers]
    used = [(index, g) for index, g in used if g is not None]
    if not used:
        return None
    rows = ops.concat([_flat_index(index, table.dims[0]) for index, _ in used])
    values = [ops.reshape(g, [-1, *table.dims[1:]]) if index.rank != 1 else g for index, g in used]
    return summed_rows(rows, ops.concat(values))


def _flat_index(index, height):
    """int64 [K], not negative."""
    index = ops.reshape(ops.cast(index, np.int64), [-1])
    return ops.where(index < 0, index + height, index)


def summed_rows(rows, values) -> RowGradient:
    """Values [K, ...] of rows [K] that may repeat, added up: each row once, in ascending order.

    Of a row's values the first is taken as it is, and the others are added in their order with
    ScatterElements: ScatterND(add) races on duplicates.
    """
    ordered, place = apply(
        "TopK", rows, ops.size_of(rows, 0), outputs=2, axis=0, largest=0, known=rows.dims
    )
    before = ops.slice(ops.concat([np.int64([-1]), ordered]), [0], [-1], [0])
    starts = ops.logical_not(ops.equal(ordered, ops.reshape_like(before, ordered)))
    first, again = _where(starts), _where(ops.logical_not(starts))
    group = ops.cum_sum(ops.cast(starts, np.int64)) - 1
    total = ops.gather(values, ops.gather(place, first))
    more = ops.gather(values, ops.gather(place, again))
    return RowGradient(ops.gather(ordered, first), _added(total, ops.gather(group, again), more))


def _added(total, index, more):
    """Rows added to those of `total` at an index that may repeat.

    Element by element of flat tensors, where ScatterElements has the least to do for each.
    """
    sizes = total.dims[1:]
    width = math.prod(sizes)
    elements = ops.unsqueeze(index, 1) * width + np.arange(width)
    total, elements, more = (ops.reshape(x, [-1]) for x in (total, elements, more))
    return ops.reshape(ops.scatter_add(total, elements, more), [-1, *sizes])


def _where(flags):
    """Where flags [K] hold, int64 [k]."""
    return ops.reshape(apply("NonZero", flags, known=(1, fresh_dim())), [-1])
