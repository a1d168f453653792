"""Objectives of fine-tuning: the loss of an output of an imported model against a label."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ... import ops
from ...graph.errors import ModelError, ShapeError
from ...graph.node import ancestors
from ...graph.rewrite import is_output_of
from ...graph.variable import Variable, describe, fresh_dim, open_dim
from ...onnx.importing import ImportedModel
from ...onnx.importing.loading import size_names
from ..fit.criterion import Criterion


@dataclass
class Objective:
    """The graph of a model with a loss.

    inputs      the inputs of the model, feed slots by name
    label       the feed slot of the label
    output      the output of the model that is compared with it
    cost        the mean loss, a scalar
    is_classes  whether the label holds indices of classes
    criterion   the loss and the metrics
    """

    inputs: dict[str, Variable]
    label: Variable
    output: Variable
    cost: Variable
    is_classes: bool
    criterion: Criterion = field(default_factory=lambda: Criterion(None, ()))

    def parameters(self) -> list[Variable]:
        """Return the parameters behind the cost that are trainable now."""
        return [v for v in self.state() if v.trainable]

    def state(self) -> list[Variable]:
        """Return what is stored behind the cost: parameters, statistics, ranges."""
        read = dict.fromkeys(x for node in ancestors([self.cost]) for x in node.inputs)
        return [x for x in read if x is not None and x.is_persistent]


def objective(
    f: ImportedModel,
    loss: str,
    output: str | None = None,
    label: str = "label",
    class_axis: int = 1,
    any_batch: bool = False,
) -> Objective:
    """Build a model for feed slots of its own inputs, and a loss of one of its outputs.

    `loss` is a name in LOSSES; `output` may be left out if the model has one, and `label` is the
    name of the slot of the label. The label of `cross-entropy` holds int64 indices of classes, in
    the shape of the output without `class_axis`; that of any other loss has the shape of the
    output. Where the output is a Softmax or a Sigmoid, a cross-entropy is computed from its input,
    as PyTorch's losses are. With `any_batch` the first axis of all inputs has any size.
    """
    if loss not in LOSSES:
        raise ValueError(f"there is no loss {loss!r}; there are {', '.join(LOSSES)}")
    inputs = input_slots(f, any_batch)
    if label in inputs:
        raise ModelError(f"{label!r} is an input of {f.origin}; give the label another name")
    y = _output(f, inputs, output)
    if any_batch and y.rank and isinstance(y.dims[0], int):
        raise ModelError(
            f"{f.origin} fixes the batch size of its output {describe(y)} inside, not only that of "
            "its inputs"
        )
    if y.dtype.kind != "f":
        raise ModelError(f"the output {y!r} of {f.origin} holds no floats; a loss needs them")
    is_classes = loss == "cross-entropy"
    dims, dtype = list(y.dims), y.dtype
    if is_classes:
        if not -y.rank <= class_axis < y.rank or y.rank < 2:
            raise ShapeError(
                f"cross-entropy takes scores [N, C, ...], not the output {describe(y)}"
            )
        del dims[class_axis]
        dtype = np.dtype(np.int64)
    target = Variable.of(dims, dtype, label)
    losses = partial(_cross_entropy, axis=class_axis) if is_classes else LOSSES[loss]
    criterion = Criterion(losses, "accuracy" if is_classes and y.rank == 2 else ())
    cost = criterion.cost([y], [target], None)
    return Objective(inputs, target, y, cost, is_classes, criterion)


def input_slots(f: ImportedModel, any_batch: bool = False) -> dict[str, Variable]:
    """Return feed slots for the inputs of a model, of the shapes that the file declares."""
    names = size_names(f.graph.input)
    batch, slots = fresh_dim(), {}
    for name, (dims, dtype) in f.inputs.items():
        if dims is None:
            raise ModelError(f"the input {name!r} of {f.origin} has no declared rank")
        sizes = zip(dims, names.get(name) or (None,) * len(dims), strict=True)
        shape = [
            d or named or (batch if k == 0 else open_dim()) for k, (d, named) in enumerate(sizes)
        ]
        if any_batch and shape:
            shape[0] = batch
        slots[name] = Variable.of(shape, dtype, name)
    return slots


def _output(f, inputs, output):
    if output is None and len(f.outputs) > 1:
        raise ModelError(f"{f.origin} has the outputs {', '.join(f.outputs)}: choose one of them")
    return f(*inputs.values(), output=f.outputs[0] if output is None else output)


def _cross_entropy(y, label, axis):
    """Return the losses of all positions, [M, 1]."""
    axis %= y.rank
    z = y
    if is_output_of(y, "Softmax") and y.node.attributes.get("axis", -1) % y.rank == axis:
        z = y.node.inputs[0]
    if y.rank > 2:
        classes = y.dims[axis]
        if not isinstance(classes, int):
            raise ShapeError(
                f"cross-entropy: the number of classes of {y!r}, axis {axis}, is not known\n"
                "  hint: class_axis=-1, --class-axis -1 on the command line, is the last axis"
            )
        order = [k for k in range(y.rank) if k != axis] + [axis]
        z = ops.reshape(ops.transpose(z, order), [-1, classes])
        label = ops.reshape(label, [-1])
    return ops.softmax_cross_entropy(z, label)


def _binary_cross_entropy(y, label):
    if is_output_of(y, "Sigmoid"):
        return ops.sigmoid_cross_entropy(y.node.inputs[0], label)
    return ops.sigmoid_cross_entropy(y, label)


# The losses by name: functions (output, label) -> losses of the elements. They are mean squared
# and mean absolute error, Huber's loss, and cross-entropies of scores before softmax and sigmoid.
LOSSES: dict[str, Callable[[Variable, Variable], Variable]] = {
    "cross-entropy": lambda y, label: _cross_entropy(y, label, 1),
    "binary-cross-entropy": _binary_cross_entropy,
    "mse": lambda y, label: ops.square(y - label),
    "l1": lambda y, label: ops.abs(y - label),
    "huber": lambda y, label: ops.huber_loss(y, label),
}
