"""Cells of notebooks that run again, while results of their last run are still there."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import pd_core as pd

ONES = np.ones((2, 3), np.float32)


@pytest.fixture
def shell(monkeypatch):
    """A shell of IPython that counts cells, as far as we look at it."""
    shell = SimpleNamespace(execution_count=1)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    return shell


def train(results):
    """A cell: a named network, values at hand, and results that stay."""
    net, optimizer = pd.nn.Sequential(pd.nn.FC(2), name="net"), pd.MomentumOptimizer(0.1)
    for _ in range(2):
        loss = pd.reduce_mean(pd.square(net(ONES)))
        optimizer.minimize(loss)
    results.append((net, loss, optimizer))
    return float(loss)


def build(results):
    """A cell: a static graph with named slots and parameters, a step of an optimizer."""
    x, w = pd.Variable([None, 3], name="x"), pd.Variable("w", data=ONES.T)
    cost = pd.reduce_sum(pd.nn.FC(2, name="fc")(x) + pd.matmul(x, w))
    update = pd.MomentumOptimizer(0.1).minimize(cost)
    results.append((cost, update))
    pd.eval([cost, update], {"x": ONES})
    return float(pd.eval(cost, {"x": ONES}))


@pytest.mark.parametrize("cell, at_hand", [(train, True), (build, False)])
def test_a_cell_runs_again(shell, cell, at_hand):
    """Its names are those of the new run; what the last one has made is valid as before."""
    results = []
    if at_hand:
        pd.enable_dynamic()
    try:
        first = cell(results)
        for shell.execution_count in (2, 3):
            assert cell(results) == first
        names = [v.name for v in pd.persistent_variables()]
        assert len(names) == len(set(names))
        if at_hand:
            nets = [net for net, _, _ in results]
            assert pd.trainable_variables("net/") == nets[-1].parameters()
            for net in nets:
                np.testing.assert_array_equal(net(ONES), nets[0](ONES))
        else:
            assert float(pd.eval(results[-1][0], {"x": ONES})) == first
    finally:
        pd.disable_dynamic()


def test_one_run_of_a_cell_gives_a_name_once(shell):
    kept = [pd.nn.FC(2, name="fc")]
    kept.append(kept[0](ONES))
    with pytest.raises(pd.NameConflict, match="'fc/W' exists already"):
        pd.nn.FC(2, name="fc")(ONES)
    shell.execution_count = 2
    kept.append(pd.nn.FC(2, name="fc")(ONES))
    with pytest.raises(pd.NameConflict, match="'fc/W' exists already"):
        pd.nn.FC(2, name="fc")(ONES)


def test_variables_that_are_shared_by_name_stay(shell):
    kept = pd.get_variable("w", [2])
    shell.execution_count = 2
    assert pd.get_variable("w", [2]) is kept


def test_in_ipython(tmp_path, monkeypatch):
    """Cells of a shell itself, with an error in between."""
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setattr(sys, "displayhook", sys.displayhook)
    had = InteractiveShell.initialized()
    settings = Config()
    settings.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=settings)
    try:
        shell.push({"pd": pd, "ones": ONES})
        cell = "net = pd.nn.FC(2, name='fc'); y = net(ones)"
        for source in (cell, f"{cell}; 1 / 0", cell):
            result = shell.run_cell(source, store_history=True, silent=False)
            assert result.success or isinstance(result.error_in_exec, ZeroDivisionError)
    finally:
        if not had:
            InteractiveShell.clear_instance()
