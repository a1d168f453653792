"""Variables in einops: as arrays of NumPy, with sizes that are known or not, and differentiated."""

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

import pd_core as pd

einops = pytest.importorskip("einops")

ARRAY = np.random.default_rng(0).normal(size=(4, 6, 12)).astype(np.float32)
CASES = [
    ("rearrange", "b t (h d) -> b h t d", {"h": 3}),
    ("rearrange", "b t c -> (b t) c", {}),
    ("rearrange", "b t c -> b (t c)", {}),
    ("rearrange", "b (t s) (h d) -> (b t) h (s d)", {"s": 2, "h": 3}),
    ("rearrange", "b t c -> c t b", {}),
    ("rearrange", "... c -> c ...", {}),
    ("rearrange", "b t c -> 1 b t c 1", {}),
    ("reduce", "b t c -> b c", {"reduction": "mean"}),
    ("reduce", "b (t s) c -> b t c", {"reduction": "max", "s": 2}),
    ("reduce", "b t c ->", {"reduction": "sum"}),
    ("reduce", "b ... -> b", {"reduction": "min"}),
    ("reduce", "b t c -> 1 t 1", {"reduction": "prod"}),
    ("repeat", "b t c -> b t r c", {"r": 5}),
    ("repeat", "b t c -> (b r) t c", {"r": 2}),
]
ROWS = pytest.mark.parametrize("name, pattern, sizes", CASES, ids=[f"{n} {p}" for n, p, _ in CASES])
SHAPES = [[None, 6, 12], [None, None, 12], [None, None, None]]


@ROWS
def test_as_numpy(name, pattern, sizes):
    """Of a constant, of feed slots with unknown sizes, and with values at hand."""
    function = getattr(einops, name)
    expected = function(ARRAY, pattern, **sizes)
    np.testing.assert_allclose(
        pd.eval(function(pd.constant(ARRAY), pattern, **sizes)), expected, 1e-5
    )
    for shape in SHAPES:
        x = pd.Variable(shape)
        y = function(x, pattern, **sizes)
        assert len(y.shape) == expected.ndim
        assert all(a in (None, b) for a, b in zip(y.shape, expected.shape, strict=True))
        np.testing.assert_allclose(pd.eval(y, {x: ARRAY}), expected, 1e-5)
        if name == "rearrange":  # of no samples
            none = function(ARRAY[:0], pattern, **sizes)
            assert pd.eval(y, {x: ARRAY[:0]}).shape == none.shape
    with pd.guard():
        np.testing.assert_allclose(
            function(pd.constant(ARRAY), pattern, **sizes).numpy(), expected, 1e-5
        )


@ROWS
def test_gradients_are_those_of_pytorch(name, pattern, sizes):
    torch = pytest.importorskip("torch")
    function = getattr(einops, name)
    theirs = torch.from_numpy(ARRAY).requires_grad_()
    (function(theirs, pattern, **sizes) ** 2).sum().backward()
    x = pd.Variable([None, None, 12])
    (gradient,) = pd.gradients(pd.reduce_sum(function(x, pattern, **sizes) ** 2), [x])
    np.testing.assert_allclose(pd.eval(gradient, {x: ARRAY}), theirs.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [[4, 6, 12], *SHAPES])
def test_einsum_pack_and_shapes(shape):
    x = pd.Variable(shape) if None in shape else pd.constant(ARRAY)
    feeds = {x: ARRAY} if None in shape else {}
    pattern = "b t c, b s c -> b t s"
    expected = einops.einsum(ARRAY, ARRAY, pattern)
    np.testing.assert_allclose(pd.eval(einops.einsum(x, ARRAY, pattern), feeds), expected, 1e-4)
    packed, shapes = einops.pack([x, x], "b * c")
    np.testing.assert_array_equal(pd.eval(packed, feeds), np.concatenate([ARRAY, ARRAY], 1))
    if shape[1] is None:
        with pytest.raises(TypeError, match="known only at run time"):
            einops.unpack(packed, shapes, "b * c")
    else:
        np.testing.assert_array_equal(
            pd.eval(einops.unpack(packed, shapes, "b * c")[1], feeds), ARRAY
        )
    sizes = einops.parse_shape(x, "b _ _")
    again = einops.rearrange(einops.rearrange(x, "b t c -> (b t) c"), "(b t) c -> b t c", **sizes)
    np.testing.assert_array_equal(pd.eval(again, feeds), ARRAY)


def test_lists_and_sizes_that_are_variables():
    x, n = pd.Variable([None, 12]), pd.Variable([], dtype="int64")
    stacked = einops.rearrange([x, x], "k b c -> b k c")
    assert stacked.shape == (None, 2, 12)
    y = einops.repeat(x, "b c -> b n c", n=n)
    assert pd.eval(y, {x: ARRAY[0], n: np.array(3)}).shape == (6, 3, 12)


def test_errors_are_those_of_einops():
    with pytest.raises(einops.EinopsError, match="can't divide axis of length 6 in chunks of 4"):
        einops.rearrange(pd.constant(ARRAY), "b (t s) c -> b t s c", s=4)
    with pytest.raises(NotImplementedError, match="mean is not available"):
        einops.reduce(pd.constant([[1, 2]]), "a b -> a", "mean")


def test_einops_keeps_no_variable():
    x = pd.Variable([None, None, 3])
    alive = weakref.ref(x)
    einops.rearrange(x, "a b c -> b (a c)")
    del x
    gc.collect()
    assert alive() is None


def test_import_before_and_after():
    """And the module is as it is without us; whether it is there may be asked before."""
    code = f"""import sys; sys.path[:] = {sys.path!r}
import importlib.util
import pd_core as pd
assert importlib.util.find_spec("einops").loader is not None and "einops" not in sys.modules
import einops
assert "_SourceFileLoader" not in repr(einops.__spec__.loader), einops.__spec__.loader
assert einops.__spec__.loader is einops.__loader__
assert type(einops.__loader__).__module__.startswith(("_frozen", "importlib", "_pytest"))
print(einops.rearrange(pd.Variable([None, 4]), "b (c d) -> d b c", c=2).shape)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "(2, None, 2)\n", done.stderr
