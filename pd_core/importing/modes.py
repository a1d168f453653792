"""Operators that do something else in training, as mode switches."""

from .. import ops
from ..graph.errors import ModelError


def switched(op, training, stored, inside):
    """The outputs of an operator that trains in its own way, or None.

    What the file has in training mode is a switch; with `training`, what it has in inference mode
    too. `stored` are the running statistics of the file, `inside` says that the operator stands in
    a loop or branch.
    """
    if op.op_type == "BatchNormalization":
        return _batch_norm(op, training, stored, inside)
    if op.op_type == "Dropout":
        return _dropout(op, training)
    return None


def _batch_norm(op, training, stored, inside):
    written = op.attributes.get("training_mode", 0)
    if not written and not training:
        return None
    statistics = op.inputs[3:5]
    if not stored.issuperset(statistics):
        if written and op.version < 14:
            raise ModelError("it is in training mode, and its statistics are not stored")
        return None
    if inside:
        raise ModelError("its statistics cannot move inside of a loop or branch")
    known = {k: v for k, v in op.attributes.items() if k in ("epsilon", "momentum")}
    y = ops.batch_norm(*op.inputs, **known)
    moved = [a.value for a in y.node.effects]
    pairs = zip(moved, statistics, strict=True)
    return [y, *(ops.mode_switch(new, old) for new, old in pairs)][: op.outputs]


def _dropout(op, training):
    """Dropout by a rate that is known; the mask that it may give too is not read by anyone."""
    x, rate, mode = op.inputs[0], op.input(1), op.input(2)
    written = mode is not None and mode.value is not None and bool(mode.value)
    if not written and not (training and mode is None):
        return None
    if rate is not None and rate.value is None:
        return None
    return [ops.dropout(x, 0.5 if rate is None else float(rate.value.reshape(())))]
