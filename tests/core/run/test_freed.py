"""What nobody refers to any more is freed: values, slots, names and programs."""

import gc
from pathlib import Path

import numpy as np
import pytest

import pd_core as pd
from pd_core.run.programs import program_cache


def static(width):
    x = pd.Variable("x", shape=[None, 4])
    cost = pd.reduce_mean(pd.square(pd.fc(pd.fc(x, width, act="relu"), 1)))
    step = pd.AdamOptimizer(0.01).minimize(cost)
    pd.eval([cost, step], {x: np.ones((3, 4))})


def dynamic(width):
    with pd.guard():
        net, optimizer = pd.nn.Sequential(pd.nn.FC(width), pd.nn.FC(1)), pd.AdamOptimizer(0.01)
        for both in (True, False):
            cost = pd.reduce_mean(pd.square(net(np.ones((3, 4), np.float32))))
            if both:
                cost.backward()
            optimizer.minimize(cost)


@pytest.mark.parametrize("network", [static, dynamic])
def test_dropped_networks_leave_nothing(network, no_programs):
    threads, cache = Path("/proc/self/task"), program_cache(pd.default_session().backend)
    before = len(list(threads.iterdir()))
    for width in range(2, 6):
        network(width)
    gc.collect()
    assert pd.default_session().store.variables() == [] and pd.persistent_variables() == []
    assert 0 < len(cache._recent) <= cache.limit
    pd.clear_programs()
    assert not cache._recent and not cache._programs
    assert len(list(threads.iterdir())) <= before


def test_what_is_in_use_stays_and_is_compiled_again():
    x = pd.Variable("x", shape=[None, 4])
    y = pd.fc(x, 2)
    before = pd.eval(y, {"x": np.ones((3, 4))})
    pd.clear_programs()
    gc.collect()
    compiled = pd.stats()["compiled"]
    np.testing.assert_array_equal(pd.eval(y, {"x": np.ones((3, 4))}), before)
    assert pd.stats()["compiled"] == compiled + 1


def test_get_variable_keeps_what_it_has_created():
    pd.eval(pd.assign(pd.get_variable("w", shape=[1]), [5.0]))
    gc.collect()
    assert pd.get_variable("w").val() == 5.0


def test_a_name_is_free_once_its_network_is_dropped():
    """A graph is a cycle: a conflict collects it first."""
    gc.disable()
    try:
        for _ in range(2):
            y = pd.nn.FC(3, name="model")(pd.Variable([None, 4]))
            pd.eval(y, {y.node.inputs[0].node.inputs[0]: np.ones((1, 4))})
            del y
    finally:
        gc.enable()


def test_the_hint_of_a_conflict_names_what_helps():
    w = pd.Variable("w", shape=[2])
    with pytest.raises(pd.NameConflict, match=r"(?s)another name.*pd.namespace.*pd.fresh.*reset"):
        pd.Variable(w.name, shape=[2])
