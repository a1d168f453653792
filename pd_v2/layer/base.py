"""The decorator that makes layer functions, with the conventions that all of them share.

A layer is declared as `@layer(...) def fc(scope, input, size, ...)`. The body gets a Scope, which
creates parameters under the names of 2017 and holds the LayerConfig, and returns a Variable of
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
from pd_core.distributed.table_draws import RowInitializer
from pd_core.graph.names import checked_text
from pd_core.graph.roles import Feed, TrainingOptions
from pd_core.graph.site import site_text, user_site
from pd_core.graph.whole import whole

from .. import build
from ..activation import Base
from ..attr import ExtraLayerAttribute, ParameterAttribute
from ..config_base import Layer, named_value
from ..formats.parameter_file import check_name
from ..formats.proto import LayerConfig, ParameterConfig
from ..unfit import warn_at_line

# Types of layers whose code of 2017 neither dropped nor clipped their output. They may get options
# from an attribute object that other layers share, and record them without an effect.
_KEEPS_OUTPUT = {
    "bilinear_interp", "blockexpand", "clip", "conv_shift", "convex_comb", "cos", "cos_vm", "crf",
    "crf_decoding", "crop", "ctc", "dot_prod", "eos_id", "expand", "gated_recurrent", "get_output",
    "gru_step", "hsigmoid", "huber_classification", "huber_regression", "interpolation",
    "l2_distance", "lambda_cost", "lstm_step", "maxid", "maxout", "multi-class-cross-entropy",
    "multi_binary_label_cross_entropy", "multi_class_cross_entropy_with_selfnorm", "nce", "norm",
    "out_prod", "pad", "pool", "power", "prelu", "rank-cost", "recurrent", "rotate", "row_l2_norm",
    "sampling_id", "scaling", "slope_intercept", "smooth_l1", "spp", "square_error", "sum_cost",
    "sum_to_one_norm", "trans", "warp_ctc",
}  # fmt: skip


@dataclass
class Parameter:
    """A parameter: its configuration, its core Variable, and the user's initializer.

    `initializer(name)` returns the initial array. Parameters of one name in two namings may share
    the Variable.
    """

    config: ParameterConfig
    variable: pd.Variable
    initializer: Callable | None = None
    naming: build.Naming | None = None
    order: int = 0  # of creation

    @property
    def table(self):
        """The ShardedTable of which the Variable has this rank's rows; None if it is whole."""
        return self.variable.storage.table if self.variable.is_shard else None

    @property
    def shape(self):
        """The sizes of the whole parameter."""
        return list(self.variable.dims) if self.table is None else list(self.table.shape)


@dataclass(frozen=True)
class Recipe:
    """How a layer is computed: `compute(declared, parents, values)` does it again."""

    compute: Callable
    parents: list
    values: dict  # of the arguments, by name

    def again(self, declared, replaced):
        """Return the layer of other inputs, with its parameters; `replaced(x)` is that for x."""
        values = {k: _each_layer(replaced, v) for k, v in self.values.items()}
        return self.compute(declared, [replaced(x) for x in self.parents], values)


def _each_layer(function, value):
    if isinstance(value, (list, tuple)):
        return [_each_layer(function, v) for v in value]
    return function(value) if isinstance(value, Layer) else value


