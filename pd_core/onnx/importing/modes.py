"""Operators with a training mode, BatchNormalization and Dropout, as mode switches."""

import numpy as np

from ... import ops
from ...graph.errors import ModelError
from ...graph.variable import Variable
from .versions import Operator


def switched(
    op: Operator, training: bool, stored: frozenset[Variable], inside: bool
) -> list[Variable] | None:
    """Build an operator with a training mode as a mode switch; None for any other operator.

    Operators that the file has in training mode are switches; with `training`, those in inference
    mode too. `stored` are the running statistics of the file, `inside` tells that the operator is
    in a loop or branch.
    """
    if op.op_type == "BatchNormalization":
        return _batch_norm(op, training, stored, inside)
    if op.op_type == "Dropout":
        return _dropout(op, training)
    return None


def _batch_norm(op, training, stored, inside):
    in_training = op.attributes.get("training_mode", 0)
    if not in_training and not training:
        return None
    statistics = op.inputs[3:5]
    if not stored.issuperset(statistics):
        if in_training and op.version < 14:
            raise ModelError("it is in training mode, and its statistics are not stored")
        return None
    if inside:
        raise ModelError("its statistics cannot move inside of a loop or branch")
    options = {k: v for k, v in op.attributes.items() if k in ("epsilon", "momentum")}
    y = ops.batch_norm(*op.inputs, **options)
    updated = [] if op.outputs == 1 else [a.value for a in y.node.effects]
    if not updated:  # in inference they stay; inside `pd.guard()` they have moved already
        return [y, *map(ops.identity, statistics)][: op.outputs]
    pairs = zip(updated, statistics, strict=True)
    return [y, *(ops.mode_switch(new, old) for new, old in pairs)][: op.outputs]


def _dropout(op, training):
    """Build a Dropout of a constant rate; its second output, the mask, is left out."""
    x, rate, mode = op.inputs[0], op.input(1), op.input(2)
    if op.version < 12 and op.outputs > 1 and not training:  # the mask is not filled, all zeros
        return [x, ops.zeros_like(x if op.version < 10 else ops.cast(x, np.bool_))]
    in_training = mode is not None and mode.value is not None and bool(mode.value)
    if not in_training and not (training and mode is None):
        return None
    if rate is not None and rate.value is None:
        return None
    return [ops.dropout(x, 0.5 if rate is None else float(rate.value.reshape(())))]
