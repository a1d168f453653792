"""Detection against loops over images, priors and boxes."""

import numpy as np
import pytest

import pd_core as pd

from . import reference_detection as naive

VARIANCES = np.array([0.1, 0.1, 0.2, 0.2], np.float32)
CLASSES = 4


@pytest.mark.parametrize(
    "options",
    [(8,), (8, 12), (8, 18, [2.0]), (8, None, [2.0, 3.0])],
    ids=["square", "two squares", "ratio", "ratios"],
)
def test_prior_boxes(options):
    actual = pd.prior_boxes((3, 5), (24, 50), *options)
    np.testing.assert_allclose(actual, naive.prior_boxes((3, 5), (24, 50), *options), atol=1e-12)


def boxes(rng, *shape):
    corner = rng.uniform(0, 0.7, (*shape, 2))
    corners = np.concatenate([corner, corner + rng.uniform(0.05, 0.4, (*shape, 2))], axis=-1)
    return corners.astype(np.float32)


def test_overlaps(rng):
    a, b = boxes(rng, 2, 6), boxes(rng, 2, 4)
    a[0, 0], b[0, 0], a[1, 1], b[1, 1] = [0, 0, 1, 1], [0.5, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]
    a[1, 2], b[1, 2] = [0.5, 0.5, 0.4, 0.4], [0.3, 0.3, 0.6, 0.6]  # no box at all
    actual = pd.eval(pd.box_overlaps(a, b))
    expected = [[[naive.overlap(x, y) for y in b[n]] for x in a[n]] for n in range(2)]
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-7)
    assert actual[0, 0, 0] == 0.5


def test_codes_of_boxes(rng):
    priors, truth = boxes(rng, 5), boxes(rng, 2, 5)
    codes = pd.encode_boxes(truth, priors, VARIANCES)
    expected = [
        [naive.encode(*pair, VARIANCES) for pair in zip(t, priors, strict=True)] for t in truth
    ]
    np.testing.assert_allclose(pd.eval(codes), expected, rtol=2e-4, atol=2e-5)
    back = pd.decode_boxes(codes, priors, VARIANCES)
    np.testing.assert_allclose(pd.eval(back), truth, atol=1e-6)
    code = rng.standard_normal((2, 5, 4)).astype(np.float32)
    expected = [
        [naive.decode(*pair, VARIANCES) for pair in zip(c, priors, strict=True)] for c in code
    ]
    np.testing.assert_allclose(
        pd.eval(pd.decode_boxes(code, priors, VARIANCES)), expected, rtol=1e-5, atol=1e-6
    )


# ---- matching


def matched(overlaps, threshold):
    x = pd.Variable([None, None, None])
    return pd.eval(pd.match_boxes(x, threshold), {x: overlaps})


