"""The layers of a ModelConfig rebuilt, each in its recurrent group."""

from .. import build
from ..layer import data
from ..layer.group import building
from . import cost, dense, image, mixed, rows, sequence
from .comparison import differences
from .errors import UnknownLayer
from .group import agent_of, finish, group_of
from .reachable import reachable
from .upgrade import upgraded_layer

_LAYERS = {
    **cost.LAYERS,
    **dense.LAYERS,
    **image.LAYERS,
    **mixed.LAYERS,
    **rows.LAYERS,
    **sequence.LAYERS,
}


def outputs_of(config, data_types):
    """Return the output layers of a ModelConfig, rebuilt."""
    layers = layers_of(config, data_types)
    missing = [name for name in config.output_layer_names if name not in layers]
    if missing or not config.output_layer_names:
        raise UnknownLayer(f"the topology has no outputs {', '.join(missing)}".rstrip())
    _check_parameters(config.parameters)
    return [layers[name] for name in config.output_layer_names]


def layers_of(config, data_types):
    """Return {name: Layer} of the layers behind the outputs of a ModelConfig, rebuilt.

    `data_types` are the InputTypes of the data layers by name. The layers become part of the
    current build. UnknownLayer for a type of layer, or a field of one, that is not supported.
    """
    network = _Network(config, data_types)
    network.build(None)
    return dict(network.layers)


def _check_parameters(configs):
    """Check that the configuration has all parameters of the layers, with equal sizes."""
    sizes = {config.name: list(config.dims) for config in configs}
    for name, parameter in build.current().parameters.items():
        dims = list(parameter.config.dims)
        if sizes.get(name) != dims:
            raise UnknownLayer(
                f"parameter {name!r} has the sizes {dims} here, it is described with "
                f"{sizes.get(name, 'none')}"
            )


class _Layers(dict):
    """Layers by full name; ValueError for a name that is not there yet."""

    def __missing__(self, name):
        raise ValueError(f"there is no layer {name!r} before it")


class _Network:
    """Builds layers: `layers` holds those that exist, `members` the configurations by group."""

    def __init__(self, config, data_types):
        self.data_types, self.layers = data_types, _Layers()
        self.groups = {s.name: s for s in config.sub_models if s.is_recurrent_layer_group}
        within = {name: s.name for s in self.groups.values() for name in s.layer_names}
        names = reachable(config)
        self.members = {}
        for each in config.layers:
            if each.name in names:
                self.members.setdefault(within.get(each.name), []).append(each)

    def build(self, group):
        """Build the layers of a group, or for None those outside all groups."""
        for config in self.members.get(group, ()):
            if config.name not in self.layers:
                self.layers[config.name] = self._built(config)
            layer = self.layers[config.name]
            unknown = differences(layer.config, upgraded_layer(config, layer))
            if unknown:
                raise UnknownLayer(
                    f"layer {config.name!r} ({config.type}) is described with what is not known "
                    f"here: {', '.join(unknown)}"
                )

    def _built(self, config):
        try:
            return self._builders.get(config.type, _Network._layer)(self, config)
        except UnknownLayer:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise UnknownLayer(f"layer {config.name!r} ({config.type}): {error}") from error

    def _layer(self, config):
        if config.type not in _LAYERS:
            raise UnknownLayer(
                f"layer {config.name!r}: there is no layer of type {config.type!r} here"
            )
        return _LAYERS[config.type](
            config, [self.layers[i.input_layer_name] for i in config.inputs]
        )

    def _data(self, config):
        if config.name not in self.data_types:
            raise ValueError("there is no data type for it")
        depth = config.depth if config.HasField("depth") else None
        return data(config.name, self.data_types[config.name], depth, config.height, config.width)

    def _agent(self, config):
        if not build.current().groups:
            raise ValueError("it belongs to no recurrent group")
        group = build.current().groups[-1]
        return agent_of(group, self.groups[group.name], config, self.layers)

    def _group(self, config):
        if config.name not in self.groups:
            raise ValueError("nothing says what is in the group")
        group = group_of(self.groups[config.name], self.layers)
        with building(group):
            self.build(config.name)
        finish(group, self.groups[config.name], self.layers)
        return group.layer

    _builders = {
        "agent": _agent,
        "data": _data,
        "recurrent_layer_group": _group,
        "scatter_agent": _agent,
        "sequence_agent": _agent,
        "sequence_scatter_agent": _agent,
    }
