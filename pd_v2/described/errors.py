"""What a description may be wrong in."""


class UnknownLayer(ValueError):
    """A configuration that no layer is made from here."""
