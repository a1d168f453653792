"""Placeholder: a feed slot that may be filled."""

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


def test_a_value_is_that_of_its_line():
    x = pd.Placeholder((None, 3))
    x.copy_from(np.ones((2, 3)))
    with pd.guard():
        y, both = x * 2.0, pd.concat([x, x])
        x.copy_from(np.zeros((5, 3)))
        z = pd.apply("Neg", x)
        assert y.numpy().sum() == 12 and both.shape == (4, 3)
        assert z.shape == x.shape == (5, 3) and not z.numpy().any()
        assert float(pd.reduce_sum(x)) == 0.0 and not np.array(x).any()
    assert x.shape == (None, 3) and x.dtype == f32


def test_the_value_is_a_copy():
    x, array = pd.Placeholder([2], "int64"), np.array([1, 2])
    x.copy_from(array)
    array[:] = 7
    x.numpy()[:] = 7
    with pd.guard():
        assert (x + 0).numpy().tolist() == x.numpy().tolist() == [1, 2]


@pytest.mark.parametrize("shape", [(3, 3), (2,), (2, 3, 1)])
def test_a_shape_that_does_not_fit(shape):
    x = pd.Placeholder((2, 3))
    with pytest.raises(pd.ShapeError, match=r"\[2, 3\]") as error:
        x.copy_from(np.ones(shape))
    assert str(list(shape)) in str(error.value)
    with pytest.raises(pd.FeedError, match="int64"):
        pd.Placeholder([1], "int64").copy_from([0.5])


def test_an_empty_placeholder_in_a_guard():
    x = pd.Placeholder((None, 3), name="image")
    for use in (pd.relu, lambda v: 1.0 + v, lambda v: pd.apply("Neg", v), lambda v: v.numpy()):
        told = pytest.raises(pd.NotComputed, match=r"image: float32\[\?, 3\].*test_placeholder.py")
        with told, pd.guard():
            use(x)
    with pytest.raises(pd.ShapeError, match="-1"):
        pd.Placeholder((-1,))
    with pytest.raises(pd.ShapeError, match="not 5"):
        pd.Placeholder(5)


def test_the_body_of_a_loop_reads_it():
    x = pd.Placeholder((2,))
    x.copy_from([1.0, 2.0])
    with pd.guard():
        steps = pd.to_variable(np.ones((3, 2), f32))
        last, _ = pd.scan(lambda h, s: (h + s * x, h), pd.constant(np.zeros(2, f32)), steps)
        assert last.numpy().tolist() == [3, 6]


def test_gradient_of_a_placeholder():
    x = pd.Placeholder((None,))
    x.copy_from([1.0, 2.0, -3.0])
    x.stop_gradient = False
    with pd.guard():
        assert x.gradient() is None
        pd.reduce_sum(x * x).backward()
        pd.reduce_sum(x).backward()
        assert x.gradient().tolist() == [3, 5, -5]
        x.clear_gradient()
        assert x.gradient() is None


def test_outside_of_a_guard_it_is_a_feed_slot():
    x = pd.Placeholder((None, 2))
    x.copy_from(np.ones((1, 2)))
    y = pd.reduce_sum(x)
    assert x.is_feed and not x.has_value
    assert pd.eval(y, {x: np.zeros((3, 2))}) == 0
    with pytest.raises(pd.MissingFeed):
        y.eval()
    assert pd.persistent_variables() == []
    pd.Placeholder((2, 2))
    assert pd.persistent_variables() == []
