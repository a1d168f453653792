"""The sums of a step's gradients that an object makes in the memory of a device."""

from typing import Any

from ..graph.errors import GraphError
from ..graph.variable import Variable


def name_of(exchange: Any) -> str:
    """Return what ranks compare of their DeviceExchange, or of None."""
    if exchange is None:
        return "gradients are summed on the host"
    return f"gradients are summed by {exchange.name} on {exchange.device}"


def summed(exchange: Any, gradients: dict[Variable, Any], factor: float) -> dict[Variable, Any]:
    """Return the sums over the ranks of `factor` times OrtValues, by parameter.

    GraphError if the exchange returns others than it was given: another number, type or shape.
    """
    sums = list(exchange.sum(list(gradients.values()), factor))
    if len(sums) != len(gradients):
        raise GraphError(
            f"{exchange.name}.sum: returned {len(sums)} values for {len(gradients)} gradients"
        )
    for (w, g), value in zip(gradients.items(), sums, strict=True):
        given, returned = _form(g), _form(value)
        if given != returned:
            raise GraphError(
                f"{exchange.name}.sum: the gradient of {w.name} is {given}, its sum {returned}"
            )
    return dict(zip(gradients, sums, strict=True))


def _form(value):
    """The type, the shape and the place of an OrtValue, in words; of something else its class."""
    if not hasattr(value, "data_type"):
        return f"no OrtValue, but a {type(value).__name__}"
    return f"{value.data_type()}{list(value.shape())} on {value.device_name().lower()}"
