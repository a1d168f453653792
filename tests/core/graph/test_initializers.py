"""Initializers by name, against the moments and bounds of their formulas, and PyTorch's."""

import math

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph.initializers import (
    FromFile,
    Orthogonal,
    TruncatedNormal,
    fan_in,
    initializer,
    initializers,
)

# bound of uniform ones, std of normal ones; for [in, out] and for filters [out, in, *window]
FANS = {(300, 200): (300, 200), (60, 40, 3, 5): (600, 900)}
SPREADS = {
    "he_uniform": lambda i, o: math.sqrt(6 / i),
    "he_normal": lambda i, o: math.sqrt(2 / i),
    "xavier_uniform": lambda i, o: math.sqrt(6 / (i + o)),
    "xavier_normal": lambda i, o: math.sqrt(2 / (i + o)),
    "lecun_uniform": lambda i, o: math.sqrt(3 / i),
    "lecun_normal": lambda i, o: math.sqrt(1 / i),
    "uniform": lambda i, o: 1.0,
    "normal": lambda i, o: 1.0,
}


@pytest.mark.parametrize("shape", FANS, ids=str)
@pytest.mark.parametrize("name", SPREADS)
def test_spreads(name, shape, rng):
    values = initializer(name)(shape, rng)
    spread = SPREADS[name](*FANS[shape])
    assert values.shape == shape
    assert abs(values.mean()) < 0.02 * spread
    if "uniform" in name:
        assert 0.999 * spread < np.abs(values).max() <= spread
        assert values.std() == pytest.approx(spread / math.sqrt(3), rel=0.02)
    else:
        assert values.std() == pytest.approx(spread, rel=0.02)
        assert np.abs(values).max() > 3 * spread


@pytest.mark.parametrize("name", [n for n in SPREADS if n[:2] in ("he", "xa")])
def test_spreads_are_those_of_pytorch(name, rng):
    torch = pytest.importorskip("torch")
    kind, _, how = name.partition("_")
    fill = getattr(torch.nn.init, f"{'kaiming' if kind == 'he' else 'xavier'}_{how}_")
    theirs = torch.empty(60, 40, 3, 5)
    fill(theirs, nonlinearity="relu") if kind == "he" else fill(theirs)
    ours = initializer(name)(tuple(theirs.shape), rng)
    assert ours.std() == pytest.approx(theirs.std().item(), rel=0.02)


def test_truncated_normal(rng):
    values = TruncatedNormal(3.0, 0.5)((300, 200), rng)
    assert 0.99 < np.abs(values - 3.0).max() <= 1.0
    assert values.mean() == pytest.approx(3.0, abs=0.01)
    assert values.std() == pytest.approx(0.5 * 0.8796, rel=0.02)  # of N(0, 1) within ±2


@pytest.mark.parametrize("shape", [(5, 5), (7, 4), (4, 7), (3, 2, 2, 2)])
def test_orthogonal(shape, rng):
    m = Orthogonal(2.0)(shape, rng).reshape(shape[0], -1)
    gram = m @ m.T if len(m) <= m.shape[1] else m.T @ m
    assert np.allclose(gram, 4.0 * np.eye(len(gram)))
    with pytest.raises(pd.ShapeError, match=r"two axes or more, not \[3\]"):
        Orthogonal()((3,), rng)


def test_constants_defaults_and_mistakes(rng):
    assert (initializer("zeros")((2,), rng) == 0).all()
    assert (initializer("ones")((2,), rng) == 1).all()
    assert initializer(None) is fan_in
    assert initializer(fan_in) is fan_in
    with pytest.raises(pd.GraphError, match="there is no initializer 'he'; there is he_normal, "):
        initializer("he")
    with pytest.raises(TypeError, match=r"an initializer is a function \(shape, rng\) -> array"):
        initializer(0.1)
    assert list(initializers) == sorted(initializers)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (0.5, r"'w': an initializer is a function \(shape, rng\) -> array, not 0\.5"),
        (pd.zero_initializer, r"zero is not: .*\n  hint: zero\(\) may return one"),
        (lambda shape: np.zeros(shape), "<lambda> is not: too many positional arguments$"),
        (pd.gaussian_initializer, r"is an instance, as Gaussian\(\), not a class"),
    ],
)
def test_what_is_no_initializer(spec, message):
    with pytest.raises(TypeError, match=message):
        pd.Variable("w", shape=[3], initializer=spec)


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "w.npy"
    np.save(path, np.ones(3))
    path.write_bytes(path.read_bytes().replace(b"(3,), }", b"(3,, {["))
    with pytest.raises(pd.DamagedFile, match=r"w\.npy is no \.npy file"):
        pd.eval(pd.Variable("w", shape=[3], initializer=FromFile(str(path))))
