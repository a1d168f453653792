"""Detection layers against loops over images and boxes, and a small network that learns."""

import numpy as np
import onnxruntime
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.topology import Topology

from ...core.ops import reference_detection as naive

A, L, T = paddle.activation, paddle.layer, paddle.data_type
CLASSES, IMAGE, VARIANCES = 3, (24, 32), [0.1, 0.1, 0.2, 0.2]
# Two maps: rows and columns, min_size, max_size, aspect ratios, priors in a cell.
MAPS = [((3, 4), 8, None, [2.0], 3), ((2, 2), 12, 20, [], 2)]


def dense(name, size, **geometry):
    return L.data(name=name, type=T.dense_vector(size), **geometry)


def boxes_of(maps=MAPS):
    return np.concatenate([naive.prior_boxes(m[0], IMAGE, *m[1:4]) for m in maps])


class Network:
    """The layers of both maps as data, fed as images [N, C, H, W], and their priors."""

    def __init__(self):
        self.image = dense("im", 3 * 24 * 32, height=24, width=32)
        self.loc, self.conf, priors = [], [], []
        for k, ((h, w), small, large, ratios, count) in enumerate(MAPS):
            for layers, name, width in ((self.loc, "loc", 4), (self.conf, "conf", CLASSES)):
                size = h * w * count * width
                layers.append(dense(f"{name}{k}", size, height=h, width=w))
            options = {"aspect_ratio": ratios, "variance": VARIANCES, "min_size": [small]}
            options["max_size"] = [] if large is None else [large]
            priors.append(L.priorbox(input=self.loc[-1], image=self.image, **options))
        self.priors = L.concat(input=priors)
        self.label = L.data(name="label", type=T.dense_vector_sequence(6))

    def inputs(self):
        maps = {"input_loc": self.loc, "input_conf": self.conf, "priorbox": self.priors}
        return {**maps, "num_classes": CLASSES}

    def loss(self, **options):
        return L.multibox_loss(label=self.label, **self.inputs(), **options)

    def feeds(self, rng, counts):
        """Random maps, and objects near priors, these counts in the images."""
        maps = [*self.loc, *self.conf]
        found = {x: rng.standard_normal((len(counts), x.size)).astype(np.float32) for x in maps}
        near = boxes_of()[rng.integers(0, len(boxes_of()), sum(counts))]
        near = near + rng.normal(0, 0.02, near.shape)
        kinds = rng.integers(1, CLASSES, (len(near), 1))
        rows = np.concatenate([kinds, near, np.zeros_like(kinds)], axis=1).astype(np.float32)
        return {**found, self.label: rows, self.label.levels[0].lengths: np.array(counts)}


