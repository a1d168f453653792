"""pd.profile(): whose time is shown, that all of it is, and that nothing else changes."""

import gc
import json
import tempfile
import threading
from contextvars import copy_context
from functools import partial

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_core.run.profiling.kernels import Kernel, Recorded, Run, add_kernels
from pd_core.run.profiling.report import OUTSIDE
from pd_core.run.profiling.timed import TimedSession

f32 = np.float32
THIS = __file__


def line_of(text):
    """The line of this file that ends with a text."""
    with open(THIS, encoding="utf-8") as file:
        return THIS, 1 + next(k for k, line in enumerate(file) if line.endswith(f"# {text}\n"))


def measured(targets, feeds=None, times=3, **options):
    """The profile of a few evaluations of targets."""
    with pd.profile() as profile:
        for _ in range(times):
            pd.eval(targets, feeds, **options)
    return profile


def passes(profile):
    """The layers with their passes that have kernels."""
    return {(row.name, row.phase) for row in profile.rows() if row.name != OUTSIDE}


def check_sums(profile):
    """All rows of all kinds sum up to the measured time, and shares to 1."""
    assert profile.seconds > 0
    for by in ("layer", "operator", "node"):
        rows = profile.rows(by)
        assert [row.name for row in rows].count(OUTSIDE) == 1
        assert rows[-1].name == OUTSIDE
        assert all(row.seconds >= 0 and row.calls > 0 for row in rows)
        assert sum(row.seconds for row in rows) == pytest.approx(profile.seconds)
        assert sum(row.share for row in rows) == pytest.approx(1)
        others = [row.seconds for row in rows[:-1]]
        assert others == sorted(others, reverse=True)
    kernels = {sum(row.calls for row in profile.rows(by)[:-1]) for by in ("layer", "node")}
    assert len(kernels) == 1


@pytest.fixture
def network(rng):
    """Targets and feeds of a step of a small network."""
    x, label = pd.Variable([None, 6], name="x"), pd.Variable([None], dtype="int64", name="label")
    with pd.namespace("encoder"):
        hidden = pd.fc(x, 8, act="relu")  # encoder
    hidden = pd.dropout(hidden, 0.5)
    logits = pd.fc(hidden, 3)  # head
    cost = pd.reduce_mean(pd.softmax_cross_entropy(logits, label))  # cost
    step = pd.AdamOptimizer(0.1).minimize(cost)  # minimize
    feeds = {x: rng.standard_normal((5, 6)).astype(f32), label: rng.integers(0, 3, 5)}
    return [cost, step], feeds


# ---- whose time


def test_layers_of_a_training_step(network):
    profile = measured(*network)
    check_sums(profile)
    layers = ("encoder/fc_0", "fc_0")
    assert passes(profile) >= {(x, p) for x in layers for p in ("forward", "backward", "update")}
    assert {p for name, p in passes(profile) if name == "(no layer)"} >= {"forward", "backward"}


def test_lines_of_a_training_step(network):
    rows = measured(*network).rows("node")[:-1]
    lines = {(row.layer, row.phase): row.line for row in rows}
    assert lines["encoder/fc_0", "forward"] == line_of("encoder")
    assert lines["fc_0", "forward"] == line_of("head")
    assert lines["encoder/fc_0", "update"] == lines["fc_0", "update"] == line_of("minimize")
    products = [row for row in rows if "MatMul" in row.name and row.phase == "backward"]
    assert sorted((row.layer, row.line) for row in products) == [
        ("encoder/fc_0", line_of("encoder")),
        ("fc_0", line_of("head")),
        ("fc_0", line_of("head")),
    ]
    (softmax,) = [row for row in rows if row.operator == "LogSoftmax"]
    assert (softmax.line, softmax.phase) == (line_of("cost"), "forward")


def test_the_layer_with_most_work_is_the_first(rng):
    with pd.namespace("big"):
        big = pd.Variable("W", data=rng.standard_normal((1024, 2048)))
    with pd.namespace("small"):
        small = pd.Variable("W", data=rng.standard_normal((2048, 10)))
    x = pd.Variable([None, 1024])
    profile = measured(pd.relu(x @ big) @ small, {x: rng.standard_normal((64, 1024))})
    assert [row.name for row in profile.rows()[:2]] == ["big", "small"]
    assert profile.table(top=1).splitlines()[1].startswith("big ")


