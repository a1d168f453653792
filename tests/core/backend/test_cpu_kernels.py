"""What a program becomes for ONNX Runtime's own CPU kernels: blocked images, merged passes."""

from collections import Counter

import numpy as np
import pytest

import pd_core as pd
from pd_core import ops
from pd_core.backend import ort, program
from pd_core.backend.passes import CPU, blocked, blocks_of_rows
from pd_core.backend.passes.affine import channel_affine
from pd_core.backend.passes.blocked import DOMAIN, block_size_of
from pd_core.backend.passes.bytes import in_bytes
from pd_core.backend.passes.context import Context, each_node
from pd_core.backend.passes.crops import pad_of_crop
from pd_core.backend.passes.device import for_device
from pd_core.backend.passes.momentum import momentum_gemm
from pd_core.graph.node import ancestors, apply

BLOCK = 16  # a multiple of the blocks of every CPU that has them

# image, filters, options of conv, with bias and relu: enough positions to be worth it
CONVOLUTIONS = {
    "same size": ((5, BLOCK, 16, 16), (2 * BLOCK, BLOCK, 3, 3), {"pads": 1}),
    "strides": ((5, BLOCK, 30, 33), (BLOCK, BLOCK, 3, 3), {"strides": 2, "pads": 1}),
    "uneven": ((9, BLOCK, 14, 12), (BLOCK, BLOCK, 2, 4), {"pads": [0, 2, 1, 1]}),
    "dilated": ((5, 2 * BLOCK, 18, 18), (BLOCK, 2 * BLOCK, 3, 2), {"dilations": [2, 1]}),
    "one channel too many": ((5, BLOCK + 1, 16, 16), (BLOCK, BLOCK + 1, 3, 3), {"pads": 1}),
    "groups": ((5, 2 * BLOCK, 16, 16), (BLOCK, BLOCK, 3, 3), {"group": 2, "pads": 1}),
}
PLAIN = {"one channel too many", "groups"}  # what stays with the ordinary kernels


def drawn(rng, *shape):
    return rng.standard_normal(shape).astype("float32")


def network(x, w, options):
    """Slots for an image, filters and a bias; relu of the convolution and its three gradients."""
    slots = pd.Variable([None, *x[1:]]), pd.Variable(w), pd.Variable([w[0]])
    image, filters, bias = slots
    y = pd.relu(pd.conv(image, filters, bias, **options))
    return slots, [y, *pd.gradients(y * y, slots)]


def rewritten(targets, rule, **context):
    """The targets after one rule at every node."""
    return each_node(rule)(targets, Context(**context))


def tuned(targets, feeds, block=BLOCK):
    """The operators of a program for the CPU, by name, with their domains."""
    sizes = {v.dims[0]: len(a) for v, a in feeds.items() if isinstance(v.dims[0], str)}
    graph = for_device(program.build(targets, [], list(feeds), False, sizes), CPU, block)
    return [(node.domain, node.op_type) for node in ancestors(graph.outputs)]


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_blocked_convolutions_give_what_the_ordinary_ones_give(name, rng, monkeypatch):
    if not ort.block_size():
        pytest.skip("this CPU has no such kernels")
    x, w, options = CONVOLUTIONS[name]
    slots, targets = network(x, w, options)
    feeds = dict(zip(slots, (drawn(rng, *x), drawn(rng, *w), drawn(rng, w[0])), strict=True))
    assert ((DOMAIN, "Conv") in tuned(targets, feeds)) == (name not in PLAIN)
    found = pd.eval(targets, feeds)
    monkeypatch.setattr(ort, "block_size", lambda: 0)
    wanted = pd.Session("cpu").eval(targets, feeds)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * np.abs(b).max())


