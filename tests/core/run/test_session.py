"""Sessions: values of their own, devices, what they keep and for how long, threads."""

import gc
import threading
import warnings
import weakref

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend.devices import cuda_devices
from pd_core.run.cache import Cache
from pd_core.run.program import Program

from ...threads import in_threads

f32 = np.float32


def ones(*shape):
    return np.ones(shape, f32)


# ---- values


def test_stale_and_fresh_sessions():
    w = pd.Variable("w", data=f32(1.0))
    step = pd.SGDOptimizer(0.1).minimize(w * 1.0)
    fresh, stale = pd.Session(), pd.Session()
    for _ in range(3):
        fresh.eval(step)
    assert np.isclose(fresh.eval(w), 0.7)
    assert stale.eval(w) == 1.0
    assert pd.eval(w) == 1.0
    stale.load_values(fresh.values())
    assert np.isclose(stale.eval(w), 0.7)
    fresh.eval(step)
    assert np.isclose(stale.eval(w), 0.7)
    fresh.close()
    with pytest.raises(RuntimeError):
        fresh.eval(w)


def test_get_set_has():
    w, x = pd.Variable("w", shape=[2]), pd.Variable("x", shape=[None])
    session = pd.Session()
    assert not session.has(w)
    session.set(w, [1, 2])
    assert session.has(w)
    assert session.get(w).tolist() == [1.0, 2.0]
    session.get(w)[:] = 9.0
    array = ones(2)
    session.set(w, array)
    array[:] = 9.0
    assert session.get(w).tolist() == [1.0, 1.0]
    assert set(session.values()) == {w}
    with pytest.raises(pd.ShapeError, match=r"x: float32\[\?\] keeps no value; feed it instead"):
        session.set(x, ones(1))
    with pytest.raises(pd.ShapeError, match=r"w: fed an array of \[3\], it is float32\[2\]"):
        session.set(w, ones(3))
    with pytest.raises(pd.NotInitialized, match=r"x: .* has neither a value nor an initializer"):
        session.get(x)


def test_a_value_that_was_set_is_what_the_next_steps_start_from():
    w = pd.Variable("w", data=ones(2))
    step = pd.MomentumOptimizer(0.5, 0.0).minimize(pd.reduce_sum(w))
    session = pd.Session()
    for value in (10.0, 20.0, 30.0):
        session.set(w, [value, value])
        session.eval(step)
        session.eval(step)
        assert session.get(w).tolist() == [value - 1.0] * 2


def test_parameters_stay_in_two_buffers():
    """A step reads one and writes the other, and nothing is allocated or copied in between."""
    w = pd.Variable("w", data=ones(2))
    step = pd.MomentumOptimizer(0.5).minimize(pd.reduce_sum(w))
    session = pd.Session()
    session.eval(step)
    seen = []
    for _ in range(6):
        session.eval(step)
        seen.append(session.store.arrays.buffers[w][0])
    assert seen[0] is seen[2] is seen[4]
    assert seen[1] is seen[3] is seen[5]
    assert seen[0] is not seen[1]


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_the_value_before_a_step_is_kept_until_the_next(device):
    w, b = pd.Variable("w", data=ones(2)), pd.Variable("b", data=ones(2))
    step = pd.MomentumOptimizer(0.5, 0.0).minimize(pd.reduce_sum(w * b), [w])
    with pd.Session(device) as session:
        assert session.store.before(w) is None
        session.eval(step)
        session.eval(w + b)
        assert session.store.before(w).tolist() == [1.0, 1.0]
        session.eval(step)
        assert session.store.before(w).tolist() == [0.5, 0.5]
        assert session.store.before(b) is None
        session.set(w, [3.0, 3.0])
        assert session.store.before(w) is None
        session.eval(step)
        assert session.store.before(w).tolist() == [3.0, 3.0]
        seen = session.store.before(w)
        seen[:] = 7.0
        assert session.store.before(w).tolist() == [3.0, 3.0]