def test_activations_of_the_backward_pass(rng):
    x = pd.Variable([None, 3], name="x")
    hidden = pd.dropout(pd.fc(x, 4, act="tanh"), 0.5)
    cost = pd.reduce_mean(pd.square(pd.fc(hidden, 2, act="sigmoid")))
    step = pd.SGDOptimizer(0.1).minimize(cost)
    profile = measured([cost, step], {x: rng.standard_normal((5, 3))})
    backward = [row for row in profile.rows("node")[:-1] if row.phase == "backward"]
    layers = {
        name: sorted(row.operator for row in backward if row.layer == name)
        for name in ("fc_0", "fc_1")
    }
    # a (1 - y) y, and the sum for the bias; the products for W are in the update
    assert layers["fc_1"].count("Mul") == 2 and layers["fc_1"].count("Sub") == 1
    # a (1 - y y) likewise, behind the product with the other layer's W
    assert layers["fc_0"].count("Mul") == 2 and layers["fc_0"].count("Sub") == 1
    assert layers["fc_0"].count("ReduceSum") == layers["fc_1"].count("ReduceSum") == 1


def test_gradients_that_are_fetched(network):
    (cost, _), feeds = network
    weights = pd.trainable_variables()
    profile = measured(pd.gradients(cost, weights), feeds)
    check_sums(profile)
    layers = ("encoder/fc_0", "fc_0")
    assert passes(profile) >= {(x, p) for x in layers for p in ("forward", "backward")}
    rows = [row for row in profile.rows("node")[:-1] if row.phase == "backward"]
    assert {row.line for row in rows} == {line_of(x) for x in ("encoder", "head", "cost")}


def test_networks_of_one_structure_keep_their_names(rng):
    rows = rng.standard_normal((2, 3)).astype(f32)
    x = pd.Variable([None, 3])
    targets = []
    for name in ("a", "b"):
        with pd.namespace(name):
            targets.append(pd.fc(x, 2))
    with pd.profile() as profile:
        for y in targets * 2:
            pd.eval(y, {x: rows})
    assert {"a/fc_0", "b/fc_0"} <= {name for name, _ in passes(profile)}


def test_values_at_hand(rng):
    first, second = pd.nn.FC(4, name="first"), pd.nn.FC(2, name="second")
    optimizer = pd.SGDOptimizer(0.1)
    rows = rng.standard_normal((5, 3)).astype(f32)
    with pd.guard(), pd.profile() as profile:
        for _ in range(3):
            cost = pd.reduce_mean(pd.square(second(pd.relu(first(rows)))))  # dynamic
            cost.backward()
            optimizer.minimize(cost)
            cost.numpy()
    check_sums(profile)
    layers = ("first", "second")
    assert passes(profile) >= {(x, p) for x in layers for p in ("forward", "backward", "update")}
    rows = [row for row in profile.rows("node")[:-1] if row.phase != "update"]
    assert {row.line for row in rows} == {line_of("dynamic")}


def test_a_backward_pass_without_an_update(rng):
    layer = pd.nn.FC(4, name="only")
    with pd.guard(), pd.profile() as profile:
        for _ in range(3):
            pd.reduce_mean(pd.square(layer(rng.standard_normal((5, 3))))).backward()
            assert layer.W.gradient().shape == (3, 4)
    assert passes(profile) >= {("only", "forward"), ("only", "backward")}
    assert "update" not in {phase for _, phase in passes(profile)}


def test_modules(rng):
    class Net(pd.nn.Module):
        def __init__(self):
            super().__init__("net")
            self.dense, self.optimizer = pd.nn.FC(2), pd.SGDOptimizer(0.1)

        def forward(self, x):
            return self.dense(x)

        def train_one_batch(self, x):
            cost = pd.reduce_mean(pd.square(self(x)))
            self.optimizer.backward_and_update(cost)
            return cost

    net = Net()
    with pd.profile() as profile:
        for _ in range(3):
            net(rng.standard_normal((4, 3)).astype(f32))
    assert profile.steps == 2
    layer = "net/dense"
    assert passes(profile) >= {(layer, "forward"), (layer, "backward"), (layer, "update")}


