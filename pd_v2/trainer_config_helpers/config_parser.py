"""The network that is being described, as `paddle.trainer.config_parser` had it."""

import logging

import pd_core as pd

from .. import build

__all__ = ["begin_parse", "logger"]

logger = logging.getLogger("paddle")


def begin_parse():
    """Forget all layers, parameters, evaluators and defaults, and count names from 0 again.

    What was made from them keeps its values and works on: trainers, inferences, Parameters. The
    stream of initial values goes on.
    """
    current = build.current()
    vars(current).update(vars(build.Build(stream=current.stream)))
    pd.clear_names()


def __getattr__(name):
    if name == "g_layer_map":  # by its name, as begin_parse makes another one
        return {full: layer.config for full, layer in build.current().layers.items()}
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
