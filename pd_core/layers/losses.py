"""Losses as layers: an op, and the reduction of its values, "mean", "sum" or "none"."""

from typing import Literal

from .. import ops
from ..graph.checks import differ
from ..graph.errors import GraphError, ShapeError
from ..graph.variable import Operand, Variable, constant, describe
from ..ops.loss import pair
from ..ops.promotion import as_dtype
from .layer import Layer

Reduction = Literal["mean", "sum", "none"]


class _Loss(Layer):
    """Base of the losses."""

    def __init__(self, reduction: Reduction = "mean", name: str | None = None) -> None:
        super().__init__(name)
        if reduction not in ("mean", "sum", "none"):
            text = f"{self._kind}: the reduction is mean, sum or none, not {reduction!r}"
            raise GraphError(text + "; mean is that of the rows" * (reduction == "batchmean"))
        self.reduction = reduction

    @property
    def _kind(self):
        return type(self).__name__

    def extra(self) -> str:
        """Return the reduction."""
        return f"reduction={self.reduction!r}"

    def _reduced(self, losses, weights=None):
        """Reduce losses; in a mean, they count by weights that they contain as factors already."""
        if self.reduction == "none":
            return losses
        total = ops.reduce_sum(losses)
        if self.reduction == "sum":
            return total
        return ops.reduce_mean(losses) if weights is None else total / ops.reduce_sum(weights)

    def _pair(self, x: Operand, target: Operand) -> tuple[Variable, Variable]:
        """Return output and target, of the same shape; [N] beside [N, 1] is made to be."""
        given = constant(x), constant(target)
        x, target = pair(x, target)
        if differ(x, target):
            shapes = " for targets ".join(map(describe, given))
            raise ShapeError(f"{self._kind}: {shapes}")
        return x, target

    def _of_labels(self, losses: Variable, label: Operand, axis: int) -> Variable:
        """Return losses, of size 1 along the axis of the classes, in the shape of int labels."""
        label = constant(label)
        column = label.rank == losses.rank and label.dtype.kind != "f"
        return losses if column else ops.squeeze(losses, [axis])


class SoftmaxCrossEntropy(_Loss):
    """Cross-entropy of logits [..., C] with int labels [...] or [..., 1].

    It is PyTorch's CrossEntropyLoss, with the classes along the last axis. The arguments, and
    targets that hold probabilities, are those of `pd.softmax_cross_entropy`. The mean is divided by
    the weights of the labels; those that are ignored do not count.
    """

    def __init__(
        self,
        weight: Operand | None = None,
        *,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        reduction: Reduction = "mean",
        axis: int = -1,
        name: str | None = None,
    ) -> None:
        super().__init__(reduction, name)
        self.weight, self.ignore_index, self.axis = weight, ignore_index, axis
        self.label_smoothing = label_smoothing

    def forward(self, logits: Operand, label: Operand) -> Variable:
        """Return the loss, a scalar unless it is not reduced."""
        options = (self.weight, self.ignore_index, self.label_smoothing, self.axis)
        losses = ops.softmax_cross_entropy(logits, label, *options)
        losses = self._of_labels(losses, label, self.axis)
        return self._reduced(losses, _weights(losses, label, self.weight, self.ignore_index))


class NLL(_Loss):
    """Negative log-likelihood of log-probabilities [..., C] with int labels [...] or [..., 1].

    `weight`, `ignore_index` and `axis` are those of `SoftmaxCrossEntropy`.
    """

    def __init__(
        self,
        weight: Operand | None = None,
        *,
        ignore_index: int | None = None,
        reduction: Reduction = "mean",
        axis: int = -1,
        name: str | None = None,
    ) -> None:
        super().__init__(reduction, name)
        self.weight, self.ignore_index, self.axis = weight, ignore_index, axis

    def forward(self, log_probability: Operand, label: Operand) -> Variable:
        """Return the loss, a scalar unless it is not reduced."""
        options = (self.weight, self.ignore_index, self.axis)
        losses = ops.negative_log_likelihood(log_probability, label, *options)
        losses = self._of_labels(losses, label, self.axis)
        return self._reduced(losses, _weights(losses, label, self.weight, self.ignore_index))


class CrossEntropy(_Loss):
    """Cross-entropy of probabilities [..., C] with int labels [...] or [..., 1].

    `axis` is that of `SoftmaxCrossEntropy`.
    """

    def __init__(
        self, reduction: Reduction = "mean", axis: int = -1, name: str | None = None
    ) -> None:
        super().__init__(reduction, name)
        self.axis = axis

    def forward(self, probability: Operand, label: Operand) -> Variable:
        """Return the loss, a scalar unless it is not reduced."""
        losses = ops.cross_entropy(probability, label, self.axis)
        return self._reduced(self._of_labels(losses, label, self.axis))


class MSE(_Loss):
    """Squared error, (x - target)^2."""

    def forward(self, x: Operand, target: Operand) -> Variable:
        """Return the loss of x for targets in its shape."""
        x, target = self._pair(x, target)
        return self._reduced(ops.square(x - target))