def test_a_step_that_failed_leaves_nothing_before_it():
    w, i = pd.Variable("w", data=ones(2)), pd.Variable([1], dtype="int64")
    step = pd.assign(w, w + pd.gather(w, i))
    session = pd.Session()
    session.eval(step, {i: [0]})
    with pytest.raises(pd.BackendError):
        session.eval(step, {i: [5]})
    assert session.store.before(w) is None
    assert session.get(w).tolist() == [2.0, 2.0]
    session.eval(step, {i: [0]})
    assert session.store.before(w).tolist() == [2.0, 2.0]


def test_the_version_tells_whether_values_have_changed():
    w = pd.Variable("w", data=ones(2))
    step = pd.MomentumOptimizer(0.5).minimize(pd.reduce_sum(w))
    session = pd.Session()
    session.eval(w * 2.0)
    seen = session.store.version
    session.eval(w * 2.0)
    assert session.store.version == seen
    for change in (lambda: session.eval(step), lambda: session.set(w, [1.0, 1.0])):
        change()
        assert session.store.version > seen
        seen = session.store.version


def test_with_makes_a_session_the_default():
    w = pd.Variable("w", data=f32(1.0))
    outer, inner = pd.Session(), pd.Session()
    with outer:
        pd.eval(pd.assign(w, 2.0))
        with inner, outer:
            assert pd.default_session() is outer
            assert w.val() == 2.0
        assert pd.default_session() is outer
    assert pd.default_session() not in (outer, inner)
    assert w.val() == 1.0
    with pytest.raises(KeyError), inner:
        raise KeyError
    assert pd.default_session() is not inner


def test_a_closed_session_does_nothing():
    w = pd.Variable("w", data=f32(1.0))
    y = w * 2.0
    session = pd.Session()
    session.eval(y)
    session.close()
    session.close()
    for use in (session.eval, session.get, session.val, lambda v: session.set(v, 1.0)):
        with pytest.raises(RuntimeError, match="this session is closed"):
            use(w)
    for use in (session.values, lambda: session.val(y), lambda: session.store.initialize([w])):
        with pytest.raises(RuntimeError, match="this session is closed"):
            use()


def test_random_draws_can_be_repeated():
    r = pd.uniform_random([3])
    session = pd.Session()
    session.eval(r)
    before = session.draws.copy()
    value = session.eval(r)
    assert (session.eval(r) != value).any()
    session.draws = before
    assert (session.eval(r) == value).all()


# ---- places


def test_place():
    with pytest.raises(pd.PlaceError):
        pd.Session(device="cuda:99")
    if cuda_devices():
        assert pd.Session(device="auto").device == "cuda:0"
        return
    with pytest.warns(UserWarning, match="no CUDA device here"):  # only when it had to fall back
        session = pd.Session(device="auto")
    assert session.device == "cpu"


def test_auto_takes_cuda_without_a_word(monkeypatch):
    monkeypatch.setattr("pd_core.backend.named.cuda_devices", lambda: ["cuda:0", "cuda:1"])
    taken = []
    monkeypatch.setattr(
        "pd_core.backend.named.OrtBackend", lambda device, *_: taken.append(device) or Fake()
    )
    pd.Session(device="auto")
    assert taken == ["cuda:0"]


class Fake:
    device, layouts = "cuda:0", ()

    def values(self):
        return {}


def test_auto_warns_once_at_the_users_line(monkeypatch):
    monkeypatch.setattr("pd_core.backend.named.cuda_devices", list)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        pd.Session(device="auto")
    assert [w.category for w in seen] == [UserWarning]
    assert seen[0].filename == __file__


@pytest.mark.parametrize("device", ["cuda:99", "tpu", "gpu", "CPU", None, 0])
def test_devices_that_are_not_there(device):
    with pytest.raises(pd.PlaceError, match=rf"there is no device {device!r} here; there is cpu"):
        pd.Session(device)


def test_the_device_of_the_default_session():
    with pytest.raises(pd.PlaceError, match="there is no device 'tpu'"):
        pd.use_device("tpu")
    before = pd.default_session()
    pd.use_device("cpu")
    assert pd.default_session() is before  # it is there already
    before.seed = 5
    pd.use_device("reference")
    try:
        assert (pd.default_session().device, pd.default_session().seed) == ("reference", 5)
        w = pd.Variable("w", data=ones(2))
        assert pd.eval(w + 1.0).tolist() == [2.0, 2.0]
        with pytest.raises(pd.PlaceError, match="keeps values on reference, it cannot move to cpu"):
            pd.use_device("cpu")
        pd.reset()
        assert pd.default_session().device == "reference"
    finally:
        pd.use_device("cpu")
        pd.reset()
    assert pd.devices()[0] == "cpu"