def test_blocked_convolution_against_torch(rng):
    torch = pytest.importorskip("torch")
    x, w, options = CONVOLUTIONS["same size"]
    slots, targets = network(x, w, options)
    arrays = drawn(rng, *x), drawn(rng, *w), drawn(rng, w[0])
    found = pd.eval(targets, dict(zip(slots, arrays, strict=True)))
    inputs = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in arrays]
    y = torch.relu(torch.nn.functional.conv2d(*inputs, padding=1))
    (y * y).sum().backward()
    for a, b in zip(found, [y.detach(), *(v.grad for v in inputs)], strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-4, atol=1e-5 * float(b.abs().max()))


def test_a_relu_that_alone_reads_a_convolution_is_part_of_it():
    x, w = pd.Variable([8, BLOCK, 16, 16]), pd.Variable([BLOCK, BLOCK, 3, 3])
    z = pd.conv(x, w)
    feeds = {x: np.zeros(x.shape), w: np.zeros(w.shape)}
    assert ("", "Relu") not in tuned([pd.relu(z)], feeds)
    assert ("", "Relu") in tuned([pd.relu(z), z], feeds)


def test_a_convolution_behind_another_reads_its_blocks():
    x = pd.Variable([8, BLOCK, 16, 16])
    w, v = (pd.Variable([BLOCK, BLOCK, 3, 3]) for _ in range(2))
    y = pd.conv(pd.relu(pd.conv(x, w, pads=1)), v, pads=1)
    found = tuned([y], {s: np.zeros(s.shape) for s in (x, w, v)})
    assert found.count((DOMAIN, "ReorderOutput")) == 1
    assert found.count((DOMAIN, "ReorderInput")) == 3  # the image and two filters


@pytest.mark.parametrize("rows, window", [(1, 3), (8, 1)])
def test_small_convolutions_keep_the_ordinary_kernels(rows, window):
    x, w = pd.Variable([None, BLOCK, 14, 14]), pd.Variable([BLOCK, BLOCK, window, window])
    found = tuned([pd.conv(x, w)], {x: np.zeros((rows, *x.shape[1:])), w: np.zeros(w.shape)})
    assert found == [("", "Conv")]


def test_without_such_kernels_nothing_is_blocked():
    x, w = pd.Variable([8, BLOCK, 16, 16]), pd.Variable([BLOCK, BLOCK, 3, 3])
    feeds = {x: np.zeros(x.shape), w: np.zeros(w.shape)}
    assert tuned([pd.conv(x, w)], feeds, block=0) == [("", "Conv")]
    assert block_size_of(np.arange(128.0)) == 0
    blocks = np.arange(128.0).reshape(4, 16, 2).transpose(0, 2, 1)
    assert block_size_of(blocks) == 16


def test_a_runtime_without_these_operators_has_no_blocks(monkeypatch):
    model, image = blocked.probe()
    unknown = model.replace(b"ReorderInput", b"RearrangeXYZ")
    monkeypatch.setattr(blocked, "probe", lambda: (unknown, image))
    assert ort.block_size.__wrapped__() == 0


def test_exported_steps_hold_operators_of_onnx_only():
    image, label = pd.Variable([8, BLOCK, 16, 16]), pd.Variable([None], dtype="int64")
    stored = [pd.Variable(data=np.ones(BLOCK, "float32"), trainable=False) for _ in range(2)]
    scale, shift = (pd.Variable(data=np.ones(BLOCK, "float32")) for _ in range(2))
    h = pd.conv2d(image, BLOCK, 3, padding=1)
    h = pd.relu(ops.batch_norm(h, scale, shift, *stored))
    cost = pd.reduce_mean(pd.softmax_cross_entropy(pd.fc(pd.flatten(h), 3), label))
    model = pd.export_step(None, pd.SGDOptimizer(0.1).minimize(cost), [cost])
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 21)]
    assert "BatchNormalization" not in {node.op_type for node in model.graph.node}


# ---- crops


CROPS = {
    "moved right": ([0, 0], [7, 4], [0, 1, 0, 0], True),
    "moved up and left": ([2, 1], [7, 5], [0, 0, 2, 1], True),
    "cut and filled at one end": ([0, 1], [7, 5], [0, 1, 0, 0], False),
}


