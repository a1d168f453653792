"""Topologies: which layers belong, in which order, and the files made of them."""

import copyreg
import io
import pickle
import pickletools

import numpy as np
import onnx
import onnxruntime
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import build
from pd_v2.data_type import InputType
from pd_v2.formats.proto import ModelConfig
from pd_v2.topology import Topology

A, L, T = paddle.activation, paddle.layer, paddle.data_type


@pytest.fixture
def digits():
    """A small classifier: (cost, prediction, hidden layer)."""
    label = L.data(name="label", type=T.integer_value(3))
    x = L.data(name="x", type=T.dense_vector(4))
    h = L.fc(x, size=5, name="h")
    p = L.fc(h, size=3, name="p", act=A.Softmax())
    return L.classification_cost(input=p, label=label, name="cost"), p, h


def names(messages):
    return [m.name for m in messages]


def test_only_what_the_outputs_need_in_the_order_of_definition(digits):
    cost, p, _ = digits
    L.fc(p, size=2, name="unused")
    model = Topology(cost).proto()
    assert names(model.layers) == ["label", "x", "h", "p", "cost"]
    assert names(model.parameters) == ["_h.w0", "_h.wbias", "_p.w0", "_p.wbias"]
    assert list(model.input_layer_names) == ["label", "x"]
    assert list(model.output_layer_names) == ["cost"]
    assert names(Topology(p).proto().layers) == ["x", "h", "p"]


def test_outputs_keep_their_order_without_extra_layers(digits):
    cost, p, h = digits
    other = L.fc(h, size=2, name="other")
    topology = Topology([p, h], extra_layers=other)
    model = topology.proto()
    assert list(model.output_layer_names) == ["p", "h"]
    assert names(model.layers) == ["x", "h", "p", "other"]
    assert topology.layers == [p, h, other] and cost not in topology.layers


def test_extra_layers_may_be_none(digits):
    cost, *_ = digits
    assert Topology(cost, None).layers == [cost]


def test_an_evaluator_belongs_where_all_its_layers_do(digits):
    cost, p, _ = digits
    paddle.evaluator.classification_error(input=p, label=L.get_layer("label"), name="own")
    assert names(Topology(cost).proto().evaluators) == ["classification_error_evaluator", "own"]
    assert names(Topology(p).proto().evaluators) == []
    both = Topology(p, extra_layers=L.get_layer("label")).proto()
    assert names(both.evaluators) == ["classification_error_evaluator", "own"]
    assert list(both.sub_models[0].evaluator_names) == names(both.evaluators)


def test_networks_of_one_process_keep_their_metrics_apart():
    """Their evaluators have one name; in 2017 the second one broke the first network."""
    found, classes = [], 3
    for n in range(2):
        x = L.data(name=f"x{n}", type=T.dense_vector(classes))
        label = L.data(name=f"label{n}", type=T.integer_value(classes))
        p = L.fc(x, size=classes, name=f"p{n}", act=A.Softmax(), bias_attr=False)
        found.append(L.classification_cost(input=p, label=label))
    pool = paddle.parameters.create(found)
    for n in range(2):
        pool[f"_p{n}.w0"] = np.roll(np.eye(classes), n, axis=1)
    metrics = []
    for cost in found:
        assert names(Topology(cost).proto().evaluators) == ["classification_error_evaluator"]
        trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum())
        metrics.append(trainer.test(lambda: iter([[([1.0, 0.0, 0.0], 0)]])).metrics)
    assert metrics == [{"classification_error_evaluator": e} for e in (0.0, 1.0)]
    both = paddle.trainer.SGD(found, pool, paddle.optimizer.Momentum())
    sample = ([1.0, 0.0, 0.0], 0, [1.0, 0.0, 0.0], 0)
    assert both.test(lambda: iter([[sample]])).metrics == metrics[0]


def test_data_types_in_the_order_of_definition(digits):
    cost, *_ = digits
    expected = [("label", T.integer_value(3)), ("x", T.dense_vector(4))]
    assert Topology(cost).data_type() == expected
    assert list(Topology(cost).data_layers()) == ["label", "x"]


def test_layers_by_name(digits):
    cost, p, _ = digits
    topology = Topology(cost)
    assert topology.get_layer("p") is p and topology.get_layer("none") is None
    assert topology.get_layer_proto("p").active_type == "softmax"
    assert topology.get_layer_proto("none") is None
    assert L.get_layer("cost") is cost


def test_parse_network_is_the_configuration(digits):
    cost, p, _ = digits
    assert L.parse_network(cost) == Topology(cost).proto()
    assert L.parse_network([cost, p], extra_layers=[p]).output_layer_names == ["cost", "p"]


def test_a_sparse_updater_is_used_where_a_parameter_asks_for_it(digits):
    cost, p, _ = digits
    assert not Topology(cost).use_sparse_updater()
    sparse = L.fc(p, size=2, param_attr=paddle.attr.Param(sparse_update=True))
    assert Topology(sparse).use_sparse_updater()


def test_only_layers_of_this_build(digits):
    cost, *_ = digits
    with pytest.raises(ValueError, match=r"layer should have type paddle.v2.config_base.Layer"):
        Topology(["cost"])
    with build.fresh(), pytest.raises(ValueError, match="were built in another build"):
        Topology(cost)


# ---- the pickle of 2017