@pytest.mark.parametrize("threshold", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("count", [1, 3, 9])
def test_matching(count, threshold, rng):
    overlaps = np.stack(
        [
            np.array([[naive.overlap(p, b) for b in boxes(rng, count)] for p in boxes(rng, 6)])
            for _ in range(20)
        ]
    )
    overlaps[10:] = rng.integers(0, 4, overlaps[10:].shape) / 4  # many are equal
    expected = [naive.match(o, threshold) for o in overlaps]
    np.testing.assert_array_equal(matched(overlaps, threshold), expected)


def test_the_best_pairs_come_first():
    overlaps = [[[0.9, 0.8], [0.7, 0.1], [0.0, 0.6]]]
    assert matched(overlaps, 2.0).tolist() == [[0, -1, 1]]
    assert matched(overlaps, 0.65).tolist() == [[0, 0, 1]]


def test_what_does_not_fit():
    with pytest.raises(pd.ShapeError, match=r"match_boxes: overlaps are \[B, P, G\]"):
        pd.match_boxes(np.zeros((3, 2)), 0.5)
    with pytest.raises(pd.ShapeError, match="box_overlaps: a box is four numbers"):
        pd.box_overlaps(np.zeros((3, 4)), np.zeros((3, 5)))


# ---- the loss


class Images:
    """Slots for a batch, and draws of one."""

    def __init__(self, priors):
        self.priors, count = priors.astype(np.float32), len(priors)
        self.codes = pd.Variable(["batch", count, 4])
        self.logits = pd.Variable(["batch", count, CLASSES])
        self.truth = pd.Variable(["rows", 6])
        self.lengths = pd.Variable(["batch"], dtype="int64")
        self.sequences = pd.Segments(self.lengths, "rows")

    def feeds(self, rng, counts):
        """Random numbers for images with these counts of boxes, each near a prior."""
        total, batch = sum(counts), len(counts)
        near = self.priors[rng.integers(0, len(self.priors), total)]
        near = near + rng.normal(0, 0.02, near.shape)
        classes = rng.integers(1, CLASSES, (total, 1))
        truth = np.concatenate([classes, near, np.zeros((total, 1))], axis=1)
        return {
            self.codes: rng.normal(0, 2, (batch, len(self.priors), 4)).astype(np.float32),
            self.logits: rng.standard_normal((batch, len(self.priors), CLASSES)).astype(np.float32),
            self.truth: truth.astype(np.float32),
            self.lengths: np.array(counts, np.int64),
        }

    def loss(self, **options):
        return pd.multibox_loss(
            *(self.codes, self.logits, self.priors, VARIANCES, self.truth, self.sequences),
            **options,
        )

    def slow_loss(self, feeds, codes=None, logits=None, **options):
        ends = np.cumsum(feeds[self.lengths])
        images = [
            feeds[self.truth][end - n : end]
            for end, n in zip(ends, feeds[self.lengths], strict=True)
        ]
        codes = feeds[self.codes] if codes is None else codes
        logits = feeds[self.logits] if logits is None else logits
        wide = (a.astype(np.float64) for a in (codes, logits, self.priors, VARIANCES))
        return naive.multibox_loss(*wide, images, **options)


@pytest.fixture
def images():
    return Images(pd.prior_boxes((3, 4), (24, 32), 8, 12, [2.0]))


COUNTS = {
    "ragged": [2, 0, 5, 1],
    "one image": [3],
    "no boxes": [0, 0],
    "no images": [],
    "many boxes": [60],
}


@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_loss(counts, images, rng):
    feeds = images.feeds(rng, counts)
    actual = pd.eval(images.loss(), feeds)
    assert actual == pytest.approx(images.slow_loss(feeds), rel=1e-4)
    assert (actual > 0) == (sum(counts) > 0)


OPTIONS = {
    "few matches": ({"overlap_threshold": 0.9}, {"threshold": 0.9}),
    "many matches": ({"overlap_threshold": 0.1}, {"threshold": 0.1}),
    "few negatives": ({"negative_ratio": 0.5}, {"ratio": 0.5}),
    "all negatives": ({"negative_ratio": 99.0}, {"ratio": 99.0}),
    "far negatives": ({"negative_overlap": 0.05}, {"far": 0.05}),
    "background": ({"background": 2}, {"background": 2}),
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options_of_the_loss(options, images, rng):
    feeds = images.feeds(rng, [3, 1, 0])
    ours, reference = options
    actual = pd.eval(images.loss(**ours), feeds)
    assert actual == pytest.approx(images.slow_loss(feeds, **reference), rel=1e-4)
    assert actual != pytest.approx(images.slow_loss(feeds), rel=3e-4)


def test_gradient_of_the_loss(images, rng):
    feeds = images.feeds(rng, [3, 0, 2])
    slots = images.codes, images.logits
    gradients = pd.eval(pd.gradients(images.loss(), slots), feeds)
    start = [feeds[v].astype(np.float64) for v in slots]
    directions = [rng.standard_normal(a.shape) for a in start]

    def perturbed(step):
        codes, logits = (a + step * v for a, v in zip(start, directions, strict=True))
        return images.slow_loss(feeds, codes, logits)

    slope = sum(np.sum(g * v) for g, v in zip(gradients, directions, strict=True))
    assert slope == pytest.approx((perturbed(1e-6) - perturbed(-1e-6)) / 2e-6, rel=1e-3)


@pytest.mark.parametrize("counts", [[0, 0], []])
def test_no_gradient_without_boxes(counts, images, rng):
    slots = images.codes, images.logits
    for g in pd.eval(pd.gradients(images.loss(), slots), images.feeds(rng, counts)):
        assert not g.any() and len(g) == len(counts)


def test_loss_by_the_reference(images, rng):
    feeds = images.feeds(rng, [2, 0])
    loss = images.loss()
    with pd.Session(device="reference") as session:
        assert session.eval(loss, feeds) == pytest.approx(images.slow_loss(feeds), rel=1e-4)


# ---- detections

LIMITS = {
    "default": ({}, {}),
    "overlaps": ({"overlap_threshold": 0.1}, {"threshold": 0.1}),
    "scores": ({"score_threshold": 0.5}, {"least": 0.5}),
    "none": ({"score_threshold": 1.0}, {"least": 1.0}),
    "candidates": ({"candidates": 5}, {"candidates": 5}),
    "all candidates": ({"candidates": 0}, {"candidates": 0}),
    "keep": ({"keep": 7}, {"keep": 7}),
    "keep all": ({"keep": 0}, {"keep": 0}),
    "background": ({"background": 3}, {"background": 3}),
}


@pytest.mark.parametrize("batch", [3, 1, 0])
@pytest.mark.parametrize("options", LIMITS.values(), ids=LIMITS)
def test_detections(options, batch, images, rng):
    feeds = {k: v for k, v in images.feeds(rng, [0] * batch).items() if v.ndim == 3}
    ours, reference = options
    actual = pd.eval(
        pd.detect_objects(images.codes, images.logits, images.priors, VARIANCES, **ours), feeds
    )
    wide = (a.astype(np.float64) for a in (*feeds.values(), images.priors, VARIANCES))
    expected = naive.detect(*wide, **reference)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_the_best_of_equal_boxes_stays():
    box = np.array([[[0, 0, 0.5, 0.5]] * 3 + [[0.5, 0.5, 1, 1]]], np.float32)
    scores = np.array([[[0.2, 0.9, 0.9, 0.1], [0.3, 0.2, 0.1, 0.05]]], np.float32)
    actual = pd.eval(pd.non_max_suppression(box, scores, 0.5, 0.05))
    assert actual.tolist() == [[0, 0, 1], [0, 0, 3], [0, 1, 0]]


def test_detections_by_the_reference(images, rng):
    feeds = {k: v for k, v in images.feeds(rng, [0, 0]).items() if v.ndim == 3}
    detections = pd.detect_objects(images.codes, images.logits, images.priors, VARIANCES, keep=9)
    with pd.Session(device="reference") as session:
        reference = session.eval(detections, feeds)
    np.testing.assert_allclose(pd.eval(detections, feeds), reference, rtol=1e-4, atol=1e-6)
