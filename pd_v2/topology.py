"""Topologies: the part of the network that some layers need, as 2017's configuration."""

import copy
from functools import cached_property
from operator import attrgetter

import pd_core as pd
from pd_core.graph.site import site_text

from . import build
from .config_base import Layer
from .data_feeder import DataFeeder
from .formats.proto import ModelConfig
from .formats.topology_file import write_topology
from .unfit import check_fit

__all__ = ["Topology"]

# The types of layers at which gradients begin.
_COSTS = {
    *("crf", "cross_entropy_over_beam", "ctc", "hsigmoid", "huber_classification"),
    *("huber_regression", "lambda_cost", "multi-class-cross-entropy"),
    *("multi_binary_label_cross_entropy", "multi_class_cross_entropy_with_selfnorm"),
    *("multibox_loss", "nce", "rank-cost", "smooth_l1", "square_error", "sum_cost", "warp_ctc"),
}


class Topology:
    """The layers behind some outputs, in the order in which they were defined.

    `extra_layers` belong to the network too, but are not outputs. An evaluator belongs to the
    topology if all its layers do; so does a print layer, whose evaluator is among the `printers`.
    `configs` are copies of the ParameterConfigs, by name, which a trainer completes.
    """

    def __init__(self, layers, extra_layers=None):
        self.outputs = _layers(layers)
        self.layers = [*self.outputs, *_layers([] if extra_layers is None else extra_layers)]
        reachable = _reachable(self.layers)
        current = build.current()
        if any(x.build is not current.layers for x in reachable):
            raise ValueError("Topology: the layers were built in another build")
        for x in reachable:
            x.naming.in_use = True
        prints = [x for x in current.printers if reachable.issuperset(x.parents)]
        self._members = _in_order(reachable.union(prints))
        self._recurrent = current.recurrent or any(x.group is not None for x in reachable)
        self.printers = [x.evaluator for x in prints]
        self.evaluators = [e for e in current.evaluators if set(e.inputs) <= reachable]
        self.parameters = _parameters(self._members)
        self.configs = {p.config.name: copy.deepcopy(p.config) for p in self.parameters}

    @cached_property
    def costs(self):
        """The layers whose sums training minimizes: the costs of the network.

        As in 2017 a gradient begins at each cost layer, whatever is computed from its value, and at
        no other output. In a network without a cost layer the outputs are minimized.
        """
        costs = {x for x in self._members if x.config.type in _COSTS}
        outer = {x for x in costs if x.within is None}
        given = [x.original for x in self.layers]
        found = []
        for x in dict.fromkeys([*given, *self._members]):
            if x in outer or x in given:
                before = _reachable([x]) - {x}
                begins = x in outer and not before & costs
                in_groups = x in given and before & costs and not before & outer
                if begins or in_groups:
                    found.append(x)
        return found or [x.original for x in self.outputs]

    @property
    def no_costs(self):
        """The outputs of numbers that are no sums of costs, in a network that has costs."""
        return [x for x in self.outputs if not (x.holds_ids or _is_sum(x, self.costs))]

    @property
    def results(self):
        """The outputs in the order in which inference gives their results.

        That is the order asked for until the process describes a recurrent group, by `beam_search`
        or another function: from then on it is the order of definition, as in 2017.
        """
        return sorted(self.outputs, key=attrgetter("order")) if self._recurrent else self.outputs

    def check_fit(self):
        """Raise the error of any layer or evaluator that is configured but cannot be computed."""
        check_fit([*self._members, *self.evaluators])

    def proto(self):
        """Return the ModelConfig message."""
        groups = [x.group for x in self._members if x.group is not None]
        model = ModelConfig(type="recurrent_nn" if self._recurrent else "nn")
        model.layers.extend(x.config for x in self._members)
        model.parameters.extend(self.configs.values())
        model.input_layer_names.extend(name for name, _ in self.data_type())
        model.output_layer_names.extend(x.full_name for x in self.outputs)
        model.evaluators.extend(e.config for e in self.evaluators)
        root = model.sub_models.add(name="root", is_recurrent_layer_group=False)
        root.layer_names.extend(x.full_name for x in self._members if x.within is None)
        root.input_layer_names.extend(model.input_layer_names)
        root.output_layer_names.extend(x.full_name for x in self.results)
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
        """Complete the ParameterConfigs with the settings of an optimizer, by default the last."""
        update_equation = update_equation or build.current().update_equation
        for config in self.configs.values() if update_equation else ():
            update_equation.configure(config)

    def get_layer(self, name):
        """Return the layer of that name, or None."""
        return get_layer(name)

    def get_layer_proto(self, name):
        """Return the LayerConfig of that name, or None."""
        layer = self.member(name)
        return None if layer is None else layer.config

    @property
    def members(self):
        """The layers of the network, those of recurrent groups too, in the order of definition."""
        return list(self._members)

    def member(self, name):
        """Return the layer of that name in this network, or None."""
        return next((x for x in self._members if x.full_name == name), None)

    def data_layers(self):
        """Return {name: data layer}."""
        return {x.name: x for x in self._members if x.data_type is not None}

    def feeder(self, feeding=None):
        """Return the DataFeeder of the network."""
        feeder = DataFeeder(self.data_type(), feeding).with_id_ranges(*self._id_ranges)
        return feeder.with_images({name: x.read_as for name, x in self.data_layers().items()})

    @cached_property
    def _id_ranges(self):
        """Which ids are in range, for each feeder: some programs train on one batch at a time."""
        return id_ranges(self.proto())

    def data_inputs(self):
        """Return the Variables that are fed for all data layers."""
        return [v for x in self.data_layers().values() for v in x.inputs]

    def data_type(self):
        """Return [(name, InputType)] of the data layers, in the order of their definition."""
        return [(name, x.data_type) for name, x in self.data_layers().items()]

    def read_by_inference(self, targets):
        """Return the Variables that the nodes of some targets read.

        A target without nodes is an input itself.
        """
        bare = [y for y in targets if not pd.subgraph(y)]
        return _reachable(bare).union(*(node.inputs for node in pd.subgraph(targets)))

    def use_sparse_updater(self):
        """Return whether any parameter has row-sparse updates."""
        return any(p.config.sparse_update or p.config.sparse_remote_update for p in self.parameters)

    def serialize_for_inference(self, stream):
        """Pickle the network for `Inference(parameters, fileobj=...)`, here and in 2017."""
        self.check_fit()
        write_topology(self, stream)

    def export_onnx(self, path, parameters):
        """Write the outputs as one ONNX model, which includes the values of `parameters`.

        Inputs and outputs are named after the layers; the batch size is dynamic.
        """
        self.check_fit()
        spread = [p.config.name for p in self.parameters if p.table is not None]
        if spread:
            raise pd.GraphError(
                f"export_onnx: the rows of the table {spread[0]!r} are spread over ranks\n"
                "  hint: write a tar of the parameters, and export it in one process"
            )
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
    """Return the set of some layers and of all their ancestors."""
    reached, pending = set(), list(layers)
    while pending:
        x = pending.pop().original
        if x not in reached:
            reached.add(x)
            pending += x.parents
    return reached


