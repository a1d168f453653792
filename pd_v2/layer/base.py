"""The conventions that every layer function of 2017 shares, written once.

A layer is declared as `@layer(...) def fc(scope, input, size, ...)`. The body gets a Scope, which
makes parameters under their legacy names and holds the LayerConfig, and returns a Variable of
rows; the decorator adds names, defaults, activation, dropout, error clipping and the record.
"""

import copy
import functools
import inspect
import math
import operator
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import pd_core as pd
from pd_core.graph.site import site_text, user_site

from .. import build
from ..activation import Base
from ..attr import ExtraLayerAttribute, ParameterAttribute
from ..config_base import Layer, named_value
from ..formats.proto import LayerConfig, ParameterConfig
from ..unfit import warn_at_line


@dataclass
class Parameter:
    """A parameter: its configuration, the core Variable of its value, and the user's function
    name -> array for the start. Parameters of one name in two namings may share the Variable."""

    config: ParameterConfig
    variable: pd.Variable
    initializer: Callable | None = None
    naming: build.Naming | None = None
    order: int = 0  # of creation


class Scope:
    """What a layer body may ask for. Its new parameters count once the layer is complete."""

    def __init__(self, short_name, config, inputs, device):
        self.short_name, self.name = short_name, config.name  # inside a group they differ
        self.config, self.inputs, self.device = config, inputs, device
        self.num_filters = self.prob = self.ids = self.reverse = None
        self.levels = inputs[0].levels if inputs else ()  # of the sequences of the result
        self.outputs = {"default": None}  # further results by name, for get_output
        self.acted = False  # whether the body applies the activation itself
        self.size = None  # where it is not the width of the result
        self.layer_type = None  # where it is not the one declared with the layer
        self.parameters = {}  # Parameter by name

    def weight(self, index, shape, attr=None, dims=None):
        """The weight of an input, `_<layer>.w<index>`; `dims` if the recorded ones differ."""
        parameter = self._parameter(f"_{self.name}.w{index}", shape, attr, dims)
        self.config.inputs[index].input_parameter_name = parameter.config.name
        return parameter.variable

    def bias(self, shape, attr=None):
        """The bias, `_<layer>.wbias`, zero at the start; None where the attribute says no bias."""
        if attr is False:
            return None
        if attr is None or attr is True:
            attr = ParameterAttribute(initial_mean=0.0, initial_std=0.0)
        parameter = self._parameter(f"_{self.name}.wbias", shape, attr)
        self.config.bias_parameter_name = parameter.config.name
        return parameter.variable

    def statistic(self, index, count, name=None):
        """`count` numbers that only the layer itself changes, 0 at the start."""
        attr = ParameterAttribute(name=name, initial_mean=0.0, initial_std=0.0, is_static=True)
        default_name = f"_{self.name}.w{index}"
        parameter = self._parameter(default_name, [count], attr, dims=[1, count])
        self.config.inputs[index].input_parameter_name = parameter.config.name
        parameter.config.is_shared = True
        return parameter.variable

    def _parameter(self, default_name, shape, attr=None, dims=None):
        attr = ParameterAttribute() if attr is None else attr
        if not isinstance(attr, ParameterAttribute):
            raise TypeError(f"layer {self.name!r}: a parameter attribute is a Param, not {attr!r}")
        name = attr.attr.get("parameter_name", default_name)
        shape = _sizes(name, shape)
        dims = shape if dims is None else dims
        known = self.parameters.get(name) or build.current().parameters.get(name)
        if known is None or not self._shares(known, name, default_name):
            known = _new_parameter(name, shape, dims, attr, self.device, known)
        else:
            _check_shared(name, known, shape, dims)
        self.parameters[name] = known
        return known

    def _shares(self, known, name, default_name):
        """Whether a parameter is the known one of that name, not the same of a layer made anew."""
        of_this_layer = name in self.parameters
        return of_this_layer or (name != default_name and known.naming is build.current().naming)

    def made(self, name):
        """The Parameter of that name if the layer itself makes it, None if it shares it."""
        parameter = self.parameters.get(name)
        return None if parameter is build.current().parameters.get(name) else parameter

    def commit(self):
        """Give the new parameters to the build and to the core."""
        for name in filter(self.made, self.parameters):
            pd.adopt(self.parameters[name].variable, replace=True)
            build.current().parameters[name] = self.parameters[name]

    def set_geometry(self, height, width, depth=None):
        """Record the image geometry of the output."""
        self.config.height, self.config.width = height, width
        if depth is not None:
            self.config.depth = depth


def _sizes(name, shape):
    try:
        sizes = [operator.index(d) for d in shape]
    except TypeError:
        sizes = [0]
    if min(sizes) < 1:
        raise pd.ShapeError(f"parameter {name!r}: a size is a positive integer, not in {shape}")
    return sizes


