"""Online learning: minibatches of samples that clients send over the network, as JSON lines."""

from .source import online

__all__ = ["online"]
