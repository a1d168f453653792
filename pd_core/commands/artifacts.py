"""write training model, evaluation model and checkpoint to a folder

The three files together train the model wherever ONNX Runtime runs:

  training_model.onnx  feeds and state -> loss and next state; the optimizer is part of it
  eval_model.onnx      feeds and parameters -> loss and output, in evaluation mode
  checkpoint.onnx      no inputs -> the state at first

docs/on_device_training.md has the loop, and compares it with ONNX Runtime's on-device training.
"""

import argparse
import os

from ..training.tuning.artifacts import generate_artifacts
from .options import add_adaptation, add_model, add_objective, prepared

NAME = "artifacts"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_model(parser)
    parser.add_argument("-o", required=True, metavar="FOLDER", help="the folder to write to")
    add_objective(parser)
    add_adaptation(parser)
    parser.add_argument("--portable", action="store_true", help="use what runs on WebGPU, too")


def run(options: argparse.Namespace) -> int:
    """Write the files."""
    _, _, task, optimizer = prepared(options)
    for path in generate_artifacts(options.o, task, optimizer, options.portable):
        print(f"{path}: {os.path.getsize(path):,} bytes")
    return 0
