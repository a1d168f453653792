"""The layers of a ModelConfig made anew, each in its recurrent group."""

from .. import build
from ..layer import data
from ..layer.group import described
from . import cost, dense, image, mixed, rows, sequence
from .earlier import layer_as_later
from .errors import UnknownLayer
from .essence import differences
from .group import agent_of, finish, group_of
from .needed import needed

_LAYERS = {
    **cost.LAYERS,
    **dense.LAYERS,
    **image.LAYERS,
    **mixed.LAYERS,
    **rows.LAYERS,
    **sequence.LAYERS,
}


def outputs_of(config, data_types):
    """The output layers of a ModelConfig, made anew."""
    layers = layers_of(config, data_types)
    missing = [name for name in config.output_layer_names if name not in layers]
    if missing or not config.output_layer_names:
        raise UnknownLayer(f"the topology has no outputs {', '.join(missing)}".rstrip())
    _check_parameters(config.parameters)
    return [layers[name] for name in config.output_layer_names]


def layers_of(config, data_types):
    """{name: Layer} for the layers that the outputs of a ModelConfig need, in the build in force.

    UnknownLayer for a kind of layer, or for a detail of one, that is not made again here.
    """
    network = _Network(config, data_types)
    network.make(None)
    return dict(network.layers)


def _check_parameters(configs):
    """The parameters of all layers are described, with the sizes that they have here."""
    described = {config.name: list(config.dims) for config in configs}
    for name, parameter in build.current().parameters.items():
        dims = list(parameter.config.dims)
        if described.get(name) != dims:
            raise UnknownLayer(
                f"parameter {name!r} has the sizes {dims} here, it is described with "
                f"{described.get(name, 'none')}"
            )


class _Layers(dict):
    """Layers by full name."""

    def __missing__(self, name):
        raise ValueError(f"there is no layer {name!r} before it")


class _Network:
    """The layers that are made so far, by their full names, and those to be made by group."""

    def __init__(self, config, data_types):
        self.data_types, self.layers = data_types, _Layers()
        self.groups = {s.name: s for s in config.sub_models if s.is_recurrent_layer_group}
        within = {name: s.name for s in self.groups.values() for name in s.layer_names}
        used = needed(config)
        self.members = {}
        for each in config.layers:
            if each.name in used:
                self.members.setdefault(within.get(each.name), []).append(each)

    def make(self, group):
        """The layers of a group, or for None those outside all groups."""
        for config in self.members.get(group, ()):
            if config.name not in self.layers:
                self.layers[config.name] = self._made(config)
            made = self.layers[config.name]
            unknown = differences(made.config, layer_as_later(config, made))
            if unknown:
                raise UnknownLayer(
                    f"layer {config.name!r} ({config.type}) is described with what is not known "
                    f"here: {', '.join(unknown)}"
                )

    def _made(self, config):
        try:
            return self._makers.get(config.type, _Network._layer)(self, config)
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
        with described(group):
            self.make(config.name)
        finish(group, self.groups[config.name], self.layers)
        return group.layer

    _makers = {
        "agent": _agent,
        "data": _data,
        "recurrent_layer_group": _group,
        "scatter_agent": _agent,
        "sequence_agent": _agent,
        "sequence_scatter_agent": _agent,
    }