class Scope:
    """The first argument of a layer's body: creates parameters, holds the layer's record.

    New parameters are registered by `commit`, once the layer is complete.
    """

    def __init__(self, short_name, config, inputs, device):
        self.short_name, self.name = short_name, config.name  # `name@group` inside a group
        self.config, self.inputs, self.device = config, inputs, device
        self.num_filters = self.prob = self.ids = self.reverse = None
        self.levels = inputs[0].levels if inputs else ()  # of the sequences of the result
        self.outputs = {"default": None}  # further results by name, for get_output
        self.acted = False  # whether the body applies the activation itself
        self.size = None  # if it differs from the width of the result
        self.declared = None  # the layer that is computed again, for images of another size
        self.layer_type = None  # if it differs from the declared one
        self.parameters = {}  # Parameter by name

    def weight(self, index, shape, attr=None, dims=None, by_rows=False):
        """Return the weight of an input, `_<layer>.w<index>`.

        `dims` are the recorded sizes, if they differ from the shape. A layer that reads its weight
        `by_rows`, with `pd.gather` alone, may be given one whose rows are spread over ranks.
        """
        parameter = self._parameter(f"_{self.name}.w{index}", shape, attr, dims, by_rows)
        self.config.inputs[index].input_parameter_name = parameter.config.name
        return parameter.variable

    def bias(self, shape, attr=None):
        """Return the bias, `_<layer>.wbias`, initially zero; None if `attr` is False."""
        if attr is False:
            return None
        if attr is None or attr is True:
            attr = ParameterAttribute(initial_mean=0.0, initial_std=0.0)
        parameter = self._parameter(f"_{self.name}.wbias", shape, attr)
        self.config.bias_parameter_name = parameter.config.name
        return parameter.variable

    def statistic(self, index, count, name=None):
        """Return a moving statistic: `count` numbers, initially 0, that no optimizer updates."""
        attr = ParameterAttribute(name=name, initial_mean=0.0, initial_std=0.0, is_static=True)
        default_name = f"_{self.name}.w{index}"
        parameter = self._parameter(default_name, [count], attr, dims=[1, count])
        self.config.inputs[index].input_parameter_name = parameter.config.name
        parameter.config.is_shared = True
        return parameter.variable

    def _parameter(self, default_name, shape, attr=None, dims=None, by_rows=False):
        attr = ParameterAttribute() if attr is None else attr
        if not isinstance(attr, ParameterAttribute):
            raise TypeError(f"layer {self.name!r}: a parameter attribute is a Param, not {attr!r}")
        name = attr.attr.get("parameter_name", default_name)
        shape = _sizes(name, shape)
        dims = shape if dims is None else dims
        parameter = self.parameters.get(name) or build.current().parameters.get(name)
        if parameter is None or not self._shares(parameter, name, default_name):
            if _is_spread(attr):
                _check_by_rows(name, by_rows)
            parameter = _new_parameter(name, shape, dims, attr, self.device, parameter)
        else:
            _check_shared(name, parameter, shape, dims)
            if parameter.table is not None:
                _check_by_rows(name, by_rows)
        self.parameters[name] = parameter
        return parameter

    def _shares(self, parameter, name, default_name):
        """Return whether the layer shares an existing parameter of that name.

        It does if the user named the parameter, within one naming. A default name that exists
        belongs to a layer of the same name, which this one replaces.
        """
        of_this_layer = name in self.parameters
        same_naming = parameter.naming is build.current().naming
        return of_this_layer or (name != default_name and same_naming)

    def created(self, name):
        """Return the Parameter of that name if this layer creates it, None if it is shared."""
        parameter = self.parameters.get(name)
        return None if parameter is build.current().parameters.get(name) else parameter

    def commit(self):
        """Register the new parameters with the build and the core."""
        for name in filter(self.created, self.parameters):
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


def _is_spread(attr):
    """Return whether a new parameter is a table whose rows are spread over the ranks of a job."""
    is_sparse = bool(attr.attr.get("sparse_update"))
    return is_sparse and build.current().spreads and pd.distributed.world_size() > 1


def _check_by_rows(name, by_rows):
    """Refuse a parameter whose rows are spread over ranks where it is not read by rows."""
    if not by_rows:
        raise pd.GraphError(
            f"parameter {name!r}: with sparse_update its rows are spread over "
            f"{pd.distributed.world_size()} ranks, and this layer reads all of them\n"
            "  hint: sparse_update is for what is read by rows, such as the tables of embeddings "
            "and the weights of sparse data"
        )
    if build.current().groups:
        raise pd.GraphError(
            f"parameter {name!r}: with sparse_update its rows are spread over "
            f"{pd.distributed.world_size()} ranks, which meet once per batch, and this layer is in "
            "the step of a recurrent group\n"
            "  hint: look the rows up outside, and give the layer to the group"
        )


