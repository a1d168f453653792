"""Errors of rebuilding layers from a configuration."""


class UnknownLayer(ValueError):
    """A configuration that no layer can be rebuilt from."""
