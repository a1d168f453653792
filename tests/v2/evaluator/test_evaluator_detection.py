"""detection_map against a slow count, and cases by hand."""

import numpy as np
import pytest

import pd_core as pd
from pd_v2 import evaluator as E
from pd_v2.topology import Topology

from .evaluator_checks import metric, packed, row_sequences, rows


def overlap(a, b):
    """Intersection over union of two boxes."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    area = [(x[2] - x[0]) * (x[3] - x[1]) for x in (a, b)]
    return width * height / (area[0] + area[1] - width * height)


def judged(images, c, threshold, difficult):
    """[(score, right)] of a class over images of (detections, boxes); how many boxes it has."""
    found, count = [], 0
    for detections, boxes in images:
        boxes = [b for b in boxes if b[0] == c]
        count += sum(difficult or not b[5] for b in boxes)
        taken = set()
        for d in sorted((d for d in detections if d[1] == c), key=lambda d: -d[2]):
            overlaps = [overlap(d[3:7], b[1:5]) for b in boxes]
            best = int(np.argmax(overlaps)) if boxes else None
            if best is None or overlaps[best] <= threshold:
                found.append((d[2], 0))
            elif difficult or not boxes[best][5]:
                found.append((d[2], int(best not in taken)))
                taken.add(best)
    return sorted(found, key=lambda f: -f[0]), count


def slow_map(images, kind, threshold=0.5, difficult=False):
    """Mean average precision by its definition."""
    precisions = []
    for c in sorted({int(d[1]) for found, _ in images for d in found}):
        found, count = judged(images, c, threshold, difficult)
        if not count or not found:
            continue
        curve, right = [], 0
        for n, (_, hit) in enumerate(found, 1):
            right += hit
            curve.append((right / n, float(np.float32(right) / np.float32(count))))
        if kind == "11point":
            best = [max([p for p, r in curve if r >= k / 10], default=0.0) for k in range(11)]
            precisions.append(sum(best) / 11)
        else:
            steps = np.diff([0.0] + [r for _, r in curve])
            precisions.append(sum(p * s for (p, _), s in zip(curve, steps, strict=True)))
    return 100 * float(np.mean(precisions))


def draw(rng, n):
    """Images of a batch: detections near the boxes and elsewhere, some of the boxes difficult."""
    images = []
    for image in range(n):
        corner, size = rng.uniform(0, 0.6, (4, 2)), rng.uniform(0.1, 0.4, (4, 2))
        boxes = np.concatenate(
            [
                rng.integers(1, 4, (4, 1)),
                corner,
                corner + size,
                rng.uniform(size=(4, 1)) < 0.3,
            ],
            axis=1,
        )[: rng.integers(0, 5)]
        near = np.repeat(boxes[:, 1:5], 2, axis=0)
        near = np.concatenate([near + rng.normal(0, 0.04, near.shape), rng.uniform(0, 1, (3, 4))])
        kinds = [*np.repeat(boxes[:, 0], 2), 1, 2, 4]
        columns = np.full(len(near), image), kinds, rng.permutation(len(near)) / 40
        images.append((np.column_stack([*columns, near]), boxes))
    return images


def feeds(images):
    found = packed("x", [d.reshape(-1, 7) for d, _ in images])
    return found | packed("label", [b.reshape(-1, 6) for _, b in images])


@pytest.mark.parametrize("difficult", [False, True])
@pytest.mark.parametrize("kind", ["11point", "Integral"])
@pytest.mark.parametrize("threshold", [0.5, 0.75])
def test_mean_average_precision(kind, difficult, threshold, rng):
    E.detection_map(
        input=row_sequences(size=7),
        label=row_sequences("label", 6),
        overlap_threshold=threshold,
        evaluate_difficult=difficult,
        ap_type=kind,
    )
    batches = [draw(rng, n) for n in (6, 1, 4)]
    expected = slow_map([image for b in batches for image in b], kind, threshold, difficult)
    assert 5 < expected < 100
    assert metric(*map(feeds, batches)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("count", "found", "points"), [(10, 6, 7), (10, 7, 7), (10, 9, 9)])
def test_recalls_are_single_precision(count, found, points):
    """7 of 10 in float32 are less than 0.7, and 9 of 10 less than 0.9; 6 of 10 are 0.6."""
    E.detection_map(input=row_sequences(size=7), label=row_sequences("label", 6))
    corners = np.arange(count)[:, None] / [10.0, 10.0]
    boxes = np.concatenate([corners, corners + 0.1], axis=1)
    truth = np.column_stack([np.ones(count), boxes, np.zeros(count)])
    rows = np.column_stack([np.zeros(count), np.ones(count), np.arange(count, 0, -1) / 20, boxes])
    assert metric(feeds([(rows[:found], truth)])) == pytest.approx(100 * points / 11)


BOX = [1.0, 0.0, 0.0, 0.5, 0.5, 0.0]
HARD = [*BOX[:5], 1.0]
FAR = [1.0, 0.5, 0.5, 1.0, 1.0, 0.0]


def hit(score, c=1.0):
    return [0.0, c, score, 0.0, 0.0, 0.5, 0.5]


def miss(score):
    return [0.0, 1.0, score, 0.5, 0.5, 1.0, 1.0]


CASES = [
    # detections and boxes of one image, and the mean average precision
    ([hit(0.9)], [BOX], 100.0),
    ([hit(0.9), hit(0.8)], [BOX], 100.0),
    ([miss(0.9), hit(0.8)], [BOX], 50.0),
    ([[0.0, 1.0, 0.9, 0.0, 0.0, 0.25, 0.5]], [BOX], 0.0),  # the overlap is the threshold
    ([hit(0.9, 2.0)], [BOX], 0.0),
    ([hit(0.9)], [BOX, HARD], 100.0),
    ([miss(0.9)], [HARD], 0.0),
    # the one detection of a class that found a difficult box does not count, so nor does the class
    ([hit(0.9), hit(0.8, 2.0)], [HARD, FAR, [2.0, *BOX[1:]]], 100.0),
    ([hit(0.9)], np.zeros((0, 6)), 0.0),
    (np.zeros((0, 7)), [BOX], 0.0),
]


@pytest.mark.parametrize(("detections", "boxes", "expected"), CASES)
@pytest.mark.parametrize("kind", ["11point", "Integral"])
def test_cases_by_hand(kind, detections, boxes, expected):
    E.detection_map(row_sequences(size=7), row_sequences("label", 6), ap_type=kind)
    batch = feeds([(np.asarray(detections), np.asarray(boxes))])
    assert metric(batch) == pytest.approx(expected)


def test_no_images():
    E.detection_map(row_sequences(size=7), row_sequences("label", 6))
    assert metric() == 0.0
    none = np.zeros(0, np.int64)
    empty = {"x": np.zeros((0, 7)), "label": np.zeros((0, 6))}
    assert metric(empty | {"x.lengths": none, "label.lengths": none}) == 0.0


def test_configuration():
    x, label = row_sequences(size=7), row_sequences("label", 6)
    E.detection_map(x, label, overlap_threshold=0.25, ap_type="Integral")
    (found,) = Topology([x, label]).proto().evaluators
    assert (found.name, found.type) == ("__detection_map_evaluator_0__", "detection_map")
    assert list(found.input_layers) == ["x", "label", "label"]
    assert (found.overlap_threshold, found.ap_type) == (0.25, "Integral")
    assert found.HasField("background_id") and found.HasField("evaluate_difficult")


def test_what_detection_map_refuses():
    x, label = row_sequences(size=7), row_sequences("label", 6)
    with pytest.raises(pd.ShapeError, match="a row of 'y' is 7 numbers"):
        E.detection_map(rows("y", 6), label)
    with pytest.raises(pd.ShapeError, match="a row of 'z' is 6 numbers"):
        E.detection_map(x, row_sequences("z", 5))
    with pytest.raises(pd.GraphError, match="detection_map: 'w' holds no sequences"):
        E.detection_map(x, rows("w", 6))
    with pytest.raises(ValueError, match="one of 11point, Integral, not 'mean'"):
        E.detection_map(x, label, ap_type="mean")