def _check_shared(name, parameter, shape, dims):
    have, have_dims = list(parameter.variable.dims), list(parameter.config.dims)
    if have != shape or have_dims != dims:
        raise pd.ShapeError(f"parameter {name!r} is {have} elsewhere, {shape} here")


def _new_parameter(name, shape, dims, attr, device, earlier):
    """A Parameter; one of the same name and sizes that was there earlier gives its Variable."""
    known, initializer = build.current(), attr.attr.get("initializer")
    config = ParameterConfig(name=name)
    attr.configure(config, dims, math.prod(shape))
    if device is not None:
        config.device = device
    if earlier is not None and list(earlier.variable.dims) == shape:
        variable = earlier.variable
        variable.trainable = variable.trainable or not config.is_static
    else:
        variable = pd.Variable.of(
            shape,
            "float32",
            name,
            fill=_start(config),
            trainable=not config.is_static,
            learning_rate=config.learning_rate,
        )
    return Parameter(config, variable, initializer, known.naming, next(known.order))


def _start(config):
    """The initial distribution as a core initializer; a Parameters pool draws 2017's own stream."""
    mean, std = config.initial_mean, config.initial_std
    if config.initial_strategy == 1:
        return pd.uniform_initializer(mean - std, mean + std)
    return pd.gaussian_initializer(mean, std) if std else pd.constant_initializer(mean)


def layer(
    kind,
    prefix,
    act=None,
    inputs=("input",),
    several=False,
    supports=(),
    label=None,
    rows=None,
    sparse=(),
):
    """Turn fn(scope, ...) into a layer function.

    `kind` is the type in the configuration, `prefix` that of automatic names, `inputs` the
    arguments that are input layers, in the order of the configuration; with `several` the first
    is a list of them. `supports` are the fields of an ExtraLayerAttribute that the layer takes
    besides `device`, `label` is its `layer_type`. `rows` are the arguments that cannot be ids, the
    first if None, `sparse` those that may hold sparse rows.
    """

    def wrap(fn):
        signature = inspect.signature(fn)
        public = signature.replace(parameters=list(signature.parameters.values())[1:])
        optional = {a for a in inputs if public.parameters[a].default is None}
        arguments_of_rows = inputs[:1] if rows is None else rows
        kind_of_layer = fn.__name__.lstrip("_")

        @functools.wraps(fn)
        def call(*args, **kwargs):
            values = _bound(kind_of_layer, public, args, kwargs)
            name = values["name"] or build.current().next_name(prefix)
            if several:
                values["input"] = _listed(values["input"])
            parents = _parents(name, values, inputs, optional, several)
            if "act" in values:
                values["act"] = _activation(name, values["act"] or act())
            with _group_of(name, parents):
                return described(name, parents, values)

        def described(name, parents, values):
            scope = _scope(name, kind, parents, values, supports)
            try:
                _check_sparse([x for a in inputs if a not in sparse for x in _listed(values[a])])
                _check_rows([x for a in arguments_of_rows for x in _listed(values[a])])
                with pd.namespace(scope.name):
                    y = fn(scope, **values)
                    return _finish(y, scope, parents, values, scope.layer_type or label or kind)
            except pd.GraphError as error:
                who = f"{kind_of_layer} layer {name!r}, inputs {[p.name for p in parents]}"
                located = type(error)(_located(who, kind_of_layer, error))
            return _unfit(located, scope, parents, values, scope.layer_type or label or kind)

        call.__signature__ = public
        return call

    return wrap


def _bound(function, signature, args, kwargs):
    """The arguments by name, defaults included."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{function}(): {error}") from None
    bound.apply_defaults()
    return bound.arguments


def _listed(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _parents(name, values, arguments, optional, several):
    """The input layers, a flat list; an optional one may be None, several come in a list."""
    parents = []
    for argument in arguments:
        value = values[argument]
        if value is None and argument in optional:
            continue
        if value == []:
            raise ValueError(f"layer {name!r}: {argument} is an empty list")
        for x in value if several and argument == "input" else [value]:
            if not isinstance(x, Layer):
                raise TypeError(f"layer {name!r}: {argument} is a layer, not {x!r}")
            parents.append(x)
    return parents


def _group_of(name, parents):
    """The context of the group that a layer of these parents belongs to.

    It is the innermost, but as in 2017 what a step makes of outside layers only stands outside:
    the layer that a memory starts from may be made where the memory is.
    """
    known = build.current()
    groups = [None, *known.groups]
    homes = {x.within for x in parents} or {groups[-1]}
    if homes == {groups[-1]}:
        return nullcontext()
    if len(homes) == 1 and homes.issubset(groups):
        return known.outside(homes.pop())
    x = next(x for x in parents if x.within is not groups[-1])
    where = f"outside group {groups[-1].name!r}" if known.groups else "inside a group"
    raise pd.GraphError(
        f"layer {name!r}: {x.full_name!r} is {where}\n"
        "  hint: give it to the step as StaticInput, or return it from there"
    )


def _check_rows(inputs):
    for x in inputs:
        if x.dtype.kind != "f" and x.sparse is None:
            raise pd.DTypeError(f"{x.name!r} holds ids, no rows of numbers")


def _check_sparse(inputs):
    for x in inputs:
        if x is not None and x.sparse is not None:
            raise pd.DTypeError(f"{x.name!r} holds sparse rows, which this layer does not take")


def _located(who, function, error):
    """The text of an error with the layer and the line of the user's that asked for it."""
    why, *rest = f"{who}: {error}".split("\n")
    if not any("built at" in line for line in rest):
        rest.insert(0, f"  layer  {function}, built at {site_text(user_site())}")
    return "\n".join([why, *rest])


