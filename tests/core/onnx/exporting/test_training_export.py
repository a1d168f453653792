"""A training step as one ONNX file, driven by plain onnxruntime."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest

import pd_core as pd


def drive(path, feeds, steps):
    """Run an exported step with nothing but onnxruntime: (fetches of each run, last state)."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    metadata = session.get_modelmeta().custom_metadata_map
    following, fetched = json.loads(metadata["pd.state"]), json.loads(metadata["pd.fetches"])
    names = [o.name for o in session.get_outputs()]
    state, history = {}, []
    for step in range(steps):
        out = dict(zip(names, session.run(None, {**feeds(step), **state}), strict=True))
        history.append([out[name] for name in fetched])
        state = {into: out[name] for name, into in following.items()}
    return history, state


def network(optimizer, rate=0.0):
    x = pd.Variable("x", shape=[None, 6])
    label = pd.Variable("label", shape=[None], dtype="int64")
    h = pd.fc(x, 5, act="tanh", W="w1", B="b1")
    h = pd.dropout(h, rate) if rate else h
    cost = pd.reduce_mean(pd.cross_entropy(pd.softmax(h, size=3, W="w2", B="b2"), label))
    return x, label, cost, optimizer.minimize(cost)


def batch(k):
    rng = np.random.default_rng(k)
    return rng.normal(size=(4 + k % 3, 6)).astype("f"), rng.integers(0, 3, 4 + k % 3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: pd.MomentumOptimizer(0.1, regularizer=pd.L2(0.01)),
        lambda: pd.AdamOptimizer(0.01),
        lambda: pd.SGDOptimizer(pd.schedules.ExponentialDecay(0.1, 0.5, every=4)),
        lambda: pd.LAMBOptimizer(
            pd.schedules.CosineRestarts(0.1, 3, factor=2),
            groups=[{"params": "^b", "weight_decay": 0.0}],
            accumulate=3,
        ),
        lambda: pd.RAdamOptimizer(pd.schedules.OneCycle(0.1, 20)),
        lambda: pd.NAdamOptimizer(0.01),
        lambda: pd.AdaFactorOptimizer(0.05, weight_decay=0.01),
        lambda: pd.LionOptimizer(pd.schedules.ReduceOnPlateau(0.01)),
        lambda: pd.MuonOptimizer(
            0.01, groups=[{"params": lambda w: w.rank != 2, "use_muon": False}]
        ),
        lambda: pd.Lookahead(pd.MomentumOptimizer(0.1), k=3),
    ],
    ids=[
        "momentum",
        "adam",
        "schedule",
        "lamb",
        "radam",
        "nadam",
        "adafactor",
        "lion",
        "muon",
        "lookahead",
    ],
)
def test_twenty_steps_in_onnxruntime_give_the_same_parameters(make, tmp_path):
    x, label, cost, step = network(make())
    path = tmp_path / "step.onnx"
    model = pd.export_step(path, step, [cost])
    assert {o.domain for o in model.opset_import} == {""}

    def feeds(k):
        images, labels = batch(k)
        return {"x": images, "label": labels}

    history, state = drive(path, feeds, 20)
    for k in range(20):
        images, labels = batch(k)
        _, c = pd.eval([step, cost], {x: images, label: labels})
        assert np.allclose(history[k][0], c, rtol=1e-5)
    for v in pd.trainable_variables():
        assert np.allclose(state[v.name], v.val(), rtol=1e-5, atol=1e-6)


def test_random_masks_follow_the_session(tmp_path):
    x, label, cost, step = network(pd.SGDOptimizer(0.1), rate=0.5)
    pd.eval(step, {x: batch(0)[0], label: batch(0)[1]})
    pd.export_step(tmp_path / "step.onnx", step, [cost])
    images, labels = batch(1)
    history, state = drive(tmp_path / "step.onnx", lambda _: {"x": images, "label": labels}, 3)
    costs = [float(pd.eval([step, cost], {x: images, label: labels})[1]) for _ in range(3)]
    assert np.allclose([float(h[0]) for h in history], costs, rtol=1e-5)
    assert len(set(costs)) == 3 and state["random_seed"][0, 1] == 4