def _check_shared(name, parameter, shape, dims):
    have, have_dims = parameter.shape, list(parameter.config.dims)
    if have != shape or have_dims != dims:
        raise pd.ShapeError(f"parameter {name!r} is {have} elsewhere, {shape} here")


def _new_parameter(name, shape, dims, attr, device, previous):
    """Return a Parameter, on the Variable of the previous one of that name if shapes agree."""
    current, initializer = build.current(), attr.attr.get("initializer")
    check_name(name)
    config = ParameterConfig(name=checked_text(name))
    attr.configure(config, dims, math.prod(shape))
    if device is not None:
        config.device = device
    is_spread = _is_spread(attr)
    same = previous is not None and (previous.table is not None) == is_spread
    if same and previous.shape == shape:
        variable = previous.variable
        variable.trainable = variable.trainable or not config.is_static
    else:
        variable = (_shard if is_spread else _whole)(name, shape, config)
    return Parameter(config, variable, initializer, current.naming, next(current.order))


def _whole(name, shape, config):
    """Return a new Variable for a parameter."""
    return pd.Variable.of(
        shape,
        "float32",
        name,
        initial=_initializer(config),
        trainable=not config.is_static,
        options=TrainingOptions(config.learning_rate),
    )


def _shard(name, shape, config):
    """Return a new Variable for this rank's rows of a parameter."""
    rank, ranks = pd.distributed.rank(), pd.distributed.world_size()
    variable = pd.Variable.of(
        [-(-shape[0] // ranks), *shape[1:]],
        "float32",
        name,
        initial=RowInitializer(_initializer(config), rank, ranks),
        trainable=not config.is_static,
        options=TrainingOptions(config.learning_rate, row_sparse=True),
    )
    pd.distributed.ShardedTable.around(shape[0], variable)
    return variable


def _initializer(config):
    """Return the initial distribution as a core initializer.

    Only a session without a Parameters pool uses it: the pool draws from 2017's own generator.
    """
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
    """Return a decorator that turns fn(scope, ...) into a layer function.

    `kind` is the type in the configuration, `prefix` the start of automatic names, `act` the
    class of the default activation. `inputs` are the arguments that are input layers, in the
    order of the configuration; with `several`, the argument `input` is a list of layers.
    `supports` are the fields of an ExtraLayerAttribute that the layer takes besides `device`,
    `label` is its `layer_type` (`kind` if None). `rows` are the arguments that cannot be ids, the
    first input if None; `sparse` are those that may hold sparse rows. An argument `output` is the
    MixedLayerType that becomes the layer.
    """

    def wrap(fn):
        signature = inspect.signature(fn)
        public = signature.replace(parameters=list(signature.parameters.values())[1:])
        optional = {a for a in inputs if public.parameters[a].default is None}
        arguments_of_rows = inputs[:1] if rows is None else rows
        function = fn.__name__.lstrip("_")

        @functools.wraps(fn)
        @whole
        def call(*args, **kwargs):
            values = _bound(function, public, args, kwargs)
            name = values["name"] or build.current().next_name(prefix)
            if several:
                values["input"] = _as_list(values["input"])
            parents = _parents(name, values, inputs, optional, several)
            if "act" in values:
                values["act"] = _activation(name, values["act"] or act())
            with _group_of(name, parents):
                return build_layer(name, parents, values)

        def build_layer(name, parents, values):
            scope = _scope(name, kind, parents, values, supports)
            try:
                out = computed(scope, parents, values)
                scope.commit()
            except pd.GraphError as error:
                who = f"{function} layer {name!r}, inputs {[p.name for p in parents]}"
                located = type(error)(_located(who, function, error))
            else:
                out.recipe = Recipe(again, parents, values)
                build.current().add(out)
                return out
            return _unfit(located, scope, parents, values, scope.layer_type or label or kind)

        def computed(scope, parents, values):
            _check_sparse([x for a in inputs if a not in sparse for x in _as_list(values[a])])
            _check_rows([x for a in arguments_of_rows for x in _as_list(values[a])])
            with pd.namespace(scope.name):
                y = fn(scope, **values)
                return _finish(y, scope, parents, values, scope.layer_type or label or kind)

        def again(declared, parents, values):
            scope = _scope(declared.name, kind, parents, values, supports)
            scope.declared = declared
            scope.parameters = {p.config.name: p for p in declared.parameters}
            try:
                return computed(scope, parents, values)
            except pd.GraphError as error:
                why = f"{function} layer {declared.name!r}: {str(error).splitlines()[0]}"
                where = f"  layer  {function}, built at {site_text(declared.site)}"
                raise type(error)(f"{why}\n{where}") from None

        call.__signature__ = public
        return call

    return wrap


def _bound(function, signature, args, kwargs):
    """Return the arguments by name, defaults included."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{function}(): {error}") from None
    bound.apply_defaults()
    return bound.arguments


def _as_list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _parents(name, values, arguments, optional, several):
    """Return the input layers as a flat list, without the optional ones that are None."""
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
    """Return a context in which the recurrent group of these parents is the current one.

    That is the innermost group. But as in 2017 a layer that a step computes from outside layers
    only belongs outside: a step may build the layer that one of its memories boots from.
    """
    current = build.current()
    groups = [None, *current.groups]
    owners = {x.within for x in parents} or {groups[-1]}
    if owners == {groups[-1]}:
        return nullcontext()
    if len(owners) == 1 and owners.issubset(groups):
        return current.outside(owners.pop())
    x = next(x for x in parents if x.within is not groups[-1])
    where = f"outside group {groups[-1].name!r}" if current.groups else "inside a group"
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
    """Return the text of an error with the layer and the user's line that built it."""
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
    full_name = checked_text(build.current().full_name(name))
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
        setattr(extra, f"can_{field}", True)  # on the object: as in 2017, any later layer takes it
    extra.check(name)
    for field, value in extra.attr.items():
        setattr(config, field, value)
    return extra.attr.get("device")


def _finish(y, scope, parents, values, layer_type):
    """Return the layer: activation, dropout and error clipping of y, flat rows, the record."""
    act, extra = values.get("act"), values.get("layer_attr")
    if act is not None and not scope.acted:
        y = _activated(act, _rows(y) if act.over_row else y, scope)
    if extra is not None and scope.config.type not in _KEEPS_OUTPUT:
        y = _clipped(_dropped(y, extra, act), extra)
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
    return out


def _unfit(error, scope, parents, values, layer_type):
    """Return a placeholder for a layer whose inputs do not fit, as wide as was declared."""
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
        feed=Feed(unfeedable=error),
    )
    scope.config.size = size
    scope.commit()
    build.current().add(out)
    return out


def _activated(act, y, scope):
    innermost = scope.levels[-1] if scope.levels else None
    return act(y, innermost) if act.over_sequence else act(y)


def _rows(y):
    """Flatten [N, C, H, W] to [N, C H W]."""
    return y if y.rank == 2 else pd.flatten(y)


def _dropped(y, extra, act):
    """Apply 2017's dropout: a mask without scaling in training, a factor 1 - rate in inference."""
    rate = extra.attr.get("drop_rate")
    if not rate:
        return y
    if act is not None and act.name == "softmax":
        raise pd.GraphError("softmax and dropout do not go together")
    if rate == 1:
        return y * 0.0
    return pd.dropout(y, rate, upscale_in_train=False)


def _clipped(y, extra):
    limit = extra.attr.get("error_clipping_threshold")
    return pd.clip_gradient(y, limit) if limit else y


def param_list(attr, count):
    """Return a parameter attribute for each input: the list, or copies of the single one.

    If the single one has a name, all inputs share the parameter.
    """
    if isinstance(attr, (list, tuple)):
        if len(attr) != count:
            raise pd.GraphError(f"{len(attr)} parameter attributes for {count} inputs")
        return list(attr)
    return [copy.deepcopy(attr) for _ in range(count)]


def layer_support(*attrs):
    """Return a decorator: the function takes a `layer_attr` with these fields, and `device`."""

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
