"""Recorded functions beside the same in PyTorch, with values and gradients."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


def differences(
    recorded: Callable, wanted: Callable, shapes: Sequence[tuple], parameters: Sequence = ()
) -> tuple[float, list[int]]:
    """Compare f(x, *parameters) for an x of each shape, and the gradients of a weighted sum.

    Returns the largest relative difference, and the number of compiled programs after each shape.
    Every third result is looked at before its gradients are computed.
    """
    torch, rng = pytest.importorskip("torch"), np.random.default_rng(2)
    own = [pd.Variable(data=p) for p in parameters]
    others = [torch.tensor(p, dtype=torch.float64, requires_grad=True) for p in parameters]
    worst, compiled = 0.0, []
    with pd.guard():
        for k, shape in enumerate(shapes):
            array = rng.standard_normal(shape).astype(f32)
            x, t = pd.to_variable(array), torch.tensor(array, dtype=torch.float64)
            x.stop_gradient, t.requires_grad = False, True
            y, want = recorded(x, *own), wanted(t, *others)
            if k % 3 == 1:
                y.numpy()
            assert y.shape == tuple(want.shape), shape
            weights = np.cos(np.arange(want.numel())).reshape(want.shape).astype(f32)
            pd.reduce_sum(y * weights).backward()
            (want * torch.tensor(weights)).sum().backward()
            pairs = [(y.numpy(), want.detach())]
            pairs += [(v.gradient(), u.grad) for v, u in zip([x, *own], [t, *others], strict=True)]
            worst = max([worst, *[_difference(a, b) for a, b in pairs]])
            for v, u in zip(own, others, strict=True):
                v.clear_gradient()
                u.grad = None
            compiled.append(pd.stats()["compiled"])
    return worst, compiled


def _difference(a, b):
    if a is None or b is None:
        return 0.0 if (a is None or not a.any()) and (b is None or not b.any()) else np.inf
    b = b.numpy()
    return float(np.max(abs(a - b) / (1 + abs(b)), initial=0))