def _is_sum(layer, costs):
    """Return whether a layer is a cost or a sum of costs."""
    x = layer.original
    kinds = {i.proj_conf.type for i in x.config.inputs}
    adds = x.config.type in ("addto", "sum_cost") or kinds == {"identity"}
    adds = adds and x.config.active_type in ("", "linear")
    return x in costs or (adds and all(_is_sum(p, costs) for p in x.parents))


def _in_order(layers):
    """Sort layers in the order of their definition. NameConflict if two of them share a name."""
    members = {}
    for x in sorted(layers, key=attrgetter("order")):
        first = members.setdefault(x.full_name, x)
        if first is not x:
            places = " and ".join(site_text(each.site) for each in (first, x))
            raise pd.NameConflict(f"the network has two layers {x.full_name!r}, built at {places}")
    return list(members.values())


def _parameters(layers):
    """Return the parameters of some layers, in the order of their creation."""
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
    """Return the layer of that full name in the current build, or None."""
    return build.current().layers.get(name)


def parse_network(output_layers, extra_layers=None, *outputs):
    """Return the ModelConfig of the network behind some layers.

    With more than two arguments all are outputs, as before 0.10.
    """
    if outputs:
        return Topology([output_layers, extra_layers, *outputs]).proto()
    return Topology(output_layers, extra_layers).proto()