def predictions(maps, width):
    """[N, priors, width] from the rows of images, map by map."""
    found = []
    for x, ((h, w), *_) in zip(maps, MAPS, strict=True):
        images = x.reshape(len(x), x.shape[1] // (h * w), h, w)
        found.append(np.moveaxis(images, 1, 3).reshape(len(x), -1, width))
    return np.concatenate(found, axis=1).astype(np.float64)


def slow_inputs(network, feeds):
    codes = predictions([feeds[x] for x in network.loc], 4)
    logits = predictions([feeds[x] for x in network.conf], CLASSES)
    return codes, logits, boxes_of(), np.array(VARIANCES)


def slow_loss(network, feeds, **options):
    lengths = feeds[network.label.levels[0].lengths]
    images = np.split(feeds[network.label], np.cumsum(lengths)[:-1]) if len(lengths) else []
    return naive.multibox_loss(*slow_inputs(network, feeds), images, **options)


# ---- priorbox


def test_priors_and_their_variances():
    network = Network()
    rows = pd.eval(network.priors).reshape(-1, 8)
    np.testing.assert_allclose(rows[:, :4], boxes_of(), atol=1e-6)
    np.testing.assert_allclose(rows[:, 4:], np.tile(VARIANCES, (len(rows), 1)), atol=1e-7)
    assert network.priors.shape == (1, 8 * (3 * 4 * 3 + 2 * 2 * 2))
    assert [p.num_filters for p in network.priors.parents] == [12, 8]


# ---- multibox_loss


@pytest.mark.parametrize("counts", [[2, 0, 5], [1], [0, 0]], ids=str)
def test_loss_is_the_same_in_every_row(counts, rng):
    network = Network()
    feeds = network.feeds(rng, counts)
    found = pd.eval(network.loss(), feeds)
    expected = slow_loss(network, feeds)
    np.testing.assert_allclose(found, np.full((len(counts), 1), expected), rtol=1e-4)
    assert (expected > 0) == (sum(counts) > 0)


@pytest.mark.parametrize("ratio", [2.0, 2.9])
def test_options_of_the_loss(ratio, rng):
    network = Network()
    feeds = network.feeds(rng, [3, 1])
    options = {"overlap_threshold": 0.3, "neg_pos_ratio": ratio, "neg_overlap": 0.2}
    found = pd.eval(network.loss(background_id=2, **options), feeds)
    expected = slow_loss(network, feeds, threshold=0.3, ratio=2.0, far=0.2, background=2)
    np.testing.assert_allclose(found, np.full((2, 1), expected), rtol=1e-4)


@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
def test_gradient_is_that_of_one_row(rng, fused):
    network = Network()
    maps = [*network.loc, *network.conf]
    feeds = network.feeds(rng, [3, 0, 2])
    seed = rng.standard_normal((3, 1)).astype(np.float32)
    found = pd.gradients(network.loss(), maps, seeds=[pd.constant(seed)])
    with pd.fused(fused):
        found = pd.eval(found, feeds, training=True)
    ways = {x: rng.standard_normal(feeds[x].shape) for x in maps}

    def moved(step):
        return slow_loss(network, feeds | {x: feeds[x] + step * ways[x] for x in maps})

    slope = sum(np.sum(g * ways[x]) for x, g in zip(maps, found, strict=True))
    expected = seed.mean() * (moved(1e-6) - moved(-1e-6)) / 2e-6
    assert slope == pytest.approx(expected, rel=1e-3)


def test_no_images(rng):
    network = Network()
    feeds = network.feeds(rng, [])
    found = L.detection_output(**network.inputs())
    gradients = pd.gradients(network.loss(name="loss"), network.loc)
    loss = L.get_layer("loss")
    assert [len(v) for v in pd.eval([loss, found, *gradients], feeds)] == [0] * 4


# ---- detection_output

LIMITS = {
    "default": ({}, {}),
    "overlaps": ({"nms_threshold": 0.1}, {"threshold": 0.1}),
    "scores": ({"confidence_threshold": 0.4}, {"least": 0.4}),
    "candidates": ({"nms_top_k": 4}, {"candidates": 4}),
    "kept": ({"keep_top_k": 5}, {"keep": 5}),
    "any-number": ({"nms_top_k": 0, "keep_top_k": 0}, {"candidates": 64, "keep": 64}),
    "background": ({"background_id": 1}, {"background": 1}),
    "nothing": ({"confidence_threshold": 1.0}, {"least": 1.0}),
}


@pytest.mark.parametrize("options", LIMITS.values(), ids=LIMITS)
def test_detections(options, rng):
    here, there = options
    network = Network()
    feeds = network.feeds(rng, [0, 0])
    layer = L.detection_output(**network.inputs(), **here)
    found = pd.eval(layer, {x: feeds[x] for x in (*network.loc, *network.conf)})
    expected = naive.detect(*slow_inputs(network, feeds), **there)
    keep = here.get("keep_top_k", 200)
    assert found.shape == expected.shape and layer.size == (7 * keep or 7)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_maps_without_geometry(rng):
    priors = L.priorbox(
        input=dense("map", 4, height=2, width=2),
        image=dense("im", 64, height=8, width=8),
        aspect_ratio=[],
        variance=VARIANCES,
        min_size=4,
    )
    loc, conf = dense("loc", 16), dense("conf", 4 * CLASSES)
    layer = L.detection_output(loc, conf, priors, num_classes=CLASSES)
    feeds = {x: rng.standard_normal((1, x.size)).astype(np.float32) for x in (loc, conf)}
    boxes = naive.prior_boxes((2, 2), (8, 8), 4)
    codes, logits = feeds[loc].reshape(1, 4, 4), feeds[conf].reshape(1, 4, CLASSES)
    expected = naive.detect(codes, logits, boxes, np.array(VARIANCES))
    np.testing.assert_allclose(pd.eval(layer, feeds), expected, rtol=1e-4, atol=1e-5)


# ---- a network


def detector():
    """Objects in images [1, 8, 8]: (loss, detections)."""
    image = dense("im", 64, height=8, width=8)
    c = L.img_conv(image, filter_size=3, num_filters=8, stride=2, padding=1, num_channels=1)
    options = {"aspect_ratio": [], "variance": VARIANCES, "min_size": [2], "max_size": [8]}
    priors = L.priorbox(input=c, image=image, **options)
    loc, conf = (
        L.img_conv(c, filter_size=3, padding=1, num_filters=2 * n, act=A.Linear())
        for n in (4, CLASSES)
    )
    maps = {"input_loc": loc, "input_conf": conf, "priorbox": priors, "num_classes": CLASSES}
    label = L.data(name="label", type=T.dense_vector_sequence(6))
    return L.multibox_loss(label=label, **maps), L.detection_output(**maps), label


def pictures(rng, n):
    """Images with a bright square of class 1 or 2, or nothing."""
    for k in range(n):
        image = np.zeros((8, 8), np.float32)
        if k % 4 == 3:
            yield image.reshape(-1), []
            continue
        x, y = rng.integers(0, 3, 2) * 2
        image[y : y + 4, x : x + 4] = 1.0 if k % 2 else -1.0
        box = np.array([x, y, x + 4, y + 4]) / 8.0
        yield image.reshape(-1), [[1 + k % 2, *box, 0.0]]


def test_a_network_learns_to_detect(rng, tmp_path):
    loss, found, label = detector()
    paddle.evaluator.detection_map(input=found, label=label, name="map")
    pool = paddle.parameters.create(loss)
    optimizer = paddle.optimizer.Adam(learning_rate=0.02)
    trainer = paddle.trainer.SGD(loss, pool, optimizer, extra_layers=found)
    samples = list(pictures(rng, 32))
    before = trainer.test(lambda: iter([samples]))
    trainer.train(lambda: iter([samples[:16], samples[16:]]), num_passes=60)
    after = trainer.test(lambda: iter([samples]))
    assert after.cost < 0.1 * before.cost
    assert before.metrics["map"] < 50 and after.metrics["map"] > 90

    rows = paddle.infer(output_layer=found, parameters=pool, input=[(samples[0][0],)])
    image, kind, score, *box = rows[rows[:, 2].argmax()]
    assert (image, kind) == (0, samples[0][1][0][0]) and score > 0.8
    assert naive.overlap(box, samples[0][1][0][1:5]) > 0.7

    Topology(found).export_onnx(str(tmp_path / "y.onnx"), pool)
    session = onnxruntime.InferenceSession(tmp_path / "y.onnx", providers=["CPUExecutionProvider"])
    assert [i.name for i in session.get_inputs()] == ["im"]
    for n in (5, 1):
        batch = np.stack([image for image, _ in samples[:n]])
        (exported,) = session.run(None, {"im": batch})
        np.testing.assert_allclose(exported, pd.eval(found, {"im": batch}), rtol=1e-4, atol=1e-6)


# ---- what does not fit


def prior(**changes):
    image = dense("im", 64, height=8, width=8)
    options = {"aspect_ratio": [], "variance": VARIANCES, "min_size": [2]}
    return L.priorbox(input=image, **{"image": image, **options, **changes})


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"min_size": [2, 4]}, r"one min_size and at most one max_size, not \[2, 4\] and \[\]"),
        ({"max_size": [4, 8]}, r"one min_size and at most one max_size"),
        ({"min_size": [2.5]}, "min_size is a whole number of at least 1, not 2.5"),
        ({"variance": [0.1]}, r"there are four variances, not \[0.1\]"),
        ({"aspect_ratio": [1.0]}, "an aspect ratio is a positive number other than 1, not 1.0"),
    ],
)
def test_priors_that_do_not_fit(changes, error):
    with pytest.raises(pd.GraphError, match=error):
        prior(**changes)


