"""Gradient rules, keyed by ONNX operator: a file for each family."""

# isort: skip_file
# fmt: off
from . import (
    activation, attention, control, conv, gather, image, loss, math, matrix, non_differentiable,
    norm, ranks, recurrent, reduce, region, sampling, selection, sequence, shape, signal,
)
