"""guard(immediate=True): every op is computed at its line."""

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


def read_beyond(immediate, seen):
    with pd.guard(immediate=immediate):
        x = pd.to_variable(np.ones((3, 2), f32))
        y = pd.gather(x, pd.to_variable(np.array([3])))
        seen.append("next line")
        y.numpy()


@pytest.mark.parametrize(("immediate", "lines"), [(True, []), (False, ["next line"])])
def test_an_operator_that_fails_raises_at_its_line(immediate, lines):
    seen = []
    with pytest.raises(pd.BackendError, match="Gather"):
        read_beyond(immediate, seen)
    assert seen == lines


def test_each_op_is_an_evaluation():
    def evaluations(immediate):
        before = pd.stats()["evaluations"]
        with pd.guard(immediate=immediate):
            x = pd.to_variable(np.ones(2, f32))
            y = pd.reduce_sum(pd.exp(x * 2.0))
            with pd.no_grad():
                y = pd.sqrt(y)
            assert np.isclose(float(y), np.sqrt(2 * np.exp(2)))
        return pd.stats()["evaluations"] - before

    assert (evaluations(True), evaluations(False)) == (4, 1)


def test_loops_and_branches_are_computed_as_wholes():
    with pd.guard(immediate=True):
        x = pd.to_variable(np.ones((3, 2), f32))
        last, every = pd.scan(lambda h, s: (h * 2.0 + s, h), pd.constant(np.zeros(2, f32)), x)
        assert last.numpy().tolist() == [7, 7] and every.numpy()[-1].tolist() == [3, 3]
        # the branch that is not taken is not computed
        y = pd.cond(
            pd.reduce_sum(x) > 0.0,
            lambda: pd.reduce_sum(x),
            lambda: pd.reduce_sum(pd.gather(x, pd.cast(pd.reduce_sum(x), "int64"))),
        )
        assert float(y) == 6.0
        assert float(pd.reduce_sum(x) + 1.0) == 7.0


def test_a_guard_inside_no_grad_has_no_gradients():
    w = pd.Variable(data=np.ones(2, f32))
    with pd.guard():
        with pd.no_grad(), pd.guard(immediate=True):
            assert (w * 2.0).stop_gradient
        assert not (w * 2.0).stop_gradient
