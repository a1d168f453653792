"""Param, Hook and Extra: what is in force, what it becomes in a configuration, what is refused."""

import math

import numpy as np
import pytest

from pd_v2 import attr, pooling
from pd_v2.attr import Extra, Hook, Param
from pd_v2.formats.proto import ParameterConfig


def configured(param, dims=(8, 4), size=32):
    config = ParameterConfig(name="w")
    param.configure(config, dims, size)
    return config


def test_one_class_under_its_names_of_2017():
    assert attr.Param is attr.ParamAttr is attr.ParameterAttribute
    assert attr.Extra is attr.ExtraAttr is attr.ExtraLayerAttribute
    assert attr.Hook is attr.HookAttr is attr.HookAttribute


# ---- Param: the settings in force


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ({}, {"initial_smart": True}),
        ({"initial_std": 0.1}, {"initial_std": 0.1, "initial_strategy": 0}),
        ({"initial_mean": 1}, {"initial_mean": 1, "initial_strategy": 0}),
        (
            {"initial_mean": 0.0, "initial_std": 0.0},
            {"initial_mean": 0.0, "initial_std": 0.0, "initial_strategy": 0},
        ),
        (
            {"initial_max": 0.5, "initial_min": -0.25},
            {"initial_mean": 0.125, "initial_std": 0.375, "initial_strategy": 1},
        ),
        (
            {"initial_max": 1, "initial_min": 0},
            {"initial_mean": 0.5, "initial_std": 0.5, "initial_strategy": 1},
        ),
        (
            {"initial_std": 0.1, "initial_max": 1.0, "initial_min": 0.0},
            {"initial_std": 0.1, "initial_strategy": 0},
        ),
    ],
)
def test_initial_value(arguments, settings):
    assert Param(**arguments).attr == settings


def test_every_setting():
    hook = Hook("pruning", 0.5)
    param = Param(
        name="w",
        l1_rate=0.0,
        l2_rate=0.1,
        learning_rate=2,
        momentum=np.float32(0.5),
        gradient_clipping_threshold=5.0,
        sparse_update=True,
        update_hooks=hook,
        initializer=len,
    )
    assert param.attr == {
        "initial_smart": True,
        "parameter_name": "w",
        "decay_rate_l1": 0.0,
        "decay_rate": 0.1,
        "learning_rate": 2,
        "momentum": 0.5,
        "gradient_clipping_threshold": 5.0,
        "sparse_update": True,
        "sparse_remote_update": True,
        "update_hooks": hook,
        "initializer": len,
    }


@pytest.mark.parametrize("arguments", [{"momentum": 0.9}, {"l1_rate": 0.1}])
def test_momentum_or_l1_alone(arguments):
    (value,) = arguments.values()
    assert list(Param(initial_std=1.0, **arguments).attr.values()) == [1.0, 0, value]


def test_a_static_parameter_drops_what_updates_use():
    rates = {"l1_rate": 0.1, "l2_rate": 0.1, "learning_rate": 2.0, "momentum": 0.9}
    assert Param(is_static=True, **rates).attr == {"is_static": True, "initial_smart": True}


def test_default_name_does_not_replace_a_name():
    param = Param()
    param.set_default_parameter_name("a")
    param.set_default_parameter_name("b")
    assert param.attr["parameter_name"] == "a"


def test_to_bias():
    param = Param()
    assert Param.to_bias(param) is param
    assert Param.to_bias(True) is False
    assert Param.to_bias(None) is False


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"initial_max": 1.0}, RuntimeError, "initial_max is 1.0, initial_min is not given"),
        ({"initial_min": 1.0}, RuntimeError, "initial_min is 1.0, initial_max is not given"),
        (
            {"initial_max": 1.0, "initial_min": 2.0},
            RuntimeError,
            "initial_min 2.0 is not below initial_max 1.0",
        ),
        ({"initial_max": 1, "initial_min": 1}, RuntimeError, "initial_min 1 is not below"),
        ({"initial_std": "0.1"}, RuntimeError, "initial_std is '0.1', not a number"),
        ({"initial_max": True, "initial_min": 0}, RuntimeError, "initial_max is True, not a"),
        ({"learning_rate": "fast"}, TypeError, "learning_rate is 'fast', not a number"),
        ({"l2_rate": [0.1]}, TypeError, r"l2_rate is \[0.1\], not a number"),
        ({"gradient_clipping_threshold": "5"}, TypeError, "threshold is '5', not a number"),
        (
            {"l1_rate": 0.1, "momentum": 0.9},
            RuntimeError,
            "l1_rate 0.1 and momentum 0.9 exclude each other",
        ),
        ({"initializer": 0.1}, TypeError, "initializer is 0.1, not callable"),
    ],
)
def test_param_refuses(arguments, error, message):
    with pytest.raises(error, match=f"^Param: .*{message}"):
        Param(**arguments)


# ---- Param: the configuration


@pytest.mark.parametrize(
    ("param", "dims", "size", "expected"),
    [
        (Param(), [8, 4], 32, (0.0, 0.35355339059327373, 0, True)),
        (Param(), [1, 4], 4, (0.0, 1.0, 0, True)),
        (Param(), [], 64, (0.0, 0.125, 0, True)),
        (Param(initial_mean=0.5), [8, 4], 32, (0.5, 0.01, 0, False)),
        (Param(initial_std=1e-4), [8, 4], 32, (0.0, 1e-4, 0, False)),
        (Param(initial_max=0.5, initial_min=-0.25), [8, 4], 32, (0.125, 0.375, 1, False)),
        (Param(initial_max=1.0, initial_min=-1.0), [9, 9], 81, (0.0, 1.0, 1, False)),
    ],
)
def test_configured_start(param, dims, size, expected):
    config = configured(param, dims, size)
    start = config.initial_mean, config.initial_std, config.initial_strategy, config.initial_smart
    assert start == expected
    assert (list(config.dims), config.size) == (dims, size)