def test_an_image_of_unknown_size():
    with pytest.raises(pd.GraphError, match="height and width of 'flat' are not known"):
        prior(image=dense("flat", 64))


def test_predictions_that_do_not_fit():
    label = L.data(name="label", type=T.dense_vector_sequence(6))
    maps = {"priorbox": prior(), "num_classes": 3, "label": label}
    loc, conf = dense("loc", 256), dense("conf", 192)
    short = dense("short", 100)
    for changes, error in (
        ({"input_loc": short}, "'short': 100 numbers for boxes, 64 priors with 4 have 256"),
        ({"input_conf": short}, "'short': 100 numbers for classes, 64 priors with 3 have 192"),
        ({"input_conf": [conf, short]}, "1 maps of boxes, 2 of classes"),
        ({"priorbox": dense("fed", 512)}, "the priors are one row of 8 numbers each"),
        ({"label": dense("row", 6)}, "the label is sequences of rows of 6 numbers"),
        ({"num_classes": 1}, "num_classes is a whole number of at least 2, not 1"),
        ({"background_id": 3}, "the background 3 is none of 3 classes"),
    ):
        with pytest.raises(pd.GraphError, match=error):
            L.multibox_loss(**{"input_loc": loc, "input_conf": conf, **maps, **changes})


@pytest.mark.parametrize("field", ["nms_top_k", "keep_top_k"])
def test_limits_are_whole_numbers(field):
    maps = {"input_loc": dense("loc", 256), "input_conf": dense("conf", 192)}
    with pytest.raises(pd.GraphError, match=f"{field} is a whole number of at least 0, not -1"):
        L.detection_output(**maps, priorbox=prior(), num_classes=3, **{field: -1})