@pytest.mark.parametrize("seed", [0, 7, -(2**40)])
def test_random_masks_of_a_seed(seed, tmp_path):
    """A step of any session draws what a fresh session of this seed does."""
    x, label, cost, step = network(pd.SGDOptimizer(0.1), rate=0.5)
    images, labels = batch(0)
    session = pd.Session(seed=seed)
    values = [pd.eval(v) for v in pd.trainable_variables()]
    pd.export_step(tmp_path / "step.onnx", step, [cost], seed=seed)
    history, state = drive(tmp_path / "step.onnx", lambda _: {"x": images, "label": labels}, 3)
    for v, value in zip(pd.trainable_variables(), values, strict=True):
        session.set(v, value)
    feeds = {x: images, label: labels}
    costs = [float(session.eval([step, cost], feeds)[1]) for _ in range(3)]
    assert np.allclose([float(h[0]) for h in history], costs, rtol=1e-5)
    assert state["random_seed"].tolist() == [[seed, 3]]


@pytest.mark.parametrize(
    "seed, error, words",
    [
        (True, TypeError, "a seed is a whole number, not True"),
        (1.5, TypeError, "a seed is a whole number, not 1.5"),
        ("7", TypeError, "a seed is a whole number, not '7'"),
        (2**63, ValueError, f"a seed is an int64, which {2**63} does not fit"),
    ],
)
def test_what_is_no_seed(seed, error, words):
    *_, cost, step = network(pd.SGDOptimizer(0.1))
    with pytest.raises(error, match=f"export_step: {words}"):
        pd.export_step(None, step, [cost], seed=seed)
    with pytest.raises(error, match=f"export: {words}"):
        pd.export_onnx(None, cost, seed=seed)


def test_the_file_says_what_is_what(tmp_path):
    _, _, cost, step = network(pd.MomentumOptimizer(0.1))
    pd.export_step(tmp_path / "step.onnx", step, [cost])
    model = onnx.load(tmp_path / "step.onnx")
    metadata = {p.key: p.value for p in model.metadata_props}
    inputs = [i.name for i in model.graph.input]
    outputs = [o.name for o in model.graph.output]
    state = json.loads(metadata["pd.state"])
    assert set(json.loads(metadata["pd.feeds"])) == {"x", "label"}
    assert set(inputs) == {"x", "label", *state.values()} and len(state) == 8
    assert json.loads(metadata["pd.fetches"]) == outputs[:1] == [cost.name]
    assert {t.name for t in model.graph.initializer} >= set(state.values())
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_the_state_in_a_model_of_its_own(tmp_path):
    """Without defaults, for runtimes that accept no value for an input with one."""
    *_, cost, step = network(pd.MomentumOptimizer(0.1), rate=0.5)
    pd.get_variable("b1").trainable = False
    model = pd.export_step(tmp_path / "step.onnx", step, [cost], initial=tmp_path / "initial.onnx")
    defaults = pd.export_step(None, step, [cost])
    runtime = onnxruntime.InferenceSession(tmp_path / "initial.onnx")
    assert runtime.get_inputs() == []
    names = [o.name for o in runtime.get_outputs()]
    values = dict(zip(names, runtime.run(None, {}), strict=True))
    inputs = {i.name for i in model.graph.input}
    assert set(values) == inputs - {"x", "label"} and "b1" in values
    assert not inputs & {t.name for t in model.graph.initializer}
    for tensor in defaults.graph.initializer:
        if tensor.name in inputs:
            np.testing.assert_array_equal(values[tensor.name], onnx.numpy_helper.to_array(tensor))
    # what follows an input has its name, unless it stays as it is
    outputs = {o.name for o in model.graph.output}
    assert outputs == {cost.name} | {f"{name}_next" for name in values if name != "b1"}


def test_a_name_that_is_taken_keeps_its_meaning(tmp_path):
    w = pd.Variable("w", data=2.0)
    x = pd.Variable("w_next", shape=[None])
    cost = pd.reduce_sum(x * w)
    step = pd.SGDOptimizer(0.1).minimize(cost)
    pd.export_step(tmp_path / "step.onnx", step, [cost])
    history, state = drive(tmp_path / "step.onnx", lambda _: {"w_next": np.ones(3, "f")}, 2)
    assert [float(h[0]) for h in history] == pytest.approx([6.0, 5.1])
    assert state["w"] == pytest.approx(1.4)


def test_a_frozen_variable_stays_in_the_exported_step(tmp_path):
    *_, cost, step = network(pd.SGDOptimizer(0.1))
    pd.get_variable("w1").trainable = False
    model = pd.export_step(None, step, [cost])
    state = json.loads(next(p.value for p in model.metadata_props if p.key == "pd.state"))
    assert "w1" not in state.values() and "w2" in state.values()


