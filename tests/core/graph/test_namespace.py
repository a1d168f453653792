"""Names: prefixes, the variables a prefix owns, get_variable, threads."""

import gc
import sys
import threading

import numpy as np
import pytest

import pd_core as pd

from ...threads import in_threads

f32 = np.float32


def ones(*shape):
    return np.ones(shape, f32)


def test_get_variable():
    with pytest.raises(KeyError):
        pd.get_variable("nope")  # nothing to create it from
    v = pd.get_variable("v", shape=[20, 20])  # created
    assert pd.get_variable("v") is v
    assert pd.get_variable("v", shape=[20, 20], reuse=True) is v
    with pytest.raises(pd.ShapeError):
        pd.get_variable("v", shape=[3, 3])
    with pytest.raises(pd.NameConflict):
        pd.get_variable("v", shape=[20, 20], reuse=False)


def test_get_variable_creates_with_what_is_given():
    v = pd.get_variable("v", data=ones(2), trainable=False, learning_rate=0.5)
    assert (v.trainable, v.learning_rate, v.shape) == (False, 0.5, (2,))
    assert pd.get_variable("w", shape=[3], reuse=True).shape == (3,)
    assert pd.get_variable("u", shape=[3], reuse=False).shape == (3,)


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (KeyError, "no variable 'a/nope', and neither shape nor data", {"name": "nope"}),
        (pd.ShapeError, r"variable 'a/v' is \(2,\) elsewhere, \(3,\) here", {"shape": [3]}),
        (pd.ShapeError, r"variable 'a/v' is \(2,\) elsewhere, \(1,\) here", {"data": [1.0]}),
        (pd.DTypeError, "'a/v' is float32 elsewhere, int64 here", {"dtype": "int64"}),
        (pd.NameConflict, "'a/v' exists already as a/v: .* reuse is False", {"reuse": False}),
    ],
)
def test_get_variable_mistakes(error, message, arguments):
    with pd.namespace("a"):
        v = pd.Variable("v", data=ones(2))
        with pytest.raises(error, match=message):
            pd.get_variable(**{"name": "v", **arguments})
    assert pd.persistent_variables() == [v]


def test_namespace():
    W = pd.Variable("W", shape=[20, 20])
    with pd.namespace("father") as f:
        assert f.name == "father/"
        with pd.namespace("child") as c:
            assert c.name == "father/child/" == pd.current_namespace()
        W1 = pd.Variable("W", shape=[20, 20])  # no clash with the global W
        y = pd.matmul(W1, W)  # outer Variable visible inside
    assert W1.name == "father/W"
    assert f.W is W1
    assert pd.current_namespace() == ""
    assert (y + 1.0).shape == (20, 20)  # inner Variable usable outside
    with pd.namespace("father"):  # re-entered, same prefix
        assert pd.get_variable("W") is W1
    with pytest.raises(RuntimeError), pd.namespace("x"):
        raise RuntimeError
    assert pd.current_namespace() == ""
    assert pd.trainable_variables("father/") == [W1]
    with pd.namespace() as a, pd.namespace() as b:
        assert a.name
        assert b.name
        assert a.name != b.name


def test_a_namespace_object_is_entered_again_anywhere():
    g = pd.namespace("g")
    with g:
        v = pd.Variable("v", shape=[1])
        with g, pd.namespace("inner"):
            assert pd.current_namespace() == "g/inner/"
    with pd.namespace("other"), pd.namespace(g):
        w = pd.Variable("w", shape=[1])
    assert (v.name, w.name) == ("g/v", "g/w")
    assert g.variables() == [v, w]
    assert pd.trainable_variables(g) == [v, w]
    assert g == pd.namespace("g")
    assert repr(g) == "namespace('g/')"


def test_a_namespace_lists_frozen_variables_too():
    with pd.namespace("g") as g:
        pd.Variable([None])
        v, w = pd.Variable("v", shape=[1]), pd.Variable("w", shape=[1], trainable=False)
    with pd.namespace("g2"):
        pd.Variable("v", shape=[1])
    assert g.variables() == [v, w]
    assert pd.trainable_variables("g/") == [v]
    v.trainable = False
    assert g.variables() == [v, w]
    assert pd.trainable_variables("g/") == []


def test_a_namespace_has_the_variables_it_owns_as_attributes():
    with pd.namespace("g") as g:
        pd.Variable("W", shape=[1])
    with pytest.raises(AttributeError, match="namespace 'g/' owns no variable 'B'"):
        _ = g.B
    assert not hasattr(g, "__wrapped__")


def test_the_name_of_a_namespace():
    with pd.namespace("a/") as a, pd.namespace("b/c") as c:
        assert (a.name, c.name) == ("a/", "a/b/c/")
    with pd.namespace("") as automatic:
        assert automatic.name == "ns-0/"
    with pytest.raises(TypeError, match="name of a namespace is a str, not 3"):
        pd.namespace(3)