# ---- the maps of SSD300: cells, min_size, max_size, aspect ratios

SSD = [(38, 30, [], [2.0]), (19, 60, [114], [2.0, 3.0]), (10, 114, [168], [2.0, 3.0])]
SSD += [(5, 168, [222], [2.0, 3.0]), (3, 222, [276], [2.0, 3.0]), (1, 276, [330], [2.0, 3.0])]


def gradient_of_loss(codes, logits, priors, images):
    """Gradient of `naive.multibox_loss`: code differences clipped at 1, and p minus one-hot."""
    d_codes, d_logits = np.zeros_like(codes), np.zeros_like(logits)
    count = 0
    for n, boxes in enumerate(images):
        found, negatives = naive.chosen_priors(logits[n], priors, boxes, 0.5, 3.0, 0.5, 0)
        matched = np.flatnonzero(found >= 0)
        count += len(matched)
        for p in matched:
            box = boxes[found[p]]
            wanted = naive.encode(box[1:5], priors[p], np.array(VARIANCES))
            d_codes[n, p] = np.clip(codes[n, p] - wanted, -1, 1)
        kinds = [int(boxes[found[p]][0]) for p in matched] + [0] * len(negatives)
        places = [*matched, *negatives]
        if places:
            d_logits[n, places] = naive.softmax(logits[n, places])
            d_logits[n, places, kinds] -= 1
    return d_codes / max(count, 1), d_logits / max(count, 1), count


def test_loss_and_gradient_of_7308_priors(rng):
    image, classes, counts = dense("im", 3 * 300 * 300, height=300, width=300), 21, [2, 0, 1]
    loc, conf, priors = [], [], []
    for k, (n, small, large, ratios) in enumerate(SSD):
        per = 1 + len(large) + 2 * len(ratios)
        for layers, name, width in ((loc, "loc", 4), (conf, "conf", classes)):
            layers.append(dense(f"{name}{k}", n * n * per * width, height=n, width=n))
        options = {"min_size": [small], "max_size": large, "aspect_ratio": ratios}
        priors.append(L.priorbox(input=loc[k], image=image, variance=VARIANCES, **options))
    label = L.data(name="label", type=T.dense_vector_sequence(6))
    joined = L.concat(input=priors)
    loss = L.multibox_loss(loc, conf, joined, label, num_classes=classes)
    maps = [*loc, *conf]
    targets = [loss, *pd.gradients(loss, maps)]
    low, side = rng.uniform(0, 0.6, (3, 2)), rng.uniform(0.1, 0.4, (3, 2))
    kinds = rng.integers(1, classes, (3, 1))
    rows = np.concatenate([kinds, low, low + side, 0 * kinds], 1).astype(np.float32)
    images = np.split(rows, np.cumsum(counts)[:-1])

    def of_priors(layers, values, width):
        cells = [v.reshape(3, -1, n, n) for v, (n, *_) in zip(values, SSD, strict=True)]
        return np.concatenate([np.moveaxis(c, 1, 3).reshape(3, -1, width) for c in cells], 1)

    boxes = pd.eval(joined).reshape(-1, 8)[:, :4].astype(float)
    assert boxes.shape == (7308, 4)
    for scale in (0.01, 1.0, 5.0):
        feeds = {x: np.float32(scale) * rng.standard_normal((3, x.size), np.float32) for x in maps}
        codes = of_priors(loc, [feeds[x].astype(float) for x in loc], 4)
        logits = of_priors(conf, [feeds[x].astype(float) for x in conf], classes)
        d_codes, d_logits, count = gradient_of_loss(codes, logits, boxes, images)
        assert count > 3
        given = feeds | {label: rows, label.levels[0].lengths: np.array(counts)}
        value, *found = pd.eval(targets, given, training=True)
        expected = naive.multibox_loss(codes, logits, boxes, np.array(VARIANCES), images)
        np.testing.assert_allclose(value, np.full((3, 1), expected), rtol=1e-5)
        np.testing.assert_allclose(of_priors(loc, found[:6], 4), d_codes, atol=2e-6)
        np.testing.assert_allclose(of_priors(conf, found[6:], classes), d_logits, atol=2e-6)
