"""Object detection with prior boxes: the SSD of Liu et al. 2016.

A box is [xmin, ymin, xmax, ymax] relative to the size of the image; priors are boxes [P, 4]. `/` of
integer Variables rounds toward zero.
"""

from collections.abc import Sequence

import numpy as np

from ..graph.errors import ShapeError
from ..graph.node import apply, refined
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, describe, fresh_dim, static
from . import math as m
from .control import for_loop
from .gather import chosen, gather, gather_elements, scatter_add
from .mode import stop_gradient
from .reduce import arg_max, log_softmax, reduce_max, reduce_min, reduce_sum, softmax
from .row_branches import where_true
from .sequence.segments import Segments
from .shape import (
    arange,
    concat,
    expand,
    ones_like,
    reshape,
    size_of,
    slice,
    squeeze,
    transpose,
    unsqueeze,
    zeros_like,
)

_MIN_OVERLAP = 1e-6  # boxes with a smaller intersection over union do not overlap


def prior_boxes(
    cells: tuple[int, int],
    image: tuple[int, int],
    min_size: float,
    max_size: float | None = None,
    ratios: Sequence[float] = (),
) -> np.ndarray:
    """Return the prior boxes of a feature map, [rows columns boxes, 4], clipped to the image.

    `cells` and `image` are (height, width). At the centre of each cell are a square with sides of
    min_size pixels, one of sqrt(min_size max_size), and for each ratio r two boxes with the area of
    the first square: r times as wide as high, and r times as high as wide.
    """
    sides = [(min_size, min_size)]
    if max_size is not None:
        sides.append((np.sqrt(min_size * max_size),) * 2)
    for r in ratios:
        wide, high = min_size * np.sqrt(r), min_size / np.sqrt(r)
        sides += [(wide, high), (high, wide)]
    rows, columns = ((np.arange(n) + 0.5) / n for n in cells)
    centres = np.stack(np.meshgrid(columns, rows), axis=-1)[:, :, None]
    half = np.array(sides) / np.array(image[::-1]) / 2.0
    boxes = np.concatenate(np.broadcast_arrays(centres - half, centres + half), axis=-1)
    return np.clip(boxes, 0.0, 1.0).reshape(-1, 4)


@op
def box_overlaps(a: Variable, b: Variable) -> Variable:
    """Intersection over union of boxes [..., N, 4] and [..., M, 4]: [..., N, M].

    Args:
        a: floats [..., N, 4].
        b: floats [..., M, 4].

    Returns:
        [..., N, M].

    Raises:
        ShapeError: a box has not four numbers.
    """
    a, b = _boxes(a), _boxes(b)
    a, b = unsqueeze(a, a.rank - 1), unsqueeze(b, b.rank - 2)
    (a_low, a_high), (b_low, b_high) = _corners(a), _corners(b)
    intersection = _area(m.maximum(a_low, b_low), m.minimum(a_high, b_high))
    union = _area(a_low, a_high) + _area(b_low, b_high) - intersection
    return intersection / m.where(union > 0.0, union, 1.0)


@op
def encode_boxes(boxes: Operand, priors: Operand, variances: Operand) -> Variable:
    """Encode boxes [..., P, 4] as offsets from priors, the targets of the regression.

    [(x - px) / pw, (y - py) / ph, ln(w / pw), ln(h / ph)] over the variances [P, 4] or [4]; x, y
    are centres.

    Args:
        boxes: floats [..., P, 4].
        priors: floats [P, 4].
        variances: floats [P, 4] or [4].

    Returns:
        [..., P, 4].

    Raises:
        ShapeError: a box has not four numbers.
    """
    centre, size = _centre_and_size(_boxes(boxes))
    prior_centre, prior_size = _centre_and_size(_boxes(priors))
    codes = concat([(centre - prior_centre) / prior_size, m.log(size / prior_size)], axis=-1)
    return codes / variances