class OldInputType:
    """What 2017's pickles name paddle.trainer.PyDataProvider2.InputType."""

    __slots__ = ("dim", "seq_type", "type")


class OldReader(pickle.Unpickler):
    """Finds only what a process of 2017 had."""

    def find_class(self, module, name):
        known = {
            ("paddle.trainer.PyDataProvider2", "InputType"): OldInputType,
            ("_codecs", "encode"): super().find_class("_codecs", "encode"),
            ("copyreg", "__newobj__"): copyreg.__newobj__,
        }
        return known[module, name]


def test_2017_reads_the_pickled_topology(digits):
    _, p, _ = digits
    stream = io.BytesIO()
    Topology([p, L.get_layer("label")]).serialize_for_inference(stream)
    content = OldReader(io.BytesIO(stream.getvalue())).load()
    assert (
        ModelConfig.FromString(content["protobin"]) == Topology([p, L.get_layer("label")]).proto()
    )
    found = [(name, t.dim, t.seq_type, t.type) for name, t in content["data_type"]]
    assert found == [("label", 3, 0, 3), ("x", 4, 0, 0)]


def test_the_pickle_is_of_protocol_2(digits):
    stream = io.BytesIO()
    Topology(digits[1]).serialize_for_inference(stream)
    codes = [opcode for opcode, _, _ in pickletools.genops(stream.getvalue())]
    assert codes[0].name == "PROTO" and max(code.proto for code in codes) == 2


def test_the_pickle_loads_here_too(digits):
    import pd_v2.as_paddle  # the class is found under its name of 2017

    stream = io.BytesIO()
    Topology(digits[1]).serialize_for_inference(stream)
    content = pickle.loads(stream.getvalue())
    assert content["data_type"] == [("x", T.dense_vector(4))]
    assert type(content["data_type"][0][1]) is InputType
    assert pd_v2.as_paddle


# ---- ONNX


def test_export(digits, tmp_path, rng):
    cost, p, h = digits
    pool = paddle.parameters.create(cost)
    path = str(tmp_path / "model.onnx")
    Topology([p, h]).export_onnx(path, pool)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert [i.name for i in model.graph.input] == ["x"]
    assert [o.name for o in model.graph.output] == ["p", "h"]
    shapes = [v.type.tensor_type.shape.dim for v in (*model.graph.input, *model.graph.output)]
    assert [[d.dim_param or d.dim_value for d in dims] for dims in shapes] == [
        ["batch", 4],
        ["batch", 3],
        ["batch", 5],
    ]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for n in (1, 7):
        x = rng.standard_normal((n, 4)).astype(np.float32)
        expected = pd.eval([p, h], {"x": x})
        for found, value in zip(session.run(None, {"x": x}), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-6)


def test_export_of_a_cost_reads_the_label(digits, tmp_path):
    cost, *_ = digits
    pool = paddle.parameters.create(cost)
    path = str(tmp_path / "cost.onnx")
    Topology(cost).export_onnx(path, pool)
    inputs = onnx.load(path).graph.input
    assert [i.name for i in inputs] == ["label", "x"]


def test_export_has_the_values_of_the_pool(digits, tmp_path):
    _, p, _ = digits
    pool = paddle.parameters.create(p)
    for name in pool:
        pool[name] = np.zeros(pool.get_shape(name))
    pool["_p.wbias"] = np.log([[1.0, 2.0, 5.0]])
    path = str(tmp_path / "p.onnx")
    Topology(p).export_onnx(path, pool)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(["p"], {"x": np.zeros((1, 4), np.float32)})
    np.testing.assert_allclose(found, [[0.125, 0.25, 0.625]], rtol=1e-6)


def test_export_needs_a_value_for_each_parameter(digits, tmp_path):
    _, p, h = digits
    pool = paddle.parameters.create(h)
    with pytest.raises(ValueError, match=r"no value for the parameters \['_p.w0', '_p.wbias'\]"):
        Topology(p).export_onnx(str(tmp_path / "p.onnx"), pool)


# ---- what an optimizer fills in


def settings_of(topology):
    return {c.name: (c.momentum, c.decay_rate) for c in topology.proto().parameters}


def test_defaults_are_those_of_an_optimizer(digits):
    *_, h = digits
    L2 = paddle.optimizer.L2Regularization
    topology = Topology(L.fc(h, size=1, name="own", param_attr=paddle.attr.Param(l2_rate=0.5)))
    topology.update_from_default()
    assert set(settings_of(topology).values()) == {(0.0, 0.0), (0.0, 0.5)}
    last = paddle.optimizer.Momentum(momentum=0.9, regularization=L2(0.1))
    topology.update_from_default(paddle.optimizer.Momentum(momentum=0.5))
    assert settings_of(topology)["_own.w0"] == (0.5, 0.5)
    paddle.optimizer.Adam(regularization=L2(0.2))
    topology.update_from_default()
    assert settings_of(topology) == {
        "_h.w0": (0.5, 0.2),
        "_h.wbias": (0.5, 0.2),
        "_own.w0": (0.5, 0.5),
        "_own.wbias": (0.5, 0.2),
    }
    assert build.current().update_equation is not last


def test_the_layers_of_a_network_by_name(digits):
    cost, p, h = digits
    topology = Topology(p)
    assert topology.member("h") is h and topology.member("cost") is None
    assert topology.get_layer("cost") is cost
