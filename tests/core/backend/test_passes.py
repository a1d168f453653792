"""Graph passes: gradients of convolution and pooling, reordered operators, row sums."""

import itertools

import numpy as np
import pytest

import pd_core as pd
from pd_core import ops
from pd_core.backend import program
from pd_core.backend.passes import LOWERINGS
from pd_core.backend.passes.context import Context, each_node
from pd_core.backend.passes.relu import exchange_relu_and_pool
from pd_core.backend.passes.scatter import add_rows
from pd_core.graph.node import ancestors
from tests.thinned import in_turn, thinned

from ..ops import reference_conv as naive

# image, filters, options of conv: as networks have them, larger than the rows of the op table
NETWORKS = {
    "lenet 1": ((4, 1, 28, 28), (6, 1, 5, 5), {}),
    "lenet 2": ((3, 20, 12, 12), (10, 20, 5, 5), {}),
    "resnet stem": ((1, 3, 32, 32), (8, 3, 7, 7), {"strides": 2, "pads": 3}),
    "resnet block": ((2, 16, 14, 14), (16, 16, 3, 3), {"pads": 1}),
    "resnet down": ((2, 16, 14, 14), (32, 16, 3, 3), {"strides": 2, "pads": 1}),
    "resnet shortcut": ((2, 16, 14, 14), (32, 16, 1, 1), {"strides": 2}),
    "depthwise": ((2, 32, 9, 9), (32, 1, 3, 3), {"group": 32, "pads": 1}),
    "groups": ((2, 32, 9, 9), (16, 8, 3, 3), {"group": 4, "pads": [1, 0, 0, 2]}),
    "dilated": ((2, 12, 16, 16), (4, 12, 3, 3), {"dilations": 2, "pads": 2}),
    "text": ((4, 24, 40), (8, 24, 4), {"strides": 3}),
    "volume": ((1, 10, 6, 6, 6), (4, 10, 3, 3, 3), {"pads": 1, "strides": 2}),
    "vgg": ((2, 32, 10, 10), (24, 32, 3, 3), {"pads": 1}),
    "vgg, blocks of channels": ((8, 32, 12, 12), (16, 32, 3, 3), {"pads": 1}),
    "vgg, all images in one product": ((160, 64, 4, 4), (64, 64, 3, 3), {"pads": 1}),
    "more padding than filter": ((1, 32, 6, 6), (8, 32, 3, 3), {"pads": 3}),
    "text of one size": ((3, 40, 20), (16, 40, 5), {"pads": 2}),
    "volume of one size": ((1, 12, 5, 5, 5), (6, 12, 3, 3, 3), {"pads": 1}),
    "dilated rows": ((2, 24, 11, 9), (5, 24, 3, 2), {"dilations": [2, 1], "strides": [1, 2]}),
}
# PyTorch pads both ends alike.
EQUAL_ENDS = {k: row for k, row in NETWORKS.items() if not isinstance(row[2].get("pads"), list)}
POOLS = {
    "halved": ((2, 8, 28, 28), {"window": 2, "strides": 2}),
    "thirds": ((2, 3, 20, 20), {"window": 3, "strides": 3}),
    "tenths": ((1, 2, 70, 31), {"window": [10, 7], "strides": [10, 7]}),
    "overlapping": ((2, 8, 27, 27), {"window": 3, "strides": 2}),
    "resnet": ((1, 4, 16, 16), {"window": 3, "strides": 2, "pads": 1}),
    "whole image": ((2, 3, 6, 5), {"window": [6, 5]}),
    "ceil": ((1, 4, 14, 15), {"window": 3, "strides": 2, "ceil_mode": True}),
    "padded ceil": ((1, 2, 12, 13), {"window": 3, "strides": 2, "pads": 1, "ceil_mode": True}),
    "text": ((2, 4, 41), {"window": 4, "strides": 4}),
    "volume": ((1, 3, 6, 6, 6), {"window": 2, "strides": 2}),
}


def named(table):
    return {"argvalues": table.values(), "ids": table.keys()}


def drawn(rng, *shape):
    return rng.standard_normal(shape).astype("float32")


def distinct(rng, *shape):
    """No two alike, so that a maximum is one element."""
    count = int(np.prod(shape))
    return ((rng.permutation(count) - count / 2) / count).reshape(shape).astype("float32")


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def of_batch(array):
    """A slot for an array whose first axis is a batch."""
    return pd.Variable([None, *array.shape[1:]])


def op_types(targets):
    return [node.op_type for node in pd.subgraph(targets)]


