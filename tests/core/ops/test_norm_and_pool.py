"""Normalisation and adaptive pooling where sizes are unknown, against PyTorch; mistakes."""

import numpy as np
import pytest

import pd_core as pd


@pytest.mark.parametrize("name", ["adaptive_avg_pool", "adaptive_max_pool"])
def test_unknown_sizes_pool_to_one(name, rng):
    torch = pytest.importorskip("torch")
    x = pd.Variable([None, 3, None, 6])
    y = getattr(pd, name)(x, [1, 4])
    assert y.shape == (None, 3, 1, 4)
    array = rng.normal(size=(2, 3, 5, 6)).astype("float32")
    want = getattr(torch.nn.functional, f"{name}2d")(torch.tensor(array), (1, 4))
    assert np.allclose(pd.eval(y, feeds={x: array}), want, atol=1e-6)
    with pytest.raises(pd.ShapeError, match=rf"^{name}: .*unknown size, .*1 only, not to \[2, 4\]"):
        getattr(pd, name)(x, [2, 4])


def test_group_norm_of_images_of_unknown_size(rng):
    torch = pytest.importorskip("torch")
    x = pd.Variable([None, 4, None, None])
    y = pd.group_norm(x, 2)
    assert y.dims == x.dims
    array = rng.normal(size=(2, 4, 3, 5)).astype("float32")
    want = torch.nn.functional.group_norm(torch.tensor(array), 2)
    assert np.allclose(pd.eval(y, feeds={x: array}), want, atol=1e-5)


@pytest.mark.parametrize(
    ("message", "build"),
    [
        ("group_norm: 4 channels do not split into 3", lambda x: pd.group_norm(x, 3)),
        ("group_norm: .* for 4 channels", lambda x: pd.group_norm(x, 2, np.ones(3))),
        ("instance_norm: .*axes to normalise over", lambda x: pd.instance_norm(x[:, :, 0, 0])),
        ("instance_norm: .*known C, not", lambda x: pd.instance_norm(pd.Variable([2, None, 3]))),
        ("adaptive_avg_pool: .*axes to pool", lambda x: pd.adaptive_avg_pool(np.ones((2, 3)), 1)),
        ("adaptive_max_pool: pools to .*not .0, 0", lambda x: pd.adaptive_max_pool(x, 0)),
    ],
)
def test_mistakes(message, build):
    with pytest.raises(pd.ShapeError, match=message):
        build(np.ones((2, 4, 5, 5), np.float32))