@op
def decode_boxes(codes: Operand, priors: Operand, variances: Operand) -> Variable:
    """Decode the boxes of codes [..., P, 4]: the inverse of `encode_boxes`.

    Args:
        codes: floats [..., P, 4].
        priors: floats [P, 4].
        variances: floats [P, 4] or [4].

    Returns:
        [..., P, 4].

    Raises:
        ShapeError: a box has not four numbers.
    """
    codes = _boxes(codes) * variances
    prior_centre, prior_size = _centre_and_size(_boxes(priors))
    shift, scale = _corners(codes)
    centre, half = prior_centre + shift * prior_size, m.exp(scale) * prior_size * 0.5
    return concat([centre - half, centre + half], axis=-1)


@op
def match_boxes(overlaps: Operand, threshold: float) -> Variable:
    """Match each prior to a box by their overlaps [B, P, G]: int64 [B, P], -1 for none.

    Bipartite matching first: the prior and the box that overlap most are a pair, then among the
    others those that overlap most, until every box has a prior or overlaps none of the others.
    Each other prior is matched to the box that it overlaps most, if by the threshold at least.

    Args:
        overlaps: floats [B, P, G].

    Returns:
        Int64 [B, P].

    Raises:
        ShapeError: the overlaps have other axes.
    """
    overlaps = constant(overlaps)
    if overlaps.rank != 3:
        raise ShapeError(f"overlaps are [B, P, G], not {describe(overlaps)}")
    largest = reduce_max(overlaps, [2])
    near = m.logical_and(largest >= threshold, largest > _MIN_OVERLAP)
    nearest = m.where(near, arg_max(overlaps, 2), -1)
    paired = _bipartite(overlaps)
    return m.where(paired < 0, nearest, paired)


def _bipartite(overlaps):
    """Match each box to one prior, greedily: int64 [B, P], -1 for the other priors.

    Only the G priors that overlap a box most are candidates: other boxes take G - 1 at most.
    """
    boxes, priors = size_of(overlaps, 2), size_of(overlaps, 1)
    values, indices = _top(transpose(overlaps, [0, 2, 1]), m.minimum(boxes, priors), 2)
    numbers = reshape(arange(boxes), [1, -1, 1])
    order = indices * boxes + numbers  # of equal overlaps the first prior is taken

    def pair(_, values):
        largest = reduce_max(values, [1, 2], keep_dim=True)
        best = m.logical_and(m.equal(values, largest), values > _MIN_OVERLAP)
        first = reduce_min(m.where(best, order, np.iinfo(np.int64).max), [1, 2], keep_dim=True)
        exists = largest > _MIN_OVERLAP
        first = m.where(exists, first, 0)
        prior = m.quotient(first, boxes)
        box = first - prior * boxes
        paired = m.logical_or(m.equal(indices, prior), m.equal(numbers, box))
        values = m.where(m.logical_and(exists, paired), 0.0, values)
        match = m.where(exists, prior, priors), box + 1
        return values, [squeeze(v, [1, 2]) for v in match]

    _, matches = for_loop(squeeze(boxes, 0), pair, values)
    prior, box = (transpose(v, [1, 0]) for v in matches)
    none = expand(constant(np.int64(0)), concat([size_of(overlaps, 0), priors + 1]))
    chosen = scatter_add(none, prior, box, axis=1)
    chosen = slice(chosen, [0], priors, [1])
    return refined(chosen, overlaps.dims[:2]) - 1


def _best_of_each(scores, candidates, counts):
    """Select the `counts` [B] candidates of each row with the highest scores, bool [B, P]."""
    scores = m.where(candidates, scores, -np.inf)
    _, order = _top(scores, size_of(scores, 1), 1)
    first = unsqueeze(arange(size_of(scores, 1)), 0) < unsqueeze(counts, 1)
    selected = scatter_add(zeros_like(scores), order, m.cast(first, scores.dtype), axis=1)
    return m.logical_and(selected > 0.5, candidates)