class L1(_Loss):
    """Absolute error, |x - target|."""

    def forward(self, x: Operand, target: Operand) -> Variable:
        """Return the loss of x for targets in its shape."""
        return self._reduced(ops.l1_loss(*self._pair(x, target)))


class Huber(_Loss):
    """Huber's loss, quadratic up to an error of delta and linear beyond: `pd.huber_loss`."""

    def __init__(
        self, delta: float = 1.0, reduction: Reduction = "mean", name: str | None = None
    ) -> None:
        super().__init__(reduction, name)
        self.delta = delta

    def forward(self, x: Operand, target: Operand) -> Variable:
        """Return the loss of x for targets in its shape."""
        return self._reduced(ops.huber_loss(*self._pair(x, target), self.delta))


class SigmoidCrossEntropy(_Loss):
    """Binary cross-entropy of logits with targets in [0, 1], floats, integers or bools.

    It is PyTorch's BCEWithLogitsLoss. As in all losses of outputs and targets, [N] beside [N, 1] is
    a column. Losses of positive targets are multiplied by `pos_weight`, a number or [C].
    """

    def __init__(
        self,
        reduction: Reduction = "mean",
        *,
        pos_weight: Operand | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(reduction, name)
        self.pos_weight = pos_weight

    def forward(self, logits: Operand, target: Operand) -> Variable:
        """Return the loss of logits for targets in their shape."""
        pair = self._pair(logits, target)
        return self._reduced(ops.sigmoid_cross_entropy(*pair, self.pos_weight))


class KLDiv(_Loss):
    """KL(target || p) of distributions along the last axis, given ln p and the target.

    There is one loss for each distribution: the mean is PyTorch's "batchmean".
    """

    def forward(self, log_probability: Operand, target: Operand) -> Variable:
        """Return the loss of log-probabilities for targets in their shape."""
        return self._reduced(ops.kl_divergence(*self._pair(log_probability, target)))


class PoissonNLL(_Loss):
    """Negative log-likelihood of counts under Poisson distributions: `pd.poisson_nll_loss`."""

    def __init__(
        self, log_input: bool = True, reduction: Reduction = "mean", name: str | None = None
    ) -> None:
        super().__init__(reduction, name)
        self.log_input = log_input

    def forward(self, x: Operand, target: Operand) -> Variable:
        """Return the loss of x for counts in its shape."""
        return self._reduced(ops.poisson_nll_loss(*self._pair(x, target), self.log_input))


class GaussianNLL(_Loss):
    """Negative log-likelihood under normal distributions: `pd.gaussian_nll_loss`."""

    def forward(self, mean: Operand, target: Operand, variance: Operand) -> Variable:
        """Return the loss of means for targets in their shape, and variances."""
        return self._reduced(ops.gaussian_nll_loss(*self._pair(mean, target), variance))


class Focal(_Loss):
    """Focal loss of logits with targets in [0, 1]: `pd.focal_loss`."""

    def __init__(
        self,
        alpha: float | None = 0.25,
        gamma: float = 2.0,
        reduction: Reduction = "mean",
        name: str | None = None,
    ) -> None:
        super().__init__(reduction, name)
        self.alpha, self.gamma = alpha, gamma

    def forward(self, logits: Operand, target: Operand) -> Variable:
        """Return the loss of logits for targets in their shape."""
        return self._reduced(ops.focal_loss(*self._pair(logits, target), self.alpha, self.gamma))


class Dice(_Loss):
    """Dice loss of probabilities with targets in [0, 1], one for each row: `pd.dice_loss`."""

    def __init__(
        self, smooth: float = 1.0, reduction: Reduction = "mean", name: str | None = None
    ) -> None:
        super().__init__(reduction, name)
        self.smooth = smooth

    def forward(self, probability: Operand, target: Operand) -> Variable:
        """Return the loss of probabilities for targets in their shape."""
        losses = ops.dice_loss(*self._pair(probability, target), self.smooth)
        return self._reduced(ops.squeeze(losses, [1]))


class Triplet(_Loss):
    """Triplet loss, one for each row: `pd.triplet_loss`."""

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        reduction: Reduction = "mean",
        name: str | None = None,
    ) -> None:
        super().__init__(reduction, name)
        self.margin, self.p = margin, p

    def forward(self, anchor: Operand, positive: Operand, negative: Operand) -> Variable:
        """Return the loss of anchors beside rows to be near and rows to be far from."""
        losses = ops.triplet_loss(anchor, positive, negative, self.margin, self.p)
        return self._reduced(ops.squeeze(losses, [-1]))


def _weights(losses, label, weight, ignore_index):
    """Return the weights of the labels in a mean of losses; None if all of them are 1.

    Targets that hold probabilities have none, as in PyTorch.
    """
    if (weight is None and ignore_index is None) or constant(label).dtype.kind == "f":
        return None
    weight = None if weight is None else as_dtype(weight, losses.dtype)
    return ops.cast(ops.label_weights(label, weight, ignore_index), losses.dtype)
