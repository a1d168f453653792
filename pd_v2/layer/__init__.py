"""Layer functions, by family."""

from ..config_base import Layer as LayerOutput
from ..topology import get_layer, parse_network
from .cost import classification_cost, cross_entropy_cost, regression_cost, square_error_cost
from .data import data
from .dense import fc
from .image import img_conv, img_pool
from .math import addto, concat, dropout
from .norm import batch_norm

__all__ = [
    "LayerOutput",
    "addto",
    "batch_norm",
    "classification_cost",
    "concat",
    "cross_entropy_cost",
    "data",
    "dropout",
    "fc",
    "get_layer",
    "img_conv",
    "img_pool",
    "parse_network",
    "regression_cost",
    "square_error_cost",
]