@op
def multibox_loss(
    codes: Operand,
    logits: Operand,
    priors: Operand,
    variances: Operand,
    truth: Variable,
    sequences: Segments,
    overlap_threshold: float = 0.5,
    negative_ratio: float = 3.0,
    negative_overlap: float = 0.5,
    background: int = 0,
) -> Variable:
    """SSD's loss of codes [B, P, 4] and logits [B, P, C] against the true boxes, a scalar.

    `truth` has rows [class, box…], packed by image with `sequences`. The loss is the smooth L1 of
    the matched priors' codes, their cross-entropy, and that of hard negatives against the
    background, summed over the batch, over the number of matched priors; 0 if none is matched. Hard
    negatives are the unmatched priors with the most probable other class, among those that overlap
    no box by `negative_overlap`: `negative_ratio` times as many as matched priors in each image.
    A class outside 0 … C-1 is an OutOfRange error on a CPU.
    """
    codes, logits = _boxes(codes), constant(logits)
    truth = _of_classes(truth, logits.dims[2])
    truth = stop_gradient(
        concat([sequences.pad(truth), sequences.zeros(1, *static(truth.dims[1:]))], 1)
    )
    overlaps = box_overlaps(unsqueeze(priors, 0), slice(truth, [1], [5], [2]))
    valid = unsqueeze(arange(size_of(truth, 1)), 0) < unsqueeze(sequences.lengths, 1)
    overlaps = m.where(unsqueeze(valid, 1), overlaps, 0.0)
    index = match_boxes(overlaps, overlap_threshold)
    matched = index >= 0
    log_p = log_softmax(logits, axis=2)
    negative = _hard_negatives(
        log_p, matched, overlaps, negative_ratio, negative_overlap, background
    )
    rows = _at(truth, m.maximum(index, 0))
    classes = m.cast(squeeze(slice(rows, [0], [1], [2]), 2), np.int64)
    boxes = m.where(unsqueeze(matched, 2), slice(rows, [1], [5], [2]), priors)
    distance = m.abs(codes - stop_gradient(encode_boxes(boxes, priors, variances)))
    smooth = m.where(distance < 1.0, 0.5 * m.square(distance), distance - 0.5)
    target = unsqueeze(m.where(matched, classes, background), 2)
    entropy = -squeeze(gather_elements(log_p, target, axis=2), 2)
    positive, either = (m.cast(v, codes.dtype) for v in (matched, m.logical_or(matched, negative)))
    total = reduce_sum(smooth * unsqueeze(positive, 2)) + reduce_sum(entropy * either)
    return total / m.maximum(reduce_sum(positive), 1.0)


def _of_classes(truth, classes):
    """Refuse true boxes of a class that is none of those that the logits are for."""
    if not isinstance(classes, int):
        return truth
    label = chosen(m.cast(slice(truth, [0], [1], [1]), np.int64), classes)
    return concat([m.cast(label, truth.dtype), slice(truth, [1], [truth.dims[1]], [1])], 1)


def _hard_negatives(log_p, matched, overlaps, ratio, overlap, background):
    """Select the hard negatives of each image, bool [B, P]."""
    is_background = m.equal(arange(log_p.dims[2]), background)
    scores = reduce_max(m.where(is_background, -np.inf, stop_gradient(log_p)), [2])
    far = reduce_max(overlaps, [2]) < overlap
    candidates = m.logical_and(m.logical_not(matched), far)
    matches = reduce_sum(m.cast(matched, "float32"), [1])
    return _best_of_each(scores, candidates, m.cast(m.floor(matches * float(ratio)), np.int64))


def _at(rows, index):
    """Gather rows [B, G, n] at an index [B, P] of each image: [B, P, n]."""
    shape = concat([constant(np.array([1, 1], np.int64)), size_of(rows, 2)])
    index = expand(unsqueeze(index, 2), shape)
    index = refined(index, (*index.dims[:2], rows.dims[2]))
    return gather_elements(rows, index, axis=1)


