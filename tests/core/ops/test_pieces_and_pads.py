"""Pieces that are not equal, negative widths, wide output paddings, ellipses: PyTorch's results."""

from itertools import product

import numpy as np
import pytest

import pd_core as pd

torch = pytest.importorskip("torch")
F = torch.nn.functional


def ramp(*shape):
    """Different numbers of a shape."""
    return np.arange(1.0, 1.0 + np.prod(shape), dtype="float32").reshape(shape)


def assert_equal(rows):
    """Values, and gradients of their squares, of (label, our results, our inputs, theirs).

    Of all rows in one program.
    """
    ours, slopes, feeds = [], [], {}
    for _, y, inputs, _ in rows:
        variables = list(inputs)
        ours.append(y)
        cost = sum(pd.reduce_sum(pd.square(v)) for v in y)
        slopes.append(pd.gradients(cost, variables))
        feeds |= inputs
    values, found = pd.eval([ours, slopes], feeds)
    for (label, _, inputs, function), value, slope in zip(rows, values, found, strict=True):
        leaves = [torch.tensor(a, requires_grad=True) for a in inputs.values()]
        wanted = function(*leaves)
        sum((w.square()).sum() for w in wanted).backward()
        shapes = [v.shape for v in value], [tuple(w.shape) for w in wanted]
        assert shapes[0][: len(shapes[1])] == shapes[1], label
        assert all(0 in shape for shape in shapes[0][len(shapes[1]) :]), label
        for v, w in zip(value, wanted, strict=False):
            np.testing.assert_allclose(v, w.detach(), 1e-5, 1e-4, err_msg=label)
        for g, leaf in zip(slope, leaves, strict=True):
            np.testing.assert_allclose(g, leaf.grad, 1e-5, 1e-3, err_msg=label)


@pytest.mark.parametrize("is_open", [False, True], ids=["known", "open"])
def test_pieces_of_any_number(is_open):
    rows = []
    for size, n in product((0, 1, 5, 7), (1, 2, 3, 4, 5, 8)):
        x = pd.Variable([2, None if is_open else size])
        given = {x: ramp(2, size)}
        label = f"{size} in {n}"
        rows.append((label, pd.chunk(x, n, 1), given, lambda t, n=n: t.chunk(n, 1)))
        if not is_open:
            assert len(rows[-1][1]) == len(torch.zeros(2, size).chunk(n, 1))
            rows.append((label, pd.split(x, n, -1), given, lambda t, n=n: t.split(n, -1)))
    assert_equal(rows)


def test_pieces_of_arrays_at_hand():
    """The first axis of an array is open in a guard, but its size is known."""
    with pd.guard():
        for size, n in product((1, 4, 5, 9), (2, 3, 4)):
            x, t = ramp(size, 2), torch.tensor(ramp(size, 2))
            for ours, theirs in ((pd.chunk(x, n), t.chunk(n)), (pd.split(x, n), t.split(n))):
                assert [p.numpy().tolist() for p in ours] == [p.tolist() for p in theirs]


def test_widths_below_zero():
    rows = []
    modes = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    for mode, (before, after) in product(modes, product((-3, -1, 0, 2), (-2, 0, 3))):
        x = pd.Variable([2, 3, 6])
        y = pd.pad(x, [0, 0, before], [0, 0, after], mode=mode)
        rows.append(
            (
                f"{mode} {before} {after}",
                [y],
                {x: ramp(2, 3, 6)},
                lambda t, b=before, a=after, m=modes[mode]: [F.pad(t, (b, a), mode=m)],
            )
        )
    x, opened = pd.Variable([4, 5]), pd.Variable([None, None])
    widths = [-1, 2], [1, -2]

    def two_axes(t):
        return [F.pad(t, (2, -2, -1, 1), value=0.5)]

    rows.append(("two axes", [pd.pad(x, *widths, 0.5)], {x: ramp(4, 5)}, two_axes))
    rows.append(("open axes", [pd.pad(opened, *widths, 0.5)], {opened: ramp(4, 5)}, two_axes))
    assert_equal(rows)


def test_output_paddings_below_the_dilation():
    rows = []
    cases = product((1, 2), (2, 3), (0, 2), (1, 2), (1, 2))
    for stride, hole, cut, extra, group in cases:
        if not stride <= extra < hole:
            continue
        x, w, b = pd.Variable([1, 2, 4]), pd.Variable([2, 2, 3]), pd.Variable([2 * group])
        y = pd.conv_transpose(x, w, b, stride, cut, hole, group, extra)

        def theirs(x, w, b, s=stride, p=cut, o=extra, g=group, d=hole):
            return [F.conv_transpose1d(x, w, b, s, p, o, g, d)]

        given = {x: ramp(1, 2, 4), w: ramp(2, 2, 3), b: ramp(2 * group)}
        rows.append((f"{stride} {hole} {cut} {extra} {group}", [y], given, theirs))
    x, w = pd.Variable([1, 2, 3, 4]), pd.Variable([2, 1, 2, 3])
    y = pd.conv_transpose(x, w, None, (2, 1), 1, (1, 2), 1, (1, 1))

    def planes(x, w):
        return [F.conv_transpose2d(x, w, None, (2, 1), 1, (1, 1), 1, (1, 2))]

    rows.append(("of one axis", [y], {x: ramp(1, 2, 3, 4), w: ramp(2, 1, 2, 3)}, planes))
    assert_equal(rows)
    layer = pd.nn.ConvTranspose1d(3, 2, dilation=3, output_padding=2)
    assert layer(pd.Variable([1, 2, 4])).shape == (1, 3, 9)


def test_ellipses_of_different_rank():
    rows, rng = [], np.random.default_rng(0)
    equations = ["...ij,...jk->...ik", "...i,i...->...", "i...j,...", "...,...,...->..."]
    for equation in equations:
        terms = equation.split("->")[0].split(",")
        for ranks in product((0, 1, 2), repeat=len(terms)):
            arrays = []
            for term, rank in zip(terms, ranks, strict=True):
                before, _, after = term.partition("...")
                hidden = np.where(rng.random(2) < 0.3, 1, (2, 3))[2 - rank :].tolist()
                sizes = {"i": 2, "j": 3, "k": 4}
                shape = [*(sizes[c] for c in before), *hidden, *(sizes[c] for c in after)]
                arrays.append(rng.integers(-2, 3, shape).astype("float32"))
            inputs = {pd.Variable(list(a.shape)): a for a in arrays}
            label = f"{equation} {[a.shape for a in arrays]}"
            theirs = lambda *t, e=equation: [torch.einsum(e, *t)]  # noqa: E731
            rows.append((label, [pd.einsum(equation, *inputs)], inputs, theirs))
    assert_equal(rows)


def test_what_is_refused():
    x = pd.Variable([4, None])
    with pytest.raises(
        pd.ShapeError, match=r"split: pieces of 3 of axis 1 of .*not known\n.*chunk"
    ):
        pd.split(x, 3, 1)
    with pytest.raises(pd.ShapeError, match="split: a size of pieces is positive, not 0"):
        pd.split(x, 0)
    with pytest.raises(pd.ShapeError, match="chunk: a number of pieces is positive, not 0"):
        pd.chunk(x, 0)
    with pytest.raises(pd.ShapeError, match=r"pad: 3 and 2 elements of axis 0 of .* are cut"):
        pd.pad(x, [-3, 0], [-2, 0])
    with pytest.raises(
        TypeError, match=r"pad: before and after are widths .*\n.*pd.pad\(x, \[0, 1"
    ):
        pd.pad(x, (1, 2), "constant", 0.5)
