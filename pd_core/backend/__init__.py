"""Backends: graphs lowered to ONNX and run."""

from . import installed
