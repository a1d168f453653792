"""Evaluation of a module over batches, by calls in evaluation mode."""

from inspect import signature
from typing import Any

import numpy as np

from ...dynamic import guard, no_grad, to_variable
from ...graph.errors import ShapeError
from ...graph.nested import mapped, variables_in
from ...graph.variable import Variable
from ...layers.layer import Layer
from ..evaluate import tested
from ..ranks import Ranks
from .arrays import float_type
from .criterion import Criterion
from .data import Source
from .modes import modes_kept


def evaluated(
    module: Layer, criterion: Criterion, source: Source, ranks: Ranks | None = None
) -> dict[str, float]:
    """Return the mean `cost` over all samples, and the metrics by name.

    They are those of all `ranks`, of which each takes its part.
    """

    def compute(batch):
        targets, weights = batch[source.targets], batch[source.targets.stop :]
        with guard(), no_grad():
            outputs = list(variables_in(module(*_typed(module, batch[source.inputs]))))
            (weight,) = map(to_variable, _typed(module, weights)) if weights else (None,)
            cost = float(criterion.cost(outputs, _typed(module, targets), weight))
            pairs = [criterion.pair(outputs, targets) for _ in tallies]
            return {"cost": cost}, [[y.numpy(), label] for y, label in pairs]

    tallies = criterion.tallies()
    with modes_kept(module):
        module.eval()
        return tested(source, compute, tallies, ranks, source.who)


def predicted(module: Layer, source: Source, ranks: Ranks | None = None) -> Any:
    """Return the outputs for all samples, arrays in the nesting of the module's output.

    Each of the `ranks` computes its rows of each batch, and all get all.
    """
    with modes_kept(module):
        module.eval()
        batches = [_outputs(module, _taken(module, arrays), ranks) for arrays in source]
    if ranks is not None:
        every = zip(*ranks.gather(batches), strict=True)
        batches = [part for parts in every for part in parts if part is not None]
    if not batches:
        raise ValueError(f"{source.who}: the reader gives no batches")
    return _concatenated(batches)


def _taken(module, batch):
    """The arrays of a batch; TypeError if forward takes fewer, as of a reader with labels."""
    try:
        signature(module.forward).bind(*batch)
    except TypeError as error:
        hint = "lambda: (x for x, y in batches) leaves the labels out"
        name = f"{type(module).__name__}.forward"
        raise TypeError(
            f"predict: a batch has {len(batch)} arrays, {name}{signature(module.forward)}: {error}"
            f"\n  hint: {hint}"
        ) from None
    return batch


def _outputs(module, batch, ranks):
    """The outputs for a batch, or for this rank's rows of it; None for no rows."""
    arrays, size = (batch, len(batch[0])) if ranks is None else ranks.part(batch)
    with guard(), no_grad():  # where Variables of float64 have values
        outputs = mapped(Variable.numpy, module(*_typed(module, arrays)))
    return outputs if size else None


def _typed(module, arrays):
    """Arrays as a module takes them: of float64 where it has such parameters."""
    floats = float_type(module)
    if floats == np.float32:  # which arrays become by themselves
        return arrays
    return [a if a.dtype.kind != "f" else to_variable(a, floats) for a in map(np.asarray, arrays)]


def _concatenated(parts):
    """Outputs of batches one after the other, along the first axis."""
    first = parts[0]
    if isinstance(first, dict):
        return {key: _concatenated([part[key] for part in parts]) for key in first}
    if isinstance(first, (tuple, list)):
        make = getattr(type(first), "_make", type(first))
        return make([_concatenated(columns) for columns in zip(*parts, strict=True)])
    if not isinstance(first, np.ndarray):
        return first
    if not first.ndim or len({part.shape[1:] for part in parts}) > 1:
        shapes = " and ".join(sorted({str(part.shape) for part in parts}))
        raise ShapeError(
            f"predict: outputs of batches have shapes {shapes}, which are no samples of one array"
        )
    return np.concatenate(parts)
