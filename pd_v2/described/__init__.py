"""Layers from their configuration, as the topologies that were pickled in 2017 describe them.

A layer counts only if the configuration that it is given here equals the one it is made from.
"""

from .data_types import data_types_of
from .errors import UnknownLayer
from .network import layers_of, outputs_of

__all__ = ["UnknownLayer", "data_types_of", "layers_of", "outputs_of"]
