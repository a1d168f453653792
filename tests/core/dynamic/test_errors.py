"""What an error leaves behind."""

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


def beyond(norm):
    """Moving statistics of rows that a table does not have."""
    table = pd.Variable("t", data=np.ones((3, 4), f32))
    return norm(pd.gather(table, pd.to_variable(np.array([7, 1]))))


def test_a_session_goes_on_after_an_operator_failed():
    norm = pd.nn.BatchNorm1d()
    with pytest.raises(pd.BackendError, match="Gather"), pd.guard():
        beyond(norm).numpy()
    x = pd.Variable([None])
    assert pd.eval(x * 2.0, {x: [1.0]}) == 2
    assert not norm.buffers()[0].numpy().any()


def test_statistics_that_fail_are_said_once_and_dropped():
    good, bad = pd.nn.BatchNorm1d(), pd.nn.BatchNorm1d()
    with pytest.raises(pd.BackendError, match="Gather"), pd.guard():
        good(np.ones((2, 4), f32))
        beyond(bad)
    assert good.buffers()[0].numpy().any() and not bad.buffers()[0].numpy().any()


@pytest.mark.parametrize("step", ["backward", "minimize"])
def test_a_failed_step_changes_nothing(step):
    norm = pd.nn.BatchNorm1d()
    with pd.guard():
        loss = pd.reduce_sum(beyond(norm))
        with pytest.raises(pd.BackendError, match="Gather"):
            if step == "minimize":
                pd.SGDOptimizer(1.0).minimize(loss)
            else:
                loss.backward()
                loss.numpy()
        assert all(v.gradient() is None for v in norm.parameters())
        assert sorted([float(v.numpy()[0]) for v in norm.parameters()]) == [0, 1]
        assert not norm.buffers()[0].numpy().any()
