"""Object detection in images with prior boxes (Liu et al. 2016).

Boxes are [xmin, ymin, xmax, ymax] relative to the image. Each of several feature maps predicts for
its own priors: a location layer has four channels per prior, a confidence layer one per prior and
class; the channels of one prior are adjacent.
"""

import numpy as np

import pd_core as pd
from pd_core.graph.node import refined

from .base import layer
from .image import image_of, whole


@layer("priorbox", "priorbox", inputs=("input", "image"))
def priorbox(scope, input, image, aspect_ratio, variance, min_size, max_size=(), name=None):
    """Return the prior boxes of a feature map as one row: 4 coordinates and 4 variances each.

    The priors of a cell have its centre: a square of `min_size` image pixels, one of
    sqrt(min_size max_size), and for each ratio a box of the area of the first, and its transpose.
    """
    small = [whole("min_size", v) for v in _as_list(min_size)]
    large = [whole("max_size", v) for v in _as_list(max_size)]
    ratios, variances = [float(r) for r in _as_list(aspect_ratio)], list(variance)
    if len(small) != 1 or len(large) > 1:
        raise pd.GraphError(f"one min_size and at most one max_size, not {small} and {large}")
    if len(variances) != 4:
        raise pd.GraphError(f"there are four variances, not {variances}")
    for r in ratios:
        if r <= 0 or r == 1.0:
            raise pd.GraphError(f"an aspect ratio is a positive number other than 1, not {r}")
    conf = scope.config.inputs[0].priorbox_conf
    conf.min_size.extend(small)
    conf.max_size.extend(large)
    conf.aspect_ratio.extend(ratios)
    conf.variance.extend(variances)
    cells, pixels = image_of(input)[0].dims[2:], (image.height, image.width)
    if not all(pixels):
        raise pd.GraphError(f"height and width of {image.name!r} are not known")
    boxes = pd.prior_boxes(cells, pixels, *small, *(large or [None]), ratios)
    scope.num_filters = 4 * len(boxes) // (cells[0] * cells[1])
    scope.levels = ()
    rows = np.concatenate([boxes, np.broadcast_to(variances, boxes.shape)], axis=1)
    return pd.constant(rows.reshape(1, -1).astype(np.float32))


def multibox_loss(
    input_loc,
    input_conf,
    priorbox,
    label,
    num_classes,
    overlap_threshold=0.5,
    neg_pos_ratio=3.0,
    neg_overlap=0.5,
    background_id=0,
    name=None,
):
    """SSD's loss of a batch, divided by the number of matched priors (Liu et al. 2016).

    `label` has sequences of rows [class, xmin, ymin, xmax, ymax, difficult]. First each object
    is matched to the prior that overlaps it most, then each other prior to an object that it
    overlaps by the threshold. The loss is smooth L1 of encoded boxes plus cross-entropy of
    classes. The negatives are the `neg_pos_ratio` hardest unmatched priors per match whose overlap
    is below `neg_overlap`; their class is the background. As in 2017 a fraction of `neg_pos_ratio`
    is dropped. Every row has the same value, and the gradient is that of the value, not of the sum
    over rows.
    """
    return _multibox_loss(
        input=[priorbox, label, *_as_list(input_loc), *_as_list(input_conf)],
        maps=len(_as_list(input_loc)),
        num_classes=num_classes,
        background_id=background_id,
        limits={
            "overlap_threshold": overlap_threshold,
            "neg_pos_ratio": neg_pos_ratio,
            "neg_overlap": neg_overlap,
        },
        name=name,
    )


@layer("multibox_loss", "multibox_loss", several=True)
def _multibox_loss(scope, input, maps, num_classes, background_id, limits, name):
    priors, label, *predicted = input
    if len(label.levels) != 1 or label.size != 6:
        raise pd.ShapeError(f"the label is sequences of rows of 6 numbers, not {label!r}")
    conf = scope.config.inputs[0].multibox_loss_conf
    _record(conf, maps, num_classes, background_id, limits)
    value = pd.multibox_loss(
        *_predictions(priors, predicted, maps, num_classes),
        label,
        label.sequences,
        limits["overlap_threshold"],
        int(limits["neg_pos_ratio"]),
        limits["neg_overlap"],
        background_id,
    )
    scope.levels = ()
    return _in_each_row(value, predicted[0])


