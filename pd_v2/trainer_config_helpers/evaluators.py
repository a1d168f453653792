"""Evaluators under their names of v1: `auc_evaluator` is `paddle.evaluator.auc`.

`seq_classification_error` is missing: v1 had no function for it.
"""

from .. import evaluator
from .renamed import lookup

_NAMES = {
    f"{name}_evaluator": name for name in evaluator.__all__ if name != "seq_classification_error"
}

__all__ = sorted(_NAMES)
__getattr__ = lookup(evaluator, _NAMES)
