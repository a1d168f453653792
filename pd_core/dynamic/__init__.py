"""Dynamic graphs: the same graph, recorded while values are at hand and computed on demand."""

from .guard import guard, no_grad, to_variable
from .placeholder import Placeholder

__all__ = ["Placeholder", "guard", "no_grad", "to_variable"]