def test_trainers_of_paddle_v2(rng):
    pixels = paddle.layer.data(name="pixels", type=paddle.data_type.dense_vector(6))
    label = paddle.layer.data(name="label", type=paddle.data_type.integer_value(3))
    hidden = paddle.layer.fc(input=pixels, size=4, name="hidden")
    output = paddle.layer.fc(input=hidden, size=3, act=paddle.activation.Softmax(), name="output")
    cost = paddle.layer.classification_cost(input=output, label=label, name="cost")
    trainer = paddle.trainer.SGD(
        cost, paddle.parameters.create(cost), paddle.optimizer.Momentum(learning_rate=0.1)
    )
    samples = [(rng.standard_normal(6).astype(f32), k % 3) for k in range(12)]
    with pd.profile() as profile:
        trainer.train(paddle.batch(lambda: iter(samples), 4), num_passes=2)
    check_sums(profile)
    assert profile.steps >= 5
    layers = ("hidden", "output")
    assert passes(profile) >= {(x, p) for x in layers for p in ("forward", "backward", "update")}
    assert ("cost", "forward") in passes(profile)


def test_loops(rng):
    x, start = pd.Variable([5, None, 3]), pd.Variable([None, 3])
    W = pd.Variable("cell.W", data=rng.standard_normal((3, 3)))

    def cell(state, row):
        state = pd.tanh(state @ W + row)  # body
        return state, None

    last, _ = pd.scan(cell, start, x)
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_mean(pd.square(last)))
    feeds = {x: rng.standard_normal((5, 2, 3)), start: np.zeros((2, 3))}
    profile = measured(step, feeds)
    check_sums(profile)
    assert passes(profile) >= {("cell", p) for p in ("forward", "backward", "update")}
    nodes = profile.rows("node")
    (tanh,) = [row for row in nodes if row.operator == "Tanh"]
    assert (tanh.calls, tanh.line, tanh.layer) == (2 * 5, line_of("body"), "cell")
    loops = [row for row in nodes if row.operator == "Scan"]
    assert {row.phase for row in loops} == {"forward", "backward"}
    kernels = [k for run in profile.evaluations[-1].runs for k in run.kernels]
    for scan in (k for k in kernels if k.operator == "Scan"):
        end = scan.begin + scan.duration
        inside = [k for k in kernels if k is not scan and scan.begin <= k.begin < end]
        assert len(inside) >= 5
        assert scan.own == scan.duration - sum(k.duration for k in inside)


def test_what_is_divided_into_programs(network):
    targets, feeds = network
    seen = []

    def exchange(gradients):
        seen.append(len(gradients))
        return gradients

    with pd.default_session().exchanging(exchange):
        profile = measured(targets, feeds)
    check_sums(profile)
    assert seen == [4] * 3
    assert len(profile.evaluations[-1].runs) == 2
    assert {p for _, p in passes(profile)} >= {"forward", "backward", "update"}


# ---- nothing else changes


def test_results_are_the_same_bits(network):
    (_, step), _ = network

    def trained(count):
        return [pd.eval(*network)[0] for _ in range(count)]

    variables = [*pd.trainable_variables(), *step.variables()]
    with pd.Session(seed=5) as session:
        costs = trained(6)
        values = [session.get(v) for v in variables]
    with pd.Session(seed=5) as session:
        before = trained(2)
        with pd.profile():
            inside = trained(2)
        assert [*before, *inside, *trained(2)] == costs
        for v, value in zip(variables, values, strict=True):
            np.testing.assert_array_equal(session.get(v), value)


def test_programs_outside_are_not_compiled_again(network):
    targets, feeds = network
    pd.eval(targets, feeds)
    before = pd.stats()["compiled"]
    measured(targets, feeds)
    assert pd.stats()["compiled"] == before + 1
    pd.eval(targets, feeds)
    assert pd.stats()["compiled"] == before + 1


