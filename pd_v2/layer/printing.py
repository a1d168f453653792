"""The layer that prints others."""

import pd_core as pd

from .. import build
from ..config_base import Layer
from ..evaluator.base import Evaluator, Printing
from ..evaluator.printers import log, text_of, values_of
from ..formats.proto import LayerConfig


class Print(Layer):
    """A print layer: it has no value, its `evaluator` writes the values of others."""

    evaluator = None


def printer(input, format=None, name=None):
    """Print the values of a layer, or of several in a list, to the log at each forward pass.

    Each `%s` of `format` stands for one of them. Returns None: the printing belongs to every
    network that holds all of these layers.
    """
    layers = list(input) if isinstance(input, (list, tuple)) else [input]
    for x in layers:
        if not isinstance(x, Layer):
            raise TypeError(f"printer: takes layers, not {x!r}")
    if build.current().groups:
        raise pd.GraphError("printer: the layers of a recurrent group are not there to be printed")
    if format is None:
        format = "\n".join(f"layer={x.full_name} %s" for x in layers)
    pieces = format.split("%s")
    if len(pieces) != len(layers) + 1:
        raise ValueError(f"printer: {len(layers)} layers for {format!r}")
    name = name or build.current().next_name("print")
    config = LayerConfig(name=name, type="print", active_type="", user_arg=format)
    for x in layers:
        config.inputs.add(input_layer_name=x.full_name)
    evaluator = _evaluator(config, layers, pieces)
    own = {"layer_type": "print", "parents": layers, "config": config, "evaluator": evaluator}
    layer = Print.of((), "float32", name, **own)
    build.current().add(layer)
    build.current().printers.append(layer)


print = printer


def _evaluator(config, layers, pieces):
    fetched, groups = values_of(layers)

    def write(*arrays):
        texts = [text_of(group) for group in groups(arrays)]
        log("".join(piece + text for piece, text in zip(pieces, [*texts, ""], strict=True)))

    return Evaluator(config, tuple(layers), tuple(fetched), lambda: Printing(write), prints=True)
