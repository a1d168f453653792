"""Sizes that change from line to line: right values and gradients, and one program for all."""

import numpy as np
import pytest

import pd_core as pd

from .compare import differences

torch = pytest.importorskip("torch")
F = torch.nn.functional
f32 = np.float32
rng = np.random.default_rng(0)
W, B = rng.standard_normal((6, 3)).astype(f32), rng.standard_normal(3).astype(f32)
K = (rng.standard_normal((4, 3, 3, 3)) * 0.3).astype(f32)

ROWS = [(4, 6), (5, 6), (3, 6), (7, 6), (6, 6), (1, 6), (8, 6), (2, 6), (1, 6), (9, 6)]
BOTH = [(4, 6), (5, 7), (3, 5), (6, 6), (7, 3), (2, 8), (3, 3), (8, 9), (9, 2)]
ONES = [*BOTH, (1, 6), (6, 1), (1, 1), (4, 6)]
IMAGES = [(2, 3, 8, 8), (3, 3, 8, 8), (1, 3, 8, 8), (2, 3, 10, 8), (4, 3, 12, 7), (5, 3, 6, 6)]

# name: (with Variables, with PyTorch, shapes, parameters)
CASES = {
    "a layer": (
        lambda x, w, b: pd.tanh(pd.matmul(x, w) + b),
        lambda x, w, b: torch.tanh(x @ w + b),
        ROWS,
        (W, B),
    ),
    "softmax": (lambda x: pd.softmax(x), lambda x: torch.softmax(x, -1), ONES, ()),
    "a square": (lambda x: pd.matmul(x, pd.transpose(x, [1, 0])), lambda x: x @ x.T, ONES, ()),
    "a sum beside a square": (
        lambda x: pd.matmul(x, pd.transpose(x, [1, 0])) + pd.reduce_sum(x, 1),
        lambda x: x @ x.T + x.sum(1),
        ONES,
        (),
    ),
    "reshape": (lambda x: pd.reshape(x, [-1, 2, 3]), lambda x: x.reshape(-1, 2, 3), ROWS, ()),
    "flat": (lambda x: pd.reshape(x, [-1]) * 2.0, lambda x: x.reshape(-1) * 2, ONES, ()),
    "reshape to numbers": (
        lambda x: pd.reshape(x, [x.shape[1], x.shape[0]]) * 2.0,
        lambda x: x.reshape(x.shape[1], x.shape[0]) * 2,
        ONES,
        (),
    ),
    "rows": (lambda x: pd.slice(x, [1], [3], [0]), lambda x: x[1:3], ONES, ()),
    "last columns": (lambda x: pd.slice(x, [-2], [1000], [1]), lambda x: x[:, -2:], ONES, ()),
    "concat": (
        lambda x: pd.concat([x, x * 2.0, pd.slice(x, [0], [1], [0])], 0),
        lambda x: torch.cat([x, x * 2, x[:1]], 0),
        ONES,
        (),
    ),
    "concat of columns": (
        lambda x: pd.concat([x, x * 2.0], 1),
        lambda x: torch.cat([x, x * 2], 1),
        ONES,
        (),
    ),
    "split": (
        lambda x: pd.split(x, [2, 4], 1)[1] * pd.reduce_sum(pd.split(x, [2, 4], 1)[0]),
        lambda x: x[:, 2:] * x[:, :2].sum(),
        ROWS,
        (),
    ),
    "centred columns": (lambda x: x - pd.reduce_mean(x, 0), lambda x: x - x.mean(0), ONES, ()),
    "centred rows": (
        lambda x: x - pd.reduce_mean(x, 1, keep_dim=True),
        lambda x: x - x.mean(1, keepdim=True),
        ONES,
        (),
    ),
    "maxima": (lambda x: pd.reduce_max(x, 1), lambda x: x.amax(1), ONES, ()),
    "sums of all": (
        lambda x: pd.reduce_sum(x, 0) * x + pd.reduce_sum(x),
        lambda x: x.sum(0) * x + x.sum(),
        ONES,
        (),
    ),
    "running sums": (lambda x: pd.cum_sum(x, 1), lambda x: x.cumsum(1), ONES, ()),
    "a size as a number": (lambda x: x / x.shape[0], lambda x: x / x.shape[0], ONES, ()),
    "gathered rows": (lambda x: pd.gather(x, np.array([0, 0])), lambda x: x[[0, 0]], ONES, ()),
    "expanded": (
        lambda x: pd.expand(x, [3, *x.shape]),
        lambda x: x.expand(3, *x.shape),
        ONES,
        (),
    ),
    "each row": (
        lambda x: sum([r * float(k) for k, r in enumerate(x)], pd.reduce_sum(x, 0)),
        lambda x: sum([r * float(k) for k, r in enumerate(x)], x.sum(0)),
        BOTH,
        (),
    ),
    "convolution": (
        lambda x, k: pd.conv(x, k, pads=1),
        lambda x, k: F.conv2d(x, k, padding=1),
        IMAGES,
        (K,),
    ),
    "strided convolution": (
        lambda x, k: pd.relu(pd.conv(x, k, strides=2)),
        lambda x, k: F.relu(F.conv2d(x, k, stride=2)),
        IMAGES,
        (K,),
    ),
    "max pooling": (lambda x: pd.max_pool(x, 2, 2), lambda x: F.max_pool2d(x, 2), IMAGES, ()),
    "mean pooling": (lambda x: pd.avg_pool(x, 2, 2), lambda x: F.avg_pool2d(x, 2), IMAGES, ()),
    "global pooling": (
        lambda x, k: pd.reduce_mean(pd.relu(pd.conv(x, k, pads=1)), [2, 3]),
        lambda x, k: F.relu(F.conv2d(x, k, padding=1)).mean((2, 3)),
        IMAGES,
        (K,),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_sizes_change(case):
    recorded, wanted, shapes, parameters = CASES[case]
    assert differences(recorded, wanted, shapes, parameters)[0] < 2e-5


@pytest.mark.parametrize(
    "case", ["a layer", "a square", "concat of columns", "centred columns", "sums of all"]
)
def test_all_sizes_but_one_are_one_program(case, no_programs):
    recorded, wanted, shapes, parameters = CASES[case]
    shapes = [s for s in shapes if 1 not in s]
    _, compiled = differences(recorded, wanted, shapes, parameters)
    assert compiled[4] == compiled[-1]


def test_no_rows():
    w = pd.Variable(data=W)
    with pd.guard():
        for n in (3, 0, 2, 0):
            x = np.ones((n, 6), f32)
            y = pd.tanh(pd.matmul(x, w))
            loss = pd.reduce_sum(y)
            loss.backward()
            assert y.shape == (n, 3) and float(loss) == pytest.approx(np.tanh(x @ W).sum(), 1e-5)
            assert w.gradient().any() == bool(n)
            w.clear_gradient()


def test_arrays_of_different_shapes_from_one_line():
    with pd.guard():
        for shapes in [((3, 4), (4, 5)), ((4, 4), (4, 4)), ((2, 7), (7, 3)), ((5, 5), (5, 1))]:
            arrays = [rng.standard_normal(s).astype(f32) for s in shapes]
            a, b = [pd.to_variable(x) for x in arrays]
            assert np.allclose(pd.matmul(a, b).numpy(), arrays[0] @ arrays[1], atol=1e-5)
        pair = [pd.to_variable(np.ones(n, f32)) for n in (3, 4)]
        with pytest.raises(pd.ShapeError, match="3"):
            pair[0] + pair[1]


def test_equal_by_coincidence_is_not_equal_for_good():
    with pd.guard():
        for n, m in [(3, 3), (3, 4), (4, 4), (5, 2), (1, 3), (3, 1)]:
            x = pd.to_variable(np.ones((n, 2), f32))
            y = pd.to_variable(np.ones((m, 2), f32))
            both = pd.concat([x, y], 0)
            assert both.shape == (n + m, 2) and float(pd.reduce_sum(both)) == 2 * (n + m)
            if n == m or 1 in (n, m):
                assert (x + y).numpy().shape == (max(n, m), 2)
            else:
                with pytest.raises(pd.ShapeError):
                    x + y


# what has the sizes of another Variable, of which its operands do not tell: with the shape [n, 4]
OF_SHAPES = {
    "zeros": lambda x, b: pd.zeros([pd.shape_of(x)[0], 4]),
    "zeros of a shape": lambda x, b: pd.zeros(pd.shape_of(x)),
    "zeros of size_of": lambda x, b: pd.zeros([pd.size_of(x, 0), 4]),
    "parts of shapes": lambda x, b: pd.zeros(pd.concat([pd.shape_of(x)[:1], [4]], 0)),
    "computed": lambda x, b: pd.zeros([pd.shape_of(x)[0] * 2 // 2, 4]),
    "int32": lambda x, b: pd.zeros([pd.cast(pd.shape_of(x)[0], "int32"), 4]),
    "expand": lambda x, b: pd.expand(b, [pd.shape_of(x)[0], 4]),
    "expand to a shape": lambda x, b: pd.expand(b, pd.shape_of(x)),
    "tile": lambda x, b: pd.tile(b, [pd.shape_of(x)[0], 1]),
    "eye": lambda x, b: pd.eye(pd.shape_of(x)[0], 4),
    "one size": lambda x, b: pd.eye(pd.shape_of(x)[0]) @ x,
    "reshape": lambda x, b: pd.reshape(pd.ones([1, 60]), [pd.shape_of(x)[0], -1])[:, :4],
    "pad": lambda x, b: pd.pad(b, [0, 0], [pd.shape_of(x)[0] - 1, 0]),
}


@pytest.mark.parametrize("name", OF_SHAPES)
def test_sizes_are_those_of_this_call(name):
    b = pd.Variable(data=np.ones((1, 4), f32))
    slot = pd.Variable(shape=[None, 4])
    result = OF_SHAPES[name](slot, b)
    with pd.guard():
        for n in (3, 2, 5, 1, 6):
            array = np.full((n, 4), 2, f32)
            x = pd.to_variable(array)
            y = OF_SHAPES[name](x, b)
            total = y + x
            assert y.shape == total.shape == (n, 4)
            wanted = pd.eval([result], {slot: array})[0]
            assert np.array_equal(y.numpy(), wanted)
            assert np.array_equal(total.numpy(), wanted + 2)
