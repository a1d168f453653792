"""Sequences of a length that is known while the file is read: lists of Variables."""

import numpy as np

from ... import ops
from ...graph.errors import ModelError
from ...graph.variable import Variable, constant
from .protocol import GraphReader
from .versions import Operator

_MAX_LENGTH = 10_000  # of a sequence


def on_sequence(reader: GraphReader, op: Operator) -> list[Variable | list]:
    """Build an operator that takes a sequence among other types; return its outputs."""
    if op.op_type in ("Identity", "Optional", "OptionalGetElement"):
        return [op.inputs[0]]
    if op.op_type == "OptionalHasElement":
        return [constant(True)]
    raise ModelError("it does not take a sequence here")


def _at(reader, op):
    sequence, position = op.inputs
    return [sequence[_index(position, len(sequence))]]


def _insert(reader, op):
    sequence, value = op.inputs[:2]
    position = op.input(2)
    k = len(sequence) if position is None else _index(position, len(sequence), behind=True)
    return [[*sequence[:k], value, *sequence[k:]]]


def _erase(reader, op):
    sequence, position = op.inputs[0], op.input(1)
    k = len(sequence) - 1 if position is None else _index(position, len(sequence))
    return [sequence[:k] + sequence[k + 1 :]]


def _concat(reader, op):
    sequence, axis = op.inputs[0], op.attributes["axis"]
    if op.attributes.get("new_axis", 0):
        sequence = [ops.unsqueeze(x, [axis]) for x in sequence]
    return [ops.concat(sequence, axis % sequence[0].rank)]


def _split(reader, op):
    x, sizes, axis = op.inputs[0], op.input(1), op.attributes.get("axis", 0) % op.inputs[0].rank
    width = x.dims[axis]
    if not isinstance(width, int) or (sizes is not None and sizes.value is None):
        raise ModelError(f"into how many parts {x!r} is cut is not known before it runs")
    single = sizes is None
    if not single and sizes.rank:
        parts = sizes.value.tolist()
    else:
        step = 1 if single else int(sizes.value)
        count = -(-width // step)
        if count > _MAX_LENGTH:
            raise ModelError(f"{x!r} is cut into {count} parts; up to {_MAX_LENGTH} are imported")
        parts = [min(step, width - k) for k in range(0, width, step)]
    sequence = list(ops.split(x, parts, axis))
    if single and not op.attributes.get("keepdims", 1):
        sequence = [ops.squeeze(y, [axis]) for y in sequence]
    return [sequence]


def _map(reader, op):
    """Read the body for each element; an input that is no sequence goes to all of them."""
    count = len(op.inputs[0])
    rows = [x if isinstance(x, list) else [x] * count for x in op.inputs]
    steps = [reader.read_body(op.attributes["body"], row) for row in zip(*rows, strict=True)]
    return [list(column) for column in zip(*steps, strict=True)] or [[] for _ in range(op.outputs)]


def _index(position, count, behind=False):
    """Return a place from the front; with `behind` that after the last is one, too."""
    if position.value is None:
        raise ModelError("an index into a sequence is not known before it runs")
    k = int(position.value)
    if not -count <= k < count + behind:
        raise ModelError(f"index {k} is out of range for a sequence of {count}")
    return k + count if k < 0 else k


readers = {
    "SequenceConstruct": lambda reader, op: [list(op.inputs)],
    "SequenceEmpty": lambda reader, op: [[]],
    "SequenceAt": _at,
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SequenceLength": lambda reader, op: [constant(np.int64(len(op.inputs[0])))],
    "SequenceMap": _map,
    "ConcatFromSequence": _concat,
    "SplitToSequence": _split,
}