@pytest.mark.parametrize("starts, ends, widths, merges", CROPS.values(), ids=CROPS)
def test_padding_of_a_crop_is_one_pad(starts, ends, widths, merges, rng):
    x = pd.Variable([7, 5])
    crop = apply("Slice", x, np.array(starts), np.array(ends), np.array([0, 1]))
    y = apply("Pad", crop, np.array(widths), np.float32(-1.0))
    (found,) = rewritten([y], pad_of_crop)
    assert [n.op_type for n in ancestors([found])] == (["Pad"] if merges else ["Slice", "Pad"])
    data = drawn(rng, 7, 5)
    wanted = data[starts[0] : ends[0], starts[1] : ends[1]]
    pads = list(zip(widths[:2], widths[2:], strict=True))
    wanted = np.pad(wanted, pads, constant_values=-1.0)
    np.testing.assert_array_equal(pd.eval(found, {x: data}), wanted)


def test_crops_at_places_of_the_run_stay(rng):
    x, start = pd.Variable([7]), pd.Variable([1], dtype="int64")
    crop = apply("Slice", x, start, np.array([7]), np.array([0]))
    y = apply("Pad", crop, np.array([0, 2]), np.float32(0.0))
    assert rewritten([y], pad_of_crop) == [y]
    step = apply("Slice", x, np.array([0]), np.array([7]), np.array([0]), np.array([2]))
    z = apply("Pad", step, np.array([0, 2]), np.float32(0.0))
    assert rewritten([z], pad_of_crop) == [z]


# ---- a number per channel


def test_product_and_sum_per_channel_are_one_pass(rng):
    x, a, b = pd.Variable([None, 3, 4, 5]), pd.Variable([3, 1, 1]), pd.Variable([1, 3, 1, 1])
    arrays = drawn(rng, 2, 3, 4, 5), drawn(rng, 3, 1, 1), drawn(rng, 1, 3, 1, 1)
    for y in (x * a + b, b + a * x):
        (found,) = rewritten([y], channel_affine)
        assert "BatchNormalization" in {n.op_type for n in ancestors([found])}
        value = pd.eval(found, dict(zip((x, a, b), arrays, strict=True)))
        np.testing.assert_allclose(value, arrays[0] * arrays[1] + arrays[2], rtol=1e-5, atol=1e-6)


def test_other_sums_of_products_stay():
    x, column = pd.Variable([None, 3, 4, 4]), pd.Variable([3, 1, 1])
    row, flat = pd.Variable([1, 1, 1, 4]), pd.Variable([None, 3])
    product = x * column
    for y in (x * row + column, product + row, x * x + column, flat * flat + flat):
        assert rewritten([y], channel_affine) == [y]
    y = product + column
    assert rewritten([y, product], channel_affine) == [y, product]


# ---- momentum


class Momentum:
    """v * 0.75 - g * rate for v, w [7, 3], where g is x'd for x [5, 7] and d [5, 3], and perhaps
    more: a function of that and w, which takes arrays too."""

    def __init__(self, more, rng):
        shapes = [(5, 7), (5, 3), (7, 3), (7, 3)]
        x, d, w, v = self.slots = [pd.Variable(list(s)) for s in shapes]
        self.rate = pd.Variable([])
        self.product = pd.transpose(x, [1, 0]) @ d
        self.new = v * 0.75 - more(self.product, w) * self.rate
        self.arrays = [drawn(rng, *s) for s in shapes]
        x, d, w, v = self.arrays
        self.wanted = 0.75 * v - 0.5 * more(x.T @ d, w)

    def tuned(self, targets=(), sizes=()):
        return rewritten([self.new, *targets], momentum_gemm, sizes=dict(sizes))

    def value(self, target):
        pairs = zip([*self.slots, self.rate], [*self.arrays, np.float32(0.5)], strict=True)
        return pd.eval(target, dict(pairs))


def kinds(*targets):
    return Counter(node.op_type for node in ancestors(targets))


