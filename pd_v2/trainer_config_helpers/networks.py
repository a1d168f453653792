"""Networks of several layers, which had these names in v1 already."""

from .. import networks
from .renamed import renamed

__all__ = [*networks.__all__]

globals().update(renamed(networks, {name: name for name in __all__}))
