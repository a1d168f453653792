"""Metrics by their names, with the default options."""

import re
from collections.abc import Callable

from .base import Metric
from .classification import F1, Accuracy, ConfusionMatrix, Precision, Recall, TopK
from .mean import Mean
from .ranking import AUC, AveragePrecision
from .regression import R2, MeanAbsoluteError, MeanSquaredError, RootMeanSquaredError
from .text import BLEU, Perplexity

METRICS: dict[str, Callable[[], Metric]] = {
    "accuracy": Accuracy,
    "auc": AUC,
    "average_precision": AveragePrecision,
    "bleu": BLEU,
    "confusion_matrix": ConfusionMatrix,
    "f1": F1,
    "mae": MeanAbsoluteError,
    "mean": Mean,
    "mse": MeanSquaredError,
    "perplexity": Perplexity,
    "precision": Precision,
    "r2": R2,
    "recall": Recall,
    "rmse": RootMeanSquaredError,
}


def metric_by_name(name: str) -> Metric:
    """Return a new metric: one of `METRICS`, or top_1, top_5, … for TopK.

    Args:
        name: such as `accuracy`.

    Returns:
        A metric with default options.

    Raises:
        ValueError: there is no such metric.
    """
    if name in METRICS:
        return METRICS[name]()
    if re.fullmatch(r"top_[1-9]\d*", name, re.ASCII):
        return TopK(int(name.removeprefix("top_")))
    raise ValueError(f"there is no metric {name!r}, but {', '.join(METRICS)} and top_K for any K")
