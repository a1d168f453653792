"""Training of an imported model on arrays."""

from collections.abc import Mapping

import numpy as np

from ...graph.errors import ShapeError
from ...optimizers.base import Optimizer
from .. import ArrayReader, Data, ForwardBackward, RunnerItem, Update
from ..fit.fitting import Callbacks, trained
from ..fit.history import History
from .arrays import columns
from .objectives import Objective


def finetune(
    task: Objective,
    data: Mapping[str, np.ndarray],
    optimizer: Optimizer,
    epochs: int = 1,
    batch_size: int = 32,
    validation: Mapping[str, np.ndarray] | None = None,
    seed: int = 0,
    items: Callbacks = (),
    precision: str = "float32",
) -> History:
    """Train the model of an objective on arrays, in the session in force.

    `data` and `validation` are arrays by the names of the model's inputs and of the label, whose
    first axis is the samples; the order of each epoch is another one, which the seed determines.
    The history has `cost`, `accuracy` where the label holds the classes of rows, and the same of
    the validation after each epoch as `val_...`. `items` are more items of the Runner, such as
    Progress, Log, StopEarly and SaveEvery, see docs/training.md.

    `precision="mixed_float16"` computes products in float16, as in `Module.fit`.

    If the file fixes the first axis of its inputs, `batch_size` has to be that size, and the last
    samples of an epoch that fill no batch are left out of it.
    """
    if epochs < 1:
        raise ValueError(f"finetune: epochs is at least 1, not {epochs}")
    parameters = task.parameters()
    if not parameters:
        raise ValueError("finetune: all parameters behind the loss are frozen")
    slots = [*task.inputs.values(), task.label]
    arrays = _whole_batches(task, columns(task, data), batch_size)
    reader = ArrayReader(*arrays, batch_size=batch_size, shuffle=True, seed=seed)
    tested = None
    if validation is not None:
        held_out = columns(task, validation, "the validation")
        tested = ArrayReader(*_whole_batches(task, held_out, batch_size), batch_size=batch_size)
    steps: list[RunnerItem] = [ForwardBackward(task.cost, precision), Update(optimizer, parameters)]
    evaluate = task.criterion.evaluate(task.output, task.label)
    if evaluate is not None:
        steps.append(evaluate)
    return trained(Data(reader, inputs=slots), items, steps, tested, epochs)


def _whole_batches(task, arrays, batch_size):
    """Return the arrays, without the samples that fill no batch where its size is fixed."""
    if batch_size < 1:
        raise ValueError(f"finetune: batch_size is at least 1, not {batch_size}")
    sizes = {v.dims[0] for v in task.inputs.values() if v.rank and isinstance(v.dims[0], int)}
    if not sizes:
        return arrays
    if sizes != {batch_size}:
        raise ShapeError(
            f"finetune: the model fixes its batch size to {min(sizes)}, not {batch_size}\n"
            "  hint: any_batch=True, --any-batch on the command line, frees it"
        )
    rows = len(arrays[0]) // batch_size * batch_size
    if not rows:
        raise ShapeError(f"finetune: {len(arrays[0])} samples fill no batch of {batch_size}")
    return [a[:rows] for a in arrays]
