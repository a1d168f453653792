"""Optimizers, learning-rate schedules, regularizers and averages of parameters."""

from .base import Optimizer, adam, state
from .row_sparse import RowGradient, Rows, gradients_by_rows

__all__ = ["Optimizer", "RowGradient", "Rows", "adam", "gradients_by_rows", "state"]
