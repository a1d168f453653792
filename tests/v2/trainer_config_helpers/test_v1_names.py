"""The names of v1: the same things as in v2, and what only v1 had."""

import importlib
import logging

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import build, settings, trainer_config_helpers
from pd_v2.py_paddle import swig_paddle
from pd_v2.trainer_config_helpers import config_parser
from pd_v2.trainer_config_helpers.config_parser_utils import reset_parser
from pd_v2.trainer_config_helpers.default_decorators import wrap_name_default

A, L, T = paddle.activation, paddle.layer, paddle.data_type


def part(name):
    return importlib.import_module(f"pd_v2.trainer_config_helpers.{name}")


# ---- the same things


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("layers", "fc_layer", L.fc),
        ("layers", "embedding_layer", L.embedding),
        ("layers", "img_pool_layer", L.img_pool),
        ("layers", "print_layer", L.printer),
        ("layers", "maxid_layer", L.max_id),
        ("layers", "sub_seq_layer", L.sub_seq),
        ("layers", "last_seq", L.last_seq),
        ("layers", "lstmemory", L.lstmemory),
        ("layers", "memory", L.memory),
        ("layers", "cos_sim", L.cos_sim),
        ("layers", "cross_entropy", L.cross_entropy_cost),
        ("layers", "classification_cost", L.classification_cost),
        ("layers", "full_matrix_projection", L.full_matrix_projection),
        ("layers", "conv_operator", L.conv_operator),
        ("layers", "recurrent_group", L.recurrent_group),
        ("layers", "factorization_machine", L.factorization_machine),
        ("layers", "StaticInput", L.StaticInput),
        ("layers", "BeamInput", L.BeamInput),
        ("activations", "LinearActivation", A.Linear),
        ("activations", "BaseActivation", A.Base),
        ("activations", "SequenceSoftmaxActivation", A.SequenceSoftmax),
        ("poolings", "SquareRootNPooling", paddle.pooling.SquareRootN),
        ("poolings", "BasePoolingType", paddle.pooling.BasePool),
        ("attrs", "ParamAttr", paddle.attr.Param),
        ("attrs", "HookAttribute", paddle.attr.Hook),
        ("evaluators", "auc_evaluator", paddle.evaluator.auc),
        ("evaluators", "sum_evaluator", paddle.evaluator.sum),
        ("networks", "simple_lstm", paddle.networks.simple_lstm),
        ("optimizers", "ModelAverage", paddle.optimizer.ModelAverage),
    ],
)
def test_a_thing_has_all_its_names(module, old, new):
    assert getattr(part(module), old) is new
    assert getattr(trainer_config_helpers, old) is new
    assert old in part(module).__all__ and old in trainer_config_helpers.__all__


def later_name(old):
    """The rule by which v2 named the layers of v1."""
    if old == "maxid_layer":
        return "max_id"
    if old.endswith(("memory", "_seq", "_sim")) or old == "hsigmoid":
        return old
    if old in ("cross_entropy", "multi_binary_label_cross_entropy", "cross_entropy_with_selfnorm"):
        return f"{old}_cost"
    return old.removesuffix("_layer")


def test_layers_are_named_by_the_rule_of_v2():
    names = part("layers").__all__
    for old in names:
        assert getattr(part("layers"), old) is getattr(L, later_name(old)), old
    only_v2 = {"cross_entropy", "mse_cost", "data", "get_layer", "parse_network"}
    only_v2 |= {"GeneratedInputV2", "StaticInputV2"}
    # Every other layer of v2 has exactly one name of v1.
    later = [later_name(old) for old in names]
    missing = set(L.__all__) - only_v2 - {*later}
    assert not missing, "they have no name in pd_v2/trainer_config_helpers/layers.py"
    assert sorted(later) == sorted(set(L.__all__) - only_v2)


def test_everything_at_once():
    names = {}
    exec("from pd_v2.trainer_config_helpers import *", names)
    assert names["fc_layer"] is L.fc and names["maxid_layer"] is L.max_id
    assert names.keys() - {"__builtins__"} == set(trainer_config_helpers.__all__)


# How many names `from paddle.trainer_config_helpers.<part> import *` gives.
COUNTS = {
    "activations": 18,
    "attrs": 6,
    "evaluators": 15,
    "layers": 116,
    "networks": 20,
    "optimizers": 2,
    "poolings": 9,
}


@pytest.mark.parametrize("module", COUNTS)
def test_a_star_import_gives_the_names_of_v1(module):
    names = {}
    exec(f"from pd_v2.trainer_config_helpers.{module} import *", names)
    del names["__builtins__"]
    assert sorted(names) == sorted(part(module).__all__)
    assert len(names) == COUNTS[module], f"{module}: a name more or less than COUNTS says"
    for name, thing in names.items():
        assert getattr(trainer_config_helpers, name) is thing
        assert name in dir(trainer_config_helpers)


