"""Optimizers, learning-rate schedules, regularizers and averages of parameters."""

from .base import Optimizer, adam
from .row_sparse import RowGradient, Rows, gradients_by_rows
from .settings import Built, Settings
from .tracing import Tracing

__all__ = [
    "Built",
    "Optimizer",
    "RowGradient",
    "Rows",
    "Settings",
    "Tracing",
    "adam",
    "gradients_by_rows",
]
