"""Shapes: what is announced, what is refused with which words, and what is checked on feeds."""

import numpy as np
import pytest

import pd_core as pd
from pd_core import ops
from pd_core.graph.checks import checks
from pd_core.graph.inference import refinements, sized_results


def f32(*shape):
    return pd.Variable(list(shape))


def f64(*shape):
    return pd.Variable(list(shape), dtype="float64")


def i64(*shape):
    return pd.Variable(list(shape), dtype="int64")


# ---- refusals: (mistake, the error, its first words)

SHAPE, DTYPE, GRAPH = pd.ShapeError, pd.DTypeError, pd.GraphError
MATHS = [
    (lambda: f32(2, 3) + f32(4), SHAPE, r"add: sizes \[2, 3\] and \[4\] do not broadcast"),
    (lambda: f32(None, 3) * f32(4), SHAPE, r"mul: sizes \[\?, 3\] and \[4\] do not broadcast"),
    (lambda: pd.maximum(f32(2), f32(3)), SHAPE, r"maximum: sizes \[2\] and \[3\] do not"),
    (lambda: f32(2) + f64(2), DTYPE, "add: element types differ, float32 and float64"),
    (lambda: f32(2) < i64(2), DTYPE, "less_than: element types differ, float32 and int64"),
    (
        lambda: pd.where(f32(2) > 0, f32(2), i64(2)),
        DTYPE,
        "where: element types differ, float32 and int64",
    ),
    (lambda: pd.where(f32(2), f32(2), f32(2)), DTYPE, "where: condition cannot be float32"),
    (lambda: pd.tanh(i64(3)), DTYPE, "tanh: input cannot be int64"),
    (lambda: pd.logical_and(f32(3), f32(3)), DTYPE, "logical_and: A cannot be float32"),
    (lambda: pd.logical_not(f32(3)), DTYPE, "logical_not: X cannot be float32"),
    (lambda: pd.clip(f32(3), f32(3)), SHAPE, r"clip: a bound is a scalar, not float32\[3\]"),
    (lambda: pd.cast(f32(3), "complex64"), DTYPE, "cast: output cannot be complex64"),
    (lambda: pd.cast(f32(3), "nonsense"), DTYPE, "cast: ONNX has no element type for nonsense"),
    (lambda: pd.tanh("x"), DTYPE, "tanh: takes Variables, numbers and arrays, not the string"),
]
MATRICES = [
    (lambda: pd.matmul(f32(2, 3), f32(4, 5)), SHAPE, "matmul: inner sizes differ, 3 against 4"),
    (lambda: f32(2, 3) @ f32(4), SHAPE, "matmul: inner sizes differ, 3 against 4"),
    (lambda: pd.matmul(f32(4), f32(2, 3, 5)), SHAPE, "matmul: inner sizes differ, 4 against 3"),
    (lambda: pd.matmul(f32(2, 3), f32()), SHAPE, "matmul: an operand is a scalar"),
    (
        lambda: pd.matmul(f32(2, 2, 3), f32(3, 3, 4)),
        SHAPE,
        r"matmul: leading sizes \[2\] and \[3\] do not broadcast",
    ),
    (lambda: pd.transpose(f32(2, 3), [0]), SHAPE, r"transpose: \[0\] is no permutation of 2 axes"),
    (lambda: pd.transpose(f32(2, 3), [1, 1]), SHAPE, r"transpose: \[1, 1\] is no permutation of 2"),
    (
        lambda: pd.matrix_transpose(f32(3)),
        SHAPE,
        r"matrix_transpose: var-0: float32\[3\] has no two",
    ),
]
CONVOLUTION = [
    (
        lambda: pd.conv(f32(1, 4, 5, 5), f32(2, 3, 3, 3)),
        SHAPE,
        "conv: the image has 4 channels, the filters take 3",
    ),
    (
        lambda: pd.conv(f32(1, 4, 5, 5), f32(2, 3, 3)),
        SHAPE,
        "conv: an image of rank 4 and filters of rank 3",
    ),
    (lambda: pd.conv(f32(3, 5), f32(2, 3)), SHAPE, "conv: an image of rank 2 and filters of"),
    (
        lambda: pd.conv(f32(1, 4, 5), f32(3, 2, 3), group=2),
        SHAPE,
        "conv: 3 filters do not split into 2 groups",
    ),
    (
        lambda: pd.conv(f32(1, 3, 5), f32(2, 3, 3), f32(4)),
        SHAPE,
        r"conv: a bias of \[4\] for 2 filters",
    ),
    (
        lambda: pd.conv(f32(1, 3, 5), f32(2, 3, 3), dilations=4, pads=1),
        SHAPE,
        "conv: the window is 9 wide on axis 2, the padded input 7",
    ),
    (
        lambda: pd.conv(f32(1, 3, 5, 5), f32(2, 3, 3, 3), strides=[1, 2, 3]),
        SHAPE,
        r"conv: 3 numbers \[1, 2, 3\] for 2 spatial axes",
    ),
    (
        lambda: pd.conv(f32(1, 3, 5), f32(2, 3, 3), pads=1.5),
        DTYPE,
        "conv: cannot take float64 values where int64 is needed, 1.5",
    ),
    (
        lambda: pd.conv(f32(1, 3, 5), f64(2, 3, 3)),
        DTYPE,
        "conv: W is float64, other inputs are not",
    ),
    (
        lambda: pd.conv_transpose(f32(1, 4, 5), f32(3, 2, 3)),
        SHAPE,
        "conv_transpose: the image has 4 channels, the filters take 3",
    ),
    (
        lambda: pd.conv_transpose(f32(1, 4, 5, 5), f32(4, 2, 3)),
        SHAPE,
        "conv_transpose: an image of rank 4 and filters of rank 3",
    ),
    (
        lambda: pd.conv_transpose(f32(1, 4, 5), f32(4, 2, 3), f32(2), group=2),
        SHAPE,
        r"conv_transpose: a bias of \[2\] for 4 filters",
    ),
    (
        lambda: pd.conv_transpose(f32(1, 4, 5), f32(4, 2, 3), strides=2, output_padding=2),
        SHAPE,
        "conv_transpose: an output padding of 2 is not below the stride, 2, or the dilation",
    ),
    (
        lambda: pd.conv_transpose(f32(1, 4, 5, 2), f32(4, 2, 1, 3), pads=2),
        SHAPE,
        "conv_transpose: the result is 4 wide on axis 3, 4 are cut",
    ),
]
POOLING = [
    (
        lambda: pd.max_pool(f32(1, 3, 5, 5), 7),
        SHAPE,
        "max_pool: the window is 7 wide on axis 2, the padded input 5",
    ),
    (
        lambda: pd.avg_pool(f32(1, 3, 5, 5), [2, 2, 2]),
        SHAPE,
        r"avg_pool: 3 numbers \[2, 2, 2\] for 2 spatial axes",
    ),
    (
        lambda: pd.avg_pool(f32(1, 3, 5), 2, pads=[0, 2]),
        SHAPE,
        "avg_pool: a padding of 2 on axis 2 is not below the window, 2",
    ),
    (
        lambda: pd.apply("MaxPool", f32(1, 3, 5), kernel_shape=[2, 2]),
        SHAPE,
        "apply: a window of 2 axes on an input of rank 3",
    ),
    (lambda: pd.max_pool(f32(3, 5), 2), SHAPE, "max_pool: Input tensor must have at least 3"),
    (lambda: pd.max_pool(f32(1, 3, 5), 2, 0, ceil_mode=True), SHAPE, "max_pool: .*positive"),
    (
        lambda: pd.pool2d(f32(1, 3, 5, 5), pool_type="median"),
        SHAPE,
        r"pool2d: pool_type is one of \['avg', 'max'\], not 'median'",
    ),
]
MOVING = [
    (lambda: pd.concat([]), SHAPE, "concat: there is nothing to join"),
    (lambda: pd.concat([f32(2, 3), f32(2)]), SHAPE, "concat: ranks differ, 2 against 1"),
    (
        lambda: pd.concat([f32(2, 3), f32(3, 4)], axis=1),
        SHAPE,
        "concat: sizes of axis 0 differ, 2 against 3",
    ),
    (
        lambda: pd.concat([f32(None, 3), f32(3, 4)], axis=-2),
        SHAPE,
        "concat: sizes of axis 1 differ, 3 against 4",
    ),
    (lambda: pd.concat([f32(2, 3), f32(2, 3)], 2), SHAPE, "concat: axis 2 of .*, which has 2 axes"),
    (lambda: pd.concat([f32(2), i64(2)]), DTYPE, "concat: inputs is int64, other inputs are not"),
    (lambda: pd.reshape(f32(2, 3), [4, 2]), SHAPE, r"reshape: 6 elements do not fill \[4, 2\]"),
    (lambda: pd.reshape(f32(2, 3), [4, -1]), SHAPE, r"reshape: 6 elements do not fill \[4, -1\]"),
    (lambda: pd.reshape(f32(2, 3), [2, 3, 0]), SHAPE, "reshape: 6 elements do not fill"),
    (lambda: pd.reshape(f32(None, 4), [2, 3]), SHAPE, r"reshape: no multiple of 4 .* \[2, 3\]"),
    (lambda: pd.reshape(f32(None, 0), [2]), SHAPE, r"reshape: no multiple of 0 .* \[2\]"),
    (lambda: pd.reshape(f32(2, 3), [-1, -1]), SHAPE, "reshape: .* multiple -1 dimensions"),
    (lambda: pd.reshape(f32(2, 3), [1.5, -1]), DTYPE, "reshape: cannot take float64 values"),
    (lambda: pd.reshape(f32(2, 3), [None, 3]), DTYPE, "reshape: cannot take None"),
    (lambda: pd.reshape_like(f32(6), f32(4, 2)), SHAPE, "reshape_like: 6 elements do not fill"),
    (
        lambda: pd.expand(f32(2, 3), [4, 3]),
        SHAPE,
        r"expand: sizes \[2, 3\] do not broadcast to \[4, 3\]",
    ),
    (lambda: pd.squeeze(f32(2, 3), 0), SHAPE, "squeeze: Dimension of input 0 must be 1"),
    (lambda: pd.unsqueeze(f32(2, 3), 7), SHAPE, "unsqueeze: Unexpected axis value: 7"),
    (lambda: pd.split(f32(5, 3), [2, 2]), SHAPE, r"split: Mismatch between the sum .*\(4\)"),
    (lambda: pd.slice(f32(5), [0], [1, 2], [0]), SHAPE, "slice: Incorrect or missing input"),
    (lambda: pd.slice(f32(5), [0], [1], [1]), SHAPE, "slice: Unexpected axis value: 1"),
    (lambda: pd.slice(f32(5), [0], [1], [0], [0]), SHAPE, "slice: 'step' cannot be 0"),
    (lambda: pd.pad(f32(5, 3), [1], [1]), SHAPE, "pad: Pads has incorrect number of values"),
    (
        lambda: pd.pad(f32(5), [-4], [-2]),
        SHAPE,
        r"pad: 4 and 2 elements of axis 0 of .* are cut",
    ),
    (lambda: pd.flatten(f32(2, 3), 5), SHAPE, r"flatten: Invalid value\(5\)"),
    (lambda: pd.size_of(f32(2, 3), 2), SHAPE, "size_of: axis 2 of var-0: .*, which has 2 axes"),
    (lambda: pd.arange(f32()), DTYPE, r"arange: the limit is an integer, not float32\[\]"),
    (lambda: pd.arange(i64(2)), SHAPE, r"arange: the limit is one number, not int64\[2\]"),
]
INDICES = [
    (lambda: pd.gather(f32(2, 3), f32(2)), DTYPE, "gather: an index is an integer, not float32"),
    (lambda: pd.gather(f32(2, 3), i64(2), 2), SHAPE, "gather: axis must be in"),
    (
        lambda: pd.gather_elements(f32(2, 3), i64(2)),
        SHAPE,
        "gather_elements: an index of rank 1 for rank 2",
    ),
    (
        lambda: pd.gather_elements(f32(2, 3), i64(3, 3), 1),
        SHAPE,
        "gather_elements: the index has 3 entries on axis 0, the input 2",
    ),
    (
        lambda: pd.gather_elements(f32(2, 3), i64(2, 3), -3),
        SHAPE,
        "gather_elements: axis -3 of var-0: .*, which has 2 axes",
    ),
    (lambda: pd.gather_elements(f32(2), f32(2)), DTYPE, "gather_elements: an index is an integer"),
    (
        lambda: pd.scatter_add(f32(2, 3), i64(2, 3), f32(2, 2)),
        SHAPE,
        r"scatter_add: values of \[2, 2\] for an index of \[2, 3\]",
    ),
    (lambda: pd.scatter_add(f32(2), i64(2), f64(2)), DTYPE, "scatter_add: updates is float64"),
    (lambda: pd.one_hot(f32(3), 4), DTYPE, r"one_hot: an index is an integer, not float32\[3\]"),
]
REDUCING = [
    (lambda: pd.reduce_sum(f32(2, 3), 2), SHAPE, "reduce_sum: axis 2 of .*, which has 2 axes"),
    (lambda: pd.reduce_max(f32(2, 3), [0, -3]), SHAPE, "reduce_max: axis -3 of .*, which has 2"),
    (lambda: pd.cum_sum(f32(2, 3), 4), SHAPE, "cum_sum: axis 4 of .*, which has 2 axes"),
    (lambda: pd.arg_max(f32(2, 3), 4), SHAPE, "arg_max: 'axis' must be in"),
    (lambda: ops.softmax(f32(2, 3), 4), SHAPE, "softmax: 'axis' must be in"),
    (lambda: pd.layer_norm(f32(2, 3), axis=5), SHAPE, "layer_norm: axis 5 of .*, which has 2"),
    (
        lambda: pd.batch_norm(f32(2, 3), f32(3), f32(3), f32(2), f32(3)),
        SHAPE,
        r"batch_norm: var-3: float32\[2\] for 3 channels",
    ),
    (
        lambda: pd.batch_norm(f32(2, None), f32(3), f32(3), f32(3), f32(3)),
        SHAPE,
        r"batch_norm: takes \[N, C, ...\] with known C, not var-0: float32\[2, \?\]",
    ),
    (
        lambda: pd.batch_norm(f32(2, 3), f32(3), f32(3), f32(3) * 1.0, f32(3)),
        GRAPH,
        r"batch_norm: .*mul_0: float32\[3\] keeps no value",
    ),
    (
        lambda: pd.local_response_norm(f32(2, 3), 5),
        SHAPE,
        r"local_response_norm: takes \[N, C, ...\] of known sizes and a window, not .*, 5",
    ),
    (lambda: pd.local_response_norm(f32(2, 3, None), 5), SHAPE, "local_response_norm: takes"),
    (lambda: pd.local_response_norm(f32(2, 3, 4), 0), SHAPE, "local_response_norm: takes .*, 0"),
]
RESIZING = [
    (
        lambda: pd.interpolate(f32(1, 2, 3, 3), [4, 0]),
        SHAPE,
        r"interpolate: a size is a positive integer, not \[4, 0\] for var-0: float32",
    ),
    (lambda: pd.interpolate(f32(2, 3), 4), SHAPE, r"interpolate: .* not \[\] for var-0"),
    (
        lambda: pd.roi_max_pool(f32(1, 2, 3, None), f32(4, 5), 2),
        SHAPE,
        r"roi_max_pool: takes images of known sizes, not float32\[1, 2, 3, \?\] for \[2, 2\]",
    ),
    (lambda: pd.roi_max_pool(f32(1, 2, 3), f32(4, 5), 2), SHAPE, "roi_max_pool: takes images"),
    (
        lambda: pd.roi_max_pool(f32(1, 2, 3, 3), f32(4, 5), 0),
        SHAPE,
        r"roi_max_pool: .* for \[0, 0\]",
    ),
    (
        lambda: pd.roi_max_pool(f32(1, 2, 3, 3), f32(4, 4), 2),
        SHAPE,
        r"roi_max_pool: a region is 5 numbers or more, not float32\[4, 4\]",
    ),
]
COSTS = [
    (
        lambda: pd.cross_entropy(f32(3, 4), f32(3)),
        DTYPE,
        r"cross_entropy: labels are integers, not float32\[3\]",
    ),
    (
        lambda: pd.cross_entropy(f32(3, 4), i64(3, 4)),
        SHAPE,
        r"cross_entropy: takes labels of the shape of float32\[3, 4\] without its axis 1, or of",
    ),
    (
        lambda: pd.softmax_cross_entropy(f32(3, 4), i64(5, 1)),
        SHAPE,
        "softmax_cross_entropy: 3 rows, but 5 labels",
    ),
    (
        lambda: pd.classification_error(f32(3, 4), i64(5)),
        SHAPE,
        "classification_error: 3 rows, but 5 labels",
    ),
    (lambda: pd.depth_to_space(f32(2, 3, 4, 4), 2), SHAPE, "depth_to_space: axis 1 of .* of 4"),
    (lambda: pd.space_to_depth(f32(2, 3, 4, 5), 2), SHAPE, "space_to_depth: axis 3 of .* of 2"),
    (lambda: pd.square_error(f32(3, 4), f32(3, 2)), SHAPE, r"square_error: sizes \[3, 4\] and"),
]
MODES = [
    (
        lambda: pd.mode_switch(f32(3), f32(4)),
        SHAPE,
        r"mode_switch: var-0: float32\[3\] in training, but var-1: float32\[4\] in inference",
    ),
    (lambda: pd.mode_switch(f32(3), f32(3, 1)), SHAPE, "mode_switch: .* in training, but"),
    (lambda: pd.mode_switch(f32(3), i64(3)), SHAPE, "mode_switch: .* in training, but"),
    (lambda: pd.dropout(f32(3), 1.0), ValueError, r"dropout: the rate is within \[0, 1\), not 1"),
    (
        lambda: pd.bernoulli(f32(3), 2.0),
        ValueError,
        r"bernoulli: a probability is within \[0, 1\], not 2.0",
    ),
    (
        lambda: pd.uniform_random([2, -1]),
        SHAPE,
        r"uniform_random: a size is not negative, \[2, -1\]",
    ),
]
ANY = [
    (lambda: pd.apply("Tangle", f32(3)), GRAPH, "apply: ONNX has no operator 'Tangle' in opset"),
    (lambda: pd.apply("Tanh", f32(3), f32(3)), GRAPH, "apply: .* has input size 2 not in range"),
    (lambda: pd.apply("Relu", f32(3), limit=6), GRAPH, "apply: Unrecognized attribute: limit"),
    (
        lambda: pd.apply("Reshape", f32(3), pd.cast(f32(2), "int64"), known=None, outputs=2),
        GRAPH,
        "apply: .*output size 2",
    ),
]