def test_functions_of_layers_are_in_a_module():
    names = {}
    exec("from pd_v2.trainer_config_helpers import *", names)
    x = L.data(name="x", type=T.dense_vector(2))
    y = names["layer_math"].square(x) + 1.0
    assert pd.eval(y, {x: np.float32([[3, -2]])}).tolist() == [[10, 5]]
    for name in part("layer_math").__all__:
        assert getattr(part("layer_math"), name) is getattr(paddle.op, name)


@pytest.mark.parametrize(
    ("module", "today", "ending", "renamed", "only_v2"),
    [
        ("activations", A, "Activation", {}, ()),
        ("attrs", paddle.attr, "", {}, ("Extra", "Hook", "Param")),
        ("evaluators", paddle.evaluator, "_evaluator", {}, ("seq_classification_error",)),
        ("networks", paddle.networks, "", {}, ()),
        ("poolings", paddle.pooling, "Pooling", {"BasePool": "BasePoolingType"}, ()),
    ],
)
def test_names_of_v1_follow_those_of_v2(module, today, ending, renamed, only_v2):
    names = {
        renamed.get(name, f"{name}{ending}"): name for name in today.__all__ if name not in only_v2
    }
    assert names.keys() == set(part(module).__all__)
    for old, new in names.items():
        assert getattr(part(module), old) is getattr(today, new)


def test_an_unknown_name_of_the_package_is_an_error():
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        trainer_config_helpers.nope  # noqa: B018


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("layers", "data_layer"),
        ("layers", "parse_network"),
        ("evaluators", "seq_classification_error_evaluator"),
        ("networks", "outputs"),
        ("attrs", "Param"),
        ("config_parser", "parse_config"),
    ],
)
def test_what_v2_has_not_is_not_there(module, name):
    assert not hasattr(part(module), name)


# ---- automatic names


def test_names_are_counted_for_each_decorated_function():
    @wrap_name_default("conv")
    def first(size, name=None):
        return size, name

    @wrap_name_default("conv")
    def second(name=None):
        return name

    assert [first(1), first(2, name=None), first(size=3)] == [
        (1, "__conv_0__"),
        (2, "__conv_1__"),
        (3, "__conv_2__"),
    ]
    assert [first(4, name="mine"), first(5, "yours"), first(6)] == [
        (4, "mine"),
        (5, "yours"),
        (6, "__conv_3__"),
    ]
    assert second() == "__conv_0__"
    assert first.__name__ == "first"


def test_names_of_methods():
    class Converter:
        @wrap_name_default("fc_layer")
        def convert(self, params, name=None):
            return params, name

    assert [Converter().convert(p, name=None) for p in "ab"] == [
        ("a", "__fc_layer_0__"),
        ("b", "__fc_layer_1__"),
    ]


def test_a_prefix_of_its_own_and_another_argument():
    @wrap_name_default(name_param="layer_name")
    def tower(**options):
        return options["layer_name"]

    assert [tower(), tower(layer_name="a"), tower()] == ["__tower_0__", "a", "__tower_1__"]


def test_a_network_of_ones_own_is_named():
    @wrap_name_default("block")
    def block(input, name=None):
        return L.fc(L.fc(input, size=2, name=f"{name}_a"), size=2, name=name)

    x = L.data(name="x", type=T.dense_vector(2))
    y = block(block(x))
    names = [layer.name for layer in paddle.topology.Topology(y).proto().layers]
    assert names == ["x", "__block_0___a", "__block_0__", "__block_1___a", "__block_1__"]


# ---- the network that is being described


def net(width, rate=0.1):
    """A trainer of y = x w, its pool and its cost."""
    x = L.data(name="x", type=T.dense_vector(width))
    y = L.fc(x, size=1, act=A.Linear(), bias_attr=False)
    cost = L.square_error_cost(y, L.data(name="t", type=T.dense_vector(1)))
    pool = paddle.parameters.create(cost)
    optimizer = paddle.optimizer.Momentum(learning_rate=rate)
    return paddle.trainer.SGD(cost, pool, optimizer), pool, cost


@pytest.mark.parametrize("reset", [reset_parser, config_parser.begin_parse])
def test_names_count_anew_after_a_reset(reset):
    _, _, first = net(3)
    before = paddle.topology.Topology(first).proto()
    reset()
    _, pool, second = net(3)
    assert paddle.topology.Topology(second).proto() == before
    reset()
    trainer, other, _ = net(5)
    assert pool.get_shape("___fc_layer_0__.w0") == (3, 1)
    assert other.get_shape("___fc_layer_0__.w0") == (5, 1)
    trainer.train(lambda: iter([[([1.0] * 5, [2.0])]]))


