"""The conventions that every layer function of 2017 shares, written once.

A layer is declared as `@layer(...) def fc(scope, input, size, ...)`. The body gets a Scope, which
makes parameters under their legacy names and holds the LayerConfig, and returns a Variable of
rows; the decorator adds names, defaults, activation, dropout, error clipping and the record.
"""

import copy
import functools
import inspect

import pd_core as pd

from .. import build
from ..activation import Base
from ..attr import ExtraLayerAttribute, ParameterAttribute
from ..config_base import Layer
from ..proto import LayerConfig, ParameterConfig


class Parameter:
    """A parameter: its configuration, and the core Variable that holds its value."""

    def __init__(self, config, variable, initializer=None):
        self.config, self.variable, self.initializer = config, variable, initializer


class Scope:
    """What a layer body may ask for."""

    def __init__(self, name, config, inputs, device):
        self.name, self.config, self.inputs, self.device = name, config, inputs, device
        self.num_filters = None

    def weight(self, index, shape, attr=None, dims=None):
        """The weight of an input, `_<layer>.w<index>`; dims are the recorded ones if they differ."""
        variable, name = self._parameter(f"_{self.name}.w{index}", shape, attr, dims)
        self.config.inputs[index].input_parameter_name = name
        return variable

    def bias(self, shape, attr=None, dims=None):
        """The bias, `_<layer>.wbias`, zero at the start; None where the attribute says no bias."""
        if attr is False:
            return None
        if not isinstance(attr, ParameterAttribute):
            attr = ParameterAttribute(initial_mean=0.0, initial_std=0.0)
        variable, name = self._parameter(f"_{self.name}.wbias", shape, attr, dims)
        self.config.bias_parameter_name = name
        return variable

    def _parameter(self, default_name, shape, attr, dims):
        attr = ParameterAttribute() if attr is None else attr
        if not isinstance(attr, ParameterAttribute):
            raise TypeError(f"{self.name}: a parameter attribute is a Param, not {attr!r}")
        name = attr.attr.get("parameter_name", default_name)
        shape, dims = list(shape), list(shape if dims is None else dims)
        known = build.current().parameters
        if name in known:
            _check_shared(name, known[name], shape, dims)
        else:
            known[name] = _new_parameter(name, shape, dims, attr, self.device)
        return known[name].variable, name

    def shared(self, variable):
        """Mark a parameter as shared between the replicas of a batch, as statistics are."""
        build.current().parameters[variable.name].config.is_shared = True

    def set_geometry(self, height, width, depth=None):
        """Record the image geometry of the output."""
        self.config.height, self.config.width = height, width
        if depth is not None:
            self.config.depth = depth


def _check_shared(name, parameter, shape, dims):
    have, have_dims = list(parameter.variable.dims), list(parameter.config.dims)
    if have != shape or have_dims != dims:
        raise pd.ShapeError(f"parameter {name!r} is {have} elsewhere, {shape} here")


def _new_parameter(name, shape, dims, attr, device):
    config = ParameterConfig(name=name)
    size = 1
    for d in shape:
        size *= int(d)
    attr.configure(config, dims, size)
    if device is not None:
        config.device = device
    variable = pd.Variable.of(
        shape,
        "float32",
        name,
        fill=_start(config),
        trainable=not config.is_static,
        learning_rate=config.learning_rate,
    )
    return Parameter(config, pd.adopt(variable), attr.attr.get("initializer"))


def _start(config):
    """The initial distribution as a core initializer; a Parameters pool draws 2017's own stream."""
    mean, std = config.initial_mean, config.initial_std
    if config.initial_strategy == 1:
        return pd.uniform_initializer(mean - std, mean + std)
    return pd.gaussian_initializer(mean, std) if std else pd.constant_initializer(mean)


