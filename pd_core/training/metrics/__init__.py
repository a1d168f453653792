"""Metrics over batches of host arrays: they add up, merge, and go into checkpoints."""

from .base import Metric
from .classification import F1, Accuracy, ClassMetric, ConfusionMatrix, Precision, Recall, TopK
from .function import FunctionMetric
from .mean import Mean, MeanMetric
from .names import METRICS, metric_by_name
from .ranking import AUC, AveragePrecision, RankingMetric
from .regression import R2, MeanAbsoluteError, MeanSquaredError, RootMeanSquaredError
from .text import BLEU, Perplexity

__all__ = [
    "AUC", "BLEU", "F1", "METRICS", "R2", "Accuracy", "AveragePrecision", "ClassMetric",
    "ConfusionMatrix", "FunctionMetric", "Mean", "MeanAbsoluteError", "MeanMetric",
    "MeanSquaredError", "Metric", "Perplexity", "Precision", "RankingMetric", "Recall",
    "RootMeanSquaredError", "TopK", "metric_by_name",
]  # fmt: skip
