"""Training of a module by a Runner: what `Module.fit` does."""

from collections.abc import Callable, Sequence
from typing import Any

from ...graph.recording import not_recording
from ...layers.layer import Layer
from ...optimizers.base import Optimizer
from ...optimizers.loss_scaling import LossScaler
from .. import Counter, Data, Device, Progress, RunnerContext, RunnerItem, TestEvery, runner_of
from ..batches import ArrayReader, Reader
from ..functions import item_of
from ..precision import checked_precision
from .arrays import checked, float_type
from .criterion import Criterion
from .data import Source, array_source, source_of
from .history import History, Recorder
from .kept_update import KeptUpdate
from .modes import modes_kept
from .steps import ModuleStep, SourceData, StaticStep


def training_sources(
    x: Any, y: Any, validation_split: float, validation_data: Any, **options: Any
) -> tuple[Source, Source | None]:
    """Return the batches of a training, and of its validation if there is one.

    The options are `batch_size`, `shuffle`, `seed`, `sample_weight` and `class_weight`.
    """
    validation = None
    plain: dict[str, Any] = {"batch_size": options["batch_size"]}
    if validation_data is not None:
        if validation_split:
            raise TypeError("fit: takes validation_split or validation_data, not both")
        xv, yv, plain = validation_data, None, {"is_weighted": True}  # a reader has its own size
        if isinstance(validation_data, tuple) and 2 <= len(validation_data) <= 3:
            xv, yv, *weights = validation_data
            plain = {"batch_size": options["batch_size"], "sample_weight": (*weights, None)[0]}
        validation = source_of("fit: validation_data", xv, yv, **plain)
    elif validation_split:
        rows = _split(x, y, validation_split)
        validation = array_source("fit: validation_split", x, y, rows=slice(rows, None), **plain)
        options["rows"] = slice(rows)
    if y is not None and options["shuffle"] is None:
        options["shuffle"] = True
    if y is None and validation is not None and isinstance(validation.reader, ArrayReader):
        options["batch_size"] = None  # it is for the validation
    return source_of("fit", x, y, is_weighted=True, **options), validation


def _split(x, y, share):
    """The number of samples that are left for training: Keras's floor(n (1 - share))."""
    if y is None:
        raise TypeError("fit: validation_split is for arrays x and y, not for a reader")
    if not 0 < share < 1:
        raise ValueError(f"fit: validation_split is within (0, 1), not {share}")
    samples = len(next(iter(checked("fit", {"x": x, "y": y}).values())))
    rows = int(samples * (1 - share))
    if rows in (0, samples):
        raise ValueError(
            f"fit: validation_split={share} of {samples} samples leaves {rows} for training"
        )
    return rows


Callbacks = Sequence[RunnerItem | Callable[[RunnerContext], Any]]


def shown(callbacks: Callbacks, verbose: bool | None) -> list[RunnerItem]:
    """Return the callbacks and a Progress around them, which None shows in a terminal only."""
    if isinstance(callbacks, RunnerItem) or callable(callbacks):
        raise TypeError(f"fit: callbacks are a list of items, not {callbacks!r}")
    items = [item_of("fit", item) for item in callbacks]
    if verbose is False or any(isinstance(item, Progress) for item in items):
        return items
    return [Progress(disable=False if verbose else None), *items]


def fit(
    module: Layer,
    forward: Callable[..., Any],
    criterion: Criterion,
    optimizer: Optimizer | LossScaler | None,
    training: Source,
    validation: Source | None,
    callbacks: Sequence[RunnerItem],
    epochs: int,
    split: bool,
    precision: str,
) -> History:
    """Train a module in training mode, and return to its modes; `forward` builds it statically.

    With `split` the batches are those of all ranks of a job together.
    """
    is_stepping = hasattr(module, "train_one_batch")
    criterion.check("fit", needs_loss=not is_stepping or validation is not None)
    if is_stepping and optimizer is not None:
        raise TypeError(
            f"fit: {type(module).__name__}.train_one_batch has an optimizer of its own, "
            f"{type(optimizer).__name__} is one too many"
        )
    if checked_precision(precision) != "float32" and is_stepping:
        raise TypeError(
            f"fit: {type(module).__name__}.train_one_batch says what it computes in\n"
            "  hint: pd.autocast(cost) in it, and a pd.LossScaler around its optimizer"
        )
    if not is_stepping and not isinstance(optimizer, Optimizer | LossScaler):
        raise TypeError(
            f"fit: needs an optimizer, such as optimizer=pd.AdamOptimizer(), not {optimizer!r}"
        )
    with modes_kept(module), not_recording():  # inside a guard, too
        if not module.training:
            module.train()
        step: ModuleStep | StaticStep
        inner: list[RunnerItem] = []
        if optimizer is None:
            step = ModuleStep(module, criterion, training)
        else:
            update = KeptUpdate(optimizer)
            floats = float_type(module)
            is_weighted = validation is not None and "weight" in validation.names
            step = StaticStep(forward, criterion, training, update, precision, floats, is_weighted)
            inner.append(update)
        if step.evaluate is not None:
            inner.append(step.evaluate)
        return trained(SourceData(training, split), callbacks, [step, *inner], validation, epochs)


def trained(
    data: Data,
    callbacks: Callbacks,
    steps: Sequence[RunnerItem],
    validation: Reader | None,
    epochs: int,
) -> History:
    """Run so many epochs of items, with a validation after each; return the numbers of each.

    `callbacks` are around the `steps`, what trains and what counts metrics.
    """
    recorder = Recorder()
    tests: list[RunnerItem] = []
    if validation is not None:
        tests.append(TestEvery(passes=1, reader=validation, on_result=recorder.validated))
    items = [Device(), Counter(), data, *callbacks, *steps, *tests, recorder]
    with runner_of(items) as runner:
        runner.run(epochs)
    return recorder.history
