"""write one training step of a model as an ONNX model

The step takes the feeds and the state (parameters, slots of the optimizer, the random seed) and
returns the loss and the next state, for an input `w` as `w_next`: forward pass, backward pass and
optimizer in one model of standard operators, for any ONNX Runtime. The state has the model's values
as its defaults; with --initial they are the outputs of a model of their own, as runtimes for
JavaScript need it. The learning rate is the input `learning_rate`, which a loop may change.
docs/other_runtimes.md shows the loops.
"""

import argparse

from ..onnx.exporting.training_export import export_step
from ..training.tuning.artifacts import training_step
from .options import add_adaptation, add_model, add_objective, count, prepared

NAME = "train-step"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_model(parser)
    parser.add_argument("-o", required=True, metavar="STEP", help="the file to write")
    add_objective(parser)
    add_adaptation(parser)
    parser.add_argument("--initial", metavar="FILE", help="write the initial state to this file")
    parser.add_argument("--portable", action="store_true", help="use what runs on WebGPU, too")
    parser.add_argument("--opset", type=count, help="write for this opset, such as 17")


def run(options: argparse.Namespace) -> int:
    """Write the step."""
    _, _, task, optimizer = prepared(options)
    step = training_step(task, optimizer)
    inputs = [*task.inputs.values(), task.label]
    model = export_step(
        *(options.o, step, [task.cost], inputs),
        initial=options.initial,
        portable=options.portable,
        opset=options.opset,
    )
    nodes = len(model.graph.node)
    print(f"{options.o}: {nodes} operators; {len(task.parameters())} parameters are trained")
    return 0
