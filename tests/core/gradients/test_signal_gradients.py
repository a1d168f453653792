"""Spectra and their gradients against PyTorch, of known and unknown sizes."""

import itertools

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph.node import apply
from tests.thinned import thinned

torch = pytest.importorskip("torch")

LENGTH, STEP, WIDTH = 40, 6, 16
# One of the two says how wide a frame is.
GIVEN = ("constant", "fed", None)
WIDTHS = [pair for pair in itertools.product(GIVEN, GIVEN) if any(pair)]


def checked(y, x, feeds, wanted, xt):
    """Return the value of y, its dims, and the gradient of the sum of its squares."""
    value = pd.eval(y, feeds)
    assert all(isinstance(d, str) or d == n for d, n in zip(y.dims, value.shape, strict=True))
    np.testing.assert_allclose(value, wanted.detach().numpy(), atol=1e-4)
    (found,) = pd.gradients(pd.reduce_sum(y * y + y), [x])
    (wanted * wanted + wanted).sum().backward()
    np.testing.assert_allclose(pd.eval(found, feeds), xt.grad.numpy(), atol=2e-3, rtol=1e-4)


SIZES = [(2, LENGTH), (None, LENGTH), (None, None)]


@pytest.mark.parametrize(
    "sizes, widths, onesided", thinned(itertools.product(SIZES, WIDTHS, [None, 0, 1]), 2)
)
def test_short_time_spectra(sizes, widths, onesided, rng):
    window, length = widths
    data, shape = rng.standard_normal((2, LENGTH, 1)).astype("float32"), np.hanning(WIDTH)
    x = pd.Variable([*sizes, 1])
    feeds = {x: data}
    given = {"window": window and shape.astype("float32"), "length": length and np.int64(WIDTH)}
    if window == "fed":
        given["window"] = pd.Variable([None])
        feeds[given["window"]] = shape
    if length == "fed":
        given["length"] = pd.Variable([], dtype="int64")
        feeds[given["length"]] = np.int64(WIDTH)
    attributes = {} if onesided is None else {"onesided": onesided}
    y = apply("STFT", x, np.int64(STEP), given["window"], given["length"], **attributes)
    xt = torch.tensor(data, dtype=torch.float64, requires_grad=True)
    frames = xt[..., 0].unfold(1, WIDTH, STEP)
    frames = frames if window is None else frames * torch.tensor(shape)
    transform = torch.fft.fft if onesided == 0 else torch.fft.rfft
    checked(y, x, feeds, torch.view_as_real(transform(frames)), xt)


def test_the_size_of_frames_that_exporters_leave_out():
    x = pd.Variable([1, 16000, 1])
    y = apply("STFT", x, np.int64(160), np.hanning(512).astype("float32"))
    assert y.dims == (1, 97, 257, 2)


TRANSFORMS = ["fft", "rfft", "ifft", "irfft"]


@pytest.mark.parametrize(
    "transform, size, length, known",
    thinned(itertools.product(TRANSFORMS, [4, 8, 9], [None, 6, 12, "fed"], [True, False]), 5),
)
def test_spectra(transform, size, length, known, rng):
    kind = 1 if transform == "rfft" else 2
    data = rng.standard_normal((2, size, 3, kind)).astype("float32")
    x = pd.Variable([*(data.shape[:-1] if known else [None] * 3), kind])
    feeds, n = {x: data}, 6 if length == "fed" else length
    if length == "fed":
        length = pd.Variable([], dtype="int64")
        feeds[length] = np.int64(n)
    y = pd.dft(x, length, 1, transform.startswith("i"), "r" in transform)
    xt = torch.tensor(data, dtype=torch.float64, requires_grad=True)
    numbers = xt[..., 0] if kind == 1 else torch.view_as_complex(xt)
    wanted = getattr(torch.fft, transform)(numbers, n=n, dim=1)
    wanted = wanted[..., None] if transform == "irfft" else torch.view_as_real(wanted)
    checked(y, x, feeds, wanted, xt)
