"""Variables: what makes one, its value, its name, its initial value."""

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


def ones(*shape):
    return np.ones(shape, f32)


# ---- values


def test_val_reads_eval_runs():
    w = pd.Variable(data=np.arange(6, dtype=f32).reshape(2, 3))
    y = w * 2.0
    assert w.val().sum() == 15.0
    with pytest.raises(pd.NotComputed):
        y.val()  # would need a run: val() must not do one
    assert y.eval().sum() == 30.0
    assert y.val().sum() == 30.0
    pd.eval(pd.assign(w, np.zeros((2, 3), f32)))
    assert y.val().sum() == 30.0  # last fetched value, not recomputed
    assert y.eval().sum() == 0.0
    with pytest.raises(TypeError, match="matmul"):
        pd.matmul("w", y)


def test_val_of_what_is_only_on_the_way_is_not_computed():
    w = pd.Variable(data=ones(2))
    inner = w + 1.0
    pd.eval(inner * 2.0)
    with pytest.raises(pd.NotComputed, match=f"{inner.name}.*not fetched yet\n  hint: eval"):
        inner.val()


def test_val_gives_copies():
    w = pd.Variable(data=ones(2))
    y = w + 1.0
    y.eval()
    w.val()[:] = 7.0
    y.val()[:] = 7.0
    assert (w.val() == 1.0).all()
    assert (y.val() == 2.0).all()
    assert pd.constant(3.0).val() == 3.0


def test_val_of_a_slot_is_what_was_fed_when_it_was_fetched():
    x = pd.Variable([None])
    with pytest.raises(pd.NotComputed):
        x.val()
    pd.eval([x, x + 1.0], feeds={x: [3.0]})
    assert x.val().tolist() == [3.0]


def test_results_of_a_step_stay_as_they_were():
    w = pd.Variable(data=ones(3))
    step = pd.assign(w, w * 2.0)
    y = w + 0.0
    first = pd.eval([step, w, y])
    second = pd.eval([step, w, y])
    assert first[1].tolist() == first[2].tolist() == [1.0] * 3
    assert second[1].tolist() == second[2].tolist() == [2.0] * 3


def test_eval_of_a_variable_is_eval_of_the_session():
    x = pd.Variable([None, 2])
    y = x * 3.0
    feeds = {x: ones(1, 2)}
    assert (y.eval(feeds) == pd.eval(y, feeds)).all()


def test_numbers_and_arrays_are_wrapped():
    x = pd.Variable(data=ones(2, 2))
    assert (pd.matmul(np.eye(2), x).eval() == 1.0).all()
    assert (np.full((2, 2), 3.0) - x).eval().tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert isinstance(np.eye(2) @ x, pd.Variable)
    assert pd.add(1, 2).eval() == 3


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("add", lambda x: x + "w"),
        ("concat", lambda x: pd.concat([x, "w"])),
        ("fc", lambda x: pd.fc("w", 3)),
        ("matmul", lambda x: pd.matmul(x, "w")),
        ("reduce_sum", lambda x: pd.reduce_sum("w")),
        ("relu", lambda x: pd.relu("w")),
        ("reshape", lambda x: pd.reshape("w", [-1])),
        ("softmax", lambda x: pd.softmax("w")),
        ("where", lambda x: pd.where(x > 0.0, x, "w")),
    ],
)
def test_strings_are_no_variables(name, call):
    x = pd.Variable("w", data=ones(2, 2))
    with pytest.raises(TypeError, match=rf"^{name}: takes Variables.* not the string 'w'"):
        call(x)


def test_a_variable_has_a_length_but_no_truth_value():
    x, w = pd.Variable("x", shape=[None, 3]), pd.Variable("w", shape=[4, 3])
    with pytest.raises(TypeError, match="w: float32\\[4, 3\\] has no value while"):
        bool(w)
    assert len(w) == 4
    with pytest.raises(TypeError, match="no length"):
        len(x)


# ---- trainable