def test_sessions_and_files_are_freed(network, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pd.profile() as profile:
        pd.eval(*network)
        assert len(list(tmp_path.iterdir())) == 1
    assert profile.rows()
    assert list(tmp_path.iterdir()) == []
    gc.collect()
    assert not any(type(thing) is TimedSession for thing in gc.get_objects())


def test_values_are_checked_too(network):
    with pd.check_numerics():
        profile = measured(*network)
    check_sums(profile)
    assert profile.steps == 2


def test_other_threads_are_not_measured(network):
    targets, feeds = network
    session, costs = pd.default_session(), []
    with pd.profile() as profile:
        pd.eval(targets, feeds)
        thread = threading.Thread(target=lambda: costs.append(session.eval(targets, feeds)[0]))
        thread.start()
        thread.join()
        pd.eval(targets, feeds)
    assert len(costs) == 1
    assert len(profile.evaluations) == 2


def test_threads_that_continue_a_context_are_measured(network):
    with pd.profile() as profile:
        for _ in range(3):
            run = partial(copy_context().run, pd.eval, *network)
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
    check_sums(profile)
    assert profile.steps == 2


def test_an_error_ends_the_profile(rng):
    x, rows = pd.Variable([None, 3], name="x"), pd.Variable([None], dtype="int64", name="rows")
    with pd.namespace("table"):
        y = pd.gather(pd.tanh(x), rows)  # fails
    values = rng.standard_normal((4, 3))

    def evaluate(row):
        return pd.eval(y, {x: values, rows: [row]})

    with pytest.raises(pd.BackendError) as outside:
        evaluate(9)
    with pytest.raises(pd.BackendError) as inside, pd.profile() as profile:
        for row in (0, 1, 2):
            evaluate(row)
        evaluate(9)
    assert (inside.value.operator, inside.value.site) == ("table/Gather", line_of("fails"))
    assert str(inside.value) == str(outside.value)
    check_sums(profile)
    assert profile.steps == 2
    assert "1 evaluations raised an error" in str(profile)
    assert pd.eval(y, {x: values, rows: [3]}).shape == (1, 3)


def test_evaluations_after_an_error_are_measured(rng):
    x, rows = pd.Variable([None, 3]), pd.Variable([None], dtype="int64")
    y = pd.gather(pd.tanh(x), rows)
    with pd.profile() as profile:
        for row in (0, 9, 1, 9, 9, 2):
            try:
                pd.eval(y, {x: np.ones((4, 3)), rows: [row]})
            except pd.BackendError:
                assert row == 9
    assert profile.steps == 2
    (tanh,) = [row for row in profile.rows("operator") if row.name == "Tanh"]
    assert tanh.calls == 2


# ---- what is counted


def test_the_first_evaluation_is_shown_apart(network):
    profile = measured(*network, times=4)
    assert (profile.steps, len(profile.evaluations)) == (3, 4)
    first, *others = profile.evaluations
    assert [bool(e.compiling) for e in profile.evaluations] == [True, False, False, False]
    assert profile.seconds == pytest.approx(sum(e.duration for e in others) / 1e9)
    assert profile.compile_seconds == pytest.approx((first.end - first.begin) / 1e9)
    assert "compile: 1 programs" in str(profile)


def test_a_single_evaluation_is_counted(network):
    profile = measured(*network, times=1)
    check_sums(profile)
    (only,) = profile.evaluations
    assert profile.steps == 1
    whole = (only.end - only.begin) / 1e9
    assert profile.seconds + profile.compile_seconds == pytest.approx(whole)


def test_nested_profiles_both_count(network):
    with pd.profile() as outer:
        for _ in range(3):
            pd.eval(*network)
        inner = measured(*network)
        pd.eval(*network)
    assert (inner.steps, outer.steps) == (2, 5)
    check_sums(inner)
    check_sums(outer)


def test_a_profile_of_nothing():
    with pd.profile() as profile:
        assert str(profile) == "profile: the block has not ended"
        with pytest.raises(RuntimeError, match="has not ended"):
            profile.save("trace.json")
    assert str(profile) == "profile: no evaluation was measured"
    assert profile.rows() == []
    assert (profile.steps, profile.seconds, profile.compile_seconds) == (0, 0, 0)


def test_a_profile_measures_one_block():
    profile = pd.profile()
    with profile:
        pass
    with pytest.raises(RuntimeError, match="one block"), profile:
        pass


def test_what_rows_can_be_of(network):
    profile = measured(*network)
    with pytest.raises(ValueError, match="layer, operator, node, not 'line'"):
        profile.rows("line")
    with pytest.raises(ValueError, match="top is at least 1, not 0"):
        profile.table(top=0)


def test_the_reference_evaluator_has_no_kernels(network):
    with pd.Session("reference"):
        profile = measured(*network)
    (row,) = profile.rows()
    assert (row.name, row.calls, row.share) == (OUTSIDE, 2, 1)


# ---- tables and traces


def test_tables(network):
    profile = measured(*network)
    lines = profile.table("node", top=5).splitlines()
    assert lines[0].split() == [
        *("node", "operator", "pass", "layer", "line", "share", "ms", "calls", "us/call")
    ]
    count = len(profile.rows("node")) - 1
    assert lines[6].startswith(f"({count - 5} more) ")
    assert lines[7].startswith(OUTSIDE)
    assert lines[8].startswith("2 evaluations, ")
    assert len(lines) == 9
    assert "test_profiling.py:" in lines[1]
    assert len({len(line) for line in lines[:8]}) == 1
    assert str(profile) == profile.table()


def test_traces(network, tmp_path):
    profile = measured(*network)
    profile.save(tmp_path / "trace.json")
    with open(tmp_path / "trace.json", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    for event in events:
        assert event["ph"] == "X"
        assert event["ts"] >= 0 and event["dur"] >= 0
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
    names = [event["name"] for event in events]
    for part in ("evaluation", "feeding", "session.run", "copying out"):
        assert names.count(part) == 3
    assert names.count("compile") == 1
    kernels = [event for event in events if event["args"].get("node")]
    assert len(kernels) == 3 / 2 * sum(row.calls for row in profile.rows()[:-1])
    assert {event["cat"] for event in kernels} == {"forward", "backward", "update"}
    head = [e for e in kernels if e["args"]["layer"] == "fc_0" and e["cat"] == "forward"]
    assert {e["args"]["line"] for e in head} == {"{}:{}".format(*line_of("head"))}
    assert all(e["name"].startswith("fc_0 ") for e in head)
    runs = [(e["ts"], e["ts"] + e["dur"]) for e in events if e["name"] == "session.run"]
    for kernel in kernels:  # within a run, up to what ONNX Runtime's clock cuts off
        end = kernel["ts"] + kernel["dur"]
        assert any(a - 1 <= kernel["ts"] and end <= b + 1 for a, b in runs)


# ---- kernels


def recorded(begin, *kernels):
    """A run as ONNX Runtime writes it; kernels are (begin, duration, name)."""
    events = [
        {"name": f"{name}_kernel_time", "ts": ts, "dur": dur, "args": {"op_name": "Op"}}
        for ts, dur, name in kernels
    ]
    return Recorded(begin, events)


def test_kernels_inside_of_kernels():
    run = Run(0, 1000, completed=True)
    inside = [(12, 3, "Body"), (16, 3, "Body"), (10, 10, "Loop"), (20, 5, "Next")]
    add_kernels([run], [recorded(10, *inside)], {})
    assert [(k.node, k.begin, k.duration, k.own) for k in run.kernels] == [
        ("Loop", 1000, 10_000, 4000),
        ("Body", 3000, 3000, 3000),
        ("Body", 7000, 3000, 3000),
        ("Next", 11_000, 5000, 5000),
    ]


@pytest.mark.parametrize("has_record", [False, True])
def test_a_run_that_failed_has_a_record_or_not(has_record):
    begins = [1_000_000, 1_200_000, 1_500_000]
    runs = [Run(0, begin, completed=begin != begins[1]) for begin in begins]
    records = [recorded(5, (5, 1, "a")), recorded(505, (505, 1, "c"))]
    if has_record:
        records.insert(1, recorded(205, (205, 1, "b")))
    add_kernels(runs, records, {})
    names = [run.kernels and [kernel.node for kernel in run.kernels] for run in runs]
    assert names == [["a"], ["b"] if has_record else None, ["c"]]


def test_runs_without_records_have_no_kernels():
    runs = [Run(0, 0, completed=True), Run(0, 10_000, completed=True)]
    add_kernels(runs, [recorded(0)], {})
    assert [run.kernels for run in runs] == [[], None]


FUSED = {
    "a/MatMul_1": "a/MatMul_1",
    "a/MatMul_1/MatMulAddFusion": "a/MatMul_1",
    "fused a/MatMul_1/MatMulAddFusion": "a/MatMul_1",
    "MatMul/MatmulTransposeFusion//MatMulScaleFusion/": "MatMul",
    "MatMul_12": None,
    "MatMul_token_3": None,
    "Scan_body_in0_out": "Scan",
    "MatMul_out_out": "MatMul",
    "a/MatMul_1_out1_out_2": "a/MatMul_1",
}


@pytest.mark.parametrize("name", FUSED)
def test_names_of_fused_nodes(name):
    sites = {key: (key, 1) for key in ("MatMul", "a/MatMul", "a/MatMul_1", "Scan")}
    run = Run(0, 0, completed=True)
    add_kernels([run], [recorded(0, (0, 1, name))], sites)
    (kernel,) = run.kernels
    assert isinstance(kernel, Kernel)
    assert kernel.origin == (None if FUSED[name] is None else (FUSED[name], 1))
