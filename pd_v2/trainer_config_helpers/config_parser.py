"""The network under construction, as `paddle.trainer.config_parser` had it."""

import logging

import pd_core as pd

from .. import build

__all__ = ["begin_parse", "logger"]

logger = logging.getLogger("paddle")


def begin_parse():
    """Forget all layers, parameters, evaluators and defaults, and count names from 0 again.

    Trainers, inferences and Parameters made before keep their values and go on working. The
    stream of initial values is not restarted.
    """
    current = build.current()
    vars(current).update(vars(build.Build(stream=current.stream)))
    pd.clear_names()


def __getattr__(name):
    if name == "g_layer_map":  # looked up at each use, because begin_parse replaces it
        return {full_name: x.config for full_name, x in build.current().layers.items()}
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