def _activation(name, act):
    if not isinstance(act, Base):
        raise TypeError(f"layer {name!r}: act is an activation such as Relu(), not {act!r}")
    return act


def _scope(name, kind, parents, values, supports):
    act, extra = values.get("act"), values.get("layer_attr")
    full_name = build.current().full_name(name)
    config = LayerConfig(name=full_name, type=kind, active_type=act.name if act else "")
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


def _finish(y, scope, parents, values, layer_type):
    """Activation, dropout, error clipping, the flat rows, and the record."""
    act, extra = values.get("act"), values.get("layer_attr")
    if act is not None and not scope.acted:
        y = _activated(act, _rows(y) if act.over_row else y, scope)
    for step in (_dropped, _clipped):
        y = y if extra is None else step(y, extra, act)
    rows = _rows(y) if y.rank > 1 else y
    size = rows.dims[1] if scope.size is None else scope.size
    out = named_value(
        rows,
        scope.short_name,
        values.get("output") or Layer,
        layer_type=layer_type,
        parents=list(parents),
        activation=act,
        num_filters=scope.num_filters,
        size=size,
        config=scope.config,
        prob=scope.prob,
        ids=scope.ids,
        levels=tuple(scope.levels),
        reverse=scope.reverse,
        outputs=tuple(scope.outputs),
        results=scope.outputs,
        parameters=tuple(scope.parameters.values()),
        image=y if y.rank > 2 else None,
    )
    if not scope.config.HasField("size"):
        scope.config.size = out.size
    scope.commit()
    build.current().add(out)
    return out


def _unfit(error, scope, parents, values, layer_type):
    """A layer that stands for one whose inputs do not fit, as wide as its description says."""
    if all(x.unfit is None for x in parents):
        warn_at_line(error)
    size = 1 if layer_type == "cost" else scope.size or values.get("size") or parents[0].size
    out = (values.get("output") or Layer).of(
        (*parents[0].dims[:1], size),
        "float32",
        scope.short_name,
        layer_type=layer_type,
        parents=list(parents),
        activation=values.get("act"),
        size=size,
        config=scope.config,
        levels=tuple(scope.levels),
        parameters=tuple(scope.parameters.values()),
        unfit=error,
    )
    scope.config.size = size
    scope.commit()
    build.current().add(out)
    return out


def _activated(act, y, scope):
    innermost = scope.levels[-1] if scope.levels else None
    return act(y, innermost) if act.over_sequence else act(y)


def _rows(y):
    """[N, C, H, W] as [N, C H W]."""
    return y if y.rank == 2 else pd.flatten(y)


def _dropped(y, extra, act):
    """2017's dropout: the mask only in training, times 1 - rate elsewhere."""
    rate = extra.attr.get("drop_rate")
    if not rate:
        return y
    if act is not None and act.name == "softmax":
        raise pd.GraphError("softmax and dropout do not go together")
    return pd.dropout(y, rate, upscale_in_train=False)


def _clipped(y, extra, act):
    limit = extra.attr.get("error_clipping_threshold")
    return pd.clip_gradient(y, limit) if limit else y


def param_list(attr, count):
    """A parameter attribute for each input: the given ones, or copies of a single one.

    If that one has a name, all inputs share the parameter.
    """
    if isinstance(attr, (list, tuple)):
        if len(attr) != count:
            raise pd.GraphError(f"{len(attr)} parameter attributes for {count} inputs")
        return list(attr)
    return [copy.deepcopy(attr) for _ in range(count)]


def layer_support(*attrs):
    """A decorator: the function takes a `layer_attr` with these fields, and any with a device."""

    def wrap(fn):
        @functools.wraps(fn)
        def call(*args, **kwargs):
            extra = kwargs.get("layer_attr")
            if isinstance(extra, ExtraLayerAttribute):
                for field in attrs:
                    setattr(extra, f"can_{field}", True)
                extra.check(fn.__name__)
            return fn(*args, **kwargs)

        return call

    return wrap
