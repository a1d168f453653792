"""The layer that prints other layers."""

import pd_core as pd

from .. import build
from ..config_base import Layer
from ..evaluator.base import Evaluator, Printing
from ..evaluator.printers import log, text_of, values_of
from ..formats.proto import LayerConfig
from ..warning import warn


class Print(Layer):
    """A print layer: it has no value of its own, its `evaluator` writes those of its inputs."""

    evaluator = None


def printer(input, format=None, name=None):
    """Print the values of a layer, or of several in a list, to the log at each forward pass.

    Each line is a message of its own.

    Each `%s` of `format` is replaced by one of them; with more or fewer of these than layers a
    warning says so, and the rest stays out. Returns None: every network that contains all of these
    layers prints them.
    """
    layers = list(input) if isinstance(input, (list, tuple)) else [input]
    for x in layers:
        if not isinstance(x, Layer):
            raise TypeError(f"printer: takes layers, not {x!r}")
    if build.current().groups:
        raise pd.GraphError("printer: the layers of a recurrent group are not there to be printed")
    if format is None:
        format = "\n".join(f"layer={x.full_name} %s" for x in layers)
    pieces = _pieces(format, len(layers))
    name = name or build.current().next_name("print")
    config = LayerConfig(name=name, type="print", active_type="", user_arg=format)
    for x in layers:
        config.inputs.add(input_layer_name=x.full_name)
    evaluator = _evaluator(config, layers, pieces)
    record = {"layer_type": "print", "parents": layers, "config": config, "evaluator": evaluator}
    layer = Print.of((), "float32", name, **record)
    build.current().add(layer)
    build.current().printers.append(layer)


print = printer


def _pieces(format, count):
    """Return the texts around the places of values, of which there are `count` at most."""
    pieces = format.split("%s")
    if len(pieces) != count + 1:
        warn(f"printer: {count} layers for {format!r}")
    return [*pieces[:count], "%s".join(pieces[count:])] if len(pieces) > count else pieces


def _evaluator(config, layers, pieces):
    fetches, by_layer = values_of(layers)

    def write(*arrays):
        texts = [text_of(fields) for fields in by_layer(arrays)]
        texts = [*texts[: len(pieces) - 1], ""]
        whole = "".join(piece + text for piece, text in zip(pieces, texts, strict=True))
        for line in whole.split("\n"):
            log(line)

    return Evaluator(config, tuple(layers), tuple(fetches), lambda: Printing(write), prints=True)
