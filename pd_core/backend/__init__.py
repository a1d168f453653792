"""Backends: graphs lowered to ONNX and run."""