def test_names_of_decorated_functions_count_anew_too():
    @wrap_name_default("block")
    def block(name=None):
        return name

    assert [block(), block()] == ["__block_0__", "__block_1__"]
    reset_parser()
    assert block() == "__block_0__"


def test_what_was_made_before_a_reset_works_on():
    trainer, pool, _ = net(1, rate=0.5)
    pool["___fc_layer_0__.w0"] = np.full((1, 1), 3.0)
    reset_parser()
    _, other, _ = net(1)
    other["___fc_layer_0__.w0"] = np.full((1, 1), 7.0)
    trainer.train(lambda: iter([[([1.0], [2.0])]]), event_handler=lambda event: None)
    assert pool["___fc_layer_0__.w0"].item() == pytest.approx(3.0 - 0.5 * 2 * (3 - 2))
    assert other["___fc_layer_0__.w0"].item() == 7.0
    assert trainer.test(lambda: iter([[([1.0], [2.5])]])).cost == pytest.approx(0.25)


def test_layers_of_before_are_forgotten():
    _, _, cost = net(1)
    paddle.evaluator.sum(input=cost)
    assert L.get_layer("x") is not None
    reset_parser()
    assert L.get_layer("x") is None and build.current().evaluators == []
    with pytest.raises(ValueError, match="another build"):
        paddle.topology.Topology(cost)
    with pytest.raises(KeyError):
        pd.get_variable("___fc_layer_0__.w0")


def test_defaults_are_forgotten():
    regularization = paddle.optimizer.L2Regularization(rate=0.25)
    paddle.optimizer.Momentum(learning_rate=0.1, regularization=regularization)

    def decay():
        y = L.fc(L.data(name="x", type=T.dense_vector(1)), size=1, bias_attr=False)
        topology = paddle.topology.Topology(y)
        topology.update_from_default()
        return topology.proto().parameters[0].decay_rate

    assert decay() == 0.25
    reset_parser()
    assert decay() == 0.0


def test_the_stream_of_initial_values_goes_on():
    first = net(2)[1]["___fc_layer_0__.w0"]
    reset_parser()
    second = net(2)[1]["___fc_layer_0__.w0"]
    with build.fresh():
        net(2)
        y = L.fc(L.get_layer("x"), size=1, bias_attr=False)
        pool = paddle.parameters.create(y)
        expected = pool["___fc_layer_1__.w0"].reshape(-1)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(second, expected)


def test_the_map_of_layers_is_that_of_now():
    net(4)
    assert list(config_parser.g_layer_map) == [
        "x",
        "__fc_layer_0__",
        "t",
        "__square_error_cost_0__",
    ]
    assert config_parser.g_layer_map["x"].size == 4
    config_parser.begin_parse()
    assert config_parser.g_layer_map == {}


def test_the_logger_is_that_of_paddle():
    assert config_parser.logger is logging.getLogger("paddle")


# ---- the native library


@pytest.fixture
def process(monkeypatch):
    """A process with a GPU, whose environment stays as it is."""
    monkeypatch.setattr(settings, "gpu_available", lambda: True)
    monkeypatch.setattr(pd, "use_device", lambda device: None)
    monkeypatch.setattr(settings, "set_omp_mkl_env_vars", lambda count: None)


def test_options_as_on_a_command_line(process):
    assert (swig_paddle.isUsingGpu(), swig_paddle.getTrainerCount()) == (False, 1)
    swig_paddle.initPaddle("--use_gpu=true", "--trainer_count=3", "--save_dir=a=b")
    assert (swig_paddle.isUsingGpu(), swig_paddle.getTrainerCount()) == (True, 3)
    assert settings.current().flags["save_dir"] == "a=b"
    swig_paddle.setUseGpu(False)
    assert (swig_paddle.isUsingGpu(), swig_paddle.getTrainerCount()) == (False, 3)


@pytest.mark.parametrize("found", [True, False])
def test_a_version_for_gpus_is_one_with_a_gpu(found, monkeypatch):
    monkeypatch.setattr(settings, "gpu_available", lambda: found)
    assert swig_paddle.isGpuVersion() is found


@pytest.mark.parametrize("option", ["use_gpu=true", "--use_gpu", "--=1"])
def test_options_that_are_none(option, process):
    with pytest.raises(ValueError, match=f"written --name=value, not '{option}'"):
        swig_paddle.initPaddle(option)