@op
def detect_objects(
    codes: Operand,
    logits: Operand,
    priors: Operand,
    variances: Operand,
    overlap_threshold: float = 0.45,
    score_threshold: float = 0.01,
    candidates: int = 400,
    keep: int = 200,
    background: int = 0,
) -> Variable:
    """Detect the objects in B images from codes [B, P, 4] and logits [B, P, C]: rows [K, 7].

    A row is [image, class, probability, box…], by image, by class, the most probable first.
    Non-maximum suppression runs on the most probable `candidates` of each class over the score
    threshold; then the `keep` most probable detections of each image remain. 0 is no limit.
    """
    codes, logits = stop_gradient(_boxes(codes)), stop_gradient(logits)
    boxes = decode_boxes(codes, priors, variances)
    classes = np.array([k for k in range(*static(logits.dims[2:])) if k != background], np.int64)
    scores = gather(transpose(softmax(logits, axis=2), [0, 2, 1]), classes, axis=1)
    if candidates:
        count = m.minimum(size_of(scores, 2), candidates)
        scores = m.where(_among_top(scores, count, 2), scores, -1.0)
    kept = non_max_suppression(boxes, scores, overlap_threshold, score_threshold)
    image, column, prior = (squeeze(slice(kept, [k], [k + 1], [1]), 1) for k in range(3))
    score = _elements(scores, [image, column, prior])
    if keep:
        best = _best_of_images(image, score, size_of(scores, 0), keep)
        image, column, prior, score = (gather(v, best) for v in (image, column, prior, score))
    box = gather(reshape(boxes, [-1, 4]), image * size_of(boxes, 1) + prior)
    values = image, gather(classes, column), score
    columns = [unsqueeze(m.cast(v, boxes.dtype), 1) for v in values]
    return concat([*columns, m.clip(box, 0.0, 1.0)], axis=1)


@op
def non_max_suppression(
    boxes: Operand, scores: Operand, overlap_threshold: float, score_threshold: float
) -> Variable:
    """Suppress overlapping boxes [B, P, 4] by scores [B, C, P]: int64 rows [image, class, box].

    In each class the box of the highest score is kept, and those that overlap it by more than the
    threshold are dropped; so on with the others whose scores are above the score threshold.

    Args:
        boxes: floats [B, P, 4].
        scores: floats [B, C, P].

    Returns:
        Int64 [K, 3].

    Raises:
        ShapeError: a box has not four numbers.
    """
    boxes, scores = _boxes(boxes), constant(scores)
    limits = (constant(np.array([v], np.float32)) for v in (overlap_threshold, score_threshold))
    known = (fresh_dim(), 3)
    return apply("NonMaxSuppression", boxes, scores, size_of(boxes, 1), *limits, known=known)


def _best_of_images(image, score, count, keep):
    """Return the indices of detections that are among the `keep` best of their image, in order."""
    counts = scatter_add(expand(constant(np.int64(0)), count), image, ones_like(image))
    images = Segments(counts, image.dims[0])
    padded = images.pad(score, fill=-1.0)
    best = _among_top(padded, m.minimum(images.longest, keep), 1)
    return where_true(images.pack(m.cast(best, "float32")) > 0.5)


def _among_top(x, count, axis):
    """Check which elements are among the `count` largest along an axis."""
    values, indices = _top(x, count, axis)
    return scatter_add(zeros_like(x), indices, ones_like(values), axis) > 0.5


def _top(x, count, axis):
    """Return the `count` largest elements along an axis, of equal ones the first, and indices."""
    known = tuple(fresh_dim() if k == axis else d for k, d in enumerate(x.dims))
    return apply("TopK", x, count, outputs=2, axis=axis, known=[known] * 2)


def _elements(x, index):
    """Gather elements [K] of x at an index for each axis."""
    flat = index[0]
    for axis, number in enumerate(index[1:], 1):
        flat = flat * size_of(x, axis) + number
    return gather(reshape(x, [-1]), flat)


def _boxes(x: Operand) -> Variable:
    x = constant(x)
    if x.rank < 2 or x.dims[-1] != 4:
        raise ShapeError(f"a box is four numbers, not {describe(x)}")
    return x


def _corners(boxes):
    """Split boxes into their first and last two numbers."""
    return tuple(slice(boxes, [k], [k + 2], [boxes.rank - 1]) for k in (0, 2))


def _centre_and_size(boxes):
    low, high = _corners(boxes)
    return (low + high) * 0.5, high - low


def _area(low, high):
    """Compute the area between corners [..., 2], 0 where they are not in order."""
    x, y = (slice(m.maximum(high - low, 0.0), [k], [k + 1], [low.rank - 1]) for k in (0, 1))
    return squeeze(x * y, low.rank - 1)
