"""Attributes of parameters and layers, which had these names in v1 already."""

from .. import attr
from .renamed import renamed

_LATER = {"Extra", "Hook", "Param"}

__all__ = [name for name in attr.__all__ if name not in _LATER]

globals().update(renamed(attr, {name: name for name in __all__}))
