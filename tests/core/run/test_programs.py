"""Programs found by structure: what is built again compiles nothing."""

import gc
from pathlib import Path
from weakref import ref

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend.base import NO_SEAM
from pd_core.run.programs import program_cache
from pd_core.run.session import Session
from pd_core.run.structure import Structure

f32 = np.float32


pytestmark = pytest.mark.usefixtures("no_programs")


def compiled(session=None):
    return (session or pd.default_session()).stats()["compiled"]


def network(x, label, width=4):
    hidden = pd.dropout(pd.fc(x, width, act="tanh"), 0.5)
    return pd.reduce_mean(pd.softmax_cross_entropy(pd.fc(hidden, 3), label))


def structure(*targets, fed=(), training=False):
    return Structure(targets, [], NO_SEAM, fed, training).key


def test_the_same_expression_compiles_once():
    for n in range(5):
        x = pd.Variable([None, 3])
        y = pd.reduce_sum(pd.square(x) * 2.0)
        assert pd.eval(y, {x: np.ones((n + 1, 3))}) == 6.0 * (n + 1)
    assert compiled() == 1


def test_a_network_of_the_same_form_trains_by_the_same_program(rng):
    rows, labels = rng.standard_normal((8, 5)).astype(f32), rng.integers(0, 3, 8)
    trained = []
    for name in ("a", "b"):
        with pd.namespace(name), pd.Session(seed=3) as session:
            x, label = pd.Variable([None, 5]), pd.Variable([None], dtype="int64")
            cost = network(x, label)
            step = pd.AdamOptimizer(0.1).minimize(cost)
            costs = [session.eval([cost, step], {x: rows, label: labels})[0] for _ in range(3)]
            trained.append((costs, [session.get(v) for v in pd.trainable_variables(f"{name}/")]))
            assert compiled(session) == (name == "a")
    (first, ws), (second, vs) = trained
    assert first != second  # other names, so other initial values and draws
    assert [w.shape for w in ws] == [v.shape for v in vs]


def test_shared_programs_give_the_numbers_of_their_own_variables(rng):
    x = pd.Variable([None, 2])
    a, b = (pd.Variable(name, data=rng.standard_normal((2, 2))) for name in "ab")
    rows = rng.standard_normal((4, 2)).astype(f32)
    for w in (a, b):
        np.testing.assert_allclose(pd.eval(x @ w, {x: rows}), rows @ w.val(), rtol=1e-6)
    assert compiled() == 1


def test_draws_of_a_rebuilt_program_come_from_its_own_stream():
    def draw():
        return pd.uniform_random([4])

    with pd.fresh(seed=5):
        first, second = (pd.eval(draw()) for _ in range(2))
        assert compiled() == 1
    with pd.fresh(seed=5):  # compiled one by one, without the other
        draw()
        np.testing.assert_array_equal(pd.eval(draw()), second)
    assert (first != second).any()


def test_sessions_of_a_device_share_programs_but_no_values():
    w = pd.Variable("w", data=np.zeros(2))
    step = pd.assign(w, w + 1.0)
    with pd.Session() as one, pd.Session() as other:
        one.eval(step)
        one.eval(step)
        other.eval(step)
        assert (compiled(one), compiled(other)) == (1, 0)
        assert one.get(w).tolist() == [2.0, 2.0] and other.get(w).tolist() == [1.0, 1.0]
        with pd.Session("reference") as third:
            third.eval(step)
            assert compiled(third) == 1  # another device


def pairs():
    """(two expressions over the same or equal variables, whether they are one program)."""
    x, z = pd.Variable([None, 3]), pd.Variable([None, 3])
    w, v = pd.Variable("w", data=np.ones((3, 3))), pd.Variable("v", data=np.zeros((3, 3)))
    dropped = pd.dropout(x, 0.3)
    yield "equal constants", x * 2.0, x * 2.0, True
    yield "other constants", x * 2.0, x * 3.0, False
    yield "large constants", x @ np.eye(3), x @ np.eye(3), True
    yield "other large constants", x @ np.eye(3), x @ np.ones((3, 3)), False
    yield "constants of another type", pd.cast(x, "int64") * 2, pd.cast(x, "int32") * 2, False
    yield "other variables", x @ w, z @ v, True
    yield "another wiring", x - z, x - x, False
    yield "operands exchanged", (x @ w) - x, x - (x @ w), False
    yield "another operator", pd.tanh(x), pd.sigmoid(x), False
    yield "another attribute", pd.leaky_relu(x, 0.1), pd.leaky_relu(x, 0.2), False
    yield "another axis", pd.softmax(x, axis=0), pd.softmax(x, axis=1), False
    yield "a known size", x + 0.0, pd.Variable([5, 3], initializer=None) + 0.0, False
    yield "a state for a feed", w + 0.0, pd.Variable([3, None]) + 0.0, False
    yield "two draws for one", dropped + dropped, dropped + pd.dropout(x, 0.3), False
    yield "a body", scanned(x, pd.tanh), scanned(z, pd.tanh), True
    yield "another body", scanned(x, pd.tanh), scanned(x, pd.exp), False


