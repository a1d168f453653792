"""Criteria of `Module.fit` and `Module.evaluate`: a loss, and metrics."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ... import ops
from ...graph.errors import ShapeError
from ...graph.variable import Operand, Variable, describe
from ...layers.layer import Layer
from ...layers.losses import (
    L1,
    MSE,
    NLL,
    CrossEntropy,
    Huber,
    SigmoidCrossEntropy,
    SoftmaxCrossEntropy,
)
from .. import Evaluate
from ..evaluate import Metrics, Tallies, several

# (*outputs, *targets) -> cost, a Layer or a function, or a name in LOSSES
Loss = str | Callable[..., Variable]

LOSSES: dict[str, Callable[[], Callable[..., Variable]]] = {
    "mse": MSE,
    "l1": L1,
    "mae": L1,
    "huber": Huber,
    "softmax_cross_entropy": SoftmaxCrossEntropy,
    "sigmoid_cross_entropy": SigmoidCrossEntropy,
    "cross_entropy": CrossEntropy,
    "nll": NLL,
}
_OF_CLASSES = "softmax_cross_entropy of logits, or cross_entropy of probabilities"
_ELSEWHERE = {  # names of Keras
    "binary_crossentropy": "sigmoid_cross_entropy, of logits",
    "categorical_crossentropy": _OF_CLASSES,
    "mean_absolute_error": "mae",
    "mean_squared_error": "mse",
    "sparse_categorical_crossentropy": _OF_CLASSES,
}


def loss_named(who: str, loss: Any) -> Any:
    """Return the loss of a name in LOSSES; ValueError for another name. Others stay as they are."""
    if not isinstance(loss, str) or loss in LOSSES:
        return LOSSES[loss]() if isinstance(loss, str) else loss
    here = _ELSEWHERE.get(loss)
    listed = f"here it is {here}" if here else f"there are {', '.join(LOSSES)}"
    raise ValueError(f"{who}: no loss {loss!r}; {listed}")


@dataclass(frozen=True)
class Criterion:
    """A loss, or None, and metrics of one output and one target."""

    loss: Callable[..., Variable] | None
    metrics: Metrics

    def check(self, who: str, needs_loss: bool = True) -> None:
        """Check loss and metrics before data are read; TypeError or ValueError names them."""
        if self.loss is None and needs_loss:
            raise TypeError(f"{who}: needs a loss, such as loss=pd.nn.SoftmaxCrossEntropy()")
        if self.loss is not None and not callable(self.loss):
            raise TypeError(
                f"{who}: a loss is a layer or a function (output, y) -> cost, not {self.loss!r}"
            )
        self.evaluate()

    def evaluate(self, prediction: Any = None, label: Any = None) -> Evaluate | None:
        """Return the callback that counts the metrics; None if there are none."""
        given = several(self.metrics)
        return Evaluate(prediction, label, given) if given else None

    def tallies(self) -> list[Tallies]:
        """Return new tallies of the metrics."""
        evaluate = self.evaluate()
        return [] if evaluate is None else [evaluate.begin_test()]

    def cost(
        self, outputs: Sequence[Variable], targets: Sequence[Operand], weight: Variable | None
    ) -> Variable:
        """Return the cost, a scalar: the mean of a loss that gives one for each sample.

        With weights w of n samples it is sum(w loss) / n, Keras's "sum_over_batch_size"; sum(w
        loss) if the loss is one of ours with reduction="sum".
        """
        assert self.loss is not None
        if weight is None:
            cost = self.loss(*outputs, *targets)
            return ops.reduce_mean(cost) if cost.rank else cost
        with _unreduced(self.loss):
            losses = self.loss(*outputs, *targets)
        missing = losses.rank - weight.rank
        if not losses.rank or missing < 0:
            raise ShapeError(
                f"fit: weights {describe(weight)} for a loss {describe(losses)}\n"
                "  hint: a loss with weights has an element for each sample, reduction='none'"
            )
        if missing:
            weight = ops.unsqueeze(weight, list(range(weight.rank, losses.rank)))
        is_sum = isinstance(self.loss, Layer) and getattr(self.loss, "reduction", None) == "sum"
        return (ops.reduce_sum if is_sum else ops.reduce_mean)(losses * weight)

    def pair(self, outputs: Sequence[Any], targets: Sequence[Any]) -> tuple[Any, Any]:
        """Return what metrics compare; TypeError unless there is one output and one target."""
        if len(outputs) != 1 or len(targets) != 1:
            raise TypeError(
                f"metrics are for one output and one y, there are {len(outputs)} and {len(targets)}"
            )
        return outputs[0], targets[0]


@contextmanager
def _unreduced(loss: Any) -> Iterator[None]:
    """Let a loss of ours return one for each sample in a `with`."""
    reduction = getattr(loss, "reduction", None)
    if reduction is None:
        yield
        return
    if getattr(loss, "weight", None) is not None or getattr(loss, "ignore_index", None) is not None:
        raise ValueError(f"fit: {loss!r} has weights or an ignore_index of its own")
    loss.reduction = "none"
    try:
        yield
    finally:
        loss.reduction = reduction
