"""Dynamic graphs: the same graph, recorded while values are at hand and computed on demand."""

from .guard import guard, no_grad, to_variable
from .placeholder import Placeholder
from .switch import disable_dynamic, enable_dynamic

__all__ = ["Placeholder", "disable_dynamic", "enable_dynamic", "guard", "no_grad", "to_variable"]