GRADIENTS = {
    "a product": (lambda g, w: g, 0),
    "and decay": (lambda g, w: g + w * 0.25, 1),
    "decay first": (lambda g, w: 0.25 * w + g, 1),
    "and something": (lambda g, w: g + w * w, 1),
}


@pytest.mark.parametrize("more, passes", GRADIENTS.values(), ids=GRADIENTS)
def test_momentum_of_a_product_is_one_gemm(more, passes, rng):
    step = Momentum(more, rng)
    (found,) = step.tuned()
    count = kinds(found)
    assert (count["Gemm"], count["Sub"], count["Add"]) == (1, passes, 0)
    np.testing.assert_allclose(step.value(found), step.wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(step.value(step.new), step.wanted, rtol=1e-5, atol=1e-5)


def test_momentum_stays_where_a_gemm_is_no_gain(rng):
    plain = Momentum(lambda g, w: g, rng)
    assert plain.tuned(targets=[plain.product])[0] is plain.new  # the product is needed itself
    other = Momentum(lambda g, w: g * w, rng)
    assert other.tuned()[0] is other.new
    x, d, v = pd.Variable([None, 7]), pd.Variable([None, 3]), pd.Variable([7, 3])
    new = v * 0.75 - (pd.transpose(x, [1, 0]) @ d) * pd.Variable([])
    for rows, gains in ((7, True), (8, False), (None, False)):
        sizes = {} if rows is None else {x.dims[0]: rows, d.dims[0]: rows}
        (found,) = rewritten([new], momentum_gemm, sizes=sizes)
        assert (kinds(found)["Gemm"] == 1) is gains


@pytest.mark.parametrize("momentum", [0.9, 0.0, None])
def test_a_training_has_that_form(momentum):
    x, label = pd.Variable([None, 8]), pd.Variable([None, 1], dtype="int64")
    cost = pd.reduce_mean(pd.softmax_cross_entropy(pd.fc(x, size=4), label))
    optimizer = pd.SGDOptimizer(0.1) if momentum is None else pd.MomentumOptimizer(0.1, momentum)
    step = optimizer.minimize(cost)
    feeds = {x: np.zeros((6, 8), "float32"), label: np.zeros((6, 1), "int64")}
    changes = [a.value for a in step.assignments]
    assert ("", "Gemm") in tuned(changes, feeds)


# ---- batch normalisation


@pytest.mark.parametrize("shape", [(64, 3), (8, 3, 6, 5), (4, 16, 7)])
def test_batch_norm_of_values_far_from_zero_against_torch(shape, rng):
    torch = pytest.importorskip("torch")
    channels = shape[1]
    x, weight = 30.0 + drawn(rng, *shape), drawn(rng, *shape)
    scale, shift = 1.0 + 0.1 * drawn(rng, channels), drawn(rng, channels)
    slots = pd.Variable([None, *shape[1:]]), pd.Variable([channels]), pd.Variable([channels])
    stored = [pd.Variable(data=np.zeros(channels, "float32"), trainable=False) for _ in range(2)]
    y = ops.batch_norm(*slots, *stored)
    gradients = pd.gradients(pd.reduce_sum(y * y * weight), slots)
    feeds = dict(zip(slots, (x, scale, shift), strict=True))
    with pd.fresh():
        found = pd.eval([y, *gradients], feeds, training=True)
    inputs = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (x, scale, shift)]
    image, gain, offset = inputs
    z = torch.nn.functional.batch_norm(image, None, None, gain, offset, training=True)
    (z * z * torch.tensor(weight)).sum().backward()
    for a, b in zip(found, [z.detach(), *(v.grad for v in inputs)], strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-3, atol=3e-4 * float(b.abs().max()))


# ---- small whole numbers as bytes


def test_the_ranks_of_a_pooling_are_bytes(rng):
    for window, kind in ((2, np.uint8), (17, np.float32)):
        x = pd.Variable([None, 2, 34, 34])
        (dx,) = pd.gradients(pd.max_pool(x, window, window), [x])
        graph = for_device(program.build([dx], [], [x], False, {}), CPU)
        compared = [n for n in ancestors(graph.outputs) if n.op_type == "Equal"]
        assert [n.inputs[0].dtype for n in compared] == [kind]


