"""GradientMachine: a trainer's network as an event's `gm`, with the outputs of its layers."""

from functools import cached_property

import numpy as np

import pd_core as pd

from ..arguments import Matrix, OutputSlot, Vector
from ..feeds import feed_dict
from ..warning import warn
from .layer_outputs import FIELDS, as_result, fields_of, variables_of

PARAMETER_VALUE, PARAMETER_GRADIENT = 0, 1
PASS_TRAIN, PASS_TEST = 0, 1


class _Batch:
    """The inputs of a forward pass: feeds, training or inference mode, random draws.

    `network` is that for the sizes of its images.
    """

    __slots__ = ("draws", "feeds", "network", "training")

    def __init__(self, feeds, training, draws, network):
        self.feeds, self.training, self.draws = feeds, training, draws
        self.network = network


class GradientMachine:
    """The layers and parameters of a trained network, for the last batch.

    A training step does not output its layers by default. A layer that is requested for the first
    time is computed then, from the parameters before the update, which a session keeps until the
    next one; from then on it is fetched with every step. `learned` are the Variables that a step
    updates, `networks` those for the sizes of images.
    """

    def __init__(self, topology, pool, learned, networks):
        self.topology, self.pool, self.learned = topology, pool, learned
        self.networks = networks
        self.session = pool.session
        self.session.compilers.keep_before(learned)
        self.parameters = topology.parameters
        self._requested = {}  # fields of the layers that a handler has asked for, by name
        self._batch = self._ranks = None  # of the last forward pass
        self._step_batch = None  # of the last training step, and of the gradients
        self._table_copies = {}  # tables before the step, which updates their rows in place

    # ---- for the trainer

    def begin(self, feeds, training, keep_rows=False, ranks=None):
        """Start a batch, None for one of which this process has no samples.

        `keep_rows` copies the tables that its step will update in place. `ranks` are those that
        have the rows of the batch together.
        """
        self._set_batch(feeds, training, ranks)
        if training:
            self._step_batch, self._table_copies = self._batch, {}
            if keep_rows:
                tables = [v for v in self.learned if v.row_sparse and not v.is_shard]
                self._table_copies = {v: self.session.get(v) for v in tables}

    def step(self, targets):
        """Evaluate targets that train on the batch, and the layers that were requested before."""
        batch = self._step_batch
        fetches = variables_of(self._requested.values()) if self._requested else []
        network = batch.network
        wanted = network.of([*targets, fetches])
        *results, values = self.session.eval(wanted, network.feeds(batch.feeds))
        if fetches and self._batch is batch:
            self._values.update(zip(fetches, values, strict=True))
        self._version = self.session.store.version
        return results

    def test(self, targets):
        """Evaluate targets for the started batch in inference mode."""
        network, feeds = self._batch.network, self._batch.feeds
        return self.session.eval(network.of(targets), network.feeds(feeds), training=False)

    def gradients(self, variables):
        """Compute gradients for the batch of the last step, with the same random draws."""
        return self._eval(list(variables), self._step_batch, self._values_before())

    def step_values(self, variables):
        """Compute Variables for the batch of the last step, from parameters before its update.

        None if these are gone, as rows of a table were updated in place.
        """
        before = self._values_before()
        if self._overwritten(before):
            return None
        return self._eval(variables, self._step_batch, before)

    # ---- for event handlers

    def getLayerOutputs(self, layerNames):
        """Return {name: {'value', 'id', 'prob'}} of layers for the last batch.

        `layerNames` is a name or a list. Rows of sequences are concatenated. A field that a layer
        does not have is None. In a job whose ranks have read the same batch all ask for the same,
        and get the rows of all of them, in their order.
        """
        names = [layerNames] if isinstance(layerNames, str) else layerNames
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise RuntimeError(f"getLayerOutputs: a name or a list of names, not {layerNames!r}")
        if self._batch is None:
            raise RuntimeError("getLayerOutputs: no batch has been computed yet")
        requested = {name: self._fields(name) for name in names}
        own = None if self._batch.feeds is None else self._outputs(requested)
        if self._ranks is None:
            return own
        parts = [part for part in self._ranks.gather(own) if part is not None]
        return {
            name: {field: _concatenated([part[name][field] for part in parts]) for field in FIELDS}
            for name in requested
        }

    def _outputs(self, requested):
        """The outputs of layers for the samples of this process, from {name: fields}."""
        missing = [v for v in variables_of(requested.values()) if v not in self._values]
        if missing:
            before = self._values_before()
            overwritten = self._overwritten(before)
            if overwritten:
                warn(
                    "getLayerOutputs: computed from parameters as they are after the update: "
                    f"{overwritten[0]}\n"
                    "  hint: layers that were asked for before are computed with each step"
                )
            values = self._eval(missing, self._batch, before)
            self._values.update(zip(missing, values, strict=True))
        self._requested.update(requested)
        return {name: as_result(fields, self._values) for name, fields in requested.items()}

    def forward(self, inArgs, outArgs, passType):
        """Compute the outputs of the network for the Arguments of a batch, into `outArgs`.

        `outArgs` maps names to slots, in the order of the outputs. With PASS_TRAIN layers are in
        training mode (dropout, batch norm and its moving statistics), but no parameter is updated.
        This becomes the last batch.
        """
        if passType not in (PASS_TRAIN, PASS_TEST):
            raise ValueError(f"forward: 0 is a pass of training, 1 of a test, not {passType!r}")
        layers = self.topology.results
        lengths = [level.lengths for x in layers for level in x.levels]
        values = self._forward(inArgs, passType == PASS_TRAIN, lengths)
        outArgs.clear()
        outArgs.update({x.full_name: _output_slot(x, values) for x in layers})

    def forwardTest(self, inArgs):
        """Compute a list of {'value', 'id', 'prob'}, one per output, for the Arguments of a batch.

        Layers are in inference mode.
        """
        values = self._forward(inArgs, training=False)
        return [as_result(fields_of(x), values) for x in self.topology.results]

    def getParameters(self):
        """Return the parameters in the order of their creation."""
        return [MachineParameter(p.config, self.pool) for p in self.parameters]

    def getNonStaticParameters(self):
        """Return the parameters that are trained."""
        return [p for p in self.getParameters() if not p.config.is_static]

    def _fields(self, name):
        layer = self.topology.member(name)
        if layer is None:
            raise ValueError(f"getLayerOutputs: the network has no layer {name!r}")
        if layer.within is not None:
            raise ValueError(f"getLayerOutputs: {name!r} is a layer of a group's step")
        return fields_of(layer)

    def _set_batch(self, feeds, training, ranks=None):
        network = self.networks.of(feeds)
        self._batch = _Batch(feeds, training, dict(self.session.store.draws), network)
        self._values, self._version, self._ranks = {}, None, ranks

    def _forward(self, arguments, training, extra_targets=()):
        """Compute {Variable: value} of the outputs, and of extra targets, for a new batch."""
        layers = self.topology.data_layers()
        unknown = [name for name in arguments if name not in layers]
        if unknown:
            raise ValueError(f"forward: the network has no data layer {unknown[0]!r}")
        self._set_batch(feed_dict(layers, arguments), training)
        outputs = variables_of(fields_of(x) for x in self.topology.outputs)
        fetches = list(dict.fromkeys([*outputs, *extra_targets]))
        targets = [fetches, self._effects] if training else [fetches]
        network, feeds = self._batch.network, self._batch.feeds
        values = self.session.eval(network.of(targets), network.feeds(feeds), training)[0]
        self._values.update(zip(fetches, values, strict=True))
        return self._values

    @cached_property
    def _effects(self):
        """The updates of a forward pass in training mode: moving statistics."""
        return pd.Update(pd.effects(self.topology.layers))

    def _eval(self, targets, batch, before):
        """Evaluate targets for a batch, with its random draws and old values of parameters."""
        network = batch.network
        feeds = {**network.feeds(batch.feeds), **before}
        with self.session.replay(batch.draws):
            return self.session.eval(network.of(targets), feeds, batch.training)

    def _values_before(self):
        """Return {Variable: value before the step} of what the step of this batch has updated."""
        if self._version is None:
            return {}
        before = dict(self._table_copies)
        if self._version == self.session.store.version:
            learned = [v for v in self.learned if v not in before and not v.is_shard]
            values = {v: self.session.store.before(v) for v in learned}
            before.update({v: value for v, value in values.items() if value is not None})
        return before

    def _overwritten(self, before):
        """Return the names of updated Variables whose value before the step is gone.

        Of tables whose rows are spread over ranks, those that the batch reads are among its feeds.
        """
        if self._version is None:
            return []
        return [v.name for v in self.learned if v not in before and not v.is_shard]


