"""train a model on the arrays of an .npz file, and write it with its new values

DATA.npz has an array for each input of the model, by its name, and the label; the first axis is
the samples:

  numpy.savez("data.npz", images=images, label=labels)

With --lora RANK only low-rank adapters of the matrices are trained, and added to these in the end.
With --qat weights and activations are rounded to 8 bits in the training, and the file holds
QuantizeLinear and DequantizeLinear. The nodes of the file stay the same otherwise.
"""

import argparse
from typing import Any

import numpy as np

from ..storage.atomic import check_writable
from ..training import Log, Progress, Resume, RunnerItem, SaveEvery
from ..training.item import Following
from ..training.precision import PRECISIONS
from ..training.tuning.arrays import columns, read_arrays, split
from ..training.tuning.finetuning import finetune
from ..training.tuning.tuned_file import export_tuned
from .options import add_adaptation, add_model, add_objective, count, prepared, seed

NAME = "finetune"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_model(parser)
    parser.add_argument("data", metavar="DATA.npz", help="arrays of the inputs and of the label")
    parser.add_argument("-o", required=True, metavar="TUNED", help="the file to write")
    add_objective(parser)
    parser.add_argument("--epochs", type=count, default=1, help="(default: %(default)s)")
    parser.add_argument("--batch-size", type=count, default=32, help="(default: %(default)s)")
    parser.add_argument(
        "--precision",
        choices=list(PRECISIONS),
        default="float32",
        help="what products of matrices and convolutions are computed in (default: %(default)s)",
    )
    parser.add_argument("--seed", type=seed, default=0, help="of order, dropout and adapters")
    parser.add_argument(
        "--validation",
        metavar="FRACTION|FILE.npz",
        help="test after each epoch on the last samples of the data, such as 0.1, or on a file",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="write a checkpoint to this folder after each epoch, and at a SIGTERM",
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on from the newest checkpoint, if there is one"
    )
    parser.add_argument("--logdir", metavar="DIR", help="write event files for TensorBoard")
    add_adaptation(parser)
    parser.add_argument("--adapters", metavar="FILE", help="write the adapters alone, too")


def run(options: argparse.Namespace) -> int:
    """Train, and write the model."""
    if options.adapters is not None and options.lora is None:
        raise ValueError("--adapters is for adapters: it needs --lora RANK")
    for path in filter(None, (options.o, options.adapters)):
        check_writable(path)  # before hours of training
    f, adapters, task, optimizer = prepared(options)
    arrays, validation = _data(options, task)
    history = finetune(
        task,
        arrays,
        optimizer,
        epochs=options.epochs,
        batch_size=options.batch_size,
        validation=validation,
        seed=options.seed,
        items=_items(options),
        precision=options.precision,
    )
    export_tuned(options.o, f)
    if adapters is not None and options.adapters is not None:
        adapters.save(options.adapters)
    first, last = history.cost[0], history.cost[-1]
    print(f"{options.o}: the cost was {first:.4f} in the first epoch, {last:.4f} in the last one")
    return 0


def _items(options):
    """Return the items of the training that the options ask for."""
    items = [Progress(), _Printed()]
    if options.logdir is not None:
        items.append(Log(options.logdir))
    if options.checkpoint is not None:
        items.append(SaveEvery(passes=1, path=options.checkpoint, on_sigterm=True))
    if options.resume:
        if options.checkpoint is None:
            raise ValueError("--resume goes on from a checkpoint: it needs --checkpoint DIR")
        items.append(Resume(options.checkpoint, begin=True))
    return items


def _data(options, task):
    """Return the arrays by name of the training, and of the validation or None."""
    arrays, origin = read_arrays(options.data), options.data
    names = [*task.inputs, task.label.name]
    columns(task, arrays, origin)
    if options.validation is None:
        return arrays, None
    try:
        fraction = float(options.validation)
    except ValueError:
        held_out = read_arrays(options.validation)
        columns(task, held_out, options.validation)
        return arrays, held_out
    if not 0 < fraction < 1:
        raise ValueError(f"--validation: a fraction within (0, 1) or a file, not {fraction}")
    parts: Any = split([arrays[name] for name in names], fraction)
    return tuple([dict(zip(names, part, strict=True)) for part in parts])


class _Printed(RunnerItem):
    """A line for each epoch."""

    first_rank_only = True

    def on_pass_end(self, following: Following) -> None:
        following()
        self.context.after(self._print)

    def _print(self):
        context = self.context
        tests: dict[str, Any] = context.test_metrics or {}
        numbers = {
            **(context.pass_metrics or {}),
            **{f"validation {k}": v for k, v in tests.items()},
        }
        listed = ", ".join(f"{name} {np.float64(value):.4f}" for name, value in numbers.items())
        print(f"epoch {context.pass_id + 1}: {listed}")