def regression():
    w = pd.Variable("w", data=ones(3, 1))
    b = pd.Variable("b", data=np.zeros(1, f32))
    x, t = pd.Variable(shape=[None, 3]), pd.Variable([None, 1])
    cost = pd.reduce_mean(pd.square(pd.matmul(x, w) + b - t))
    return w, b, x, cost, {x: ones(4, 3), t: np.zeros((4, 1), f32)}


def test_trainable_can_be_flipped_between_steps():
    w, b, x, cost, feed = regression()
    assert w.trainable
    assert not x.trainable
    assert not (x * 1.0).trainable
    step = pd.SGDOptimizer(learning_rate=0.1).minimize(cost)
    w.trainable = False
    w0 = w.val().copy()
    pd.eval(step, feeds=feed)
    assert (w.val() == w0).all()
    assert (b.val() != 0).all()
    w.trainable = True
    pd.eval(step, feeds=feed)
    assert (w.val() != w0).all()


def test_frozen_variables_keep_their_slots():
    w, _, _, cost, feed = regression()
    step = pd.AdamOptimizer(0.1).minimize(cost)
    pd.eval(step, feeds=feed)
    slots = {v.name: v for v in pd.persistent_variables("adamoptimizer_0/")}
    of_w = [v for name, v in slots.items() if "/w/" in name]
    of_b = [v for name, v in slots.items() if "/b/" in name]
    assert len(of_w) == len(of_b) == 2
    w.trainable = False
    before = [v.val() for v in of_w + of_b]
    pd.eval(step, feeds=feed)
    after = [v.val() for v in of_w + of_b]
    assert all((p == q).all() for p, q in zip(before[:2], after[:2], strict=True))
    assert all((p != q).all() for p, q in zip(before[2:], after[2:], strict=True))


def test_not_trainable_is_still_initialised_and_stored():
    v = pd.Variable("v", shape=[2, 2], trainable=False)
    n = pd.Variable("n", shape=[1], dtype="int64")
    assert not n.trainable
    assert pd.trainable_variables() == []
    assert pd.persistent_variables() == [v, n]
    pd.eval(pd.variable_initializers())
    assert set(pd.default_session().values()) == {v, n}
    assert n.val() == [0]


# ---- names


def test_names():
    a, b = pd.Variable(shape=[2]), pd.Variable(shape=[2])
    assert a.name != b.name
    assert a.name.startswith("var-")
    w = pd.Variable("w", shape=[2])
    with pytest.raises(pd.NameConflict):
        pd.Variable("w", shape=[2])
    del w
    pd.Variable("w", shape=[2])
    y1, y2 = a + b, a + b
    assert y1.name != y2.name

    def net(x):  # the "function called twice" case
        return pd.fc(x, size=3)

    x = pd.Variable([None, 2])
    n0 = len(pd.trainable_variables())
    networks = [net(x), net(x)]
    assert len(pd.trainable_variables()) == n0 + 2 * len(networks)  # two separate W, B pairs


def test_automatic_names_step_aside():
    taken = pd.Variable("var-0", shape=[1])
    assert pd.Variable(shape=[1]).name == "var-1"
    assert pd.get_variable("var-0") is taken


def test_a_conflict_names_both_lines():
    first = pd.Variable("w", shape=[2])
    with pytest.raises(
        pd.NameConflict,
        match=r"variable 'w' exists already: w: float32\[2\], created at .*variable.py",
    ):
        pd.Variable("w", data=ones(3))
    assert pd.get_variable("w") is first


def test_equal_names_are_never_confused():
    with pd.fresh_names():
        first = pd.Variable("w", data=ones(1))
    with pd.fresh_names():
        second = pd.Variable("w", data=ones(1) * 2)
    assert first.name == second.name == "w"
    assert pd.eval([first, second, first + second]) == [1.0, 2.0, 3.0]
    pd.eval(pd.SGDOptimizer(1.0).minimize(first + second, var_list=[second]))
    assert (first.val(), second.val()) == (1.0, 1.0)


