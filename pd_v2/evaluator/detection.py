"""Mean average precision of detected boxes."""

import numpy as np

import pd_core as pd
from pd_core.run.states import each, entries, integer

from .base import check_rows, declare, evaluator, numbers, sequences_of

_TYPES = "11point", "Integral"


@evaluator
def detection_map(
    input,
    label,
    overlap_threshold=0.5,
    background_id=0,
    evaluate_difficult=False,
    ap_type="11point",
    name=None,
):
    """Mean average precision (mAP) of detections, times 100.

    `input` has rows [image, class, score, xmin, ymin, xmax, ymax], `label` sequences of rows
    [class, xmin, ymin, xmax, ymax, difficult]. A detection is right if the box of its class with
    the largest overlap, above the threshold, has no better detection yet; difficult boxes are
    ignored unless `evaluate_difficult`. `ap_type` is `11point`, the mean of the best precision at
    recalls of at least 0, 0.1, … (Everingham et al. 2010), or `Integral`, the area under the
    precision-recall curve. `background_id` has no effect.
    """
    who = "detection_map"
    inputs = list(input) if isinstance(input, (list, tuple)) else [input]
    input, label, *rest = *inputs, label, label  # the label twice, as in 2017
    check_rows(who, input)
    check_rows(who, label)
    lengths = sequences_of(who, label).lengths
    _check_width(who, input, 7)
    _check_width(who, label, 6)
    if ap_type not in _TYPES:
        raise ValueError(f"{who}: ap_type is one of {', '.join(_TYPES)}, not {ap_type!r}")
    declare(
        "detection_map",
        "detection_map",
        name,
        [input, label, *rest],
        (input, label, lengths),
        lambda: Detections(overlap_threshold, evaluate_difficult, ap_type),
        overlap_threshold=overlap_threshold,
        background_id=background_id,
        evaluate_difficult=evaluate_difficult,
        ap_type=ap_type,
    )


def _check_width(who, x, width):
    if x.rank != 2 or x.dims[1] != width:
        raise pd.ShapeError(f"{who}: a row of {x.name!r} is {width} numbers, not {x!r}")


class Detections:
    """The tally of detections over batches, and of the number of true boxes by class."""

    def __init__(self, overlap_threshold, difficult, ap_type):
        self._threshold, self._difficult, self._ap_type = overlap_threshold, difficult, ap_type
        self._boxes = {}  # number of true boxes by class
        self._judgements = {}  # lists of arrays [detections, (score, right)] by class

    def update(self, detections, truth, lengths):
        """Add the images of one batch."""
        images = np.repeat(np.arange(len(lengths)), lengths)
        classes, counted = truth[:, 0].astype(int), self._counted(truth)
        for c, n in zip(*np.unique(classes[counted], return_counts=True), strict=True):
            self._boxes[c] = self._boxes.get(c, 0) + n
        pairs = detections[:, :2].astype(int)
        for image, c in np.unique(pairs, axis=0):
            rows = detections[(pairs == (image, c)).all(axis=1)]
            rows = rows[np.argsort(-rows[:, 2], kind="stable")]
            boxes = truth[(images == image) & (classes == c)]
            self._judgements.setdefault(c, []).append(self._judged(rows, boxes))

    def _counted(self, truth):
        """Return the mask of the boxes that count."""
        return (truth[:, 5] == 0) | self._difficult

    def _judged(self, rows, boxes):
        """Return [score, right] of the detections of one class in an image, best first."""
        right = np.zeros(len(rows))
        if not len(boxes):
            return np.stack([rows[:, 2], right], axis=1)
        overlaps = _overlaps(rows[:, 3:7], boxes[:, 1:5])
        best = overlaps.argmax(axis=1)
        hit = overlaps.max(axis=1) > self._threshold
        counted = self._counted(boxes)[best]
        _, first = np.unique(np.where(hit & counted, best, -1), return_index=True)
        right[first] = 1.0
        right[~(hit & counted)] = 0.0
        judged = ~hit | counted
        return np.stack([rows[:, 2], right], axis=1)[judged]

    def compute(self):
        """Return the mean over the classes that have counted boxes and detections."""
        precisions = []
        for c, arrays in self._judgements.items():
            judged, count = np.concatenate(arrays), self._boxes.get(c, 0)
            if count and len(judged):
                precisions.append(self._average_precision(judged, count))
        return {"": 100.0 * np.mean(precisions) if precisions else 0.0}

    def state(self):
        """Return the numbers of boxes and the judgements, as pairs of a class and those."""
        judged = [[int(c), np.concatenate(arrays)] for c, arrays in self._judgements.items()]
        return {"boxes": [[int(c), int(n)] for c, n in self._boxes.items()], "judgements": judged}

    def restore(self, state):
        """Go back to a `state`."""
        kinds = {"boxes": each(_pair_with(integer)), "judgements": each(_pair_with(_judgements))}
        found = entries("detection_map", state, kinds)
        self._boxes = dict(found["boxes"])
        self._judgements = {c: [rows] for c, rows in found["judgements"]}

    def _average_precision(self, judged, count):
        right = judged[np.argsort(-judged[:, 0], kind="stable"), 1]
        total = np.cumsum(right)
        # 2017 compared recalls in float32 with tenths in float64: 7 of 10 are less than 0.7
        recall = (total.astype(np.float32) / np.float32(count)).astype(np.float64)
        precision = total / np.arange(1, len(right) + 1)
        if self._ap_type == "Integral":
            return np.sum(precision * np.diff(recall, prepend=0.0))
        best = [precision[recall >= k / 10].max(initial=0.0) for k in range(11)]
        return np.mean(best)


def _pair_with(kind):
    """Return a function for pairs of a class and what is of a kind."""

    def pair(value):
        c, of_class = value
        return integer(c), kind(of_class)

    return pair


def _judgements(value):
    rows = numbers(value, 2)
    if rows.shape[1] != 2:
        raise ValueError(f"a row is a score and whether it is right, not {rows.shape[1]} numbers")
    return rows


def _overlaps(a, b):
    """Return the intersection over union of each box of a with each of b, [len(a), len(b)]."""
    a, b = a[:, None], b[None]
    sides = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    shared = np.prod(np.maximum(sides, 0.0), axis=-1)
    areas = [np.prod(x[..., 2:] - x[..., :2], axis=-1) for x in (a, b)]
    union = areas[0] + areas[1] - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