@pytest.mark.gpu
@pytest.mark.skipif(not cuda_devices(), reason="there is no CUDA device here")
def test_cpu_and_cuda_take_the_same_steps(rng):
    x, t = pd.Variable([None, 8]), pd.Variable([None, 1])
    cost = pd.reduce_mean(pd.square(pd.fc(pd.fc(x, 16, act="tanh"), 1) - t))
    step = pd.AdamOptimizer(0.01).minimize(cost)
    feeds = {x: rng.normal(size=(32, 8)), t: rng.normal(size=(32, 1))}
    costs = []
    for device in ("cpu", "cuda:0"):
        session = pd.Session(device)
        costs.append([float(session.eval([step, cost], feeds)[1]) for _ in range(10)])
    assert np.allclose(*costs, rtol=1e-4)


# ---- what is kept, and for how long


def compiled(session):
    return sum(isinstance(entry, Program) for entry in session.compiler.cache)


def test_an_evaluation_is_compiled_once():
    w, x = pd.Variable("w", data=ones(2)), pd.Variable("x", shape=[None, 2])
    y = x * w
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(y))
    session = pd.Session()
    for n in (1, 2, 3):
        session.eval([step, y], feeds={x: ones(n, 2)})
        session.eval(y, feeds={x: ones(n, 2)})
    assert compiled(session) == 2
    w.trainable = False
    session.eval([step, y], feeds={x: ones(1, 2)})
    w.trainable = True
    session.eval([step, y], feeds={x: ones(1, 2)})
    assert compiled(session) == 3


def test_setting_numbers_compiles_nothing(monkeypatch):
    rate = pd.Variable("rate", data=f32(1.0))
    session = pd.Session()
    monkeypatch.setattr(session.backend, "compile", None)
    for k in range(5):
        session.eval(pd.assign(rate, 1.0 / (k + 1)))
    session.eval([rate.initializer, pd.variable_initializers()])
    assert session.get(rate) == 1.0


def test_a_graph_that_nobody_holds_is_freed():
    w = pd.Variable("w", data=ones(4))
    session = pd.Session()

    def use():
        y = w * 2.0
        step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(y))
        session.eval([y, step])
        assert session.val(y).tolist() == [2.0] * 4
        return [weakref.ref(v) for v in (y, y.node, step, session.store.fetched[y])]

    gone = use()
    gc.collect()
    assert [r() for r in gone] == [None] * 4
    assert len(session.store.fetched) == 0 and compiled(session) == 0


def test_a_loop_that_builds_does_not_grow():
    w = pd.Variable("w", data=ones(4))
    session = pd.Session()
    for _ in range(20):
        session.eval(w * 2.0)
    gc.collect()
    session.eval(w * 2.0)
    assert compiled(session) <= 2


def test_steps_in_use_are_bounded():
    held = [pd.constant(k) for k in range(6)]

    def key(v):
        return ("program", weakref.ref(v))

    cache = Cache(limit=3)
    for v in held[:3]:
        cache.add(key(v), True, [v])
    cache.get(key(held[0]))
    cache.add(key(held[3]), True, [held[3]])
    assert [cache.get(key(v)) for v in held] == [True, None, True, True, None, None]
    assert len(cache) == 3
    del held[0], v
    assert len(cache) == 2
    cache.add(key(held[-1]), True, held[-1:])
    assert len(cache) == 3


# ---- threads


def test_threads_share_the_default_session():
    w = pd.Variable("w", data=ones(3))
    add = pd.assign(w, w + 1.0)
    x = pd.Variable([None])
    y = x * 2.0
    seen = []

    def work(k):
        seen.append(pd.default_session())
        for _ in range(50):
            pd.eval(add)
            assert pd.eval(y, feeds={x: [float(k)]}) == [2.0 * k]

    in_threads(work, range(4))
    assert w.val().tolist() == [201.0] * 3
    assert len(set(map(id, seen))) == 1


