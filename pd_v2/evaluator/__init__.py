"""Evaluators: metrics that the trainer computes beside the cost, per batch and per pass.

A function declares an evaluator of the given layers and returns None; it belongs to every topology
that contains all of them. Sequences are evaluated row by row, unless the function says otherwise.
"""

# isort: skip_file
# fmt: off
from .base import Accumulator, Evaluator, LastBatch, fetched, gradients_of_layers
from .classification import classification_error, precision_recall, seq_classification_error
from .detection import detection_map
from .printers import (
    classification_error_printer, gradient_printer, maxframe_printer, maxid_printer, value_printer,
)
from .ranking import auc, pnpair
from .sequences import chunk, ctc_error
from .sums import column_sum, sum
from .text import seqtext_printer

__all__ = [
    "auc", "chunk", "classification_error", "classification_error_printer", "column_sum",
    "ctc_error", "detection_map", "gradient_printer", "maxframe_printer", "maxid_printer", "pnpair",
    "precision_recall", "seq_classification_error", "seqtext_printer", "sum", "value_printer",
]
