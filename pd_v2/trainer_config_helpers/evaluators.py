"""Evaluators under their names of v1: `auc_evaluator` is `paddle.evaluator.auc`.

`seq_classification_error` is missing: v1 had no function for it.
"""

from .. import evaluator

__all__ = [
    "auc_evaluator", "chunk_evaluator", "classification_error_evaluator",
    "classification_error_printer_evaluator", "column_sum_evaluator", "ctc_error_evaluator",
    "detection_map_evaluator", "gradient_printer_evaluator", "maxframe_printer_evaluator",
    "maxid_printer_evaluator", "pnpair_evaluator", "precision_recall_evaluator",
    "seqtext_printer_evaluator", "sum_evaluator", "value_printer_evaluator",
]  # fmt: skip

auc_evaluator = evaluator.auc
chunk_evaluator = evaluator.chunk
classification_error_evaluator = evaluator.classification_error
classification_error_printer_evaluator = evaluator.classification_error_printer
column_sum_evaluator = evaluator.column_sum
ctc_error_evaluator = evaluator.ctc_error
detection_map_evaluator = evaluator.detection_map
gradient_printer_evaluator = evaluator.gradient_printer
maxframe_printer_evaluator = evaluator.maxframe_printer
maxid_printer_evaluator = evaluator.maxid_printer
pnpair_evaluator = evaluator.pnpair
precision_recall_evaluator = evaluator.precision_recall
seqtext_printer_evaluator = evaluator.seqtext_printer
sum_evaluator = evaluator.sum
value_printer_evaluator = evaluator.value_printer