def _in_each_row(value, rows):
    """Broadcast a scalar to [N, 1]; its gradient is the mean of those of the rows."""
    count = pd.size_of(rows, 0)
    detached = pd.stop_gradient(value)
    share = (value - detached) / pd.maximum(pd.cast(count, value.dtype), 1.0)
    column = pd.expand(detached + share, pd.concat([count, np.array([1])]))
    column = refined(column, (rows.dims[0], 1))
    return column


def detection_output(
    input_loc,
    input_conf,
    priorbox,
    num_classes,
    nms_threshold=0.45,
    nms_top_k=400,
    keep_top_k=200,
    confidence_threshold=0.01,
    background_id=0,
    name=None,
):
    """Detect objects: rows [image, class, score, xmin, ymin, xmax, ymax] of a batch.

    Non-maximum suppression per class, among the `nms_top_k` best boxes above the confidence
    threshold, drops a box that overlaps a better one by more than `nms_threshold`; each image
    keeps its `keep_top_k` best boxes. 0 of either means all.
    """
    return _detection_output(
        input=[priorbox, *_as_list(input_loc), *_as_list(input_conf)],
        maps=len(_as_list(input_loc)),
        num_classes=num_classes,
        background_id=background_id,
        limits={
            "nms_threshold": nms_threshold,
            "nms_top_k": whole("nms_top_k", nms_top_k, 0),
            "keep_top_k": whole("keep_top_k", keep_top_k, 0),
            "confidence_threshold": confidence_threshold,
        },
        name=name,
    )


@layer("detection_output", "detection_output", several=True)
def _detection_output(scope, input, maps, num_classes, background_id, limits, name):
    conf = scope.config.inputs[0].detection_output_conf
    _record(conf, maps, num_classes, background_id, limits)
    scope.levels, scope.size = (), 7 * (limits["keep_top_k"] or 1)
    return pd.detect_objects(
        *_predictions(input[0], input[1:], maps, num_classes),
        limits["nms_threshold"],
        limits["confidence_threshold"],
        limits["nms_top_k"],
        limits["keep_top_k"],
        background_id,
    )


def _record(conf, maps, num_classes, background_id, limits):
    if not 0 <= whole("background_id", background_id, 0) < whole("num_classes", num_classes, 2):
        raise pd.GraphError(f"the background {background_id} is none of {num_classes} classes")
    conf.num_classes, conf.background_id, conf.input_num = num_classes, background_id, maps
    for field, value in limits.items():
        setattr(conf, field, value)


def _predictions(priors, predicted, maps, num_classes):
    """Return codes [N, P, 4], scores [N, P, classes], prior boxes and variances, [P, 4] each."""
    if len(predicted) != 2 * maps:
        raise pd.GraphError(f"{maps} maps of boxes, {len(predicted) - maps} of classes")
    if priors.rank != 2 or priors.dims[0] != 1 or priors.size % 8:
        raise pd.ShapeError(f"the priors are one row of 8 numbers each, not {priors!r}")
    count = priors.size // 8
    boxes = pd.reshape(pd.stop_gradient(priors), [count, 8])
    return (
        _joined("boxes", predicted[:maps], count, 4),
        _joined("classes", predicted[maps:], count, num_classes),
        pd.slice(boxes, [0], [4], [1]),
        pd.slice(boxes, [4], [8], [1]),
    )


def _joined(what, layers, count, width):
    """Concatenate the predictions of all maps: [N, count, width]."""
    total = sum(x.size for x in layers)
    if total != count * width or any(x.size % width for x in layers):
        names = ", ".join(repr(x.name) for x in layers)
        raise pd.ShapeError(
            f"{names}: {total} numbers for {what}, {count} priors with {width} have {count * width}"
        )
    maps = [pd.reshape(_channels_last(x), [-1, x.size // width, width]) for x in layers]
    return pd.concat(maps, axis=1) if len(maps) > 1 else maps[0]


def _channels_last(x):
    """Transpose an image to [N, H, W, C]; return other layers as they are."""
    if not x.num_filters or not x.height:
        return x
    return pd.transpose(image_of(x)[0], [0, 2, 3, 1])


def _as_list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]