# ---- constructor


def test_constructor_forms():
    assert pd.Variable("W1", shape=[128, 64]).name == "W1"
    assert pd.Variable([None, 128]).shape == (None, 128)
    assert pd.Variable(np.zeros(128)).shape == (128,)
    src = ones(2)
    v = pd.Variable(data=src)
    src[:] = 5
    assert (v.val() == 1).all()
    assert pd.Variable(data=np.zeros(3, "float64")).dtype == "float32"
    with pytest.raises(pd.ShapeError):
        pd.Variable(shape=[4], data=np.zeros(3))


@pytest.mark.parametrize(
    ("arguments", "dtype", "shape"),
    [
        ({"data": [1, 2]}, "int64", (2,)),
        ({"data": [1, 2], "dtype": "float32"}, "float32", (2,)),
        ({"data": np.zeros(3), "dtype": "float64"}, "float64", (3,)),
        ({"data": [True]}, "bool", (1,)),
        ({"data": 2.5}, "float32", ()),
        ({"data": np.float64(2.5), "shape": []}, "float32", ()),
        ({"shape": (2, 0)}, "float32", (2, 0)),
        ({"data": [[1.0, 2.0]], "shape": (1, 2)}, "float32", (1, 2)),
    ],
)
def test_data_decides_shape_and_dtype(arguments, dtype, shape):
    v = pd.Variable(**arguments)
    assert v.dtype == dtype
    assert v.shape == shape
    assert v.val().dtype == dtype
    assert v.val().shape == shape


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (
            pd.ShapeError,
            "variable 'v': shape \\[4\\], but data of \\[3\\]",
            {"shape": [4], "data": ones(3)},
        ),
        (pd.ShapeError, "variable 'v': give a shape or data", {}),
        (pd.ShapeError, "a size is a non-negative int or None, not -1", {"shape": [-1]}),
        (pd.ShapeError, "a size is a non-negative int or None, not 1.5", {"shape": [1.5]}),
        (pd.ShapeError, "a shape is a list or tuple of sizes, not 5", {"shape": 5}),
        (pd.ShapeError, "makes it a feed slot", {"shape": [None], "trainable": True}),
        (pd.ShapeError, "no initial value", {"shape": [None], "initializer": np.zeros}),
        (pd.DTypeError, "cannot take <U5 values, 'abcde'", {"data": "abcde"}),
        (
            pd.DTypeError,
            "rows of different lengths, \\[\\[1\\], \\[2, 3\\]\\]",
            {"data": [[1], [2, 3]]},
        ),
        (
            pd.DTypeError,
            "float64 values where int64 is needed, 1.5",
            {"data": 1.5, "dtype": "int64"},
        ),
        (pd.DTypeError, "int64 values where uint8", {"data": [300], "dtype": "uint8"}),
        (pd.DTypeError, "cannot take masked", {"data": np.ma.masked_equal([1.0, 2.0], 2.0)}),
        (TypeError, "data or an initializer, not both", {"data": 1.0, "initializer": np.zeros}),
        (TypeError, "an initializer is a function .* not 0.5", {"shape": [2], "initializer": 0.5}),
    ],
)
def test_constructor_mistakes(error, message, arguments):
    with pytest.raises(error, match=message):
        pd.Variable("v", **arguments)
    assert pd.persistent_variables() == []


def test_an_argument_is_given_once():
    with pytest.raises(TypeError, match="Variable got its name twice: 'a' and 'b'"):
        pd.Variable("a", name="b", shape=[1])
    with pytest.raises(TypeError, match="its shape twice"):
        pd.Variable([2], shape=[2])
    with pytest.raises(TypeError, match="a name is a str, not 3"):
        pd.Variable([2], name=3)


def test_constants_keep_what_they_mean():
    n = pd.Variable(data=[1, 2])
    assert (n + 1).dtype == "int64"
    with pytest.raises(pd.DTypeError, match="Variables in a list"):
        pd.constant([n, n])


# ---- initial values


