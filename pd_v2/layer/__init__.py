"""Layer functions, by family."""

from ..config_base import Layer as LayerOutput
from ..topology import get_layer, parse_network
from .cost import (
    classification_cost,
    cross_entropy_cost,
    cross_entropy_with_selfnorm_cost,
    huber_classification_cost,
    huber_regression_cost,
    multi_binary_label_cross_entropy_cost,
    rank_cost,
    regression_cost,
    smooth_l1_cost,
    square_error_cost,
    sum_cost,
)
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
    "cross_entropy_with_selfnorm_cost",
    "data",
    "dropout",
    "fc",
    "get_layer",
    "huber_classification_cost",
    "huber_regression_cost",
    "img_conv",
    "img_pool",
    "multi_binary_label_cross_entropy_cost",
    "parse_network",
    "rank_cost",
    "regression_cost",
    "smooth_l1_cost",
    "square_error_cost",
    "sum_cost",
]