def test_the_fields_2017_always_wrote():
    fields = [field.name for field, _ in configured(Param(name="v")).ListFields()]
    assert fields == [
        "name",
        "size",
        "initial_mean",
        "initial_std",
        "dims",
        "initial_strategy",
        "initial_smart",
    ]


def test_configured_settings():
    param = Param(
        l1_rate=0.0,
        l2_rate=0.1,
        learning_rate=np.float64(2),
        momentum=0.3,
        gradient_clipping_threshold=5,
        sparse_update=True,
        update_hooks=Hook("pruning", 0.25),
    )
    config = configured(param)
    assert config.HasField("decay_rate_l1") and config.decay_rate_l1 == 0.0
    assert (config.decay_rate, config.learning_rate, config.momentum) == (0.1, 2.0, 0.3)
    assert config.gradient_clipping_threshold == 5.0
    assert config.sparse_update and config.sparse_remote_update
    assert [(hook.type, hook.sparsity_ratio) for hook in config.update_hooks] == [("pruning", 0.25)]
    assert not config.HasField("is_static")
    assert configured(Param(is_static=True)).is_static


def test_a_configuration_is_written_anew():
    config = configured(Param(), [8, 4], 32)
    Param(initial_std=0.5).configure(config, [2, 3, 4], 24)
    assert (list(config.dims), config.size, config.initial_std) == ([2, 3, 4], 24, 0.5)


def test_settings_changed_in_place_are_used():
    param = Param()
    param.attr.update(initial_smart=False, initial_mean=0.0, initial_std=math.sqrt(2 / 9))
    config = configured(param)
    assert (config.initial_std, config.initial_smart) == (math.sqrt(2 / 9), False)


# ---- Hook


def test_hook_configuration():
    assert not Hook("pruning")().HasField("sparsity_ratio")
    assert Hook("pruning")().sparsity_ratio == 0.6
    assert Hook("dpruning", 1)().sparsity_ratio == 1.0
    assert Hook("pruning", 0)().sparsity_ratio == 0.0


def test_several_hooks():
    hooks = [Hook("pruning", 0.1), Hook("pruning", 0.2)()]
    config = configured(Param(update_hooks=hooks))
    assert [hook.sparsity_ratio for hook in config.update_hooks] == [0.1, 0.2]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("prune",), ValueError, "no hook type 'prune', there are pruning, dpruning"),
        (("pruning", 1.5), ValueError, r"sparsity_ratio is 1.5, outside \[0, 1\]"),
        (("pruning", "0.5"), TypeError, "sparsity_ratio is '0.5', not a number"),
    ],
)
def test_hook_refuses(arguments, error, message):
    with pytest.raises(error, match=message):
        Hook(*arguments)


# ---- Extra


def test_extra_settings():
    extra = Extra(error_clipping_threshold=3, drop_rate=1, device=1)
    assert extra.attr == {"error_clipping_threshold": 3.0, "drop_rate": 1.0, "device": 1}
    assert Extra.to_kwargs(extra) is extra.attr
    assert Extra.to_kwargs(None) == {}
    assert Extra().attr == {}
    least = {"error_clipping_threshold": 0.0, "drop_rate": 0.0}
    assert Extra(**least).attr == least
    assert Extra(error_clipping_threshold=0.5).attr == {"error_clipping_threshold": 0.5}


def test_extra_is_checked_against_the_layer():
    extra = Extra(drop_rate=0.5, device=0)
    with pytest.raises(NotImplementedError, match="Layer img_pool does not support drop_rate"):
        extra.check("img_pool")
    extra.can_drop_rate = True
    extra.check("fc")
    Extra(device=0).check("img_pool")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"error_clipping_threshold": -1}, ValueError, "threshold is -1.0, below 0"),
        ({"drop_rate": -0.1}, ValueError, r"drop_rate is -0.1, outside \[0, 1\]"),
        ({"drop_rate": 1.5}, ValueError, r"drop_rate is 1.5, outside \[0, 1\]"),
        ({"device": "gpu"}, TypeError, "device is 'gpu', not a number"),
    ],
)
def test_extra_refuses(arguments, error, message):
    with pytest.raises(error, match=f"^Extra: .*{message}"):
        Extra(**arguments)


# ---- pooling types


@pytest.mark.parametrize(
    ("pool", "name", "strategy"),
    [
        (pooling.Max(), "max", None),
        (pooling.MaxWithMask(), "max-pool-with-mask", None),
        (pooling.CudnnMax(), "cudnn-max-pool", None),
        (pooling.CudnnAvg(), "cudnn-avg-pool", None),
        (pooling.CudnnAvgInclPad(), "cudnn-avg-incl-pad-pool", None),
        (pooling.Avg(), "average", "average"),
        (pooling.Avg(pooling.Avg.STRATEGY_SUM), "average", "sum"),
        (pooling.Sum(), "average", "sum"),
        (pooling.SquareRootN(), "average", "squarerootn"),
    ],
)
def test_pooling_names(pool, name, strategy):
    assert isinstance(pool, pooling.BasePool)
    assert isinstance(pool, pooling.Avg) == (strategy is not None)
    assert (pool.name, getattr(pool, "strategy", None)) == (name, strategy)


def test_max_index():
    assert pooling.Max().output_max_index is None
    assert pooling.Max(output_max_index=True).output_max_index is True


def test_unknown_average_strategy():
    with pytest.raises(ValueError, match="Avg: no strategy 'mean', there are average, sum, square"):
        pooling.Avg("mean")