def test_initializers_are_targets():
    gaussian = pd.gaussian_initializer(mean=2.0, std=0.5)
    v = pd.Variable("v", shape=[4000], initializer=gaussian)
    z = pd.Variable("z", shape=[3], initializer=pd.zero_initializer())
    assert pd.eval(pd.variable_initializers()) is None
    assert abs(v.val().mean() - 2) < 0.05
    assert abs(v.val().std() - 0.5) < 0.05
    assert not z.val().any()
    pd.eval([pd.assign(v, np.zeros(4000, f32)), pd.assign(z, ones(3))])
    pd.eval(pd.variable_initializers(vars=[v]))
    assert v.val().any()
    assert (z.val() == 1).all()
    pd.eval(z.initializer)
    assert not z.val().any()


def test_lazy_initialisation_is_once_and_order_free():
    def build(order):
        pd.reset(seed=7)
        d = {n: pd.Variable(n, shape=[4, 2]) for n in order}
        return {n: (v + 0.0).eval() for n, v in d.items()}, d

    r1, _ = build("ab")
    r2, d2 = build("ba")
    assert (r1["a"] == r2["a"]).all()
    assert (r1["b"] == r2["b"]).all()
    assert (r1["a"] != r1["b"]).any()
    assert ((d2["a"] + 0.0).eval() == r2["a"]).all()  # second read does not draw again


def test_explicit_and_lazy_initial_values_are_equal():
    v = pd.Variable("v", shape=[4, 2])
    lazy, eager = pd.Session(seed=3), pd.Session(seed=3)
    eager.eval(v.initializer)
    assert (lazy.eval(v + 0.0) == eager.eval(v + 0.0)).all()
    assert (pd.Session("reference", seed=3).eval(v) == eager.eval(v)).all()
    assert (pd.Session(seed=4).eval(v) != eager.eval(v)).any()


def test_an_initializer_commits_with_the_rest_of_the_evaluation():
    v = pd.Variable("v", data=ones(2))
    x = pd.Variable("x", shape=[None])
    pd.eval(pd.assign(v, [5.0, 5.0]))
    with pytest.raises(pd.MissingFeed):
        pd.eval([v.initializer, x + 1.0])
    assert (v.val() == 5.0).all()
    assert (pd.eval([v.initializer, v * 1.0])[1] == 5.0).all()  # read before it is drawn anew
    assert (v.val() == 1.0).all()
    with pytest.raises(ValueError, match="two updates of v"):
        pd.eval([v.initializer, pd.assign(v, [0.0, 0.0])])
    pd.eval([v.initializer, pd.variable_initializers()])


def test_a_file_is_an_initializer(tmp_path):
    np.save(tmp_path / "w.npy", ones(2, 3) * 4)
    w = pd.Variable(shape=[2, 3], initializer=lambda shape, rng: np.load(tmp_path / "w.npy"))
    assert (w.val() == 4).all()
    bad = pd.Variable("bad", shape=[3], initializer=lambda shape, rng: np.load(tmp_path / "w.npy"))
    with pytest.raises(pd.ShapeError, match=r"initializer of bad: float32\[3\] gave .*\[2, 3\]"):
        bad.val()


def test_default_initial_values():
    w, b = pd.Variable(shape=[400, 500]), pd.Variable(shape=[500])
    assert abs(w.val().mean()) < 1e-3
    assert abs(w.val().std() - 1 / 20) < 1e-3
    assert not b.val().any()
    assert not pd.Variable(shape=[]).val().any()


@pytest.mark.parametrize(
    ("initializer", "low", "high", "std"),
    [
        (pd.uniform_initializer(-0.5, 1.5), -0.5, 1.5, 2 / np.sqrt(12)),
        (pd.Xavier(), -0.1, 0.1, 0.2 / np.sqrt(12)),  # sqrt(6 / (200 + 400)) = 0.1
        (pd.MSRA(), -np.inf, np.inf, 0.1),  # sqrt(2 / 200)
        (pd.constant_initializer(3.0), 3.0, 3.0, 0.0),
    ],
)
def test_distributions(initializer, low, high, std):
    values = pd.Variable(shape=[200, 400], initializer=initializer).val()
    assert values.min() >= low
    assert values.max() <= high
    assert abs(values.std() - std) <= 0.01 * std


