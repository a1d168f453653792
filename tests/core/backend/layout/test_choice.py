"""Which convolutions are computed on position-major images."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend.base import NO_SEAM
from pd_core.backend.layout import position_major
from pd_core.backend.layout.choice import gain_of
from pd_core.backend.ort import OrtBackend
from pd_core.graph.node import ancestors
from pd_core.run.programs import Source


@pytest.mark.parametrize(
    ("n", "channels", "pixels", "trained", "gains"),
    [
        (32, (64, 64), 1024, True, True),
        (64, (16, 16), 1024, True, True),
        (1, (64, 64), 64, True, True),
        (32, (8, 8), 1024, True, False),  # few channels
        (1, (16, 16), 1024, True, False),  # short rows
        (32, (16, 16), 4096, True, False),  # large images of few channels
        (32, (128, 128), 64, False, True),
        (32, (32, 32), 64, False, True),
        (32, (32, 32), 1024, False, False),
        (1, (32, 32), 64, False, False),
        (1, (64, 64), 4096, False, False),
    ],
)
def test_the_limits_are_those_that_were_measured(n, channels, pixels, trained, gains):
    assert (gain_of(n, channels, pixels, trained) > 0) is gains


def operators(build, shape, training=True):
    """The operators of a program before its lowering for the CPU."""
    with pd.fresh():
        image = pd.Variable([None, *shape[1:]])
        y = build(image)
        targets = [y]
        if training:
            slopes = pd.gradients(pd.reduce_mean(y * y), pd.trainable_variables())
            targets = [g for g in slopes if g is not None]
        fed = {image: np.zeros(shape, np.float32)}
        graph, _ = Source.of(targets, [], NO_SEAM, fed, training).graph(OrtBackend("cpu"))
    return [node.op_type for node in ancestors(graph.outputs)]


@pytest.mark.parametrize(
    "options",
    [{"groups": 2}, {"dilation": 2}, {"filter_size": 7}, {"stride": 2}],
    ids=["groups", "dilation", "large filters", "stride"],
)
def test_other_convolutions_alone_are_left(options):
    options = {"filter_size": 3, **options}
    found = operators(lambda x: pd.conv2d(x, 64, **options), (8, 64, 16, 16))
    assert "Gather" not in found


def test_images_are_left_where_converting_costs_more():
    def alternating(x):
        for _ in range(3):
            x = pd.conv2d(x, 16, 3, padding=1)
            x = pd.transpose(pd.transpose(x, [1, 0, 2, 3]) * 2.0, [1, 0, 2, 3])
        return x

    assert "Conv" in operators(alternating, (64, 16, 16, 16))


def test_images_are_converted_at_the_ends_alone():
    def chain(x):
        for _ in range(3):
            x = pd.conv2d(x, 64, 3, padding=1, act="relu")
        return x

    found = operators(chain, (8, 64, 16, 16), training=False)
    assert found.count("Transpose") == 2  # filters are transposed in their products
    assert "Conv" not in found


def test_exact_convolutions_by_session_and_environment(monkeypatch):
    assert position_major in pd.Session().backend.layouts
    assert position_major not in pd.Session(exact_convolutions=True).backend.layouts
    monkeypatch.setenv("PD_EXACT_CONVOLUTIONS", "1")
    assert position_major not in pd.Session().backend.layouts
    assert position_major in pd.Session(exact_convolutions=False).backend.layouts


def test_exact_convolutions_have_programs_of_their_own():
    image = pd.Variable([None, 64, 16, 16])
    y = pd.conv2d(image, 64, 3, padding=1)
    feeds = {image: np.random.default_rng(0).normal(size=(8, 64, 16, 16))}
    fast, exact = (pd.Session(exact_convolutions=e).eval(y, feeds) for e in (False, True))
    assert (fast != exact).any()
    np.testing.assert_allclose(fast, exact, atol=2e-5 * np.abs(exact).max())


def test_a_convolution_is_the_sum_that_its_definition_says():
    rng = np.random.default_rng(1)
    a = rng.normal(size=(8, 64, 9, 11)).astype(np.float32)
    w = rng.normal(size=(64, 64, 3, 3)).astype(np.float32)
    y = pd.Session().eval(
        pd.conv2d(pd.Variable(a, trainable=False), 64, 3, padding=1, W=pd.Variable(w), B=False)
    )
    padded = np.pad(a.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    expected = np.einsum("nchwij,kcij->nkhw", windows, w)
    np.testing.assert_allclose(y, expected, atol=2e-5 * np.abs(expected).max())
