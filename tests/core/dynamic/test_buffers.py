"""The buffers of parameters: two of them take turns, unless somebody may look at an old value."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.run.values import Values


@pytest.fixture
def kept(monkeypatch):
    """The variables whose value before a step was kept, in order."""
    variables, release = [], Values.release
    monkeypatch.setattr(Values, "release", lambda self, v: variables.append(v) or release(self, v))
    return variables


@pytest.mark.parametrize("backward", [False, True], ids=["fused", "backward first"])
@pytest.mark.parametrize("held", [False, True], ids=["only the loss", "output held"])
def test_a_training_loop_keeps_no_old_values(backward, held, kept):
    net, optimizer = pd.nn.Sequential(pd.nn.FC(4, "relu"), pd.nn.FC(2)), pd.AdamOptimizer(0.01)
    outputs = []
    with pd.guard():
        for k in range(5):
            out = net(np.ones((3, 5)))
            loss = pd.reduce_mean(pd.square(out))
            if held:
                outputs.append(out)
            del out
            if backward:
                loss.backward()
            optimizer.minimize(loss)
            net.clear_gradients()
            if k <= 2:  # gradient graphs, which are built once, read the values of that time
                kept.clear()
        assert not kept
        values = [out.numpy() for out in outputs]
        assert not held or not np.allclose(values[0], values[-1])


def test_an_output_that_is_looked_at_later_keeps_the_value(kept):
    w, optimizer = pd.Variable("w", data=np.ones(3)), pd.SGDOptimizer(0.5)
    with pd.guard():
        y = w * 2.0
        optimizer.minimize(pd.reduce_sum(w * w))
        assert kept == [w]
        assert y.numpy().tolist() == [2, 2, 2] and not w.numpy().any()
