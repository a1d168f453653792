"""What configurations have in common, as arguments of the functions that make layers.

A maker turns (configuration, input layers) into a layer; `made_by` is the form of most of them.
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


def made_by(function, *arguments, listed=None, base=None, **own):
    """The maker of a kind: the inputs are these arguments, or all together the one `listed`.

    `base` gives the arguments that several kinds share, `options` if None; `own` says where others
    come from: a field of the configuration, or a function of it.
    """

    def make(config, inputs):
        if len(inputs) > len(arguments) and not listed:
            raise ValueError(f"it has {len(inputs)} inputs, at most {len(arguments)} are known")
        given = {listed: inputs} if listed else dict(zip(arguments, inputs, strict=False))
        for argument, source in own.items():
            value = getattr(config, source) if isinstance(source, str) else source(config)
            given[argument] = value
        return function(**given, **(base or options)(config))

    return make


def of_first(path):
    """A field of the first input's configuration."""
    read = attrgetter(path)
    return lambda config: read(config.inputs[0])


def listed_of_first(path):
    """A repeated field of the first input's configuration, as a list."""
    read = of_first(path)
    return lambda config: list(read(config))


def options(config, **own):
    """The name, and attributes of the output where there are some."""
    given = [field for field in (*_EXTRA, "device") if config.HasField(field)]
    extra = ExtraLayerAttribute(**{field: getattr(config, field) for field in given})
    for field in _EXTRA:  # a layer that has one takes it, or took it from another's attribute
        setattr(extra, f"can_{field}", True)
    attr = {"layer_attr": extra} if extra.attr else {}
    return {"name": short_name(config), **attr, **own}


def acted(config, **own):
    """The options of a layer with an activation."""
    return options(config, act=act(config.active_type), **own)


def biased(config, **own):
    """The options of a layer with a bias and an activation."""
    return acted(config, bias_attr=bias(config), **own)


def learned(config, **own):
    """The options of a layer with weights, a bias and an activation."""
    return biased(config, param_attr=weights(config), **own)


def weighted(config, **own):
    """The options of a layer with one weight."""
    return options(config, param_attr=weight(config.inputs[0]), **own)


def short_name(config):
    """The name of a layer within its group."""
    return config.name.partition("@")[0]


def act(name):
    """The activation of that name."""
    if name not in _ACTIVATIONS:
        raise ValueError(f"there is no activation {name!r} here")
    return _ACTIVATIONS[name]()


def bias(config):
    """The attribute of the bias, False for none."""
    name = config.bias_parameter_name
    return ParameterAttribute(name=name) if name else False


def weight(slot):
    """The attribute of an input's weight."""
    return ParameterAttribute(name=slot.input_parameter_name)


def weights(config):
    """The attributes of the weights of those inputs that have one; the only one as it is."""
    found = [weight(slot) for slot in config.inputs if slot.input_parameter_name]
    return found[0] if len(found) == 1 else found