# ---- convolution


def conv_gradients(x, w, options):
    """Variables of an image and filters, of a seed, and the two gradients."""
    image, filters = of_batch(x), pd.Variable(w.shape)
    y = pd.conv(image, filters, **options)
    seed = pd.Variable(y.shape)
    return (image, filters, seed), pd.gradients(y, [image, filters], [seed])


@pytest.mark.parametrize("x, w, options", **named(NETWORKS))
def test_gradients_of_convolution_against_numpy(x, w, options, rng):
    x, w = drawn(rng, *x), drawn(rng, *w)
    slots, gradients = conv_gradients(x, w, options)
    dy = drawn(rng, x.shape[0], *slots[2].shape[1:])
    found = pd.eval(gradients, dict(zip(slots, (x, w, dy), strict=True)))
    plain = {k: v for k, v in options.items() if k != "group"}
    geometry = naive.Geometry(x.shape[2:], w.shape[2:], **plain)
    wide = [a.astype("float64") for a in (x, w, dy)]
    _, dx, dw = naive.conv_form(*wide, geometry, options.get("group", 1))
    close(found[0], dx)
    close(found[1], dw)


@pytest.mark.parametrize("x, w, options", **named(EQUAL_ENDS))
def test_gradients_of_convolution_against_torch(x, w, options, rng):
    torch = pytest.importorskip("torch")
    x, w = drawn(rng, *x), drawn(rng, *w)
    slots, gradients = conv_gradients(x, w, options)
    dy = drawn(rng, x.shape[0], *slots[2].shape[1:])
    found = pd.eval(gradients, dict(zip(slots, (x, w, dy), strict=True)))
    names = {"strides": "stride", "pads": "padding", "dilations": "dilation", "group": "groups"}
    xt, wt = (torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (x, w))
    conv = getattr(torch.nn.functional, f"conv{x.ndim - 2}d")
    y = conv(xt, wt, **{names[k]: v for k, v in options.items()})
    y.backward(torch.tensor(dy, dtype=torch.float64))
    close(found[0], xt.grad.numpy())
    close(found[1], wt.grad.numpy())


def test_few_channels_are_copied_by_row_or_gathered_by_a_conv():
    for strides, convolutions in ((1, 0), (2, 1)):
        x, w = np.zeros((1, 1, 8, 8)), np.zeros((2, 1, 3, 3))
        _, (_, dw) = conv_gradients(x, w, {"strides": strides})
        assert op_types(dw).count("Conv") == convolutions
        assert op_types(dw).count("MatMul") == 1


def test_taps_of_many_channels_are_products_of_shifted_images():
    _, (_, dw) = conv_gradients(np.zeros((1, 30, 14, 8)), np.zeros((20, 30, 3, 3)), {"pads": 1})
    found = op_types(dw)
    assert "Conv" not in found
    assert found.count("MatMul") == 9
    assert found.count("Pad") == 4  # the other shifts only cut


def test_moved_images_of_few_channels_are_stacked():
    _, (_, dw) = conv_gradients(np.zeros((1, 30, 14, 8)), np.zeros((2, 30, 3, 4)), {})
    assert op_types(dw).count("MatMul") == 4  # one for each column of the filter


def test_more_taps_share_products():
    _, (_, dw) = conv_gradients(np.zeros((1, 30, 14, 8)), np.zeros((20, 30, 3, 4)), {"pads": 1})
    assert op_types(dw).count("MatMul") == 4


# filters, options; the image is as large as they reach, and a little more
LARGE = {
    "text": ((4, 2, 257), {}),
    "sound": ((4, 1, 200), {"strides": 7}),
    "sound, padded": ((3, 1, 97), {"strides": 4, "pads": 50}),
    "steps that holes do not meet": ((2, 1, 70), {"strides": 3, "dilations": 2}),
    "holes": ((2, 33, 66), {"dilations": 5, "pads": 1}),
    "image": ((3, 2, 13, 17), {"pads": 6}),
    "image, strides": ((3, 24, 11, 12), {"strides": [3, 2], "pads": [1, 0, 2, 5]}),
    "flat": ((2, 40, 1, 90), {"strides": [1, 5]}),
    "groups": ((4, 3, 9, 15), {"group": 2, "pads": 4}),
    "depthwise": ((3, 1, 19, 9), {"group": 3, "strides": [2, 1]}),
    "volume": ((2, 8, 5, 4, 7), {"pads": 2, "strides": [1, 2, 1]}),
    "volume, groups": ((2, 1, 4, 3, 5), {"group": 2, "dilations": [1, 2, 1]}),
}