def recurrent(op_type, gates, hidden_size):
    """An operator whose recurrent weights are of 5 units."""
    weights = f32(1, gates * 5, 3), f32(1, gates * 5, 5)
    return pd.apply(op_type, f32(4, 2, 3), *weights, outputs=2, hidden_size=hidden_size)


RECURRENT = [
    *(
        (
            lambda o=o, g=g: recurrent(o, g, 4),
            SHAPE,
            rf"apply: hidden_size is 4, .* of 5 units\n  node   {o},",
        )
        for o, g in {"LSTM": 4, "GRU": 3, "RNN": 1}.items()
    ),
    (
        lambda: pd.apply("TopK", f32(3), [-1], outputs=2),
        SHAPE,
        r"apply: a size is not negative, \[-1\]",
    ),
]
REFUSED = [
    *(*MATHS, *MATRICES, *CONVOLUTION, *POOLING, *MOVING),
    *(*INDICES, *REDUCING, *RESIZING, *COSTS, *MODES, *ANY, *RECURRENT),
]


@pytest.mark.parametrize("mistake, kind, words", REFUSED, ids=[words for *_, words in REFUSED])
def test_refusal(mistake, kind, words):
    with pytest.raises(kind, match=f"^{words}") as error:
        mistake()
    assert type(error.value) is kind


