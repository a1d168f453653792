"""Boxes one by one: what detection computes, in loops."""

import itertools

import numpy as np


def overlap(a, b):
    """Intersection over union of two boxes."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    area = [(x[2] - x[0]) * (x[3] - x[1]) for x in (a, b)]
    return width * height / (area[0] + area[1] - width * height)


def prior_boxes(cells, image, small, large=None, ratios=()):
    """Cell by cell, box by box."""
    boxes = []
    for h, w in np.ndindex(*cells):
        x, y = (w + 0.5) * image[1] / cells[1], (h + 0.5) * image[0] / cells[0]
        sides = [(small, small)] + ([] if large is None else [((small * large) ** 0.5,) * 2])
        for r in ratios:
            for k in (r, 1 / r):
                sides.append((small * k**0.5, small / k**0.5))
        for a, b in sides:
            box = (x - a / 2) / image[1], (y - b / 2) / image[0]
            box += (x + a / 2) / image[1], (y + b / 2) / image[0]
            boxes.append([min(max(v, 0.0), 1.0) for v in box])
    return np.array(boxes)


def encode(box, prior, variance):
    (x, y, w, h), (px, py, pw, ph) = (
        ((b[0] + b[2]) / 2, (b[1] + b[3]) / 2, b[2] - b[0], b[3] - b[1]) for b in (box, prior)
    )
    code = (x - px) / pw, (y - py) / ph, np.log(w / pw), np.log(h / ph)
    return np.array(code) / variance


def decode(code, prior, variance):
    a, b, c, d = np.asarray(code) * variance
    w, h = prior[2] - prior[0], prior[3] - prior[1]
    x, y = (prior[0] + prior[2]) / 2 + a * w, (prior[1] + prior[3]) / 2 + b * h
    w, h = w * np.exp(c), h * np.exp(d)
    return np.array([x - w / 2, y - h / 2, x + w / 2, y + h / 2])


def match(overlaps, threshold):
    """The box of each prior for overlaps [P, G], -1 for none."""
    matches = np.full(len(overlaps), -1)
    open_boxes = set(range(overlaps.shape[1]))
    while True:
        pairs = [
            (-overlaps[p, g], p, g)
            for p, g in itertools.product(range(len(overlaps)), open_boxes)
            if matches[p] < 0 and overlaps[p, g] > 1e-6
        ]
        if not pairs:
            break
        _, p, g = min(pairs)
        matches[p] = g
        open_boxes.remove(g)
    for p in range(len(overlaps)):
        if matches[p] < 0 and overlaps.shape[1] and overlaps[p].max() >= max(threshold, 1e-6):
            matches[p] = overlaps[p].argmax()
    return matches


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def chosen_priors(logits, priors, boxes, threshold, ratio, far, background):
    """The box of each prior of an image, -1 for none, and the priors that count as negatives."""
    overlaps = np.array([[overlap(p, b[1:5]) for b in boxes] for p in priors])
    overlaps = overlaps.reshape(len(priors), len(boxes))
    matches = match(overlaps, threshold)
    scores = np.delete(softmax(logits), background, axis=1).max(1)
    most = overlaps.max(1, initial=0.0)
    negatives = [p for p in range(len(priors)) if matches[p] < 0 and most[p] < far]
    negatives.sort(key=lambda p: -scores[p])
    return matches, negatives[: int((matches >= 0).sum() * ratio)]


def multibox_loss(
    codes,
    logits,
    priors,
    variance,
    images,
    threshold=0.5,
    ratio=3.0,
    far=0.5,
    background=0,
):
    """The loss of a batch, `images` are lists of boxes [class, box...]."""
    total, count = 0.0, 0
    for code, logit, boxes in zip(codes, logits, images, strict=True):
        matches, negatives = chosen_priors(logit, priors, boxes, threshold, ratio, far, background)
        logs = np.log(softmax(logit))
        total -= sum(logs[p, background] for p in negatives)
        for p in np.flatnonzero(matches >= 0):
            box = boxes[matches[p]]
            away = abs(code[p] - encode(box[1:5], priors[p], variance))
            total += np.where(away < 1, away**2 / 2, away - 0.5).sum() - logs[p, int(box[0])]
            count += 1
    return total / max(count, 1)


def suppress(boxes, scores, threshold, least, candidates=0):
    """The boxes of one class that stay, the best first."""
    order = [p for p in np.argsort(-scores, kind="stable") if scores[p] > least]
    kept = []
    for p in order[: candidates or None]:
        if all(overlap(boxes[p], boxes[q]) <= threshold for q in kept):
            kept.append(p)
    return kept


def detect(
    codes,
    logits,
    priors,
    variance,
    threshold=0.45,
    least=0.01,
    candidates=400,
    keep=200,
    background=0,
):
    """Rows [image, class, probability, box...]."""
    rows = []
    for n, (code, logit) in enumerate(zip(codes, logits, strict=True)):
        boxes = [decode(c, p, variance) for c, p in zip(code, priors, strict=True)]
        scores = softmax(logit)
        detections = [
            (n, c, scores[p, c], *np.clip(boxes[p], 0, 1))
            for c in range(logits.shape[2])
            if c != background
            for p in suppress(boxes, scores[:, c], threshold, least, candidates)
        ]
        best = sorted(detections, key=lambda row: -row[2])[: keep or None]
        rows += [row for row in detections if row in best]
    return np.array(rows).reshape(-1, 7)