def test_filters_count_their_window():
    w = pd.Variable(shape=[64, 50, 2, 2], initializer=pd.MSRA()).val()
    assert abs(w.std() - 0.1) < 1e-3  # sqrt(2 / (50 * 4))


# ---- assign


def test_assign():
    w = pd.Variable("w", data=ones(2))
    v = pd.Variable("v", data=ones(2) * 3)
    assert pd.eval(pd.assign(w, v)) is None
    assert (w.val() == 3).all()
    double = pd.assign(w, w * 2.0)
    pd.eval(double)
    pd.eval(double)
    assert (w.val() == 12).all()
    pd.eval([pd.assign(w, v), pd.assign(v, w)])  # a swap: both read what was there before
    assert (w.val() == 3).all()
    assert (v.val() == 12).all()
    pd.eval(pd.assign(w, [1, 2]))
    assert w.val().dtype == f32
    assert w.val().tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("error", "message", "name", "value"),
    [
        (pd.ShapeError, r"assign: w: float32\[2\] cannot take .*float32\[3\]", "w", ones(3)),
        (pd.ShapeError, r"cannot take .*float32\[\]", "w", 0.0),
        (pd.DTypeError, r"assign: n: int64\[1\]: cannot take float64 values.*0.5", "n", [0.5]),
        (pd.GraphError, r"assign: x: float32\[\?\] keeps no value", "x", ones(2)),
    ],
)
def test_assign_mistakes(error, message, name, value):
    variables = {
        "w": pd.Variable("w", data=ones(2)),
        "n": pd.Variable("n", data=[1]),
        "x": pd.Variable("x", shape=[None]),
    }
    with pytest.raises(error, match=message):
        pd.assign(variables[name], value)


def test_assign_of_another_dtype():
    w = pd.Variable("w", data=ones(1))
    n = pd.Variable("n", data=[1])
    with pytest.raises(pd.DTypeError, match=r"assign: w: float32\[1\] cannot take n: int64\[1\]"):
        pd.assign(w, n)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_an_assignment_that_fails_at_run_time_changes_nothing(device):
    w, v = pd.Variable(data=ones(2)), pd.Variable(data=ones(2))
    x = pd.Variable([None])
    session = pd.Session(device)
    with pytest.raises(pd.BackendError):
        session.eval([pd.assign(v, v * 2.0), pd.assign(w, x * 1.0)], feeds={x: ones(3)})
    assert (session.get(w) == 1).all()
    assert (session.get(v) == 1).all()


def test_a_file_is_an_initializer_too(tmp_path):
    np.save(tmp_path / "w.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    w = pd.Variable("w", shape=[2, 3], initializer=pd.file_initializer(tmp_path / "w.npy"))
    assert w.val().sum() == 15
    pd.eval(pd.assign(w, np.zeros((2, 3))))
    pd.eval(w.initializer)
    assert w.val().sum() == 15
    wrong = pd.Variable("v", shape=[4], initializer=pd.file_initializer(tmp_path / "w.npy"))
    with pytest.raises(pd.ShapeError, match=r"gave an array of \[2, 3\]"):
        wrong.val()


def test_a_shape_may_be_any_sequence():
    """Sequences that are not lists, such as OmegaConf's, are shapes and not data."""
    from collections import UserList

    for v in (pd.Variable(UserList([None, 4])), pd.Variable(shape=UserList([None, 4]))):
        assert v.shape == (None, 4) and v.is_feed
    assert pd.Variable(UserList([2, 4])).shape == (2, 4)
    with pytest.raises(pd.ShapeError, match="a shape is a list or tuple of sizes, not b'24'"):
        pd.Variable(shape=b"24")
