"""Losses beside PyTorch's functions of these names: values and gradients."""

import numpy as np
import pytest

import pd_core as pd

LABEL = np.array([[1.0], [-1.0], [-1.0], [1.0]], "float32")


def losses(f, torch):
    """Return {name: (samples, ours, theirs)}."""
    column = torch.tensor(LABEL)

    def triplet(p):
        return (
            "xyz",
            lambda x, y, z: pd.triplet_loss(x, y, z, 1.5, p),
            lambda x, y, z: f.triplet_margin_loss(x, y, z, 1.5, p, reduction="none")[:, None],
        )

    return {
        "triplet, 2": triplet(2.0),
        "triplet, 1": triplet(1.0),
        "triplet, 3": triplet(3.0),
        "cosine": (
            "xy",
            lambda x, y: pd.cosine_embedding_loss(x, y, LABEL, -0.5),
            lambda x, y: f.cosine_embedding_loss(x, y, column[:, 0], -0.5, reduction="none")[
                :, None
            ],
        ),
        "ranking": (
            "xy",
            lambda x, y: pd.margin_ranking_loss(x, y, LABEL, 0.3),
            lambda x, y: f.margin_ranking_loss(x, y, column, 0.3, reduction="none"),
        ),
        "poisson": (
            "xp",
            pd.poisson_nll_loss,
            lambda x, t: f.poisson_nll_loss(x, t, reduction="none"),
        ),
        "poisson of means": (
            "pp",
            lambda x, t: pd.poisson_nll_loss(x, t, log_input=False),
            lambda x, t: f.poisson_nll_loss(x, t, log_input=False, reduction="none"),
        ),
        "gaussian": (
            "xyp",
            pd.gaussian_nll_loss,
            lambda x, t, v: f.gaussian_nll_loss(x, t, v, reduction="none"),
        ),
        "l1": ("xy", pd.l1_loss, lambda x, t: f.l1_loss(x, t, reduction="none")),
    }


def test_losses_are_those_of_pytorch(rng):
    torch = pytest.importorskip("torch")
    for name, (kinds, ours, theirs) in losses(torch.nn.functional, torch).items():
        arrays = [
            (rng.uniform(0.2, 2, (4, 3)) if k == "p" else rng.standard_normal((4, 3))).astype("f")
            for k in kinds
        ]
        slots = [pd.Variable([None, 3]) for _ in arrays]
        loss = ours(*slots)
        gradients = pd.gradients(pd.reduce_sum(pd.square(loss)), slots)
        feeds = dict(zip(slots, arrays, strict=True))
        value, *slopes = pd.eval([loss, *gradients], feeds=feeds)
        leaves = [torch.tensor(a, requires_grad=True) for a in arrays]
        wanted = theirs(*leaves)
        wanted.square().sum().backward()
        np.testing.assert_allclose(value, wanted.detach(), 1e-4, 1e-5, err_msg=name)
        for slope, leaf in zip(slopes, leaves, strict=True):
            np.testing.assert_allclose(slope, leaf.grad, 1e-3, 1e-4, err_msg=name)


def test_activations_are_those_of_pytorch(rng):
    torch = pytest.importorskip("torch")
    f = torch.nn.functional
    pairs = [
        *((pd.silu, f.silu), (pd.mish, f.mish), (pd.elu, f.elu), (pd.selu, f.selu)),
        *((lambda x: pd.celu(x, 0.7), lambda x: f.celu(x, 0.7)), (pd.hard_tanh, f.hardtanh)),
        *((pd.hard_sigmoid, f.hardsigmoid), (pd.hard_swish, f.hardswish), (pd.relu6, f.relu6)),
        *((pd.glu, f.glu), (pd.tanhshrink, f.tanhshrink), (pd.atanh, torch.atanh)),
        *((pd.expm1, torch.expm1), (pd.log1p, torch.log1p)),
    ]
    x = pd.Variable([None, 6])
    points = rng.uniform(-0.9, 0.9, (3, 6)).astype("float32") * np.float32([[1], [1], [9]])
    leaf = torch.tensor(points, requires_grad=True)
    for ours, theirs in pairs:
        y = ours(x)
        (gradient,) = pd.gradients(y, [x])
        rows = points[:2] if ours in (pd.atanh, pd.log1p) else points
        value, slope = pd.eval([y, gradient], feeds={x: rows})
        wanted = theirs(leaf[: len(rows)])
        (grad,) = torch.autograd.grad(wanted.sum(), leaf)
        np.testing.assert_allclose(value, wanted.detach(), 1e-5, 1e-6, err_msg=str(theirs))
        np.testing.assert_allclose(slope, grad[: len(rows)], 1e-4, 1e-6, err_msg=str(theirs))
