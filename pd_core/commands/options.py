"""Options that several commands have, and what they ask for."""

import argparse
import math
from typing import Any

from ..graph.errors import ModelError
from ..onnx.importing import ImportedModel, import_onnx
from ..optimizers.base import Optimizer
from ..optimizers.named import OPTIMIZERS
from ..optimizers.regularizers import ClipGlobalNorm
from ..training.tuning.fake_quantization import prepare_qat
from ..training.tuning.low_rank import LoRA, lora
from ..training.tuning.objectives import LOSSES, Objective, objective

_DECOUPLED = ("adamw", "lion", "lamb")  # those with a weight decay of their own


def count(text: str) -> int:
    """Convert a value of an option, a positive integer."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"a positive integer, not {text}")
    return int(text)


def seed(text: str) -> int:
    """Convert a value of an option, an integer that is not negative."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"an integer from 0 on, not {text}")
    return int(text)


def positive(text: str) -> float:
    """Convert a value of an option, a number above 0."""
    return _number(text, "a positive number", lambda x: x > 0)


def not_negative(text: str) -> float:
    """Convert a value of an option, a number from 0 on."""
    return _number(text, "a number from 0 on", lambda x: x >= 0)


def _number(text, what, fits):
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not fits(number):
        raise argparse.ArgumentTypeError(f"{what}, not {text}")
    return number


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the model, and which of its tensors are trained."""
    parser.add_argument("model", metavar="MODEL", help="an ONNX file")
    parser.add_argument(
        "--freeze",
        nargs="+",
        default=[],
        metavar="PATTERN",
        help="do not train the parameters of these names, such as 'encoder.*'; `info` lists them",
    )
    parser.add_argument(
        "--train",
        nargs="+",
        default=[],
        metavar="PATTERN",
        help="train stored tensors that `info` lists as not trained, or that --freeze matches",
    )
    parser.add_argument(
        "--float32",
        action="store_true",
        help="compute and train in float32 what the file has as float16 or bfloat16",
    )


def add_objective(parser: argparse.ArgumentParser) -> None:
    """Add the options of the loss and of the optimizer."""
    parser.add_argument(
        "--loss",
        choices=LOSSES,
        default="cross-entropy",
        help="mean over the batch; cross-entropy takes scores and indices of classes "
        "(default: %(default)s)",
    )
    parser.add_argument("--output", metavar="NAME", help="the tensor that the loss reads")
    parser.add_argument(
        "--label",
        default="label",
        metavar="NAME",
        help="the name of the label, in the data and in the step (default: %(default)s)",
    )
    parser.add_argument(
        "--class-axis",
        type=int,
        default=1,
        metavar="AXIS",
        help="the axis of the scores; -1 for language models [N, T, C] (default: %(default)s)",
    )
    parser.add_argument(
        "--any-batch", action="store_true", help="free a batch size that the file fixes"
    )
    parser.add_argument(
        "--eval-mode",
        action="store_true",
        help="keep dropout off, and batch normalisation with its stored statistics",
    )
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adam")
    parser.add_argument(
        "--lr",
        type=positive,
        default=1e-3,
        metavar="RATE",
        help="learning rate (default: %(default)s)",
    )
    parser.add_argument(
        "--clip-norm",
        type=not_negative,
        default=1.0,
        metavar="NORM",
        help="scale the gradients of a step to at most this norm, all together; 0 does not "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--weight-decay",
        type=not_negative,
        metavar="DECAY",
        help="decoupled, of adamw, lion and lamb (default: that of the optimizer)",
    )


def add_adaptation(parser: argparse.ArgumentParser) -> None:
    """Add the options of adapters and of quantisation."""
    parser.add_argument("--lora", type=count, metavar="RANK", help="train adapters of this rank")
    parser.add_argument(
        "--alpha", type=positive, help="adapters count alpha / RANK times (default: RANK)"
    )
    parser.add_argument(
        "--target", nargs="+", metavar="PATTERN", help="the matrices with adapters (default: all)"
    )
    parser.add_argument("--qat", action="store_true", help="train for 8-bit integers")


def adapted(options: argparse.Namespace, f: ImportedModel) -> LoRA | None:
    """Adapt a model as the options ask for; return its adapters, if it has any."""
    adapters = None
    if options.lora is not None:
        adapters = lora(f, options.lora, options.alpha, options.target or "*")
        if options.train:
            f.unfreeze(*options.train)
        print(adapters.summary())
    for name in ("alpha", "target"):
        if options.lora is None and getattr(options, name) is not None:
            raise ValueError(f"--{name} is for adapters: it needs --lora RANK")
    if options.qat:
        prepare_qat(f)
    return adapters


def model_of(options: argparse.Namespace, training: bool = False) -> ImportedModel:
    """Import the model that the options ask for."""
    adapters = getattr(options, "lora", None) is not None  # whose weights may stay integers
    trainable = options.train or not adapters
    return import_onnx(
        options.model,
        trainable=trainable,
        training=training,
        frozen=options.freeze,
        float32=options.float32,
    )


def _objective(options: argparse.Namespace, f: ImportedModel) -> Objective:
    """Build the objective that the options ask for, and print what it compares."""
    task = objective(
        *(f, options.loss, options.output, options.label, options.class_axis, options.any_batch)
    )
    slots = ", ".join(map(describe_slot, [*task.inputs.values(), task.label]))
    print(f"{options.loss} of {task.output.name} against {task.label.name}; feeds: {slots}")
    return task


def describe_slot(v: Any) -> str:
    """Describe a feed slot: name, element type, shape with the names of the file."""
    sizes = ["?" if str(d).startswith("?") else str(d) for d in v.dims]
    return f"{v.name} {v.dtype}[{', '.join(sizes)}]"


def _optimizer(options: argparse.Namespace) -> Optimizer:
    """Return the optimizer that the options ask for."""
    settings: dict[str, Any] = {}
    if options.clip_norm:
        settings["clip"] = ClipGlobalNorm(options.clip_norm)
    if options.weight_decay is not None:
        if options.optimizer not in _DECOUPLED:
            listed = ", ".join(_DECOUPLED)
            raise ValueError(f"--weight-decay is for {listed}, not for {options.optimizer}")
        settings["weight_decay"] = options.weight_decay
    return OPTIMIZERS[options.optimizer](options.lr, name="optimizer", **settings)


def prepared(
    options: argparse.Namespace,
) -> tuple[ImportedModel, LoRA | None, Objective, Optimizer]:
    """Return the model to train, its adapters or None, the objective and the optimizer."""
    f = model_of(options, training=not options.eval_mode)
    adapters = adapted(options, f)
    task = _objective(options, f)
    parameters = task.parameters()
    halves = [v for v in parameters if v.dtype.itemsize < 4]
    if halves:
        raise ModelError(
            f"{f.origin}: {halves[0].name!r} is {halves[0].dtype}, which optimizers do not update\n"
            "  hint: --float32 trains in float32, and writes the types of the file"
        )
    if not parameters:
        raise ModelError(f"{f.origin}: {f.stored.why_nothing()}")
    return f, adapters, task, _optimizer(options)
