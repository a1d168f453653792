"""Inference: the outputs of a network for a list of samples."""

from dataclasses import dataclass

import numpy as np

import pd_core as pd
from pd_core.graph.errors import concise

from .deprecated_keywords import deprecated_keywords
from .described.stored_network import network_of, read_stored
from .evaluator import Accumulator, fetched
from .feeds import feed_dict
from .layer.resized import Networks
from .parameters import Parameters
from .topology import Topology, feeder_of, result_order
from .training.layer_outputs import FIELDS, as_result, fields_of, variables_of
from .warning import warn

__all__ = ["Inference", "infer"]


# Keywords of releases before 0.10. The batch size changed no result.
_with_deprecated = deprecated_keywords(
    reader="input", reader_dict="feeding", batch_size=lambda size: {}
)


@dataclass
class _Compiled:
    """The session of some output layers, and the Inference whose values it holds.

    Several Inferences of the same layers share one compiled session.
    """

    session: pd.Session
    networks: Networks | None = None
    user: "Inference | None" = None

    def session_of(self, user):
        """Return the session, loaded with the values of an Inference."""
        if self.user is not user:
            self.session.load_values(user._values)
            self.user = user
        return self.session


class Inference:
    """The network behind some output layers, with a copy of the values of `parameters`.

    The network may also come from `fileobj`, a file that `Topology.serialize_for_inference` wrote,
    here or in 2017, or a merged model of 2017's C library: then no layer of it has to be defined in
    this process.
    """

    @deprecated_keywords(output="output_layer")
    def __init__(self, parameters, output_layer=None, fileobj=None):
        if isinstance(output_layer, Parameters):  # their order until 2017-08
            parameters, output_layer = output_layer, parameters
        if output_layer is not None:
            self._take_layers(parameters, Topology(output_layer))
        elif fileobj is not None:
            self._take_file(parameters, read_stored(fileobj))
        else:
            raise ValueError("Inference: give an output_layer, or the fileobj of a topology")

    def _take_layers(self, parameters, topology):
        topology.check_fit()
        key = tuple(topology.outputs)
        compiled = vars(key[0]).setdefault("compiled", {})  # lives as long as the layer
        if key not in compiled:
            compiled[key] = _Compiled(pd.Session(), Networks(topology))
        self._shared = compiled[key]
        self._data_types, self._inputs = topology.data_type(), topology.data_layers()
        self._config = topology.proto()
        self._outputs = [fields_of(x) for x in topology.results]
        asked, given = ([x.name for x in layers] for layers in (topology.outputs, topology.results))
        if asked != given:
            warn(
                f"infer: after a recurrent group was described, the results come in the order in "
                f"which the layers were defined, {given}, not as asked for, {asked}"
            )
        self._printers = topology.printers
        self._values = parameters.values_of(topology.parameters)

    def _take_file(self, parameters, stored):
        self._shared, self._values = _Compiled(pd.Session()), {}
        self._data_types, self._printers = stored.data_types, []
        self._config = stored.config
        self._inputs, outputs = network_of(stored, parameters)
        self._outputs = [outputs[k] for k in result_order(stored.config)]

    @_with_deprecated
    def iter_infer(self, input, feeding=None):
        """Yield, for the whole input as one batch, a list of {'value', 'id', 'prob'} per output.

        If the input is a reader of batches, yield one such list per batch.
        """
        feeder = feeder_of(self._data_types, self._config, feeding)
        for batch in input() if callable(input) else [input]:
            yield self._results(feed_dict(self._inputs, feeder(list(batch))))

    def _results(self, feeds):
        """Return {'value', 'id', 'prob'} of each output for some feeds."""
        fetches = variables_of(self._outputs)
        session, networks = self._shared.session_of(self), self._shared.networks
        targets = [fetches, fetched(self._printers)]
        if networks is not None:
            network = networks.of(feeds)
            targets, feeds = network.of(targets), network.feeds(feeds)
        arrays, printed = session.eval(targets, feeds, training=False)
        Accumulator(self._printers).update(printed)
        values = dict(zip(fetches, arrays, strict=True))
        return [as_result(fields, values) for fields in self._outputs]

    def iter_infer_field(self, field, **kwargs):
        """Yield for each output a list of the requested fields."""
        names = _field_names(field)
        for results in self.iter_infer(**kwargs):
            for result in results:
                yield [result[name] for name in names]

    @concise
    @_with_deprecated
    def infer(self, input, field="value", flatten_result=True, **kwargs):
        """Return a field of all outputs, the rows of several outputs concatenated.

        `field` is a name or several; several give a list. With flatten_result=False the result is
        a list with one array per output. A reader without batches gives an empty list.
        """
        names = _field_names(field)
        results = list(self.iter_infer_field(field=names, input=input, **kwargs))
        if not results:
            return []
        count = len(self._outputs)  # results per batch
        columns = [
            [_of_batches(name, [result[i] for result in results[k::count]]) for k in range(count)]
            for i, name in enumerate(names)
        ]
        if flatten_result:
            columns = [_joined(name, c) for name, c in zip(names, columns, strict=True)]
        return columns[0] if len(columns) == 1 else columns


@concise
@deprecated_keywords(output="output_layer")
@_with_deprecated
def infer(output_layer, parameters, input, feeding=None, field="value"):
    """Compute the outputs of some layers for a list of samples, each a tuple, as one batch.

    The input may also be a reader of such lists; one without batches gives an empty list.
    """
    inference = Inference(output_layer=output_layer, parameters=parameters)
    return inference.infer(field=field, input=input, feeding=feeding)


def _field_names(field):
    names = [field] if isinstance(field, str) else list(field)
    for name in names:
        if name not in FIELDS:
            raise ValueError(f"infer: a field is one of {', '.join(FIELDS)}, not {name!r}")
    return names


def _of_batches(name, values):
    return values[0] if len(values) == 1 else _joined(name, values)


def _joined(name, values):
    if any(v is None for v in values):
        raise ValueError(f"infer: an output has no field {name!r}")
    return np.concatenate(values)
