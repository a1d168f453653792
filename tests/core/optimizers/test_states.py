"""The state of optimizers: saved, loaded, copied and pickled, in graphs of both kinds."""

import copy
import pickle

import numpy as np
import pytest

import pd_core as pd
from tests.thinned import thinned

from .test_settings import CLASSES, Training, X, made


def bits(values):
    return {name: value.tobytes() for name, value in values.items()}


def moved(run, move):
    """Parameters after three more steps with an optimizer that `move` makes of the one there."""
    twin = move(run.optimizer)
    other = Training.__new__(Training)
    vars(other).update(vars(run), optimizer=twin)
    if run.mode == "static":
        other.update = twin.minimize(other.cost())
    return other.steps(3).values()


def by_state(optimizer):
    settings = {k: v for k, v in vars(optimizer).items() if not k.startswith("_")}
    twin = type(optimizer)(groups=optimizer.groups, **settings)
    twin.load_state(optimizer.state())
    return twin


MOVES = {
    "state": by_state,
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda optimizer: pickle.loads(pickle.dumps(optimizer)),
}
CASES = [(name, "static", "state") for name in CLASSES if name != "float64"]
CASES += [("adam", mode, move) for mode in ("static", "guard") for move in MOVES]
CASES += [("adafactor", "guard", "state"), ("accumulated", "guard", "deepcopy")]


@pytest.mark.parametrize("name, mode, move", thinned(CASES, 2))
def test_steps_go_on_with_the_same_bits(name, mode, move):
    run = Training(made(name), mode).steps(3)
    run.optimizer.learning_rate = 0.02
    run.steps(2)
    session = pd.default_session()
    before = session.state()
    expected = run.steps(3).values()
    slots = set(run.optimizer.state())
    session.restore(before)
    assert bits(moved(run, MOVES[move])) == bits(expected)
    assert not slots or any("/" in name for name in slots)


def test_a_network_is_copied_with_its_optimizer():
    def step(net, optimizer):
        with pd.guard():
            optimizer.minimize(pd.reduce_mean(pd.square(net(X) - 1.0)))

    for keys in (("net", "optimizer"), ("optimizer", "net")):
        pd.reset()
        net = pd.nn.FC(2, name="net")
        net(pd.Variable([None, 3]))
        every = {"net": net, "optimizer": pd.AdamOptimizer(0.1, groups=[{"params": net.W}])}
        every = {key: every[key] for key in keys}
        step(**every), step(**every)
        twin = copy.deepcopy(every)
        assert twin["optimizer"].groups[0].params == (twin["net"].W,)
        step(**every), step(**twin)
        assert net.W.val().tolist() == twin["net"].W.val().tolist()
        assert twin["net"].W is not net.W
        step(**every)
        assert net.W.val().tolist() != twin["net"].W.val().tolist()


def test_state_of_several_updates_is_refused():
    run = Training(pd.AdamOptimizer(0.1))
    second = run.optimizer.minimize(run.cost())
    message = r"AdamOptimizer: 2 updates of it are in use, .*\n  hint: an optimizer for each"
    for act in (run.optimizer.state, lambda: run.optimizer.load_state({}), run.optimizer.__copy__):
        with pytest.raises(pd.GraphError, match=message):
            act()
    with pd.guard():
        run.optimizer.minimize(run.cost())  # of neither
    with pytest.raises(pd.GraphError, match="3 updates of it are in use"):
        run.optimizer.state()
    assert second.variables()


def test_names_that_do_not_fit():
    run = Training(pd.AdamOptimizer(0.1)).steps(2)
    state = run.optimizer.state()
    values = run.steps(1).values()
    after = run.optimizer.state()
    short = {name: value for name, value in state.items() if name != "w/m"}
    with pytest.raises(pd.GraphError) as error:
        run.optimizer.load_state({**short, "w/mm": state["w/m"], "settings/beta1": 0.5})
    assert str(error.value).splitlines() == [
        "AdamOptimizer.load_state: names do not fit, 1 missing and 2 unexpected",
        "  missing    w/m",
        "  unexpected w/mm, settings/beta1",
        "  hint: 'w/mm' may be 'w/m' here",
    ]
    with pytest.raises(
        pd.ShapeError, match=r"load_state: w/m is float32\[3, 4\], not float32\[2\]"
    ):
        run.optimizer.load_state({**state, "w/m": np.ones(2, np.float32)})
    assert bits(run.optimizer.state()) == bits(after) and bits(run.values()) == bits(values)
    found = run.optimizer.load_state({**short, "w/mm": state["w/m"]}, strict=False)
    assert found == (["w/m"], ["w/mm"])
    assert bits(run.optimizer.state()) == bits({**state, "w/m": after["w/m"]})


@pytest.mark.parametrize("mode", ["static", "guard"])
def test_state_of_another_optimizer_or_network(mode):
    state = Training(pd.AdamOptimizer(0.1), mode).steps(1).optimizer.state()
    with pytest.raises(pd.GraphError, match=r"MomentumOptimizer.load_state: .* 6 unexpected"):
        pd.MomentumOptimizer(0.1).load_state(state)
    pd.reset()
    optimizer = pd.AdamOptimizer(0.1)
    optimizer.load_state({f"other/{k}" if "/" in k else k: v for k, v in state.items()})
    message = r"state that was loaded is of other parameters\n  loaded   other/w, other/b\n"
    for _ in range(2):
        with pytest.raises(pd.GraphError, match=rf"AdamOptimizer: the {message}  trained  w, b"):
            Training(optimizer, mode).steps(1)
        pd.clear_names()


def test_variables_are_no_values():
    w = pd.Variable("w", data=1.0)
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"w: float32\[\] is a part of a graph, .*\n  hint: "):
            act(w)
    with pytest.raises(TypeError, match=r"w: float32\[\] is a part of a graph"):
        pickle.dumps(pd.SGDOptimizer(w))
    assert copy.deepcopy(pd.SGDOptimizer(w)).learning_rate is w