class MachineParameter:
    """A parameter of a GradientMachine, with the methods of 2017."""

    def __init__(self, config, pool):
        self.config, self._pool = config, pool

    def getName(self):
        """Return the name."""
        return self.config.name

    def getSize(self):
        """Return the number of elements."""
        return int(self.config.size)

    def getConfig(self):
        """Return the ParameterConfig."""
        return self.config

    def getBuf(self, parameterType):
        """Return the value (0) or the gradient for the current batch (1)."""
        if parameterType == PARAMETER_VALUE:
            return Vector(self._pool.get(self.config.name).reshape(-1))
        if parameterType == PARAMETER_GRADIENT:
            return Vector(self._pool.get_grad(self.config.name))
        raise ValueError(f"getBuf: 0 is the value and 1 the gradient, not {parameterType!r}")


def _concatenated(arrays):
    return None if arrays[0] is None else np.concatenate(arrays)


def _output_slot(layer, values):
    """Return the slot of an output layer, from {Variable: value}."""
    fields = fields_of(layer)
    value, ids = (None if fields[f] is None else values[fields[f]] for f in ("value", "id"))
    lengths = tuple(values[level.lengths] for level in layer.levels)
    return OutputSlot(
        None if value is None else Matrix(value), ids, lengths, (layer.height, layer.width)
    )
