"""Training artifacts: models and the first state for training wherever ONNX Runtime runs."""

import copy
import os

import numpy as np

from ...graph.update import Update
from ...graph.variable import Variable
from ...onnx.exporting.export import export_onnx
from ...onnx.exporting.training_export import export_step
from ...optimizers.base import Optimizer
from .objectives import Objective

TRAINING, EVALUATION, CHECKPOINT = "training_model.onnx", "eval_model.onnx", "checkpoint.onnx"
LEARNING_RATE = "learning_rate"


def training_step(task: Objective, optimizer: Optimizer) -> Update:
    """Return the update of the parameters that are trainable now.

    A learning rate that is a number becomes a variable named `learning_rate`, so that it is part of
    the state of an exported step, and a loop may change it.
    """
    rate = optimizer.learning_rate
    if isinstance(rate, (int, float)):
        optimizer = copy.copy(optimizer)
        optimizer.learning_rate = Variable(
            LEARNING_RATE, data=np.array(rate, np.float32), trainable=False
        )
    return optimizer.minimize(task.cost, task.parameters())


def generate_artifacts(
    folder: str | os.PathLike, task: Objective, optimizer: Optimizer, portable: bool = False
) -> list[str]:
    """Write the training artifacts of an objective to a folder; return their paths.

    `training_model.onnx` takes feeds and state, and returns the loss and the next state: forward
    pass, backward pass and optimizer. `eval_model.onnx` takes feeds and parameters, and returns the
    loss and the output, in evaluation mode. `checkpoint.onnx` has no inputs and returns the state
    at first, the values of the session. `portable` is that of `export_step`.
    """
    os.makedirs(folder, exist_ok=True)
    training, evaluation, checkpoint = (
        os.path.join(folder, name) for name in (TRAINING, EVALUATION, CHECKPOINT)
    )
    feeds = [*task.inputs.values(), task.label]
    step = training_step(task, optimizer)
    export_step(training, step, [task.cost], feeds, initial=checkpoint, portable=portable)
    export_onnx(evaluation, [task.cost, task.output], [*feeds, *task.state()])
    return [training, evaluation, checkpoint]