@pytest.mark.parametrize("name, more", in_turn(LARGE, [0, 6]))
def test_gradients_of_large_filters(name, more, rng):
    w, options = LARGE[name]
    n = len(w) - 2
    holes = np.broadcast_to(options.get("dilations", 1), n)
    pads = options.get("pads", 0)
    both = np.add(pads[:n], pads[n:]) if isinstance(pads, list) else 2 * pads
    reach = np.maximum((np.array(w[2:]) - 1) * holes + 1 - both, 1) + more
    x = drawn(rng, 2, w[1] * options.get("group", 1), *reach)
    w = drawn(rng, *w)
    slots, gradients = conv_gradients(x, w, options)
    dy = drawn(rng, x.shape[0], *slots[2].shape[1:])
    found = pd.eval(gradients, dict(zip(slots, (x, w, dy), strict=True)))
    wide = [a.astype("float64") for a in (x, w, dy)]
    plain = {k: v for k, v in options.items() if k != "group"}
    geometry = naive.Geometry(x.shape[2:], w.shape[2:], **plain)
    _, dx, dw = naive.conv_form(*wide, geometry, options.get("group", 1))
    close(found[0], dx)
    close(found[1], dw)


MOST = 90  # operators that a gradient may cost
WIDTHS = [1, 2, 3, 4, 5, 7, 10, 13, 31, 65, 257, 1024, 4096]
SPACES = {1: WIDTHS, 2: [k for k in WIDTHS if k < 65], 3: [k for k in WIDTHS if k < 11]}


FORMS = itertools.product(
    SPACES,
    [{}, {"strides": 2}, {"strides": 3, "dilations": 2, "pads": 1}],
    [(1, 1), (40, 1), (16, 4)],
    [True, False],
)


