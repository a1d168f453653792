"""Evaluators under their names of v1: `auc_evaluator` is `paddle.evaluator.auc`."""

from .. import evaluator
from .renamed import renamed

_LATER = {"seq_classification_error"}  # v1 had no function for it

_NAMES = {name: f"{name}_evaluator" for name in evaluator.__all__ if name not in _LATER}

globals().update(renamed(evaluator, _NAMES))
__all__ = [*_NAMES.values()]
