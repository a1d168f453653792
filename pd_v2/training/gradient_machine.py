"""The network of a trainer as an event's `gm` shows it: what its layers gave for a batch."""

from functools import cached_property
from typing import NamedTuple

import pd_core as pd

from ..arguments import Matrix, OutputSlot, Vector
from ..data_feeder import feeds
from ..warning import warn
from .layer_outputs import as_result, fields_of, variables_of

PARAMETER_VALUE, PARAMETER_GRADIENT = 0, 1
PASS_TRAIN, PASS_TEST = 0, 1


class _Batch(NamedTuple):
    """What a forward pass computes from: feeds, the side of mode switches, the random draws."""

    feeds: dict
    training: bool
    draws: dict


class GradientMachine:
    """The layers and parameters of a trained network, for the batch that it saw last.

    A step computes no layer for its own sake. The layers that were asked for once are fetched with
    every step from then on; one that is asked for the first time is computed then, from the values
    before the update, which a session keeps until the next. `learned` are the Variables that a
    step updates.
    """

    def __init__(self, topology, pool, learned):
        self.topology, self.pool, self.learned = topology, pool, learned
        self.session = pool.session
        self.parameters = topology.parameters
        self._wanted = {}  # fields of the layers that were asked for, by name
        self._batch = None  # that of the last forward pass
        self._step_batch = None  # that of the step, of the gradients
        self._remembered = {}

    # ---- what the trainer tells it

    @property
    def fetches(self):
        """What the next step computes for those who ask afterwards."""
        return variables_of(self._wanted.values())

    def begin(self, feeds, training, remembers=False):
        """A batch is there; `remembers` keeps a copy of what its step updates in rows only."""
        self._take(feeds, training)
        if training:
            self._step_batch = self._batch
            kept = [v for v in self.learned if v.row_sparse] if remembers else []
            self._remembered = {v: self.session.get(v) for v in kept}

    def stepped(self, fetches, values):
        """The step was made and gave these values."""
        if self._batch is self._step_batch:
            self._found.update(zip(fetches, values, strict=True))
        self._stepped = self.session.version

    def gradient(self, variable):
        """The value of a gradient for the batch of the step, with the random draws of that."""
        return self._evaluated([variable], self._step_batch, self._before())[0]

    def step_values(self, variables):
        """Values of Variables in the batch of the step, from parameters before its update.

        None if these are gone: rows of a table were updated in place.
        """
        before = self._before()
        if self._lost(before):
            return None
        return self._evaluated(variables, self._step_batch, before)

    # ---- what a handler asks

    def getLayerOutputs(self, layerNames):
        """{name: {'value', 'id', 'prob'}} of some layers for the last batch, a name or a list.

        Rows of sequences are one below the other. A field that a layer has not is None.
        """
        names = [layerNames] if isinstance(layerNames, str) else layerNames
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise RuntimeError(f"getLayerOutputs: a name or a list of names, not {layerNames!r}")
        if self._batch is None:
            raise RuntimeError("getLayerOutputs: no batch has been computed yet")
        wanted = {name: self._fields(name) for name in names}
        missing = [v for v in variables_of(wanted.values()) if v not in self._found]
        if missing:
            before = self._before()
            lost = self._lost(before)
            if lost:
                warn(
                    "getLayerOutputs: computed from parameters as they are after the update: "
                    f"{lost[0]}\n"
                    "  hint: layers that were asked for before are computed with each step"
                )
            values = self._evaluated(missing, self._batch, before)
            self._found.update(zip(missing, values, strict=True))
        self._wanted.update(wanted)
        return {name: as_result(fields, self._found) for name, fields in wanted.items()}

    def forward(self, inArgs, outArgs, passType):
        """Compute the outputs of the network for the Arguments of a batch, into `outArgs`.

        They come under their names, in the order of the outputs. With PASS_TRAIN layers work
        as they do in training (dropout, batch norm and its moving statistics), but nothing is
        learned. From then on this is the last batch.
        """
        if passType not in (PASS_TRAIN, PASS_TEST):
            raise ValueError(f"forward: 0 is a pass of training, 1 of a test, not {passType!r}")
        layers = self.topology.outputs
        lengths = [level.lengths for x in layers for level in x.levels]
        found = self._forward(inArgs, passType == PASS_TRAIN, lengths)
        outArgs.clear()
        outArgs.update({x.full_name: _output(x, found) for x in layers})

    def forwardTest(self, inArgs):
        """A list of {'value', 'id', 'prob'}, one for each output, for the Arguments of a batch.

        They come in the order of the outputs; layers work as they do in inference.
        """
        found = self._forward(inArgs, training=False)
        return [as_result(fields_of(x), found) for x in self.topology.outputs]

    def getParameters(self):
        """The parameters in the order of their creation."""
        return [MachineParameter(p.config, self.pool) for p in self.parameters]

    def getNonStaticParameters(self):
        """The parameters that are trained."""
        return [p for p in self.getParameters() if not p.config.is_static]

    def _fields(self, name):
        layer = self.topology.member(name)
        if layer is None:
            raise ValueError(f"getLayerOutputs: the network has no layer {name!r}")
        if layer.within is not None:
            raise ValueError(f"getLayerOutputs: {name!r} is a layer of a group's step")
        return fields_of(layer)

    def _take(self, feeds, training):
        self._batch = _Batch(feeds, training, dict(self.session.draws))
        self._found, self._stepped = {}, None

    def _forward(self, arguments, training, beside=()):
        """{Variable: value} of the outputs, and of what is wanted beside them, for a new batch."""
        layers = self.topology.data_layers()
        unknown = [name for name in arguments if name not in layers]
        if unknown:
            raise ValueError(f"forward: the network has no data layer {unknown[0]!r}")
        self._take(feeds(layers, arguments), training)
        outputs = variables_of(fields_of(x) for x in self.topology.outputs)
        wanted = list(dict.fromkeys([*outputs, *beside]))
        targets = [wanted, self._effects] if training else [wanted]
        values = self.session.eval(targets, self._batch.feeds, training)[0]
        self._found.update(zip(wanted, values, strict=True))
        return self._found

    @cached_property
    def _effects(self):
        """What a forward pass of training changes: moving statistics."""
        return pd.Update(pd.effects(self.topology.layers))

    def _evaluated(self, targets, batch, before):
        with self.session.replay(batch.draws):
            return self.session.eval(targets, {**batch.feeds, **before}, batch.training)

    def _before(self):
        """{Variable: its value before the step} of what the step of this batch has changed."""
        if self._stepped is None:
            return {}
        found = dict(self._remembered)
        if self._stepped == self.session.version:
            values = {v: self.session.before(v) for v in self.learned if v not in found}
            found.update({v: value for v, value in values.items() if value is not None})
        return found

    def _lost(self, before):
        """The names of what the step has changed and whose value before it is not kept."""
        return [v.name for v in self.learned if self._stepped is not None and v not in before]


class MachineParameter:
    """A parameter of a GradientMachine under the names that 2017 gave its methods."""

    def __init__(self, config, pool):
        self.config, self._pool = config, pool

    def getName(self):
        """The name."""
        return self.config.name

    def getSize(self):
        """The number of elements."""
        return int(self.config.size)

    def getConfig(self):
        """The ParameterConfig."""
        return self.config

    def getBuf(self, parameterType):
        """The values (0) or the gradient of the batch at hand (1)."""
        if parameterType == PARAMETER_VALUE:
            return Vector(self._pool.get(self.config.name).reshape(-1))
        if parameterType == PARAMETER_GRADIENT:
            return Vector(self._pool.get_grad(self.config.name))
        raise ValueError(f"getBuf: 0 is the value and 1 the gradient, not {parameterType!r}")


def _output(layer, found):
    """The slot of an output layer, by the values of Variables."""
    fields = fields_of(layer)
    value, ids = (None if fields[f] is None else found[fields[f]] for f in ("value", "id"))
    lengths = tuple(found[level.lengths] for level in layer.levels)
    return OutputSlot(
        None if value is None else Matrix(value), ids, lengths, (layer.height, layer.width)
    )
