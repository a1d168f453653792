"""The network of a trainer as an event's `gm` shows it: what its layers gave for a batch."""

import warnings
from collections import Counter

import pd_core as pd

from .layer_outputs import as_result, fields_of, variables_of

PARAMETER_VALUE, PARAMETER_GRADIENT = 0, 1


class GradientMachine:
    """The layers and parameters of a trained network, for the batch that it saw last.

    A step computes no layer for its own sake. The layers that were asked for once are fetched with
    every step from then on; one that is asked for the first time is computed then, from the values
    before the update, which a session keeps until the next. `learned` are the Variables that a
    step updates.
    """

    def __init__(self, topology, pool, learned):
        self.topology, self.pool, self.learned = topology, pool, learned
        self.parameters = topology.parameters
        self._wanted = {}  # fields of the layers that were asked for, by name
        self._feeds = None

    # ---- what the trainer tells it

    @property
    def fetches(self):
        """What the next step computes for those who ask afterwards."""
        return variables_of(self._wanted.values())

    def begin(self, feeds, training, remembers=False):
        """A batch is there; `remembers` keeps a copy of what its step updates in rows only."""
        session = pd.default_session()
        self._feeds, self._training, self._draws = feeds, training, dict(session.draws)
        self._found, self._remembered, self._stepped = {}, {}, None
        if remembers:
            self._remembered = {v: session.get(v) for v in self.learned if v.row_sparse}

    def stepped(self, fetches, values):
        """The step was made and gave these values."""
        self._found.update(zip(fetches, values, strict=True))
        self._stepped = pd.default_session().version

    def gradient(self, variable):
        """The value of a gradient for the batch, with the random draws of its step."""
        return self._evaluated([variable], training=True)[0]

    # ---- what a handler asks

    def getLayerOutputs(self, layerNames):
        """{name: {'value', 'id', 'prob'}} of some layers for the last batch, a name or a list.

        Rows of sequences are one below the other. A field that a layer has not is None.
        """
        names = [layerNames] if isinstance(layerNames, str) else layerNames
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise RuntimeError(f"getLayerOutputs: a name or a list of names, not {layerNames!r}")
        if self._feeds is None:
            raise RuntimeError("getLayerOutputs: no batch has been computed yet")
        wanted = {name: self._fields(name) for name in names}
        missing = [v for v in variables_of(wanted.values()) if v not in self._found]
        if missing:
            values = self._evaluated(missing, self._training)
            self._found.update(zip(missing, values, strict=True))
        self._wanted.update(wanted)
        return {name: as_result(fields, self._found) for name, fields in wanted.items()}

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

    def _evaluated(self, targets, training):
        session = pd.default_session()
        draws, session.draws = session.draws, Counter(self._draws)
        try:
            return session.eval(targets, {**self._feeds, **self._before(session)}, training)
        finally:
            session.draws = draws

    def _before(self, session):
        """{Variable: its value before the step} of what the step of this batch has changed."""
        if self._stepped is None:
            return {}
        found = dict(self._remembered)
        if self._stepped == session.version:
            values = {v: session.before(v) for v in self.learned if v not in found}
            found.update({v: value for v, value in values.items() if value is not None})
        lost = [v.name for v in self.learned if v not in found]
        if lost:
            warnings.warn(
                f"getLayerOutputs: computed from parameters as they are after the update: {lost[0]}"
                "\n  hint: layers that were asked for before are computed with each step",
                stacklevel=4,
            )
        return found


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
            return Buffer(self._pool.get(self.config.name).reshape(-1))
        if parameterType == PARAMETER_GRADIENT:
            return Buffer(self._pool.get_grad(self.config.name))
        raise ValueError(f"getBuf: 0 is the value and 1 the gradient, not {parameterType!r}")


class Buffer:
    """The numbers of a parameter, a copy."""

    def __init__(self, array):
        self._array = array

    def copyToNumpyArray(self):
        """float32 [size]."""
        return self._array.copy()