def test_threads_build_and_evaluate_at_once():
    built = []

    def work(k):
        for n in range(5):
            with pd.namespace(f"t{k}-{n}"):
                x = pd.Variable([None, 3])
                y = pd.fc(x, 2, W=pd.constant_initializer(float(k)))
            step = pd.SGDOptimizer(0.0).minimize(pd.reduce_sum(y))
            value = pd.eval([y, step], feeds={x: ones(1, 3)})[0]
            assert value.tolist() == [[3.0 * k, 3.0 * k]]
            built.append(y)

    in_threads(work, range(4))
    assert len(pd.trainable_variables()) == 40


def test_a_session_that_is_gone_leaves_nothing_to_watch():
    w = pd.Variable("w", data=ones(2))
    session = pd.Session()
    y = w * 2.0
    session.eval(y)
    gone = [weakref.ref(session), weakref.ref(session.compiler.cache)]
    del session
    gc.collect()
    assert [r() for r in gone] == [None, None]
    del y


def test_a_replay_keeps_other_threads_from_drawing():
    u = pd.uniform_random([4])
    session = pd.Session(seed=3)
    with session:
        first, begun = pd.eval(u), session.draws.copy()
        second = pd.eval(u)
        expected = [pd.eval(u).tolist() for _ in range(6)]
    session = pd.Session(seed=3)
    inside, trying, found = threading.Event(), threading.Event(), []

    def work(k):
        if k:
            inside.wait(10)
            trying.set()
            found.extend(session.eval(u).tolist() for _ in range(6))
            return
        assert session.eval(u).tolist() == first.tolist()
        assert session.eval(u).tolist() == second.tolist()
        with session.replay(begun):
            inside.set()
            trying.wait(10)
            assert session.eval(u).tolist() == second.tolist()

    in_threads(work, range(2))
    assert found == expected


def test_a_session_entered_here_is_not_entered_in_another_thread():
    main = pd.default_session()
    seen = []
    with pd.Session() as session:
        in_threads(lambda k: seen.append(pd.default_session()), range(1))
        assert pd.default_session() is session
    assert seen == [main]


def test_two_threads_may_enter_one_session():
    session = pd.Session()
    barrier = threading.Barrier(2)

    def work(k):
        with session:
            barrier.wait(10)
            assert pd.default_session() is session
            barrier.wait(10)
        assert pd.default_session() is not session

    in_threads(work, range(2))


def test_stats_show_that_state_stays_on_the_device():
    x = pd.Variable([None, 3])
    step = pd.AdamOptimizer().minimize(pd.reduce_sum(pd.fc(x, 2)))
    feeds = {x: np.ones((4, 3), np.float32)}
    pd.eval(step, feeds)
    before = pd.stats()
    for _ in range(5):
        pd.eval(step, feeds)
    after = pd.stats()
    grown = {name: after[name] - before[name] for name in after}
    operators = grown.pop("operators")
    assert grown == {
        "evaluations": 5,
        "compiled": 0,
        "fed": 5,
        "fetched": 0,
        "stored": 0,
        "read": 0,
    }
    assert operators % 5 == 0 and operators > 50
    pd.trainable_variables()[0].val()
    assert pd.stats()["read"] == after["read"] + 1


def test_owned_arrays_become_the_value_and_others_are_copied():
    w = pd.Variable("w", shape=[2, 3])
    with pd.Session() as session:
        kept = ones(2, 3)
        session.set(w, kept)
        kept[:] = 5
        assert session.get(w).max() == 1
        given = ones(2, 3)
        session.set(w, given, copy=False)
        given[0, 0] = 7
        assert session.get(w)[0, 0] == 7
        update = pd.assign(w, w * 2)
        session.eval(update), session.eval(update)  # two buffers take turns
        assert session.get(w)[0, 0] == 28
        for unfit in (ones(3, 2).T, np.broadcast_to(f32(1), (2, 3))):
            session.set(w, unfit, copy=False)
            session.eval(update), session.eval(update)
            assert unfit.max() == 1 and session.get(w).max() == 4
