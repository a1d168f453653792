"""Fields that LayerConfigs have in common, as arguments of layer functions.

A builder turns (LayerConfig, input layers) into a layer; `built_by` makes most of them.
"""

from operator import attrgetter

from .. import activation
from ..attr import ExtraLayerAttribute, ParameterAttribute

_ACTIVATIONS = {
    kind().name: kind
    for kind in vars(activation).values()
    if isinstance(kind, type) and issubclass(kind, activation.Base) and kind is not activation.Base
}
_EXTRA = ("drop_rate", "error_clipping_threshold")


def built_by(function, *arguments, as_list=None, base=None, **own):
    """Return the builder that calls a layer function.

    The inputs become the `arguments` in turn, or as one list the argument `as_list`. `base(config)`
    gives the arguments that several layer types share, `options` if None; `own` maps any other
    argument to its source: a field of the configuration, or a function of it.
    """

    def build(config, inputs):
        if len(inputs) > len(arguments) and not as_list:
            raise ValueError(f"it has {len(inputs)} inputs, at most {len(arguments)} are known")
        values = {as_list: inputs} if as_list else dict(zip(arguments, inputs, strict=False))
        for argument, source in own.items():
            value = getattr(config, source) if isinstance(source, str) else source(config)
            values[argument] = value
        return function(**values, **(base or options)(config))

    return build


def first_input(path):
    """Return a function of a LayerConfig: the field `path` of its first input."""
    read = attrgetter(path)
    return lambda config: read(config.inputs[0])


def first_input_list(path):
    """Return a function of a LayerConfig: the repeated field of its first input, as a list."""
    read = first_input(path)
    return lambda config: list(read(config))


def options(config, **own):
    """Return the name, and a `layer_attr` if any of its settings is recorded."""
    recorded = [field for field in (*_EXTRA, "device") if config.HasField(field)]
    extra = ExtraLayerAttribute(**{field: getattr(config, field) for field in recorded})
    # As in 2017 one attribute object may serve several layers, and whatever one of them supports
    # is then accepted by all: a recorded setting is always a supported one.
    for field in _EXTRA:
        setattr(extra, f"can_{field}", True)
    attr = {"layer_attr": extra} if extra.attr else {}
    return {"name": short_name(config), **attr, **own}


def acted(config, **own):
    """Return the options of a layer with an activation."""
    return options(config, act=act(config.active_type), **own)


def biased(config, **own):
    """Return the options of a layer with a bias and an activation."""
    return acted(config, bias_attr=bias(config), **own)


def learned(config, **own):
    """Return the options of a layer with weights, a bias and an activation."""
    return biased(config, param_attr=weights(config), **own)


def weighted(config, **own):
    """Return the options of a layer with one weight."""
    return options(config, param_attr=weight(config.inputs[0]), **own)


def short_name(config):
    """Return the name of a layer within its group."""
    return config.name.partition("@")[0]


def act(name):
    """Return the activation of that name."""
    if name not in _ACTIVATIONS:
        raise ValueError(f"there is no activation {name!r} here")
    return _ACTIVATIONS[name]()


def bias(config):
    """Return the attribute of the bias, False without a bias."""
    name = config.bias_parameter_name
    return ParameterAttribute(name=name) if name else False


def weight(slot):
    """Return the attribute of an input's weight."""
    return ParameterAttribute(name=slot.input_parameter_name)


def weights(config):
    """Return the attributes of the weights, a list; a single one by itself."""
    attrs = [weight(slot) for slot in config.inputs if slot.input_parameter_name]
    return attrs[0] if len(attrs) == 1 else attrs
