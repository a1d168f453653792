"""Losses of outputs beside targets: regression, counts, margins, and rare classes."""

from ..graph.checks import differ
from ..graph.errors import GraphError, ShapeError
from ..graph.op import op
from ..graph.variable import Operand, Variable, describe
from . import math as m
from .activation import relu, sigmoid
from .loss import pair, sigmoid_cross_entropy
from .mode import straight_through
from .reduce import reduce_sum
from .shape import flatten


@op
def l1_loss(x: Operand, target: Operand) -> Variable:
    """Absolute error |x - target|, elementwise.

    Args:
        x: numbers of any shape.
        target: numbers in the shape of x.

    Returns:
        Of the shape and dtype of x.

    Raises:
        ShapeError: the shapes differ.
    """
    return m.abs(m.sub(*pair(x, target)))


@op
def hinge_loss(score: Operand, label: Operand, margin: float = 1.0) -> Variable:
    """max(0, margin - label score), elementwise, for labels -1 and 1 (Cortes & Vapnik 1995).

    Args:
        score: floats of any shape.
        label: -1 or 1, in the shape of the scores.

    Returns:
        Of the shape and dtype of the scores.

    Raises:
        ShapeError: the shapes differ.
    """
    score, label = pair(score, label)
    return relu(margin - label * score)


@op
def poisson_nll_loss(
    x: Operand, target: Operand, log_input: bool = True, *, epsilon: float = 1e-8
) -> Variable:
    """Negative log-likelihood of counts under Poisson distributions, elementwise, PyTorch's.

    x is the logarithm of the mean: e^x - target x. With log_input=False it is the mean:
    x - target ln(x + epsilon). The term ln(target!), which has no gradient, is left out.

    Args:
        x: floats of any shape.
        target: counts in the shape of x.

    Returns:
        Of the shape and dtype of x.

    Raises:
        ShapeError: the shapes differ.
    """
    x, target = pair(x, target)
    if log_input:
        return m.exp(x) - target * x
    return x - target * m.log(x + epsilon)


@op
def gaussian_nll_loss(
    mean: Operand, target: Operand, variance: Operand, *, epsilon: float = 1e-6
) -> Variable:
    """Negative log-likelihood under normal distributions, elementwise (Nix & Weigend 1994).

    (ln v + (target - mean)^2 / v) / 2 with v = max(variance, epsilon); the constant is left out.
    Variances below epsilon get the gradient at epsilon, so that they may grow again.

    Args:
        mean: floats of any shape.
        target: numbers in this shape.
        variance: floats in this shape.
        epsilon: the least variance that is divided by.

    Returns:
        Of the shape and dtype of the mean.

    Raises:
        ShapeError: the shapes differ.
    """
    mean, target = pair(mean, target)
    given = pair(mean, variance)[1]
    variance = straight_through(m.maximum(given, epsilon), given)
    return 0.5 * (m.log(variance) + m.square(mean - target) / variance)


@op
def focal_loss(
    logits: Operand, target: Operand, alpha: float | None = 0.25, gamma: float = 2.0
) -> Variable:
    """Focal loss of logits and targets in [0, 1], elementwise (Lin et al. 2017).

    The binary cross-entropy times (1 - q)^gamma, where q is the probability of the target; targets
    of 1 are weighted by alpha, those of 0 by 1 - alpha, unless it is None.

    Args:
        logits: floats of any shape.
        target: numbers within [0, 1], in the shape of the logits.
        alpha: within [0, 1], or None.

    Returns:
        Of the shape and dtype of the logits.

    Raises:
        GraphError: alpha is outside [0, 1].
        ShapeError: the shapes differ.
    """
    logits, target = pair(logits, target)
    if alpha is not None and not 0 <= alpha <= 1:
        raise GraphError(f"alpha is within [0, 1], not {alpha}")
    p = sigmoid(logits)
    wrong = p + target - 2.0 * (p * target)  # 1 - q
    loss = sigmoid_cross_entropy(logits, target) * wrong ** float(gamma)
    return loss if alpha is None else loss * (target * (2.0 * alpha - 1.0) + (1.0 - alpha))


@op
def dice_loss(probability: Operand, target: Operand, smooth: float = 1.0) -> Variable:
    """1 - (2 sum p t + smooth) / (sum p + sum t + smooth) of each row [N, ...]: [N, 1].

    p are probabilities, t targets of the same shape (Milletari et al. 2016).

    Args:
        probability: floats [N, ...].
        target: numbers in this shape.

    Returns:
        [N, 1].

    Raises:
        ShapeError: the shapes differ, or there is one axis only.
    """
    probability, target = pair(probability, target)
    if probability.rank < 2:
        raise ShapeError(f"takes rows [N, ...], not {describe(probability)}")
    if differ(probability, target):
        raise ShapeError(f"{describe(probability)} beside {describe(target)}")
    p, t = flatten(probability), flatten(target)
    both, total = (reduce_sum(v, [1], keep_dim=True) for v in (p * t, p + t))
    return 1.0 - (2.0 * both + smooth) / (total + smooth)
