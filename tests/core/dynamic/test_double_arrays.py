"""Arrays of float64 beside Variables of float64 inside guards: with all digits."""

import numpy as np

import pd_core as pd


def test_arrays_of_float64_keep_their_digits():
    """In calls that run and in those that are repeated, and on either side."""
    draws = np.random.default_rng(0)
    for immediate in (False, True):
        with pd.guard(immediate=immediate):
            for _ in range(4):
                a, b, single = draws.normal(size=(3, 2, 3))
                v, w = pd.to_variable(a, "float64"), pd.to_variable(np.float32(single))
                found = [v * b, b / v, pd.maximum(v, b), pd.where(v > 0.0, v, b), w * b]
                want = [a * b, b / a, np.maximum(a, b), np.where(a > 0, a, b)]
                for f, expected in zip(found, want, strict=False):
                    np.testing.assert_allclose(f.numpy(), expected, rtol=1e-15)
                assert found[-1].dtype == np.float32