@pytest.mark.parametrize(("factor", "more", "as_bytes"), [(200, 55, 2), (200, 56, 1), (0.5, 1, 0)])
def test_sums_of_bytes_do_not_overflow(factor, more, as_bytes, rng):
    x = pd.Variable([3])
    y = ops.cast(ops.greater_than(x, 0.0), "float32") * float(factor) + float(more)
    (made,) = rewritten([y], in_bytes)
    found = [n.op_type for n in ancestors([made]) if n.outputs[0].dtype == np.uint8]
    assert len([op_type for op_type in found if op_type != "Cast"]) == as_bytes
    np.testing.assert_array_equal(
        pd.eval(made, {x: [-1, 1, 2]}), [more, factor + more, factor + more]
    )


# the height of a table, the rows that are read, whether they are added by blocks
LOOKUPS = {
    "often and rarely": (7, [5] * 70 + [0] * 33 + [6, 2, 2] + [5] * 40, True),
    "from the end": (40, [-1, 3, 39, -40, 3, 0] * 9, True),
    "a block": (40, list(range(32)), True),
    "a row": (5, [3], True),
    "few numbers": (5, [3, 1, 3], False),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("height, rows, in_blocks", LOOKUPS.values(), ids=LOOKUPS)
def test_table_gradients_by_blocks(height, rows, in_blocks, dtype, rng, monkeypatch):
    monkeypatch.setattr(blocks_of_rows, "_FEWEST", 1 if in_blocks else 100)
    index, weight = pd.Variable(["n"], dtype="int64"), pd.Variable(["n", 3], dtype=dtype)
    table = pd.Variable([height, 3], dtype=dtype)
    cost = pd.reduce_sum(pd.square(pd.gather(table, index)) * weight)
    (first,) = pd.gradients(cost, [table])
    (second,) = pd.gradients(pd.reduce_sum(first * first), [table])
    feeds = {index: np.array(rows), weight: rng.standard_normal((len(rows), 3)).astype(dtype)}
    feeds[table] = rng.standard_normal((height, 3)).astype(dtype)
    sums = np.zeros((height, 3))
    np.add.at(sums, feeds[index], feeds[weight])
    got = pd.eval([first, second], feeds)
    np.testing.assert_allclose(got[0], 2 * sums * feeds[table], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got[1], 8 * sums**2 * feeds[table], rtol=1e-5, atol=1e-4)
    kinds = [kind for _, kind in tuned([first], feeds)]
    assert kinds.count("TopK") == in_blocks
    for empty in (index, weight):
        feeds[empty] = feeds[empty][:0]
    assert not pd.eval(first, feeds).any()


def test_other_tables_are_added_to_as_before(rng, monkeypatch):
    """A table that is not of zeros, one of integers, and one of unknown height."""
    monkeypatch.setattr(blocks_of_rows, "_FEWEST", 1)
    index = pd.Variable(["n"], dtype="int64")
    for height, dtype, zeros in ((9, "float32", False), (9, "int64", True), ("v", "float32", True)):
        table, rows = pd.Variable([height, 2], dtype=dtype), pd.Variable(["n", 2], dtype=dtype)
        column = ops.expand_like(ops.reshape(index, [-1, 1]), rows)
        y = ops.scatter_add(ops.zeros_like(table) if zeros else table, column, rows)
        feeds = {index: np.array([4, 4, 1]), rows: rng.integers(0, 9, (3, 2)).astype(dtype)}
        feeds[table] = np.ones((9, 2), dtype)
        assert "TopK" not in [kind for _, kind in tuned([y], feeds)]
        wanted = feeds[table] * (not zeros)
        np.add.at(wanted, feeds[index], feeds[rows])
        np.testing.assert_array_equal(pd.eval(y, feeds), wanted)
