"""Attributes of parameters and layers, which v1 had under these names too."""

# isort: skip_file
# fmt: off
from ..attr import (
    ExtraAttr, ExtraLayerAttribute, HookAttr, HookAttribute, ParamAttr, ParameterAttribute,
)

__all__ = [
    "ExtraAttr", "ExtraLayerAttribute", "HookAttr", "HookAttribute", "ParamAttr",
    "ParameterAttribute",
]
