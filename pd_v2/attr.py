"""Attributes of parameters (`Param`, `Hook`) and common options of layers (`Extra`)."""

import math
import numbers

from pd_v2.formats.proto import ParameterUpdaterHookConfig

__all__ = [
    "Extra",
    "ExtraAttr",
    "ExtraLayerAttribute",
    "Hook",
    "HookAttr",
    "HookAttribute",
    "Param",
    "ParamAttr",
    "ParameterAttribute",
]

_HOOK_TYPES = ("pruning", "dpruning")

# The default of `initial_mean` and of `initial_std` if only the other is given.
_DEFAULT_MEAN, _DEFAULT_STD = 0.0, 0.01
_NORMAL, _UNIFORM = 0, 1

# Arguments whose field of a ParameterConfig has another name.
_CONFIG_NAMES = {"l1_rate": "decay_rate_l1", "l2_rate": "decay_rate"}
_CONFIG_NUMBERS = (
    "decay_rate",
    "decay_rate_l1",
    "gradient_clipping_threshold",
    "learning_rate",
    "momentum",
)
_CONFIG_FLAGS = ("is_static", "sparse_remote_update", "sparse_update")


def _is_number(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _numbers(who, error, **settings):
    """Return the settings that are not None; raise `error` if one is not a number."""
    numbers_by_name = {name: value for name, value in settings.items() if value is not None}
    for name, value in numbers_by_name.items():
        if not _is_number(value):
            raise error(f"{who}: {name} is {value!r}, not a number")
    return numbers_by_name


class HookAttribute:
    """A hook on the updates of a parameter: 'pruning' keeps its smallest values at zero.

    `sparsity_ratio` is the share of the values that is zeroed, 0.6 by default.
    """

    def __init__(self, type, sparsity_ratio=None):
        if type not in _HOOK_TYPES:
            raise ValueError(f"Hook: no hook type {type!r}, there are {', '.join(_HOOK_TYPES)}")
        for ratio in _numbers("Hook", TypeError, sparsity_ratio=sparsity_ratio).values():
            if not 0 <= ratio <= 1:
                raise ValueError(f"Hook: sparsity_ratio is {ratio}, outside [0, 1]")
        self.type = type
        self.sparsity_ratio = sparsity_ratio

    def __call__(self):
        """Return the ParameterUpdaterHookConfig of this hook."""
        return ParameterUpdaterHookConfig(type=self.type, sparsity_ratio=self.sparsity_ratio)


class ParameterAttribute:
    """The settings of one parameter; those that apply are in the dict `attr`.

    The initial distribution depends on the arguments: by default it is normal with std
    1/sqrt(dims[0]); with `initial_std` or `initial_mean` normal with these (as in 2017 bounds are
    then ignored); with `initial_max` and `initial_min` uniform. An `initializer` (name -> array)
    overrides all.

    A static parameter is never updated, so its rates and its momentum are dropped.
    """

    def __init__(
        self,
        name=None,
        is_static=False,
        initial_std=None,
        initial_mean=None,
        initial_max=None,
        initial_min=None,
        l1_rate=None,
        l2_rate=None,
        learning_rate=None,
        momentum=None,
        gradient_clipping_threshold=None,
        sparse_update=False,
        update_hooks=None,
        initializer=None,
    ):
        self.attr = _initial_value(initial_std, initial_mean, initial_max, initial_min)
        if is_static:
            self.attr["is_static"] = True
        else:
            rates = {"l1_rate": l1_rate, "l2_rate": l2_rate, "learning_rate": learning_rate}
            self.attr.update(_learning(**rates, momentum=momentum))
        clipping = {"gradient_clipping_threshold": gradient_clipping_threshold}
        self.attr.update(_numbers("Param", TypeError, **clipping))
        if name is not None:
            self.attr["parameter_name"] = name
        if sparse_update:
            self.attr["sparse_update"] = self.attr["sparse_remote_update"] = True
        if update_hooks:
            self.attr["update_hooks"] = update_hooks
        if initializer is not None:
            if not callable(initializer):
                raise TypeError(f"Param: the initializer is {initializer!r}, not callable")
            self.attr["initializer"] = initializer

    def set_default_parameter_name(self, name):
        """Set the name of the parameter if it has none."""
        self.attr.setdefault("parameter_name", name)

    @staticmethod
    def to_bias(bias_attr):
        """Return `bias_attr` if it is a Param, otherwise False: no bias."""
        return bias_attr if isinstance(bias_attr, ParameterAttribute) else False

    def configure(self, config, dims, size):
        """Write these settings into a ParameterConfig, except for the name.

        The default distribution (`initial_smart`) is written as numbers, with the flag kept.
        """
        attr = self.attr
        smart = attr.get("initial_smart", False)
        config.size = size
        config.dims[:] = dims
        config.initial_mean = 0.0 if smart else attr.get("initial_mean", _DEFAULT_MEAN)
        config.initial_std = (
            _smart_std(dims, size) if smart else attr.get("initial_std", _DEFAULT_STD)
        )
        config.initial_strategy = attr.get("initial_strategy", _NORMAL)
        config.initial_smart = smart
        for name in _CONFIG_NUMBERS:
            if name in attr:
                setattr(config, name, float(attr[name]))
        for name in _CONFIG_FLAGS:
            if name in attr:
                setattr(config, name, attr[name])
        config.update_hooks.extend(_hook_configs(attr.get("update_hooks", ())))


def _initial_value(std, mean, high, low):
    """Return the `attr` entries of the initial distribution."""
    normal = _numbers("Param", RuntimeError, initial_std=std, initial_mean=mean)
    bounds = _numbers("Param", RuntimeError, initial_max=high, initial_min=low)
    if normal:
        return normal | {"initial_strategy": _NORMAL}
    if not bounds:
        return {"initial_smart": True}
    if len(bounds) == 1:
        ((bound, value),) = bounds.items()
        missing = "initial_min" if bound == "initial_max" else "initial_max"
        raise RuntimeError(f"Param: {bound} is {value}, {missing} is not given")
    if not low < high:
        raise RuntimeError(f"Param: initial_min {low} is not below initial_max {high}")
    mean = (high + low) / 2
    return {"initial_mean": mean, "initial_std": mean - low, "initial_strategy": _UNIFORM}


def _learning(**settings):
    """Return the `attr` entries of the updates of a parameter."""
    rates = _numbers("Param", TypeError, **settings)
    l1_rate, momentum = rates.get("l1_rate", 0), rates.get("momentum", 0)
    if l1_rate and momentum:
        # The soft threshold of L1 exists in the update without momentum only.
        raise RuntimeError(
            f"Param: l1_rate {l1_rate} and momentum {momentum} exclude each other, one must be 0"
        )
    return {_CONFIG_NAMES.get(name, name): value for name, value in rates.items()}


def _smart_std(dims, size):
    return 1.0 / math.sqrt(dims[0] if dims else size)


def _hook_configs(hooks):
    hooks = hooks if isinstance(hooks, list | tuple) else [hooks]
    return [hook() if callable(hook) else hook for hook in hooks]


class ExtraLayerAttribute:
    """Options that any layer takes besides its own arguments; those set are in the dict `attr`.

    `drop_rate` is the dropout rate, after the activation; `error_clipping_threshold` clips each
    element of the gradient of the output; `device` is recorded and not used.

    A layer that supports an option marks this object with `can_<option> = True`.
    """

    can_device = True

    def __init__(self, error_clipping_threshold=None, drop_rate=None, device=None):
        self.attr = {}
        if error_clipping_threshold is not None:
            threshold = self.attr["error_clipping_threshold"] = float(error_clipping_threshold)
            if not threshold >= 0:
                raise ValueError(f"Extra: error_clipping_threshold is {threshold}, below 0")
        if drop_rate is not None:
            rate = self.attr["drop_rate"] = float(drop_rate)
            if not 0 <= rate <= 1:
                raise ValueError(f"Extra: drop_rate is {rate}, outside [0, 1]")
        if device is not None:
            if not isinstance(device, numbers.Integral):
                raise TypeError(f"Extra: the device is {device!r}, not a number")
            self.attr["device"] = int(device)

    def check(self, layer_name):
        """Raise NotImplementedError for an option that no layer has marked as supported."""
        for setting in self.attr:
            if not getattr(self, f"can_{setting}", False):
                raise NotImplementedError(f"Layer {layer_name} does not support {setting}")

    @staticmethod
    def to_kwargs(attr):
        """Return the options of an Extra as a dict, empty for None."""
        return {} if attr is None else attr.attr


Param = ParamAttr = ParameterAttribute
Extra = ExtraAttr = ExtraLayerAttribute
Hook = HookAttr = HookAttribute
