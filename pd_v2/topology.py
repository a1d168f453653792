"""Topologies: the part of the network that some layers need, as 2017's configuration."""

import copy
from operator import attrgetter

import pd_core as pd
from pd_core.graph.site import site_text

from . import build
from .config_base import Layer
from .formats.proto import ModelConfig
from .formats.topology_file import write_topology
from .unfit import check_fit

__all__ = ["Topology"]

# The configured types of layers that are costs whatever depends on them.
_COSTS = {
    *("crf", "cross_entropy_over_beam", "ctc", "hsigmoid", "huber_classification"),
    *("huber_regression", "lambda_cost", "multi-class-cross-entropy"),
    *("multi_binary_label_cross_entropy", "multi_class_cross_entropy_with_selfnorm"),
    *("multibox_loss", "nce", "rank-cost", "smooth_l1", "square_error", "sum_cost", "warp_ctc"),
}


class Topology:
    """The layers behind some outputs, in the order in which they were defined.

    `extra_layers` are kept as well, but are no outputs. An evaluator belongs to the topology if
    all its layers do, and so does a print layer, whose work is among the `printers`. `configs` are
    its own ParameterConfigs, by name: a trainer fills them in.
    """

    def __init__(self, layers, extra_layers=None):
        self.outputs = _layers(layers)
        self.layers = [*self.outputs, *_layers([] if extra_layers is None else extra_layers)]
        behind = _reachable(self.layers)
        known = build.current()
        if any(x.build is not known.layers for x in behind):
            raise ValueError("Topology: the layers were built in another build")
        for x in behind:
            x.naming.in_use = True
        prints = [x for x in known.printers if behind.issuperset(x.parents)]
        self._members = _in_order(behind.union(prints))
        self.printers = [x.evaluator for x in prints]
        self.evaluators = [e for e in known.evaluators if set(e.inputs) <= behind]
        self.parameters = _parameters(self._members)
        self.configs = {p.config.name: copy.deepcopy(p.config) for p in self.parameters}

    @property
    def costs(self):
        """What training descends: the outputs, and those extra layers that are costs."""
        extra = self.layers[len(self.outputs) :]
        return [*self.outputs, *(x for x in extra if x.config.type in _COSTS)]

    def check_fit(self):
        """Raise the error of a layer or an evaluator that is described but cannot be computed."""
        check_fit([*self._members, *self.evaluators])

    def proto(self):
        """The ModelConfig message."""
        groups = [x.group for x in self._members if x.group is not None]
        model = ModelConfig(type="recurrent_nn" if groups else "nn")
        model.layers.extend(x.config for x in self._members)
        model.parameters.extend(self.configs.values())
        model.input_layer_names.extend(name for name, _ in self.data_type())
        model.output_layer_names.extend(x.full_name for x in self.outputs)
        model.evaluators.extend(e.config for e in self.evaluators)
        root = model.sub_models.add(name="root", is_recurrent_layer_group=False)
        root.layer_names.extend(x.full_name for x in self._members if x.within is None)
        root.input_layer_names.extend(model.input_layer_names)
        root.output_layer_names.extend(model.output_layer_names)
        root.evaluator_names.extend(e.name for e in self.evaluators if e.within is None)
        for group in groups:
            model.sub_models.add().CopyFrom(group.config)
            model.sub_models[-1].layer_names.extend(
                x.full_name for x in self._members if x.within is group
            )
            names = [e.name for e in self.evaluators if e.within is group]
            model.sub_models[-1].evaluator_names.extend(names)
        return model

    def update_from_default(self, update_equation=None):
        """Fill what the ParameterConfigs leave open with an optimizer's settings.

        Without one it is the optimizer that was made last.
        """
        update_equation = update_equation or build.current().update_equation
        for config in self.configs.values() if update_equation else ():
            update_equation.configure(config)

    def get_layer(self, name):
        """The layer of that name, or None."""
        return get_layer(name)

    def get_layer_proto(self, name):
        """The LayerConfig of that name, or None."""
        layer = self.member(name)
        return None if layer is None else layer.config

    def member(self, name):
        """The layer of that name in this network, or None."""
        return next((x for x in self._members if x.full_name == name), None)

    def data_layers(self):
        """{name: data layer}."""
        return {x.name: x for x in self._members if x.data_type is not None}

    def data_inputs(self):
        """The Variables that are fed for all data layers."""
        return [v for x in self.data_layers().values() for v in x.inputs]

    def data_type(self):
        """[(name, InputType)] of the data layers, in the order of their definition."""
        return [(name, x.data_type) for name, x in self.data_layers().items()]

    def read_by_inference(self, targets):
        """The Variables that inference reads for some targets.

        A target that needs no node is its input itself.
        """
        bare = [y for y in targets if not pd.subgraph(y)]
        return _reachable(bare).union(*(node.inputs for node in pd.subgraph(targets)))

    def use_sparse_updater(self):
        """Whether a parameter asks for row-sparse updates."""
        return any(p.config.sparse_update or p.config.sparse_remote_update for p in self.parameters)

    def serialize_for_inference(self, stream):
        """Pickle the network, for `Inference(parameters, fileobj=...)` here and in 2017."""
        self.check_fit()
        write_topology(self, stream)

    def export_onnx(self, path, parameters):
        """Write the outputs as one ONNX model, with the values of `parameters` inside it.

        Inputs and outputs are named after the layers; the batch size stays open.
        """
        self.check_fit()
        read = self.read_by_inference(self.outputs)
        inputs = [v for v in self.data_inputs() if v in read]
        session = pd.Session(seed=0)
        session.load_values(parameters.values_of(self.parameters))
        return pd.export_onnx(path, self.outputs, inputs, session)


def _layers(layers):
    layers = list(layers) if isinstance(layers, (list, tuple)) else [layers]
    for x in layers:
        if not isinstance(x, Layer):
            raise ValueError(f"layer should have type paddle.v2.config_base.Layer, not {x!r}")
    return layers


def _reachable(layers):
    """The layers and all that they are made from."""
    found, left = set(), list(layers)
    while left:
        x = left.pop().original
        if x not in found:
            found.add(x)
            left += x.parents
    return found


def _in_order(layers):
    """The layers in the order of their definition. NameConflict if two of them have one name."""
    members = {}
    for x in sorted(layers, key=attrgetter("order")):
        first = members.setdefault(x.full_name, x)
        if first is not x:
            places = " and ".join(site_text(each.site) for each in (first, x))
            raise pd.NameConflict(f"the network has two layers {x.full_name!r}, built at {places}")
    return list(members.values())


def _parameters(layers):
    """Parameters of these layers, in the order of their creation."""
    members = {}
    for p in sorted((p for x in layers for p in x.parameters), key=attrgetter("order")):
        first = members.setdefault(p.config.name, p)
        if first.variable is not p.variable:
            sizes = [list(each.variable.dims) for each in (first, p)]
            raise pd.ShapeError(
                f"the network has two parameters {p.config.name!r}, {sizes[0]} and {sizes[1]}"
            )
    return list(members.values())


def get_layer(name):
    """The layer of that full name in this process, or None."""
    return build.current().layers.get(name)


def parse_network(output_layers, extra_layers=None, *outputs):
    """The ModelConfig of the network behind some layers.

    More than two arguments are all outputs, as they were before 0.10.
    """
    if outputs:
        return Topology([output_layers, extra_layers, *outputs]).proto()
    return Topology(output_layers, extra_layers).proto()