def scanned(x, fn):
    total, _ = pd.scan(lambda s, row: (s + fn(row), None), pd.constant(np.zeros(3, f32)), x)
    return total


def test_what_is_one_program_and_what_is_not():
    wrong = [
        name
        for name, a, b, same in pairs()
        if (structure(a, training=True) == structure(b, training=True)) is not same
    ]
    assert wrong == []


def test_sizes_that_are_equal_belong_to_the_structure():
    n, m = pd.Variable(["N", 3]), pd.Variable(["M", 3])
    same, other = pd.Variable(["N", 3]), pd.Variable(["L", 3])
    assert structure(n + same) != structure(n + other)
    assert structure(n + other) == structure(m + other)


def test_fed_edges_and_modes_belong_to_the_structure():
    x = pd.Variable([None, 3])
    h = pd.dropout(pd.tanh(x), 0.5)
    y = pd.square(h)
    assert structure(y) != structure(y, fed=[h])
    assert structure(y) != structure(y, training=True)
    assert structure(y, fed=[x]) != structure(y)


def test_what_is_frozen_belongs_to_the_structure():
    w, v = pd.Variable("w", data=1.0), pd.Variable("v", data=2.0)
    step = pd.SGDOptimizer(0.5).minimize(w * v)
    pd.eval(step)
    assert (w.val(), v.val()) == (0.0, 1.5)
    v.trainable = False
    pd.eval(step)
    assert compiled() == 2
    assert (w.val(), v.val()) == (-0.75, 1.5)


def test_sizes_are_checked_for_a_program_of_another_graph():
    for _ in range(2):
        x, y = pd.Variable([None]), pd.Variable([None])
        total = x + y
        pd.eval(total, {x: [1.0, 2.0], y: [1.0, 2.0]})
        with pytest.raises(pd.ShapeError, match="sizes 2 and 3 must be equal"):
            pd.eval(total, {x: [1.0, 2.0], y: [1.0, 2.0, 3.0]})
    assert compiled() == 1


def test_an_error_names_the_line_of_its_own_graph():
    def gathered():
        ids = pd.Variable([None], dtype="int64")
        return ids, pd.gather(pd.Variable(data=np.ones(3)), ids)

    ids, first = gathered()
    pd.eval(first, {ids: [0]})
    other = pd.Variable([None], dtype="int64")
    second = pd.gather(pd.Variable(data=np.ones(3)), other)  # the line
    with pytest.raises(pd.BackendError, match="7 in row 0 is outside -3 … 2") as error:
        pd.eval(second, {other: [7]})
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = next(k for k, text in enumerate(lines, 1) if "# the line" in text)
    assert f"test_programs.py:{line}" in str(error.value)
    assert compiled() == 1


def test_programs_beyond_a_limit_are_compiled_again(monkeypatch):
    monkeypatch.setattr(program_cache(Session().backend), "limit", 2)
    for n in (1, 2, 3, 3, 1):
        assert multiplied(n) == [n]
    assert compiled() == 4


def multiplied(n, values=(1.0,)):
    """n times these values, by a graph that is dropped."""
    x = pd.Variable([None])
    product = pd.eval(x * float(n), {x: np.asarray(values, f32)})
    gc.collect()
    return product


def test_large_programs_are_dropped_before_they_are_many(monkeypatch):
    cache = program_cache(Session().backend)
    monkeypatch.setattr(cache, "limit_bytes", 1000)
    monkeypatch.setattr(cache, "few", 2)
    for n in (1, 2, 3):  # 400 bytes each
        multiplied(n, np.zeros(100))
    multiplied(2)
    assert compiled() == 3
    multiplied(1)
    assert compiled() == 4
    monkeypatch.setattr(cache, "limit_bytes", 1)  # two are kept in any case
    for n in (4, 5, 4, 5):
        multiplied(n)
    assert compiled() == 6


def test_a_program_is_there_as_long_as_a_graph_that_runs_it(monkeypatch):
    """Beyond the limit, too: and it is freed with the last such graph, by then not a recent one."""
    cache = program_cache(Session().backend)
    monkeypatch.setattr(cache, "limit", 1)
    x = pd.Variable([None])
    held = [x * float(n) for n in range(5)]
    for y in held * 2:
        pd.eval(y, {x: [1.0]})
    multiplied(2)
    assert compiled() == 5
    programs = [ref(program) for program in cache._programs.values()]
    assert len(programs) == 5
    held.clear()
    del y
    gc.collect()
    assert [p().operators for p in programs if p() is not None] == [1]