def test_automatic_names_count_per_namespace():
    def net(x):
        with pd.namespace("net"):
            return pd.fc(pd.fc(x, size=3), size=2)

    x = pd.Variable([None, 2])
    net(x)
    alone = [v.name for v in pd.trainable_variables("net/")]
    pd.reset()
    x = pd.Variable([None, 2])
    for _ in range(3):
        pd.fc(x, size=2)
    net(x)
    assert [v.name for v in pd.trainable_variables("net/")] == alone
    assert alone == ["net/fc_0.W", "net/fc_0.B", "net/fc_1.W", "net/fc_1.B"]


def test_running_takes_no_names():
    def names(run):
        pd.reset()
        x = pd.Variable([None, 2])
        y = pd.dropout(x, 0.5)
        if run:  # drawing is written with casts, products, sums
            pd.eval(y, feeds={x: ones(1, 2)}, training=True)
        return [v.name for v in (x * 2.0, x + 1.0, pd.cast(x, "int64"), pd.dropout(x, 0.5))]

    assert names(run=True) == names(run=False)


def test_submodels_share_by_namespace():
    def sub(ns, x):
        with pd.namespace(ns):
            return pd.matmul(x, pd.get_variable("W", shape=[3, 3], reuse=True))

    a, b = pd.Variable([None, 3]), pd.Variable([None, 3])
    ya, _, _ = sub("A", a), sub("B", b), sub("A", b)
    assert [v.name for v in pd.trainable_variables()] == ["A/W", "B/W"]
    r = pd.eval([sub("A", a), ya], feeds={a: ones(2, 3)})
    assert (r[0] == r[1]).all()


def test_two_threads_build_without_mixing_names():
    def build(key):
        with pd.namespace(key):
            return [pd.Variable(shape=[1]).name for _ in range(50)]

    out = in_threads(build, "pq")
    assert all(n.startswith("p/") for n in out["p"])
    assert all(n.startswith("q/") for n in out["q"])


def test_threads_get_one_variable_under_one_name():
    barrier = threading.Barrier(4)

    def build(key):
        barrier.wait()
        return [pd.get_variable(f"w{k}", shape=[2]) for k in range(30)]

    found = in_threads(build, range(4))
    assert all(found[k] == found[0] for k in range(4))
    assert len(pd.persistent_variables()) == 30


def test_threads_build_while_others_look_names_up():
    """Each kind of description and of look-up at once, with threads that change places often."""

    built = []

    def build(key):
        for n in range(12):
            with pd.namespace(f"{key}{n}" if n % 2 else None):
                x = pd.Variable(shape=[None, 2])
                y = pd.fc(pd.fc(x, 3), 1)
            step = pd.AdamOptimizer(0.1).minimize(pd.reduce_sum(y))
            assert y.name and len(pd.trainable_variables(f"{key}{n}/")) == 4 * (n % 2)
            assert {a.owner for a in step.assignments} <= {*pd.persistent_variables(), None}
            if n == 6:
                pd.eval(step, feeds={x: ones(2, 2)})
            built.append(y)
            del step
            gc.collect(0)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        in_threads(build, "pqrst")
    finally:
        sys.setswitchinterval(before)
    names = [v.name for v in pd.trainable_variables()]
    assert len(names) == len(set(names)) == 5 * 12 * 4
    built.clear()
    gc.collect()
    assert pd.trainable_variables() == []


# ---- weak registration


def slot(name):
    return pd.adopt(pd.Variable.of((2,), f32, name, initial=pd.constant_initializer(0.0)))


def test_what_is_registered_weakly_frees_its_name():
    v, w = pd.Variable("v", data=ones(1)), slot("w")
    last = pd.Variable("z", data=ones(1))
    assert pd.persistent_variables() == [v, w, last]
    with pytest.raises(pd.NameConflict, match="variable 'w' exists already"):
        slot("w")
    del w
    gc.collect()
    assert pd.persistent_variables() == [v, last]
    with pytest.raises(KeyError, match="no variable 'w'"):
        pd.get_variable("w")
    again = slot("w")
    assert pd.persistent_variables() == [v, last, again]
    with pytest.raises(AttributeError, match="owns no variable 'x'"):
        _ = pd.namespace("w").x


def test_a_name_is_not_freed_by_what_had_it_before():
    first = slot("w")
    pd.clear_names()
    second = slot("w")
    del first
    gc.collect()
    slot("another")
    assert pd.get_variable("w") is second


def test_a_thread_starts_outside_the_namespaces_of_another():
    with pd.namespace("main"):
        found = in_threads(lambda key: pd.current_namespace(), ["t"])
    assert found == {"t": ""}


def test_reset_and_fresh_names():
    v = pd.Variable("v", data=ones(1))
    with pd.fresh_names():
        assert pd.persistent_variables() == []
        pd.Variable("v", shape=[3])
        assert pd.Variable(shape=[1]).name == "var-0"
    assert pd.get_variable("v") is v
    pd.eval(pd.assign(v, [5.0]))
    pd.reset()
    assert pd.persistent_variables() == []
    assert v.val() == 1.0  # a fresh session, so the initial value
    with pd.fresh(seed=1) as session:
        assert pd.default_session() is session
        pd.Variable("v", shape=[3])
    assert pd.default_session() is not session
