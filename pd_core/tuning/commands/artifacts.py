"""write training model, evaluation model and checkpoint to a folder

The three files together train the model wherever ONNX Runtime runs:

  training_model.onnx  feeds and state -> loss and next state; the optimizer is part of it
  eval_model.onnx      feeds and parameters -> loss and output, in evaluation mode
  checkpoint.onnx      no inputs -> the state at first

docs/on_device_training.md has the loop, and compares it with ONNX Runtime's on-device training.
"""

import argparse
import os

from ...files.export import export_onnx
from ...files.training_export import export_step
from .options import add_model, add_objective, model_of, objective_of, optimizer_of

NAME = "artifacts"
TRAINING, EVALUATION, CHECKPOINT = "training_model.onnx", "eval_model.onnx", "checkpoint.onnx"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_model(parser)
    parser.add_argument("-o", required=True, metavar="FOLDER", help="the folder to write to")
    add_objective(parser)
    parser.add_argument("--portable", action="store_true", help="use what runs on WebGPU, too")


def run(options: argparse.Namespace) -> int:
    """Write the files."""
    f = model_of(options, training=not options.eval_mode)
    task = objective_of(options, f)
    step = optimizer_of(options).minimize(task.cost, task.parameters())
    os.makedirs(options.o, exist_ok=True)
    training, evaluation, checkpoint = (
        os.path.join(options.o, name) for name in (TRAINING, EVALUATION, CHECKPOINT)
    )
    feeds = [*task.inputs.values(), task.label]
    export_step(
        *(training, step, [task.cost], feeds), initial=checkpoint, portable=options.portable
    )
    state = task.state()
    export_onnx(evaluation, [task.cost, task.output], [*feeds, *state])
    for path in (training, evaluation, checkpoint):
        print(f"{path}: {os.path.getsize(path):,} bytes")
    return 0