def layer(kind, prefix, act=None, inputs=("input",), supports=(), label=None, size=None):
    """Turn fn(scope, ...) into a layer function.

    `kind` is the type in the configuration, `prefix` that of automatic names, `inputs` the
    arguments that are input layers, in the order of the configuration; `supports` the fields of
    an ExtraLayerAttribute that the layer takes besides `device`, `label` its `layer_type`.
    """

    def wrap(fn):
        signature = inspect.signature(fn)
        public = signature.replace(parameters=list(signature.parameters.values())[1:])

        @functools.wraps(fn)
        def call(*args, **kwargs):
            bound = public.bind(*args, **kwargs)
            bound.apply_defaults()
            values = bound.arguments
            name = values["name"] or build.current().next_name(prefix)
            parents = _parents(name, values, inputs)
            if "act" in values:
                values["act"] = _activation(name, values["act"] or act())
            extra = values.get("layer_attr")
            scope = _scope(name, kind, parents, extra, supports, values.get("act"))
            try:
                with pd.namespace(name):
                    y = fn(scope, **values)
                    return _finish(y, scope, parents, values, extra, label or kind, size)
            except pd.GraphError as error:
                names = [p.name for p in parents]
                message = f"{kind} layer {name!r}, inputs {names}: {error}"
                raise type(error)(message) from None

        call.__signature__ = public
        return call

    return wrap


def _parents(name, values, arguments):
    """The input layers, a flat list; a layer argument may be None where it is optional."""
    if name in build.current().layers:
        raise pd.NameConflict(f"there is a layer {name!r} already")
    parents = []
    for argument in arguments:
        value = values[argument]
        if argument == "input":
            value = values["input"] = list(value) if isinstance(value, (list, tuple)) else [value]
        for x in value if isinstance(value, list) else [value]:
            if x is None and argument != "input":
                continue
            if not isinstance(x, Layer):
                raise TypeError(f"layer {name!r}: {argument} is a layer, not {x!r}")
            parents.append(x)
    return parents


def _activation(name, act):
    if not isinstance(act, Base):
        raise TypeError(f"layer {name!r}: act is an activation such as Relu(), not {act!r}")
    return act


def _scope(name, kind, parents, extra, supports, act):
    config = LayerConfig(name=name, type=kind, active_type=act.name if act else "")
    for parent in parents:
        config.inputs.add(input_layer_name=parent.full_name)
    device = None
    if extra is not None:
        device = _record_extra(name, config, extra, supports)
    return Scope(name, config, parents, device)


def _record_extra(name, config, extra, supports):
    if not isinstance(extra, ExtraLayerAttribute):
        raise TypeError(f"layer {name!r}: layer_attr is an Extra, not {extra!r}")
    for field in supports:
        setattr(extra, f"can_{field}", True)  # as in 2017, it is then accepted anywhere
    extra.check(name)
    for field, value in extra.attr.items():
        setattr(config, field, value)
    return extra.attr.get("device")


def _finish(y, scope, parents, values, extra, layer_type, size):
    """Activation, dropout, error clipping, the flat rows, and the record."""
    act = values.get("act")
    if act is not None:
        y = act(_rows(y)) if act.over_row else act(y)
    for step in (_dropped, _clipped):
        y = y if extra is None else step(y, extra, act, scope.name)
    rows = _rows(y)
    out = pd.identity(
        rows,
        scope.name,
        Layer,
        layer_type=layer_type,
        parents=list(parents),
        activation=act,
        num_filters=scope.num_filters,
        size=size or rows.dims[1],
        config=scope.config,
        image=y if y.rank > 2 else None,
    )
    scope.config.size = out.size
    build.current().layers[out.full_name] = out
    return out


def _rows(y):
    """[N, C, H, W] as [N, C H W]."""
    return y if y.rank == 2 else pd.flatten(y)


def _dropped(y, extra, act, name):
    """2017's dropout: the mask only in training, times 1 - rate elsewhere."""
    rate = extra.attr.get("drop_rate")
    if not rate:
        return y
    if act is not None and act.name == "softmax":
        raise pd.GraphError(f"layer {name!r}: softmax and dropout do not go together")
    return pd.dropout(y, rate, upscale_in_train=False)


def _clipped(y, extra, act, name):
    limit = extra.attr.get("error_clipping_threshold")
    return pd.clip_gradient(y, limit) if limit else y


def param_list(attr, count):
    """A parameter attribute for each input: the given ones, or copies of a single one."""
    if isinstance(attr, (list, tuple)):
        if len(attr) != count:
            raise ValueError(f"{len(attr)} parameter attributes for {count} inputs")
        return list(attr)
    if count > 1 and attr is not None and "parameter_name" in attr.attr:
        raise ValueError("one named parameter cannot serve several inputs; give a list of Param")
    return [copy.deepcopy(attr) for _ in range(count)]