def test_every_check_was_seen_to_refuse():
    """An operator in `checks` is the subject of a row above."""
    nodes = set()
    for mistake, kind, _ in REFUSED:
        with pytest.raises(kind) as error:
            mistake()
        nodes.update(line.split()[1].strip(",") for line in str(error.value).splitlines()[1:2])
    exempt = {"LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "And", "Or", "Xor"}
    exempt |= {"Sub", "Div", "Pow", "Mod", "Min", "PRelu"}  # share their check with Add
    assert set(checks) - exempt - nodes == set()


# ---- what is announced


def test_unknown_sizes_pass_through():
    x = f32(None, 784)
    assert pd.matmul(x, f32(784, 10)).shape == (None, 10)
    assert pd.reshape(x, [-1, 1, 28, 28]).dims[0] == x.dims[0]
    assert pd.reshape(x, [-1, 392]).dims[0] != x.dims[0]
    assert (x + f32(784)).dims == x.dims
    assert (x * f32(1, 784)).dims == x.dims
    assert (x + f32(None, 1)).dims == x.dims
    assert pd.concat([x, f32(None, 784)]).shape == (None, 784)
    assert pd.concat([x, x], axis=1).dims == (x.dims[0], 1568)
    assert pd.reduce_mean(x, 1).dims == (x.dims[0],)
    assert pd.transpose(x).dims == (784, x.dims[0])


def test_a_known_size_says_what_an_unknown_one_is():
    assert (f32(None, 3) + f32(5, 3)).shape == (5, 3)
    assert (f32(None, 3) + f32(1, 3)).shape == (None, 3)


def test_sizes_that_nobody_knows_are_different_names():
    x, n = f32(6), i64(2)
    a, b = pd.reshape(x, n), pd.reshape(x, n)
    assert a.shape == (None, None)
    assert len({*a.dims, *b.dims}) == 4


def test_shape_vectors_of_known_length_keep_the_rank():
    x = f32(None, 3)
    like = pd.shape_of(f32(None, 4, 3))
    assert pd.apply("Expand", x, like).rank == 3
    assert "Add" in refinements and {"Expand", "Reshape"} <= set(sized_results)


def test_arrays_and_numbers_are_taken_for_variables():
    assert pd.zeros_like(np.ones((2, 3), "float32")).shape == (2, 3)
    assert pd.ones_like(3.0).shape == ()
    assert pd.size_of(np.ones((2, 3)), 1).eval() == [3]
    assert pd.matrix_transpose([[1, 2, 3]]).shape == (3, 1)
    assert pd.concat([[1.0, 2.0], f32(3)]).shape == (5,)
    assert pd.clip([1.0, 5.0], 0, 2).eval().tolist() == [1.0, 2.0]
    assert pd.cross_entropy([[0.5, 0.5]], [0]).shape == (1, 1)
    assert pd.binary_cross_entropy([0.5], [1.0]).shape == (1,)
    assert pd.expand_like(1.0, [[1, 2], [3, 4]]).shape == (2, 2)


# ---- what only the feeds can show


def disagreeing(targets, feeds, words):
    with pytest.raises(pd.ShapeError, match=words):
        pd.eval(targets, feeds)


def test_feeds_whose_sizes_meet_are_equal():
    a, b = pd.Variable("a", shape=[None, 3]), pd.Variable("b", shape=[None, 3])
    y = a * b
    both = r"from the feeds a: float32\[\?, 3\] and b: float32\[\?, 3\]"
    disagreeing(y, {a: np.ones((2, 3)), b: np.ones((4, 3))}, f"sizes 2 and 4 must be equal, {both}")
    disagreeing(y, {a: np.ones((1, 3)), b: np.ones((4, 3))}, f"sizes 1 and 4 must be equal, {both}")
    assert pd.eval(y, {a: np.ones((4, 3)), b: np.ones((4, 3))}).shape == (4, 3)


def test_a_feed_that_meets_a_known_size():
    a, w = pd.Variable("a", shape=[None, 3]), f32(4, 3)
    disagreeing(a + w, {a: np.ones((1, 3))}, r"sizes 1 and 4 must be equal, from the feeds a:")


def test_feeds_of_one_named_size():
    a, b = pd.Variable("a", shape=["N", 3]), pd.Variable("b", shape=["N"])
    y = pd.reduce_sum(a) + pd.reduce_sum(b)
    words = r"feeds disagree: a: float32\[\?, 3\] has 2, b: float32\[\?\] has 5"
    disagreeing(y, {a: np.ones((2, 3)), b: np.ones(5)}, words)


def test_stacks_of_matrices_meet():
    a, b = pd.Variable("a", shape=[None, 2, 3]), pd.Variable("b", shape=[None, 3, 2])
    feeds = {a: np.ones((1, 2, 3)), b: np.ones((4, 3, 2))}
    disagreeing(pd.matmul(a, b), feeds, "sizes 1 and 4 must be equal, from the feeds a: .* and b: ")
    c, d = pd.Variable("c", shape=[2, None]), pd.Variable("d", shape=[None, 2])
    feeds = {c: np.ones((2, 3)), d: np.ones((4, 2))}
    disagreeing(c @ d, feeds, "sizes 3 and 4 must be equal, from the feeds c: .* and d: ")


def test_rows_and_labels_meet():
    x, label = pd.Variable("x", shape=[None, 4]), pd.Variable("y", shape=[None], dtype="int64")
    feeds = {x: np.ones((5, 4)), label: np.zeros(3, int)}
    cost = pd.softmax_cross_entropy(x, label)
    disagreeing(cost, feeds, "sizes 5 and 3 must be equal, from the feeds x: .* and y: ")


def test_added_rows_and_their_index_meet():
    x = pd.Variable(data=np.zeros((9, 2)))
    index, rows = (
        pd.Variable("k", shape=[None, 2], dtype="int64"),
        pd.Variable("r", shape=[None, 2]),
    )
    feeds = {index: np.zeros((3, 2), int), rows: np.ones((2, 2))}
    words = "sizes 3 and 2 must be equal, from the feeds k: .* and r: "
    disagreeing(pd.scatter_add(x, index, rows), feeds, words)
    feeds[rows] = np.ones((3, 2))
    assert pd.eval(pd.scatter_add(x, index, rows), feeds)[0].tolist() == [3.0, 3.0]


def test_what_is_stretched_to_another_size_has_it_already():
    a, b = pd.Variable("a", shape=[None, 3]), pd.Variable("b", shape=[None, 3])
    feeds = {a: np.ones((1, 3)), b: np.ones((4, 3))}
    disagreeing(
        pd.expand_like(a, b), feeds, "sizes 1 and 4 must be equal, from the feeds a: .* and b: "
    )


def test_an_index_may_be_smaller_than_what_it_reads():
    x, index = f32(4, 3), i64(2, 2)
    feeds = {x: np.arange(12).reshape(4, 3), index: [[2, 1], [0, 0]]}
    assert pd.eval(pd.gather_elements(x, index, 1), feeds).tolist() == [[2, 1], [3, 3]]
