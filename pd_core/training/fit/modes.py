"""Modes of layers that are set for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from ...layers.layer import Layer


@contextmanager
def modes_kept(layer: Layer) -> Iterator[None]:
    """Go back to the present modes of a layer, and of all below it, at the end of a `with`."""
    modes = [(each, each.training) for each in (layer, *layer.sublayers())]
    try:
        yield
    finally:
        for each, training in modes:
            each.training = training