def result_order(config):
    """Return the numbers of a ModelConfig's outputs in the order of their results.

    That is the order asked for, unless the network is recurrent: then it is that of the root model.
    """
    names = list(config.output_layer_names)
    roots = [list(m.output_layer_names) for m in config.sub_models if m.name == "root"]
    if config.type != "recurrent_nn" or not roots or not set(names) <= set(roots[0]):
        return list(range(len(names)))
    return sorted(range(len(names)), key=lambda k: roots[0].index(names[k]))


def feeder_of(data_types, config, feeding=None):
    """Return the DataFeeder of a network; its ModelConfig tells which ids are in range."""
    absent, classes = id_ranges(config)
    return DataFeeder(data_types, feeding).with_id_ranges(absent, classes)


# Layers whose last ids are labels, any class of their first input: more or fewer than their data
# layer says.
_LABELLED = {
    *("multi-class-cross-entropy", "multi_class_cross_entropy_with_selfnorm", "ctc", "warp_ctc")
}
_NUMBERS = {"sum", "value_printer"}  # evaluators that take ids as numbers
_LABELLED_METRICS = {"classification_error", "classification_error_printer", "precision_recall"}


def id_ranges(config):
    """Return the names of data layers with absent ids, and {name: number of classes} of labels.

    A table's row of the id -1 is zeros without a gradient (`selectRowsImp`, `addToRowsImp` of
    2017's Matrix.cpp). What compares, counts or writes ids takes it as a number; everything else
    stopped at it. A label is compared with the classes that there are, not with those that
    its data layer was declared with, where nothing but costs and metrics reads it.
    """
    inside = {
        link.link_name: link.layer_name for group in config.sub_models for link in group.in_links
    }
    sizes = {x.name: x.size for x in config.layers}
    looked_up, labels, others, numbers = set(), {}, set(), set(config.output_layer_names)
    for x in config.layers:
        names = [inside.get(i.input_layer_name, i.input_layer_name) for i in x.inputs]
        for k, (i, name) in enumerate(zip(x.inputs, names, strict=True)):
            if i.proj_conf.type == "table":
                looked_up.add(name)
            elif k and (x.type in _LABELLED or x.num_classes):
                classes = x.num_classes or sizes[x.inputs[0].input_layer_name]
                labels.setdefault(name, []).append(classes)
            else:
                (numbers if _is_number(x.type, k) else others).add(name)
    for e in config.evaluators:
        scores, *rest = [inside.get(name, name) for name in e.input_layers]
        (numbers if e.type in _NUMBERS else others).add(scores)
        for name in rest:
            if e.type in _LABELLED_METRICS:
                labels.setdefault(name, []).append(sizes[e.input_layers[0]])
            else:
                others.add(name)
    others_read = looked_up | others | numbers
    classes = {name: min(n) for name, n in labels.items() if name not in others_read}
    return (looked_up | numbers) - others - set(labels), classes


def _is_number(kind, position):
    """Return whether a layer takes the ids of its input at `position` as numbers of any size."""
    return (kind, position) in (("eos_id", 0), ("huber_classification", 1), ("rank-cost", 2))