def test_loops_are_exported_with_the_step(tmp_path):
    xs = pd.Variable("xs", shape=[4, None, 3])
    w = pd.Variable("w", shape=[3, 3])
    final, _ = pd.scan(
        lambda h, v: (pd.tanh(pd.matmul(h, w) + v), None), pd.constant(np.zeros((1, 3), "f")), xs
    )
    cost = pd.reduce_sum(pd.square(final))
    step = pd.SGDOptimizer(0.05).minimize(cost)
    pd.export_step(tmp_path / "step.onnx", step, [cost])
    data = np.random.default_rng(0).normal(size=(4, 1, 3)).astype("f")
    _, state = drive(tmp_path / "step.onnx", lambda _: {"xs": data}, 5)
    for _ in range(5):
        pd.eval(step, {xs: data})
    assert np.allclose(state["w"], w.val(), rtol=1e-5, atol=1e-6)


def test_wrong_arguments():
    x, _, cost, step = network(pd.SGDOptimizer(0.1))
    with pytest.raises(pd.ExportError, match="a step is what minimize"):
        pd.export_step(None, cost)
    with pytest.raises(pd.ExportError, match="not fed"):
        pd.export_step(None, step, [cost], inputs=[x])
    with pytest.raises(pd.ExportError, match="drawn on the host"):
        pd.export_step(None, pd.get_variable("w1").initializer)


def step_of(width=5, act="tanh", rate=0.2):
    x = pd.Variable("x", shape=[None, 6])
    label = pd.Variable("label", shape=[None], dtype="int64")
    h = pd.dropout(pd.fc(x, width, act=act), rate)
    cost = pd.reduce_mean(pd.softmax_cross_entropy(pd.fc(pd.layer_norm(h), 3), label))
    return cost, pd.AdamWOptimizer(0.01).minimize(cost)


def metadata_of(model):
    return {p.key: p.value for p in model.metadata_props}


@pytest.mark.parametrize("opset", [17, 18, 20, 21, 22, 23])
def test_a_step_in_another_opset(opset):
    cost, step = step_of()
    model = pd.export_step(None, step, [cost], opset=opset)
    assert [o.version for o in model.opset_import] == [opset]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    x, label = batch(0)
    found = session.run(None, {"x": x, "label": label})[0]
    assert found == pytest.approx(pd.eval([cost, step], {"x": x, "label": label})[0], rel=1e-5)


def test_an_opset_that_lacks_an_operator_of_the_step():
    cost, step = step_of()
    with pytest.raises(pd.ExportError, match=r"not in opset 13:\n  ScatterElements needs opset 16"):
        pd.export_step(None, step, [cost], opset=13)
    with pytest.raises(pd.ExportError, match=r"export_step: opset is 13 … 26, not 12"):
        pd.export_step(None, step, [cost], opset=12)


def test_a_digest_tells_which_state_fits():
    """It is one of names, types, shapes and operators, whatever values they have by now."""

    def digest(**options):
        with pd.fresh(seed=0):
            cost, step = step_of(**options)
            before = metadata_of(pd.export_step(None, step, [cost]))
            x, label = batch(0)
            pd.eval([cost, step], {"x": x, "label": label})
            after = metadata_of(pd.export_step(None, step, [cost]))
        assert before["pd.digest"] == after["pd.digest"]
        schema = json.loads(before["pd.schema"])
        assert set(schema) == set(json.loads(before["pd.state"]).values())
        return before["pd.digest"], schema

    first, schema = digest()
    assert digest()[0] == first
    others = [digest(**{k: v})[0] for k, v in (("width", 4), ("act", "relu"), ("rate", 0.0))]
    assert len({first, *others}) == 4
    assert {"type": "float32", "shape": [6, 5]} in schema.values()
    assert schema["random_seed"] == {"type": "int64", "shape": [1, 2]}


def test_a_step_in_ort_format_trains_alike_and_keeps_its_digest(tmp_path):
    x, label, cost, step = network(pd.AdamOptimizer(0.01), rate=0.2)
    model = pd.export_step(tmp_path / "step.onnx", step, [cost], [x, label])
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "step.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(tmp_path / "step.onnx", options)

    def feeds(k):
        return dict(zip(("x", "label"), batch(k), strict=True))

    (expected, _), (losses, _) = (drive(tmp_path / f"step.{x}", feeds, 20) for x in ("onnx", "ort"))
    np.testing.assert_allclose(losses, expected, rtol=1e-6)
    session = onnxruntime.InferenceSession(tmp_path / "step.ort")
    entries = {entry.key: entry.value for entry in model.metadata_props}
    assert session.get_modelmeta().custom_metadata_map["pd.digest"] == entries["pd.digest"]
