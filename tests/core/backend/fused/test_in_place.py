"""New values of states in the memory of the old ones: nothing else is changed, or sees them."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import pd_core as pd
from pd_core.backend.fused.build import available
from pd_core.backend.ort import OrtProgram
from tests.core.backend.fused.alone import model_of
from tests.core.backend.fused.in_place_programs import Opened, check

pytestmark = pytest.mark.skipif(not available(), reason="there is no C compiler here")

N, FLOAT = helper.make_node, TensorProto.FLOAT
SIZES = (8, 8, 5, 8)  # of batches


@pytest.mark.parametrize("seed", [3, 6, 9, 11, 24, 34, 52, 61])
def test_random_programs(seed):
    check(seed)


# ---- what is not safe


@pytest.mark.parametrize(
    ("nodes", "written"),
    [
        ([N("Add", ["a", "g"], ["a_new"]), N("Sub", ["b", "g"], ["b_new"])], {"a_new", "b_new"}),
        # each is read before the other is written
        ([N("Neg", ["b"], ["a_new"]), N("Neg", ["a"], ["b_new"])], {"b_new"}),
        ([N("Add", ["a", "b"], ["a_new"]), N("Mul", ["b", "a_new"], ["b_new"])], None),
        ([N("Add", ["a", "b"], ["a_new"]), N("Mul", ["b", "a"], ["b_new"])], None),
        # other elements are read
        ([N("Transpose", ["a"], ["t"]), N("Add", ["t", "a"], ["a_new"])], {"b_new"}),
        # what something else reads comes before
        ([N("Tanh", ["a"], ["a_new"]), N("CumSum", ["a_new", "axis"], ["more"])], {"b_new"}),
        # a view of the memory
        (
            [
                N("Reshape", ["a", "flat"], ["row"]),
                N("CumSum", ["row", "axis"], ["sum"]),
                N("Reshape", ["sum", "square"], ["back"]),
                N("Add", ["back", "a"], ["a_new"]),
            ],
            {"a_new", "b_new"},
        ),
    ],
    ids=["sgd", "exchanged", "chain", "crossed", "turned", "read", "view"],
)
def test_what_is_written_in_place(nodes, written):
    outputs = {y for node in nodes for y in node.output}
    if "b_new" not in outputs:
        nodes = [*nodes, N("Sub", ["b", "g"], ["b_new"], name="last")]
    for k, node in enumerate(nodes):
        node.name = node.name or f"n{k}"
    constants = {"axis": np.int64(0), "flat": np.array([-1]), "square": np.array([6, 6])}
    outputs = ["a_new", "b_new", *(["more"] if "more" in outputs else [])]
    inputs = {x: (FLOAT, [6, 6]) for x in ("a", "b", "g")}
    program = Opened(model_of(nodes, inputs, outputs, constants), {"a_new": "a", "b_new": "b"})
    assert written is None or set(program.written) == written
    rng = np.random.default_rng(0)
    feeds = {x: rng.normal(size=(6, 6)).astype("f") for x in inputs}
    two, _ = program.run(feeds, in_place=False)
    one, after = program.run(feeds, in_place=True)
    for y, value in two.items():
        np.testing.assert_array_equal(one[y], value)
    for y in program.written:
        np.testing.assert_array_equal(after[program.states[y]], two[y])


def test_a_table_of_row_writes_is_not_read_later():
    """The group comes after the rows: their index may be outside, and nothing is written then."""
    nodes = [N("Add", ["a", "b"], ["a_new"], name="n")]
    inputs = {x: (FLOAT, [6, 6]) for x in ("a", "b")}
    made = model_of(nodes, inputs, ["a_new"])
    assert Opened(made, {"a_new": "a"}).written == ["a_new"]
    assert Opened(made, {"a_new": "a"}, tables={"b"}).written == []


# ---- training


def network(width=24):
    x, target = pd.Variable([None, 12]), pd.Variable([None, 3])
    hidden = pd.fc(x, size=width, act="tanh")
    hidden = pd.nn.LayerNorm()(hidden + pd.fc(hidden, size=width, act="relu"))
    loss = pd.reduce_mean(pd.square(pd.fc(hidden, size=3) - target))
    return x, target, loss


def batch(rng, x, target, n):
    return {
        x: rng.normal(size=(n, 12)).astype("f"),
        target: rng.normal(size=(n, 3)).astype("f"),
    }


def followed(optimizer):
    def make(loss):
        step = optimizer.minimize(loss)
        return pd.MovingAverage(0.9).follow(step)

    return make


OPTIMIZERS = {
    "momentum": lambda: pd.MomentumOptimizer(0.05).minimize,
    "adam, clipped": lambda: pd.AdamOptimizer(0.01, clip=pd.ClipGlobalNorm(0.5)).minimize,
    "adamw, averaged": lambda: followed(pd.AdamWOptimizer(0.01)),
    "rmsprop": lambda: pd.RMSPropOptimizer(0.01).minimize,
    "lookahead": lambda: pd.Lookahead(pd.AdamOptimizer(0.01), k=2).minimize,
    "lamb": lambda: pd.LAMBOptimizer(0.01).minimize,
    "sgd": lambda: pd.SGDOptimizer(0.05).minimize,
}


def trained(make, fetch):
    """All that is fetched, the values after each step, and how many are written in place."""
    with pd.fresh(seed=2):
        x, target, loss = network()
        step = make()(loss)
        fetched, written = [], set()
        with pd.Session(fused=True, seed=2) as session:
            rng = np.random.default_rng(0)
            for n in SIZES:
                stored = session.store.variables()
                some = stored[:: max(1, len(stored) // 3)] if fetch else []
                before = {v: session.get(v) for v in some}
                results = session.eval([loss, *some, step], batch(rng, x, target, n))
                for v, value in zip(some, results[1:], strict=False):
                    np.testing.assert_array_equal(value, before[v])
                fetched.append(results[0])
            for entry in session.compiler.cache.entries.values():
                found = getattr(entry[0], "program", entry[0])
                written |= {v().name for v in found.written}
            spare = {
                v.name for v, pair in session.store.arrays.buffers.items() if pair[1] is not None
            }
            assert spare.isdisjoint(written)
            values = {v.name: value for v, value in session.values().items()}
    return fetched, values, written


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_in_place_and_in_two_buffers(name, monkeypatch):
    """Bit for bit the same, whatever is fetched beside the step."""
    one = trained(OPTIMIZERS[name], fetch=True)
    assert one[2]
    monkeypatch.setattr(OrtProgram, "written", property(lambda self: []))
    two = trained(OPTIMIZERS[name], fetch=True)
    assert not two[2]
    for a, b in zip(one[0], two[0], strict=True):
        np.testing.assert_array_equal(a, b)
    assert one[1].keys() == two[1].keys()
    for v, value in one[1].items():
        np.testing.assert_array_equal(value, two[1][v], err_msg=v)


def test_all_of_adam_is_in_place():
    _, values, written = trained(lambda: pd.AdamOptimizer(0.01).minimize, fetch=False)
    assert written >= {v for v in values if "/" in v or "fc" in v}


def test_a_run_that_fails_leaves_all_states(monkeypatch):
    """An index that is outside, sizes that do not fit, and a step that goes on after both."""

    def run(session):
        with pd.fresh(seed=1):
            table = pd.Variable("table", data=np.linspace(-1, 1, 40, dtype="f").reshape(10, 4))
            ids, x = pd.Variable([None], dtype="int64"), pd.Variable([None, 4])
            hidden = pd.fc(pd.gather(table, ids) + x, size=16, act="tanh")
            loss = pd.reduce_mean(pd.square(pd.fc(hidden, size=4) - x))
            step = pd.AdamOptimizer(0.01).minimize(loss)
            rng = np.random.default_rng(0)

            def feeds(n, last=3, more=0):
                index = np.append(rng.integers(0, 10, n - 1), last)
                return {ids: index, x: rng.normal(size=(n + more, 4)).astype("f")}

            session.eval([loss, step], feeds(6))
            session.eval([loss, step], feeds(6))
            for wrong in (feeds(6, last=10), feeds(6, more=2), feeds(5, last=-11)):
                before = session.values()
                with pytest.raises((pd.OutOfRange, pd.BackendError, pd.ShapeError)):
                    session.eval([loss, step], wrong)
                for v, value in session.values().items():
                    np.testing.assert_array_equal(value, before[v], err_msg=v.name)
                session.eval([loss, step], feeds(6))
            return {v.name: a for v, a in session.values().items()}

    with pd.Session(fused=True) as session:
        one = run(session)
    monkeypatch.setattr(OrtProgram, "written", property(lambda self: []))
    with pd.Session(fused=True) as session:
        two = run(session)
    for v, value in one.items():
        np.testing.assert_array_equal(value, two[v], err_msg=v)


def test_steps_that_are_not_finite_are_left_out():
    """A guard in the graph: the new value is the old one where the loss is NaN."""
    with pd.fresh():
        x = pd.Variable([None, 6])
        w = pd.Variable("w", data=np.ones([6, 6], "f"))
        loss = pd.reduce_mean(pd.square(x @ w))
        (gradient,) = pd.gradients(loss, [w])
        new = pd.where(pd.is_nan(loss), w, w - 0.1 * gradient * pd.tanh(w))
        step = pd.assign(w, new)
        with pd.Session(fused=True) as session:
            good = np.ones([4, 6], "f")
            session.eval([loss, step], {x: good})
            before = session.get(w)
            session.eval([loss, step], {x: good * np.nan})
            np.testing.assert_array_equal(session.get(w), before)
            session.eval([loss, step], {x: good})
            assert (session.get(w) != before).all()


# ---- beside each other


def test_two_optimizers_and_what_others_hold(monkeypatch):
    """Steps in place and in two buffers take turns; copies of values stay as they are."""

    def run():
        with pd.fresh(seed=3):
            x, target, loss = network()
            adam = pd.AdamOptimizer(0.01).minimize(loss)
            momentum = pd.MomentumOptimizer(0.05).minimize(loss)
            parameters = pd.trainable_variables()
            summed = [pd.assign(v, pd.cum_sum(v, 0)) for v in parameters if len(v.dims) == 2]
            with pd.Session(fused=True, seed=3) as session:
                rng = np.random.default_rng(1)
                held = []
                for k in range(8):
                    feeds = batch(rng, x, target, 8)
                    step = (adam, momentum, summed if k == 5 else adam)[k % 3]
                    values = [session.get(parameters[0]), *session.values().values()]
                    fetched = session.eval([parameters[1], loss, step], feeds)[:2]
                    held.append(([a.copy() for a in (*values, *fetched)], [*values, *fetched]))
                for then, now in held:
                    for a, b in zip(then, now, strict=True):
                        np.testing.assert_array_equal(a, b)
                return {v.name: a for v, a in session.values().items()}

    one = run()
    monkeypatch.setattr(OrtProgram, "written", property(lambda self: []))
    two = run()
    for v, value in one.items():
        np.testing.assert_array_equal(value, two[v], err_msg=v)


def test_values_before_are_kept_or_not():
    with pd.fresh():
        x, target, loss = network()
        step = pd.AdamOptimizer(0.01).minimize(loss)
        w = pd.trainable_variables()[0]
        summed = pd.assign(w, pd.cum_sum(w, 0))
        rng = np.random.default_rng(0)
        with pd.Session(fused=True) as session:
            first = session.get(w)
            for _ in range(2):
                session.eval(summed)
                np.testing.assert_array_equal(session.store.before(w), first)
                session.eval(step, batch(rng, x, target, 4))
                assert session.store.before(w) is None
                session.eval(step, batch(rng, x, target, 4))
                assert session.store.before(w) is None
                first = session.get(w)


@pytest.mark.parametrize("is_known", [False, True])
def test_recorded_reads_keep_their_values(is_known):
    """Reads in `pd.guard()` see the values from before a step of a static graph."""
    with pd.fresh(), pd.fused():
        x, target, loss = network()
        step = pd.AdamOptimizer(0.01).minimize(loss)
        w = pd.trainable_variables()[0]
        rng = np.random.default_rng(0)
        for _ in range(3 if is_known else 1):
            pd.eval(step, batch(rng, x, target, 4))
        with pd.guard():
            before = w.val()
            twice = w * 2.0
            pd.eval(step, batch(rng, x, target, 4))
            np.testing.assert_array_equal(twice.numpy(), before * 2)
            assert (w.val() != before).any()
            np.testing.assert_array_equal((w * 2.0).numpy(), w.val() * 2)


def test_dynamic_training_beside_a_static_step():
    """Gradients that nobody has read are those of the parameters before the step."""
    with pd.fresh(), pd.fused():
        w = pd.Variable("w", data=np.linspace(-1, 1, 36, dtype="f").reshape(6, 6))
        adam = pd.AdamOptimizer(0.1)
        x = np.ones([4, 6], "f")
        static = pd.reduce_sum(pd.square(w * pd.tanh(w)))
        step = pd.AdamOptimizer(0.01).minimize(static)
        pd.eval(step), pd.eval(step)
        with pd.guard():
            for _ in range(3):
                value = w.val()
                loss = pd.reduce_sum(pd.square(pd.constant(x) @ w))
                loss.backward()
                adam.minimize(loss)
                pd.eval(step)
                np.testing.assert_allclose(
                    w.gradient(), 2 * x.T @ (x @ value), rtol=1e-4, atol=1e-4
                )
                w.clear_gradient()


def test_rows_of_a_table_beside_whole_values():
    """Rows first: an index that is outside fails before anything is written."""
    with pd.fresh(seed=1):
        ids, target = pd.Variable([None, 3], dtype="int64"), pd.Variable([None, 4])
        table = pd.Variable(
            "table", data=np.linspace(-1, 1, 80, dtype="f").reshape(20, 4), row_sparse=True
        )
        hidden = pd.fc(pd.reduce_sum(pd.gather(table, ids), [1]), size=4, act="tanh")
        loss = pd.reduce_mean(pd.square(hidden - target))
        step = pd.AdamOptimizer(0.1).minimize(loss)
        rng = np.random.default_rng(0)
        values = []
        for fused in (True, False):
            rng = np.random.default_rng(0)
            with pd.Session(fused=fused) as session:
                for n in (5, 7, 7):
                    feeds = {
                        ids: rng.integers(0, 20, (n, 3)),
                        target: rng.normal(size=(n, 4)).astype("f"),
                    }
                    session.eval([loss, step], feeds)
                    before = session.values()
                    with pytest.raises(pd.OutOfRange):
                        session.eval([loss, step], {**feeds, ids: np.full((n, 3), 20)})
                    for v, value in session.values().items():
                        np.testing.assert_array_equal(value, before[v])
                values.append({v.name: a for v, a in session.values().items()})
        for v, value in values[0].items():
            np.testing.assert_allclose(value, values[1][v], rtol=1e-4, atol=1e-5, err_msg=v)


def test_an_update_that_is_first_in_the_order():
    nodes = [
        N("Add", ["a", "g"], ["a_new"], name="update"),
        N("CumSum", ["a", "axis"], ["sum"], name="sum"),
        N("Add", ["sum", "g"], ["more"], name="more"),
    ]
    inputs = {x: (FLOAT, [6, 6]) for x in ("a", "g")}
    made = model_of(nodes, inputs, ["more", "a_new"], {"axis": np.int64(0)})
    program = Opened(made, {"a_new": "a"})
    assert program.written == ["a_new"]
    feeds = {x: np.full((6, 6), k, "f") for k, x in enumerate(inputs, 2)}
    results, after = program.run(feeds, in_place=True)
    np.testing.assert_array_equal(after["a"], results["a_new"])
    np.testing.assert_array_equal(results["more"], np.cumsum(feeds["a"], 0) + feeds["g"])


def test_a_view_whose_shape_the_last_group_has_taken():
    """Once more without the view; then others see the state, and nothing is in place."""
    nodes = [
        N("Reshape", ["a", "pair"], ["t"]),
        N("Reshape", ["g", "pair"], ["u"]),
        N("Sub", ["t", "u"], ["w"]),
        N("Reshape", ["w", "square"], ["back"]),
        N("Tanh", ["back"], ["a_new"]),
        N("Shape", ["t"], ["sizes"]),
        N("Exp", ["h"], ["e"]),
        N("Neg", ["e"], ["n"]),
        N("Reshape", ["n", "sizes"], ["more"]),
    ]
    for k, node in enumerate(nodes):
        node.name = f"n{k}"
    inputs = {"a": (FLOAT, [4, 6]), "g": (FLOAT, [4, 6]), "h": (FLOAT, [24])}
    constants = {"pair": np.array([2, 12]), "square": np.array([4, 6])}
    program = Opened(model_of(nodes, inputs, ["more", "a_new"], constants), {"a_new": "a"})
    rng = np.random.default_rng(0)
    feeds = {x: rng.normal(size=dims).astype("f") for x, (_, dims) in inputs.items()}
    results, after = program.run(feeds, in_place=True)
    np.testing.assert_allclose(results["a_new"], np.tanh(feeds["a"] - feeds["g"]), rtol=1e-5)
    np.testing.assert_allclose(results["more"], -np.exp(feeds["h"]).reshape(2, 12), rtol=1e-5)
    if "a_new" not in program.written:
        np.testing.assert_array_equal(after["a"], feeds["a"])