@pytest.mark.parametrize("n, options, sizes, known", thinned(FORMS, 5))
def test_gradients_of_convolution_are_few_operators(n, options, sizes, known):
    """`known`: sizes are, before the program runs."""
    channels, group = sizes
    for width in SPACES[n]:
        w = np.broadcast_to(np.float32(0), (2 * group, channels // group, *[width] * n))
        size = width * options.get("dilations", 1) + 20
        x = pd.Variable([None, channels, *[size if known else None] * n])
        filters = pd.Variable(w.shape)
        y = pd.conv(x, filters, **options, group=group)
        for gradient in pd.gradients(y, [x, filters]):
            assert len(pd.subgraph(gradient)) <= MOST, (width, op_types(gradient))


POOLED = {
    "max": pd.max_pool,
    "max, all": lambda x, k, s, p: pd.max_pool(x, k, s, p, ties="all"),
    "avg": pd.avg_pool,
    "avg, with padding": lambda x, k, s, p: pd.avg_pool(x, k, s, p, include_pad=True),
    "lp": lambda x, k, s, p: pd.apply(
        "LpPool", x, kernel_shape=[k] * (x.rank - 2), strides=[s] * (x.rank - 2)
    ),
}


@pytest.mark.parametrize(
    "kind, n, portable", thinned(itertools.product(POOLED, SPACES, [False, True]), 7)
)
def test_gradients_of_pooling_are_few_operators(kind, n, portable):
    for width in SPACES[n]:
        for stride, pad in ((width, 0), (1, 0), (2, width // 2)):
            x = pd.Variable([None, 2, *[width + 20] * n])
            y = POOLED[kind](x, width, stride, pad)
            (dx,) = pd.gradients(y, [x])
            (again,) = pd.gradients(pd.reduce_sum(dx * dx), [x])
            for gradient in (dx, again) if again is not None else (dx,):
                graph = program.build([gradient], [], [x], False, {}, portable=portable)
                assert len(ancestors(graph.outputs)) <= MOST, (width, stride, pad)


def test_small_overlapping_windows_are_not_copied():
    """In the portable form, which has no Indices: nine slices, not an im2col and its sorting."""
    x = pd.Variable([None, 2, 9, 9])
    (dx,) = pd.gradients(pd.max_pool(x, 3, 2, 1), [x])
    graph = program.build([dx], [], [x], False, {}, portable=True)
    found = [node.op_type for node in ancestors(graph.outputs)]
    assert found.count("Slice") == 10 and not {"Gather", "ReduceMax", "Equal"} & set(found)


def test_filter_of_one_tap_reads_only_what_it_meets():
    _, (_, dw) = conv_gradients(np.zeros((1, 16, 8, 8)), np.zeros((4, 16, 1, 1)), {"strides": 2})
    found = op_types(dw)
    assert found.count("Slice") == 1 and found.count("MatMul") == 1
    assert not {"Conv", "Pad", "Concat"} & set(found)


def test_strided_or_large_filters_have_a_product_per_row():
    for rows, options in ((8, {"strides": [2, 1]}), (6, {})):
        _, (_, dw) = conv_gradients(np.zeros((1, 30, rows, 8)), np.zeros((2, 30, 3, 4)), options)
        assert op_types(dw).count("MatMul") == 3  # one for each row of the filter, not each tap


def test_the_input_gradient_at_a_known_size_is_a_convolution():
    _, (dx, _) = conv_gradients(np.zeros((1, 3, 8, 8)), np.zeros((2, 3, 3, 3)), {"pads": 1})
    assert op_types(dx).count("Conv") == 1 and "ConvTranspose" not in op_types(dx)


def test_gradient_in_the_image_is_one_transposed_convolution():
    _, (dx, _) = conv_gradients(np.zeros((1, 3, 8, 8)), np.zeros((2, 3, 3, 3)), {"strides": 2})
    assert op_types(dx) == ["ConvTranspose"]


# ---- pooling


def pool_gradient(function, x, options):
    image = of_batch(x)
    y = function(image, **options)
    seed = pd.Variable(y.shape)
    return image, seed, pd.gradients(y, [image], [seed])[0]


@pytest.mark.parametrize("shape, options", **named(POOLS))
@pytest.mark.parametrize("kind", ["max", "avg", "avg with padding"])
def test_gradient_of_pooling_against_numpy(shape, options, kind, rng):
    x = distinct(rng, *shape)
    if kind != "max":
        options = {**options, "include_pad": kind != "avg"}
    function = pd.max_pool if kind == "max" else pd.avg_pool
    image, seed, gradient = pool_gradient(function, x, options)
    dy = drawn(rng, shape[0], *seed.shape[1:])
    found = pd.eval(gradient, {image: x, seed: dy})
    x, dy = x.astype("float64"), dy.astype("float64")
    if kind == "max":
        wanted = naive.max_pool_grad(x, naive.max_pool(x, **options), dy, **options)
    else:
        wanted = naive.avg_pool_grad(x, dy, **options)
    close(found, wanted)


@pytest.mark.parametrize("shape, options", **named(POOLS))
@pytest.mark.parametrize("kind", ["max", "avg", "avg with padding"])
def test_gradient_of_pooling_against_torch(shape, options, kind, rng):
    torch = pytest.importorskip("torch")
    names = {"window": "kernel_size", "strides": "stride", "pads": "padding"}
    theirs = {names.get(k, k): v for k, v in options.items()}
    if kind != "max":
        options = {**options, "include_pad": kind != "avg"}
        theirs["count_include_pad"] = options["include_pad"]
    x = distinct(rng, *shape)
    image, seed, gradient = pool_gradient(pd.max_pool if kind == "max" else pd.avg_pool, x, options)
    dy = drawn(rng, shape[0], *seed.shape[1:])
    found = pd.eval(gradient, {image: x, seed: dy})
    xt = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    pool = getattr(torch.nn.functional, f"{kind[:3]}_pool{len(shape) - 2}d")
    pool(xt, **theirs).backward(torch.tensor(dy, dtype=torch.float64))
    close(found, xt.grad.numpy())


def test_windows_that_tile_need_no_scatter():
    x = np.zeros((1, 2, 6, 6))
    tiled = pool_gradient(pd.max_pool, x, {"window": 2, "strides": 2})[2]
    overlapping = pool_gradient(pd.max_pool, x, {"window": 3, "strides": 2})[2]
    assert "ScatterElements" not in op_types(tiled)
    assert "ScatterElements" in op_types(overlapping)


def test_padding_never_wins_a_maximum():
    x = np.full((1, 1, 3, 3), -1e30, "float32")
    image, seed, gradient = pool_gradient(pd.max_pool, x, {"window": 3, "strides": 2, "pads": 1})
    found = pd.eval(gradient, {image: x, seed: np.ones((1, 1, 2, 2))})
    assert found.sum() == 4 and found[..., :2, :2].min() == 1  # the first of each window


# ---- relu and the pooling behind it


def pooled_relu(x, **options):
    y = pd.max_pool(pd.relu(x), **options)
    return pd.gradients(y * y, [x])[0]


@pytest.mark.parametrize("options", [{"window": 2, "strides": 2}, {"window": 3, "strides": 2}])
def test_relu_behind_a_pooling_is_masked_where_it_is_small(options, monkeypatch):
    x = pd.Variable([None, 2, 8, 8])
    data = np.random.default_rng(0).standard_normal((3, 2, 8, 8))
    gradient = pooled_relu(x, **options)
    exchanged = pd.eval(gradient, {x: data})
    assert masked_sizes(gradient) == {(2, *naive.Geometry((8, 8), *pairs(options)).result)}
    monkeypatch.setattr(program, "ALWAYS", ())
    pd.reset()
    y = pd.Variable([None, 2, 8, 8])
    gradient = pooled_relu(y, **options)
    assert masked_sizes(gradient) == {(2, 8, 8)}
    np.testing.assert_array_equal(pd.eval(gradient, {y: data}), exchanged)
    assert np.count_nonzero(exchanged) > 20


def pairs(options):
    return [options["window"]] * 2, options["strides"]


def masked_sizes(gradient):
    """Channels and sizes of what the masks of relu are computed from."""
    return {
        n.inputs[0].shape[1:]
        for n in pd.subgraph(gradient)
        if n.op_type == "Cast" and n.outputs[0].dtype == np.bool_
    }


def test_exchange_is_of_one_image_only():
    x, other = pd.Variable([1, 1, 4, 4]), pd.Variable([1, 1, 4, 4])
    geometry = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0] * 4, "ceil_mode": 0}
    y = pd.max_pool(x, 2, 2)
    dx = ops.max_pool_grad(x, y, pd.Variable(y.shape), **geometry)
    exchange = each_node(exchange_relu_and_pool)
    (same,) = exchange([ops.relu_grad(x, dx)], Context())
    assert [n.op_type for n in ancestors([same])] == ["MaxPool", "ReluGrad", "MaxPoolGrad"]
    (kept,) = exchange([ops.relu_grad(other, dx)], Context())
    assert [n.op_type for n in ancestors([kept])] == ["MaxPool", "MaxPoolGrad", "ReluGrad"]


# ---- rows added up


ROWS = {
    "duplicates": (5, [3, 0, 3, 3, 1]),
    "counted from the end": (4, [-1, 3, -4]),
    "none": (3, []),
    "more numbers than an int32 counts": (2**31, [2**31 - 1, 5, 5]),
}


@pytest.mark.parametrize("height, index", **named(ROWS))
def test_rows_are_added_along_one_axis(height, index, rng):
    """The pass itself, since a table of the largest size cannot be stored."""
    values = drawn(rng, len(index), 3)
    rows, added = pd.Variable([None], dtype="int64"), pd.Variable([None, 3])
    table = pd.Variable([height, 3])
    column = ops.expand_like(ops.reshape(rows, [-1, 1]), added)
    y = ops.scatter_add(table, column, added)
    (z,) = each_node(add_rows)([y], Context())
    (scatter,) = (node for node in ancestors([z]) if node.op_type == "ScatterElements")
    large = height * 3 >= 2**31
    assert [v.rank for v in scatter.inputs] == [1, 1, 1]
    assert scatter.inputs[1].dtype == ("int64" if large else "int32")
    places = pd.eval(scatter.inputs[1], {rows: index, added: values})
    assert places.tolist() == [3 * k + c for k in index for c in range(3)]
    if not large:
        feeds = {rows: index, added: values, table: drawn(rng, height, 3)}
        wanted = feeds[table].copy()
        np.add.at(wanted, np.array(index, np.int64), values)
        np.testing.assert_allclose(pd.eval(z, feeds), wanted, rtol=1e-6)


def test_a_table_that_is_read_often_gets_its_rows_at_once(rng):
    table = pd.Variable(data=drawn(rng, 7, 3))
    indices = [pd.Variable(["n"], dtype="int64") for _ in range(3)]
    reads = [pd.gather(table, i) * float(k + 1) for k, i in enumerate(indices)]
    (gradient,) = pd.gradients(pd.reduce_sum(reads[0] + reads[1] + reads[2]), [table])
    graph = program.build([gradient], [], indices, True, sizes={})
    assert [n.op_type for n in ancestors(graph.fetches)].count("ScatterElements") == 1
    fed = {i: rng.integers(0, 7, 4) for i in indices}
    expected = np.zeros((7, 3))
    for k, i in enumerate(indices):
        np.add.at(expected, fed[i], k + 1.0)
    close(pd.eval(gradient, fed), expected)


def test_other_sums_stay_as_they_are(rng):
    x, values = pd.Variable([4, 3]), pd.Variable([2, 3])
    index = pd.constant([[0, 1, 2], [3, 3, 3]])
    for axis in (0, 1):
        y = ops.scatter_add(x, index, values, axis)
        assert each_node(add_rows)([y], Context()) == [y]


# ---- the contract


def test_a_table_of_rules_is_one_walk():
    """Nodes that a rule has built are not visited in the same walk."""
    table = {
        "Neg": lambda node, inputs, context: (ops.abs(inputs[0]),),
        "Abs": lambda node, inputs, context: (-inputs[0],),
        "Exp": lambda node, inputs, context: None,
    }
    x = pd.Variable([2])
    (y,) = each_node(table)([pd.exp(abs(-x))], Context())
    assert op_types(y) == ["Abs", "Neg", "Exp"]


def test_a_context_counts_reads_and_knows_sizes():
    counts = []
    x = pd.Variable(["n"])
    y = x * x
    each_node(lambda node, inputs, context: counts.append(context.uses))([y, x], Context())
    assert counts[0][x] == 3 and counts[0][y] == 1
    context = Context(sizes={"n": 7})
    assert (context.size(3), context.size("n"), context.size("m")) == (3, 7, None)
    assert context.size("m", default=1) == 1


# ---- programs as a whole


def test_what_is_packed_and_padded_again_stays_padded(rng):
    lengths, x = pd.Variable(["b"], dtype="int64"), pd.Variable(["t", 1])
    sequences = pd.Segments(lengths, "t")
    y = sequences.pad(sequences.softmax(x), fill=-1.0)
    graph = program.build([y], [], [lengths, x], False, sizes={})
    taken = [n for n in ancestors(graph.fetches) if n.op_type == "Gather" and n.inputs[0].rank > 1]
    assert len(taken) == 1  # to pad x, and no second time
    rows = rng.standard_normal((3, 1)).astype(np.float32)
    found = pd.eval(y, {lengths: np.array([2, 0, 1]), x: rows})
    first = np.exp(rows[:2]) / np.exp(rows[:2]).sum()
    expected = [first, np.full((2, 1), -1), [[1], [-1]]]
    np.testing.assert_allclose(found, np.array(expected, np.float32), rtol=1e-6)


def test_a_program_holds_operators_of_onnx_only():
    x, w = pd.Variable([None, 2, 8, 8]), pd.Variable([3, 2, 3, 3])
    y = pd.avg_pool(pd.max_pool(pd.dropout(pd.relu(pd.conv(x, w))), 2, 2), 2)
    (g,) = pd.gradients(y, [w])
    nodes = pd.subgraph(g, training=True)
    assert {node.domain for node in nodes} == {""}
    assert not {node.op_type for node in nodes} & set(LOWERINGS)


def test_lowered_nodes_keep_the_line_that_was_written():
    x = pd.Variable([1, 1, 4, 4])
    y = pd.max_pool(x, 2, 2)
    (g,) = pd.gradients(y, [x])
    sites = {node.site for node in pd.subgraph(g)}
    assert {file for file, _ in sites} == {__file__}
    assert len(sites) == 2


def test_windows_over_an_empty_batch():
    x, w = pd.Variable([None, 2, 8, 8]), pd.Variable([3, 2, 3, 3])
    pooled = pd.max_pool(pd.relu(pd.conv(x, w)), 2, 2)
    y = pd.avg_pool(pd.max_pool(pooled, 2), 2)
    dx, dw = pd.eval(pd.gradients(y, [x, w]), {x: np.zeros((0, 2, 8, 8))})
    assert dx.shape == (0, 2, 8, 8)
    np.testing.assert_array_equal(dw, np.zeros((3, 2, 3, 3)))


def test_one_program_for_batches_of_several_sizes(rng):
    x, w = drawn(rng, 5, 2, 6, 6), drawn(rng, 3, 2, 3, 3)
    slots, gradients = conv_gradients(x, w, {})
    dy = drawn(rng, 5, 3, 4, 4)
    whole = pd.eval(gradients, dict(zip(slots, (x, w, dy), strict=True)))
    parts = [
        pd.eval(gradients, dict(zip(slots, (x[part], w, dy[part]), strict=True)))
        for part in (slice(0, 2), slice(2, 5))
    ]
    close(np.concatenate([dx for dx, _ in parts]), whole[0])
    close(sum(dw for _, dw in parts), whole[1])
