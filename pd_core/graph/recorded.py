"""Nodes that are recorded while values are at hand."""

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import ref

from .inference import OPSET
from .names import current_namespace
from .node import _NOTHING, Block, Node, put
from .signature import kind_of
from .site import user_site
from .variable import Inputs, OutputType, Variable
