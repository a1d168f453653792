"""Object detection with prior boxes: the SSD of Liu et al. 2016.

A box is four numbers [xmin, ymin, xmax, ymax] in units of the image, priors are boxes [P, 4].
"""

import numpy as np

from ..graph.errors import ShapeError
from ..graph.node import apply, refined
from ..graph.variable import constant, describe, fresh_dim
from . import math as m
from .control import for_loop
from .index import gather, gather_elements, scatter_add
from .mode import stop_gradient
from .reduce import arg_max, log_softmax, reduce_max, reduce_min, reduce_sum, softmax
from .rows import where_true
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

_SOME = 1e-6  # boxes that share less than this part do not overlap


def prior_boxes(cells, image, min_size, max_size=None, ratios=()):
    """The boxes at each cell of a map, an array [rows columns boxes, 4] held within the image.

    `cells` and `image` are (height, width). Around the centre of a cell stand a square of
    min_size pixels, one of sqrt(min_size max_size), and for each ratio r boxes of the first area
    that are r times as wide as high, then as high as wide.
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


def box_overlaps(a, b):
    """Intersection over union of boxes [..., N, 4] and [..., M, 4]: [..., N, M]."""
    a, b = _boxes("box_overlaps", a), _boxes("box_overlaps", b)
    a, b = unsqueeze(a, a.rank - 1), unsqueeze(b, b.rank - 2)
    (a_low, a_high), (b_low, b_high) = _corners(a), _corners(b)
    shared = _area(m.maximum(a_low, b_low), m.minimum(a_high, b_high))
    union = _area(a_low, a_high) + _area(b_low, b_high) - shared
    return shared / m.where(union > 0.0, union, 1.0)


def encode_boxes(boxes, priors, variances):
    """What turns priors into boxes [..., P, 4]: shifts by their sides, logarithms of scales.

    [(x - px) / pw, (y - py) / ph, ln(w / pw), ln(h / ph)] over the variances [P, 4] or [4]; x, y
    are centres.
    """
    centre, side = _centred(_boxes("encode_boxes", boxes))
    at, length = _centred(_boxes("encode_boxes", priors))
    return concat([(centre - at) / length, m.log(side / length)], axis=-1) / variances


def decode_boxes(codes, priors, variances):
    """The boxes that `encode_boxes` gives these codes [..., P, 4]."""
    codes = _boxes("decode_boxes", codes) * variances
    at, length = _centred(_boxes("decode_boxes", priors))
    shift, scale = _corners(codes)
    centre, half = at + shift * length, m.exp(scale) * length * 0.5
    return concat([centre - half, centre + half], axis=-1)


def match_boxes(overlaps, threshold):
    """Which box each prior stands for, from their overlaps [B, P, G]: int64 [B, P], -1 for none.

    First the prior and the box that overlap most are a pair, then of the others those that
    overlap most, until every box has a prior or overlaps none that is left. Each other prior
    stands for the box that it overlaps most, if that is the threshold at least.
    """
    overlaps = constant(overlaps)
    if overlaps.rank != 3:
        raise ShapeError(f"match_boxes: overlaps are [B, P, G], not {describe(overlaps)}")
    most = reduce_max(overlaps, [2])
    near = m.logical_and(most >= threshold, most > _SOME)
    rest = m.where(near, arg_max(overlaps, 2), -1)
    paired = _pairs(overlaps)
    return m.where(m.less_than(paired, 0), rest, paired)


def _pairs(overlaps):
    """The first part of the matching, -1 for priors that it leaves.

    A box can only get one of the G priors that it overlaps most, the others take at most G - 1.
    """
    boxes, priors = size_of(overlaps, 2), size_of(overlaps, 1)
    values, places = _top(transpose(overlaps, [0, 2, 1]), m.minimum(boxes, priors), 2)
    numbers = reshape(arange(boxes), [1, -1, 1])
    order = m.add(m.mul(places, boxes), numbers)  # of equal overlaps the first prior is taken

    def pair(_, values):
        largest = reduce_max(values, [1, 2], keep_dim=True)
        best = m.logical_and(m.equal(values, largest), values > _SOME)
        first = reduce_min(m.where(best, order, np.iinfo(np.int64).max), [1, 2], keep_dim=True)
        some = largest > _SOME
        first = m.where(some, first, 0)
        prior = m.div(first, boxes)
        box = m.sub(first, m.mul(prior, boxes))
        taken = m.logical_or(m.equal(places, prior), m.equal(numbers, box))
        values = m.where(m.logical_and(some, taken), 0.0, values)
        found = m.where(some, prior, priors), m.add(box, 1)
        return values, [squeeze(v, [1, 2]) for v in found]

    _, found = for_loop(squeeze(boxes, 0), pair, values)
    prior, box = (transpose(v, [1, 0]) for v in found)
    none = expand(constant(np.int64(0)), concat([size_of(overlaps, 0), m.add(priors, 1)]))
    chosen = scatter_add(none, prior, box, axis=1)
    chosen = slice(chosen, [0], priors, [1])
    chosen = refined(chosen, overlaps.dims[:2])
    return m.sub(chosen, 1)


def best_of_each(scores, candidates, counts):
    """The `counts` [B] candidates with the highest scores [B, P] of each row, bool [B, P]."""
    scores = m.where(candidates, scores, -np.inf)
    _, order = _top(scores, size_of(scores, 1), 1)
    first = m.less_than(unsqueeze(arange(size_of(scores, 1)), 0), unsqueeze(counts, 1))
    chosen = scatter_add(zeros_like(scores), order, m.cast(first, scores.dtype), axis=1)
    return m.logical_and(chosen > 0.5, candidates)


def multibox_loss(
    codes,
    logits,
    priors,
    variances,
    truth,
    sequences,
    overlap_threshold=0.5,
    negative_ratio=3.0,
    negative_overlap=0.5,
    background=0,
):
    """How far codes [B, P, 4] and logits [B, P, C] are from the true boxes of B images, a scalar.

    `truth` has rows [class, box…], those of an image after those of the one before, as `sequences`
    says. Over the number of matched priors it is the sum of smooth L1 distances of their codes,
    and of cross-entropies: of the matched priors, and of `negative_ratio` times as many unmatched
    ones in each image, against the background. These are the ones with the most probable other
    class among those that overlap no box by `negative_overlap`. It is 0 if nothing matches.
    """
    codes, logits = _boxes("multibox_loss", codes), constant(logits)
    truth = stop_gradient(concat([sequences.pad(truth), sequences.zeros(1, truth.dims[1])], 1))
    overlaps = box_overlaps(unsqueeze(priors, 0), slice(truth, [1], [5], [2]))
    valid = m.less_than(unsqueeze(arange(size_of(truth, 1)), 0), unsqueeze(sequences.lengths, 1))
    overlaps = m.where(unsqueeze(valid, 1), overlaps, 0.0)
    index = match_boxes(overlaps, overlap_threshold)
    matched = m.greater_equal(index, 0)
    logs = log_softmax(logits, axis=2)
    negative = _negatives(logs, matched, overlaps, negative_ratio, negative_overlap, background)
    own = _at(truth, m.maximum(index, 0))
    kinds = m.cast(squeeze(slice(own, [0], [1], [2]), 2), np.int64)
    boxes = m.where(unsqueeze(matched, 2), slice(own, [1], [5], [2]), priors)
    away = m.abs(codes - stop_gradient(encode_boxes(boxes, priors, variances)))
    smooth = m.where(away < 1.0, 0.5 * m.square(away), away - 0.5)
    wanted = unsqueeze(m.where(matched, kinds, background), 2)
    entropy = -squeeze(gather_elements(logs, wanted, axis=2), 2)
    positive, counted = (m.cast(v, codes.dtype) for v in (matched, m.logical_or(matched, negative)))
    total = reduce_sum(smooth * unsqueeze(positive, 2)) + reduce_sum(entropy * counted)
    return total / m.maximum(reduce_sum(positive), 1.0)


def _negatives(logs, matched, overlaps, ratio, overlap, background):
    """The hardest negatives of each image: bool [B, P]."""
    others = m.equal(arange(logs.dims[2]), background)
    scores = reduce_max(m.where(others, -np.inf, stop_gradient(logs)), [2])
    far = reduce_max(overlaps, [2]) < overlap
    candidates = m.logical_and(m.logical_not(matched), far)
    matches = reduce_sum(m.cast(matched, "float32"), [1])
    return best_of_each(scores, candidates, m.cast(m.floor(matches * float(ratio)), np.int64))


def _at(rows, index):
    """rows [B, G, n] at an index [B, P]: [B, P, n]."""
    spread = concat([constant(np.array([1, 1], np.int64)), size_of(rows, 2)])
    index = expand(unsqueeze(index, 2), spread)
    index = refined(index, (*index.dims[:2], rows.dims[2]))
    return gather_elements(rows, index, axis=1)


def detect_objects(
    codes,
    logits,
    priors,
    variances,
    overlap_threshold=0.45,
    score_threshold=0.01,
    candidates=400,
    keep=200,
    background=0,
):
    """The objects in B images, from codes [B, P, 4] and logits [B, P, C]: rows [K, 7].

    A row is [image, class, probability, box…], by image, by class, the most probable first. Of the
    most probable `candidates` of each class over the score threshold none overlaps a better one
    by more than the threshold; the `keep` most probable of each image are left. 0 is no limit.
    """
    codes, logits = stop_gradient(_boxes("detect_objects", codes)), stop_gradient(logits)
    boxes = decode_boxes(codes, priors, variances)
    kinds = np.array([k for k in range(logits.dims[2]) if k != background], np.int64)
    scores = gather(transpose(softmax(logits, axis=2), [0, 2, 1]), kinds, axis=1)
    if candidates:
        count = m.minimum(size_of(scores, 2), candidates)
        scores = m.where(_among_top(scores, count, 2), scores, -1.0)
    chosen = non_max_suppression(boxes, scores, overlap_threshold, score_threshold)
    image, kind, place = (squeeze(slice(chosen, [k], [k + 1], [1]), 1) for k in range(3))
    score = _taken(scores, [image, kind, place])
    if keep:
        best = _best_of_images(image, score, size_of(scores, 0), keep)
        image, kind, place, score = (gather(v, best) for v in (image, kind, place, score))
    box = gather(reshape(boxes, [-1, 4]), m.add(m.mul(image, size_of(boxes, 1)), place))
    columns = image, gather(kinds, kind), score
    columns = [unsqueeze(m.cast(v, boxes.dtype), 1) for v in columns]
    return concat([*columns, m.clip(box, 0.0, 1.0)], axis=1)


def non_max_suppression(boxes, scores, overlap_threshold, score_threshold):
    """The boxes [B, P, 4] that stay by their scores [B, C, P]: rows [image, class, box], int64.

    Of each class the best box stays, those that overlap it by more than the threshold go, then the
    best of the others stays, and so on while scores are above theirs.
    """
    boxes, scores = _boxes("non_max_suppression", boxes), constant(scores)
    limits = (constant(np.float32([v])) for v in (overlap_threshold, score_threshold))
    known = (fresh_dim(), 3)
    return apply("NonMaxSuppression", boxes, scores, size_of(boxes, 1), *limits, known=known)


def _best_of_images(image, score, count, keep):
    """Which detections are among the `keep` best of their image, in order."""
    found = scatter_add(expand(constant(np.int64(0)), count), image, ones_like(image))
    images = Segments(found, image.dims[0])
    padded = images.pad(score, fill=-1.0)
    best = _among_top(padded, m.minimum(images.longest, keep), 1)
    return where_true(images.pack(m.cast(best, "float32")) > 0.5)


def _among_top(x, count, axis):
    """Which elements are among the largest along an axis."""
    values, places = _top(x, count, axis)
    return scatter_add(zeros_like(x), places, ones_like(values), axis) > 0.5


def _top(x, count, axis):
    """The largest elements along an axis in order, the first of equal ones first; their places."""
    known = tuple(fresh_dim() if k == axis else d for k, d in enumerate(x.dims))
    return apply("TopK", x, count, outputs=2, axis=axis, known=[known] * 2)


def _taken(x, index):
    """x at an index for each axis, [K]."""
    place = index[0]
    for axis, number in enumerate(index[1:], 1):
        place = m.add(m.mul(place, size_of(x, axis)), number)
    return gather(reshape(x, [-1]), place)


def _boxes(who, x):
    x = constant(x)
    if x.rank < 2 or x.dims[-1] != 4:
        raise ShapeError(f"{who}: a box is four numbers, not {describe(x)}")
    return x


def _corners(boxes):
    """The first and the last two numbers of each box."""
    return tuple(slice(boxes, [k], [k + 2], [boxes.rank - 1]) for k in (0, 2))


def _centred(boxes):
    """Centres and sides of boxes."""
    low, high = _corners(boxes)
    return (low + high) * 0.5, high - low


def _area(low, high):
    """The area between corners [..., 2], 0 where they are not in order."""
    x, y = (slice(m.maximum(high - low, 0.0), [k], [k + 1], [low.rank - 1]) for k in (0, 1))
    return squeeze(x * y, low.rank - 1)
