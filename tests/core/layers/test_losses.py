"""Losses as layers against PyTorch's: values and gradients, with each reduction."""

import numpy as np
import pytest

import pd_core as pd

N, C = 6, 4
LABELS = np.array([0, 3, 1, -1, 2, 3])
WEIGHT = np.array([0.5, 1.0, 2.0, 0.25], "float32")
REDUCTIONS = pytest.mark.parametrize("reduction", ["mean", "sum", "none"])


def log_softmax(z):
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def compared(ours, theirs, x, target, reduction):
    """Compare ours(x, target) with theirs, and the gradients of the sum in x."""
    torch = pytest.importorskip("torch")
    slot = pd.Variable([None, *x.shape[1:]])
    loss = ours(slot, target)
    (gradient,) = pd.gradients(pd.reduce_sum(loss), [slot])
    value, gradient = pd.eval([loss, gradient], feeds={slot: x})
    leaf = torch.tensor(x, requires_grad=True)
    wanted = theirs(leaf, torch.tensor(target), reduction)
    wanted.sum().backward()
    np.testing.assert_allclose(value, wanted.detach(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradient, leaf.grad, rtol=1e-4, atol=1e-6)


def functional():
    return pytest.importorskip("torch").nn.functional


@REDUCTIONS
@pytest.mark.parametrize(
    "options",
    [
        {"ignore_index": -1},
        {"ignore_index": -1, "weight": WEIGHT},
        {"ignore_index": -1, "label_smoothing": 0.1},
        {"ignore_index": -1, "weight": WEIGHT, "label_smoothing": 0.1},
        {"weight": WEIGHT},
        {"label_smoothing": 0.1},
        {},
    ],
    ids=lambda options: ", ".join(options) or "plain",
)
def test_softmax_cross_entropy(options, reduction, rng):
    labels = LABELS if "ignore_index" in options else np.abs(LABELS)

    def theirs(x, target, reduction):
        weight = options.get("weight")
        weight = None if weight is None else x.new_tensor(weight)
        rest = {k: v for k, v in options.items() if k != "weight"}
        return functional().cross_entropy(x, target, weight, reduction=reduction, **rest)

    ours = pd.nn.SoftmaxCrossEntropy(**options, reduction=reduction)
    x = rng.standard_normal((N, C)).astype("float32")
    compared(ours, theirs, x, labels, reduction)


@REDUCTIONS
@pytest.mark.parametrize(
    "options", [{}, {"weight": WEIGHT, "ignore_index": -1}], ids=["plain", "both"]
)
def test_nll(options, reduction, rng):
    labels = LABELS if options else np.abs(LABELS)

    def theirs(x, target, reduction):
        weight = x.new_tensor(WEIGHT) if options else None
        ignored = {"ignore_index": -1} if options else {}
        return functional().nll_loss(x, target, weight, reduction=reduction, **ignored)

    x = log_softmax(rng.standard_normal((N, C))).astype("float32")
    compared(pd.nn.NLL(**options, reduction=reduction), theirs, x, labels, reduction)


@REDUCTIONS
def test_cross_entropy_of_probabilities(reduction, rng):
    x = np.exp(log_softmax(rng.standard_normal((N, C)))).astype("float32")

    def theirs(p, target, reduction):
        return functional().nll_loss(p.log(), target, reduction=reduction)

    compared(pd.nn.CrossEntropy(reduction), theirs, x, np.abs(LABELS), reduction)


def _reduced(losses, reduction):
    return losses if reduction == "none" else getattr(losses, reduction)()


OF_TARGETS = {
    "MSE": lambda x, t, r: functional().mse_loss(x, t, reduction=r),
    "L1": lambda x, t, r: functional().l1_loss(x, t, reduction=r),
    "Huber": lambda x, t, r: functional().huber_loss(x, t, reduction=r),
    "SigmoidCrossEntropy": lambda x, t, r: functional().binary_cross_entropy_with_logits(
        x, t, reduction=r
    ),
    "KLDiv": lambda x, t, r: _reduced(functional().kl_div(x, t, reduction="none").sum(-1), r),
}


@REDUCTIONS
@pytest.mark.parametrize("name", OF_TARGETS)
def test_losses_of_a_target_in_the_same_shape(name, reduction, rng):
    x, target = rng.uniform(-3, 3, (N, C)), rng.uniform(0, 1, (N, C))
    target[0, 0] = 0.0
    ours = getattr(pd.nn, name)(reduction=reduction)
    compared(ours, OF_TARGETS[name], x.astype("float32"), target.astype("float32"), reduction)


@REDUCTIONS
def test_likelihoods_and_triplets(reduction, rng):
    """The other arguments are constants."""
    x, y, z = (rng.uniform(0.1, 3, (N, C)).astype("float32") for _ in range(3))
    compared(
        lambda x, t: pd.nn.GaussianNLL(reduction)(x, t, z),
        lambda x, t, r: functional().gaussian_nll_loss(x, t, x.new_tensor(z), reduction=r),
        *(x, y, reduction),
    )
    compared(
        lambda x, t: pd.nn.Triplet(0.5, 3.0, reduction)(x, t, z),
        lambda x, t, r: functional().triplet_margin_loss(
            x, t, x.new_tensor(z), 0.5, 3.0, reduction=r
        ),
        *(x, y, reduction),
    )
    compared(
        pd.nn.SigmoidCrossEntropy(reduction, pos_weight=z[0]),
        lambda x, t, r: functional().binary_cross_entropy_with_logits(
            x, t, pos_weight=x.new_tensor(z[0]), reduction=r
        ),
        *(x - 1.5, y / 3, reduction),
    )
    for log_input in (True, False):
        compared(
            pd.nn.PoissonNLL(log_input, reduction),
            lambda x, t, r, log_input=log_input: functional().poisson_nll_loss(
                x, t, log_input, reduction=r
            ),
            *(x, y, reduction),
        )


def test_variances_below_epsilon_may_grow():
    torch = pytest.importorskip("torch")
    v = pd.Variable(data=[0.0, 2.0])
    loss = pd.nn.GaussianNLL(reduction="sum")([1.0, 1.0], [1.001, 2.0], v)
    t = torch.tensor([0.0, 2.0], requires_grad=True)
    expected = functional().gaussian_nll_loss(
        torch.ones(2), torch.tensor([1.001, 2.0]), t, reduction="sum"
    )
    expected.backward()
    found, slope = pd.eval([loss, pd.gradients(loss, [v])[0]])
    np.testing.assert_allclose(found, expected.detach(), rtol=1e-3)  # of 0.001, squared
    assert slope[0] < -1 and abs(slope[1] - t.grad[1]) < 1e-6


def test_focal_and_dice(rng):
    """By their formulas, row by row."""
    z, t = rng.standard_normal((N, C)), rng.integers(0, 2, (N, C)).astype("float64")
    p = 1 / (1 + np.exp(-z))
    q = np.where(t == 1, p, 1 - p)
    focal = -np.log(q) * (1 - q) ** 1.5 * np.where(t == 1, 0.3, 0.7)
    dice = 1 - (2 * (p * t).sum(1) + 0.5) / ((p + t).sum(1) + 0.5)
    z, p, t = (v.astype("float32") for v in (z, p, t))
    values = pd.eval(
        [
            pd.nn.Focal(0.3, 1.5)(z, t),
            pd.nn.Focal(0.3, 1.5, "none")(z, t),
            pd.nn.Dice(0.5, "sum")(p, t),
            pd.nn.Dice(0.5, "none")(p, t),
        ]
    )
    for value, want in zip(values, (focal.mean(), focal, dice.sum(), dice), strict=True):
        np.testing.assert_allclose(value, want, rtol=1e-4)


def test_huber_takes_its_delta(rng):
    x, target = (rng.uniform(-3, 3, (N, C)).astype("float32") for _ in range(2))

    def theirs(x, target, reduction):
        return functional().huber_loss(x, target, reduction=reduction, delta=0.5)

    compared(pd.nn.Huber(0.5), theirs, x, target, "mean")


@pytest.mark.parametrize("loss", [pd.nn.SoftmaxCrossEntropy, pd.nn.NLL, pd.nn.CrossEntropy])
def test_labels_of_steps(loss, rng):
    """[B, T, C] is B T rows."""
    rows = np.exp(log_softmax(rng.standard_normal((2, 3, C)))).astype("float32")
    label = rng.integers(0, C, (2, 3))
    layer, x, y = (
        loss(reduction="none"),
        pd.Variable([None, None, C]),
        pd.Variable([None, None], dtype="int64"),
    )
    each = layer(x, y)
    assert each.shape == (None, None)
    flat = layer(rows.reshape(6, C), label.reshape(6))
    a, b = pd.eval([each, flat], feeds={x: rows, y: label})
    assert np.array_equal(a.reshape(-1), b)
    column = pd.eval(layer(rows, label[..., None]))
    assert np.array_equal(column[..., 0], a)
    mean = loss()(rows, label)
    assert pd.eval(mean) == pytest.approx(b.mean(), rel=1e-6)


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("options", [{}, {"weight": WEIGHT, "label_smoothing": 0.1}], ids=str)
def test_classes_along_the_second_axis(options, reduction, rng):
    labels = rng.integers(-1, C, (2, 3, 2))

    def theirs(x, target, reduction):
        rest = {k: x.new_tensor(v) if k == "weight" else v for k, v in options.items()}
        return functional().cross_entropy(x, target, reduction=reduction, ignore_index=-1, **rest)

    ours = pd.nn.SoftmaxCrossEntropy(**options, ignore_index=-1, reduction=reduction, axis=1)
    x = rng.standard_normal((2, C, 3, 2)).astype("float32")
    compared(ours, theirs, x, labels, reduction)


@REDUCTIONS
def test_targets_that_hold_probabilities(reduction, rng):
    target = rng.dirichlet(np.ones(C), (2, 3)).transpose(0, 2, 1).astype("float32")

    def theirs(x, target, reduction):
        options = {"weight": x.new_tensor(WEIGHT), "label_smoothing": 0.1}
        return functional().cross_entropy(x, target, reduction=reduction, **options)

    ours = pd.nn.SoftmaxCrossEntropy(WEIGHT, label_smoothing=0.1, reduction=reduction, axis=1)
    x = rng.standard_normal((2, C, 3)).astype("float32")
    compared(ours, theirs, x, target, reduction)


def test_errors_of_losses():
    x = pd.Variable([None, C])
    with pytest.raises(pd.GraphError, match="MSE: the reduction is mean, sum or none, not 'max'"):
        pd.nn.MSE("max")
    with pytest.raises(pd.ShapeError, match=r"L1: float32\[\?, 4\] for targets float32\[\?, 1\]"):
        pd.nn.L1()(x, pd.Variable([None, 1]))
    with pytest.raises(pd.ShapeError, match=r"hood: takes labels of the shape of float32\[\?, 4\]"):
        pd.nn.NLL()(x, pd.Variable([None, None], dtype="int64"))
    with pytest.raises(
        pd.ShapeError, match=r"weights float32\[3\] for the classes of float32\[\?, 4\]"
    ):
        pd.nn.NLL(weight=[1.0, 1.0, 1.0])(x, pd.Variable([None], dtype="int64"))
    with pytest.raises(pd.GraphError, match=r"label_smoothing is within \[0, 1\], not 2"):
        pd.nn.SoftmaxCrossEntropy(label_smoothing=2)(x, pd.Variable([None], dtype="int64"))
    with pytest.raises(pd.GraphError, match="ignore_index is for labels, not for probabilities"):
        pd.nn.SoftmaxCrossEntropy(ignore_index=0)(x, x)
    with pytest.raises(pd.ShapeError, match="5 rows, but 6 labels along axis 0"):
        pd.softmax_cross_entropy(np.ones((5, C)), np.zeros(6, "int64"))
    with pytest.raises(pd.GraphError, match="huber_loss: delta is positive, not 0"):
        pd.nn.Huber(0)(x, x)
