"""Layers rebuilt from their configuration: a ModelConfig, as 2017's pickled topologies hold it.

A rebuilt layer is accepted only if its own configuration equals the one it is built from.
"""

from .data_types import data_types_of
from .errors import UnknownLayer
from .network import layers_of, outputs_of

__all__ = ["UnknownLayer", "data_types_of", "layers_of", "outputs_of"]
