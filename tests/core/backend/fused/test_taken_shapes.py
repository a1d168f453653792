"""Views beside a group, in sizes of what is inside of it, or of what is made with their readers."""

import numpy as np
import pytest

import pd_core as pd


def taken():
    x, z = pd.Variable([None, None, 4]), pd.Variable([None])
    turned = pd.transpose(x, [1, 0, 2])  # only inside
    shaped = pd.reshape(pd.exp(z) * 0.5 + 1.0, pd.shape_of(turned))
    return [pd.reduce_sum(pd.square(pd.tanh(turned) * 2.0)), pd.reduce_max(shaped, axis=0)], x, z


def circle():
    x, z = pd.Variable([None, None, 4]), pd.Variable([None])
    a = pd.tanh(pd.transpose(x, [1, 0, 2])) * 2.0
    shaped = pd.reshape(pd.exp(z) * 0.5 + 1.0, pd.shape_of(a))
    return [a, pd.exp(a) + pd.sin(shaped), pd.reduce_max(shaped, axis=0)], x, z


@pytest.mark.parametrize("program", [taken, circle])
def test_a_view_in_the_sizes_of_a_group(program, rng):
    targets, x, z = program()
    feeds = {x: rng.normal(size=(2, 3, 4)), z: rng.normal(size=24)}
    expected = pd.eval(targets, feeds)
    with pd.fused():
        found = pd.eval(targets, feeds)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
