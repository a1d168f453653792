"""The engine of differentiation: what it adds up, where it stops, and what it refuses."""

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest

import pd_core as pd
from pd_core import ops
from pd_core.gradients import gradient_rules, reasons, zeros
from pd_core.gradients.__main__ import derivative, operators
from pd_core.graph.node import ancestors

from ..ops import CASES
from ..ops.tower import build, slots

OPS = Path(ops.__file__).parent
# Loops and branches have tests of their own; so has what only they are built with.
CONTROL = {"control.py", "detection.py", "recurrent.py", "row_branches.py"}


def parameter(*values):
    return pd.Variable(data=np.array(values))


def value(targets, feeds=None, training=None):
    return pd.eval(targets, feeds, training)


# ---- coverage


def emitted(path):
    """The names of operators in calls like apply("Tanh", …) of a file."""
    for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant):
            name = getattr(call.func, "id", None)
            if name in ("apply", "composite", "control", "_reduce"):
                yield call.args[0].value


EMITTED = {path.name: set(emitted(path)) for path in sorted(OPS.glob("*.py"))}


@pytest.mark.parametrize("op_type", sorted(set().union(*EMITTED.values())))
def test_operator_has_one_verdict(op_type):
    assert (op_type in gradient_rules) + (op_type in zeros) + (op_type in reasons) == 1


def test_every_operator_has_a_row(rng):
    seen = set()
    for row in CASES:
        pd.reset()
        results = build(row, slots(row, row.arrays(rng)))
        seen.update(node.op_type for node in ancestors(results))
    expected = set().union(*(names for file, names in EMITTED.items() if file not in CONTROL))
    assert len(expected) > 60
    assert expected - seen == set()


# ---- sums over uses


def test_a_shared_value_gets_the_sum_of_its_uses():
    x = parameter(0.3, -0.7)
    y = pd.tanh(x)
    (g,) = pd.gradients(pd.reduce_sum(y * y + y), [x])
    t = np.tanh([0.3, -0.7])
    np.testing.assert_allclose(value(g), (2 * t + 1) * (1 - t * t), rtol=1e-6)


def test_one_operand_in_both_places():
    x = parameter(2.0, 3.0)
    found = pd.gradients(x * x + x / x + (x - x), [x])
    np.testing.assert_allclose(value(found[0]), [4.0, 6.0])


def test_an_unused_input_has_no_gradient():
    x, y = parameter(1.0), parameter(1.0)
    found = pd.gradients(x * 2.0, [y, x])
    assert found[0] is None
    assert value(found[1]) == [2.0]


def test_a_derivative_of_zero_is_no_gradient():
    x = parameter(1.5)
    assert pd.gradients(pd.floor(x) * 2.0, [x]) == [None]
    assert pd.gradients(pd.cast(pd.cast(x, "int64"), "float32"), [x]) == [None]


def test_what_lies_behind_a_zero_derivative_needs_no_rule():
    x, w = parameter(0.5), parameter(2.0)
    found = pd.gradients(pd.apply("Asinh", pd.sign(x)) * w, [x, w])
    assert found[0] is None
    np.testing.assert_allclose(value(found[1]), [np.arcsinh(1)], rtol=1e-6)


def test_a_list_of_costs_is_their_sum():
    x = parameter(2.0)
    (both,) = pd.gradients([x * x, pd.exp(x)], [x])
    (total,) = pd.gradients(x * x + pd.exp(x), [x])
    assert value(both) == value(total)


def test_a_cost_that_is_no_scalar_is_summed():
    x = pd.Variable(data=np.arange(6.0).reshape(2, 3))
    found = pd.gradients(x * x, [x])
    np.testing.assert_array_equal(value(found[0]), 2 * np.arange(6.0).reshape(2, 3))


def test_the_cost_itself_and_what_lies_between():
    x = parameter(3.0)
    y = x * x
    cost = y * 5.0
    found = pd.gradients(cost, [cost, y, x])
    assert [float(v[0]) for v in value(found)] == [1.0, 5.0, 30.0]


def test_one_variable_asked_for_twice():
    x = parameter(3.0)
    a, b = pd.gradients(x * x, [x, x])
    assert value(a) == value(b) == [6.0]


def test_gradients_can_be_fetched_one_by_one():
    x, y = parameter(3.0), parameter(4.0)
    gx, gy = pd.gradients(x * y, [x, y])
    assert value(gy) == [3.0]
    assert [n.op_type for n in pd.subgraph(gx)] == ["Mul"]


# ---- seeds


def test_seeds_weight_the_elements():
    x = parameter(1.0, 2.0, 3.0)
    weights = pd.Variable([3])
    (g,) = pd.gradients(x * x, [x], seeds=[weights])
    np.testing.assert_array_equal(value(g, {weights: [1, 10, 100]}), [2, 40, 600])


def test_seeds_may_be_arrays_or_none():
    x = parameter(1.0, 2.0)
    (g,) = pd.gradients([x * x, x * 3.0], [x], seeds=[[0.5, 0.25], None])
    np.testing.assert_array_equal(value(g), [4, 4])


def test_seeds_go_through_rules_that_look_at_sizes():
    x = pd.Variable(data=np.ones((2, 3)))
    (g,) = pd.gradients(pd.transpose(x), [x], seeds=[np.arange(6).reshape(3, 2)])
    np.testing.assert_array_equal(value(g), np.arange(6).reshape(3, 2).T)


def test_seeds_that_do_not_fit():
    x = parameter(1.0, 2.0)
    with pytest.raises(pd.ShapeError, match=r"the seed const: float32\[3\] does not fit .*\[2\]"):
        pd.gradients(x * x, [x], seeds=[[1, 2, 3]])
    with pytest.raises(pd.DTypeError, match=r"seed const: float64\[2\] does not fit .* float32"):
        pd.gradients(x * x, [x], seeds=[pd.constant([1.0, 2.0], "float64")])
    with pytest.raises(pd.GraphError, match="2 seeds for 1 costs"):
        pd.gradients(x * x, [x], seeds=[None, None])


# ---- higher derivatives


def test_derivatives_of_derivatives():
    x = parameter(1.5)
    found, y = [], pd.pow(x, 4.0)
    for _ in range(4):
        (y,) = pd.gradients(y, [x])
        found.append(float(value(y)[0]))
    np.testing.assert_allclose(found, [4 * 1.5**3, 12 * 1.5**2, 24 * 1.5, 24], rtol=1e-6)


def test_product_of_the_hessian_and_a_vector(rng):
    a, v = rng.standard_normal((4, 4)), rng.standard_normal(4)
    x = pd.Variable(data=rng.standard_normal(4), dtype="float64")
    cost = pd.matmul(pd.matmul(x, pd.constant(a, "float64")), x)
    (g,) = pd.gradients(cost, [x])
    (product,) = pd.gradients(pd.reduce_sum(g * v), [x])
    np.testing.assert_allclose(value(product), (a + a.T) @ v, rtol=1e-12)


def test_penalty_on_a_gradient(rng):
    """d/dw of |d cost / d x|², as gradient penalties have it: cost = sum tanh(x w)."""
    x = pd.Variable([None, 3])
    w = pd.Variable(data=rng.standard_normal(3))
    (g,) = pd.gradients(pd.tanh(pd.matmul(x, w)), [x])
    penalty = pd.reduce_sum(pd.square(g))
    (found,) = pd.gradients(penalty, [w])
    points, at = rng.standard_normal((5, 3)).astype("float32"), w.val().astype("float64")

    def by_hand(w):
        slope = 1 - np.tanh(points @ w) ** 2
        return (slope**2).sum() * (w @ w)

    steps = 1e-6 * np.eye(3)
    numeric = [(by_hand(at + e) - by_hand(at - e)) / 2e-6 for e in steps]
    np.testing.assert_allclose(value(found, {x: points}), numeric, rtol=1e-4)


# ---- forward as it is, backward changed


def test_stop_gradient_cuts():
    x = parameter(3.0)
    found = pd.gradients(pd.stop_gradient(x) * x, [x])
    assert value(found[0]) == [3.0]
    assert pd.gradients(pd.stop_gradient(x * x), [x]) == [None]


def test_straight_through_moves_a_gradient():
    x, y = parameter(3.0), parameter(2.0)
    z = pd.straight_through(y * y, x) * 5.0
    assert value(z) == [20.0]
    (g,) = pd.gradients(z, [x])
    assert value(g) == [5.0] and pd.gradients(z, [y]) == [None]


def test_straight_through_needs_one_shape():
    with pytest.raises(pd.ShapeError, match=r"straight_through: the value is .*, the gradient"):
        pd.straight_through(parameter(1.0, 2.0), parameter(1.0))


def test_clip_gradient_holds_what_comes_back():
    x = parameter(1.0, 1.0, 1.0)
    y = pd.clip_gradient(x, 2.0)
    (g,) = pd.gradients(y * [5.0, -7.0, 0.5], [x])
    np.testing.assert_array_equal(value(g), [2.0, -2.0, 0.5])
    np.testing.assert_array_equal(value(y), [1.0, 1.0, 1.0])


def test_scale_gradient_multiplies_what_comes_back():
    x = parameter(1.0, 2.0)
    y = pd.scale_gradient(x, -0.5)
    (g,) = pd.gradients(y * 4.0, [x])
    np.testing.assert_array_equal(value(g), [-2.0, -2.0])
    np.testing.assert_array_equal(value(y), [1.0, 2.0])


# ---- training and inference


def in_both(targets):
    return [float(np.ravel(pd.eval(targets, training=mode))[0]) for mode in (True, False)]


def test_each_side_of_a_mode_switch_has_its_gradient():
    x = parameter(1.0)
    (g,) = pd.gradients(pd.mode_switch(x * 2.0, x * 3.0), [x])
    assert in_both(g) == [2.0, 3.0]


def test_a_variable_of_one_side_has_gradient_zero_on_the_other():
    x, y = parameter(1.0), parameter(1.0)
    gx, gy = pd.gradients(pd.mode_switch(x * 2.0, y * 3.0), [x, y])
    assert in_both(gx) == [2.0, 0.0]
    assert in_both(gy) == [0.0, 3.0]


def test_what_holds_in_both_modes_is_added_to_what_holds_in_one():
    x = parameter(1.0)
    (g,) = pd.gradients(x * 10.0 + pd.mode_switch(x * 2.0, x * 3.0), [x])
    assert in_both(g) == [12.0, 13.0]
    (g,) = pd.gradients(x * 10.0 + pd.mode_switch(x * 2.0, pd.constant([1.0])), [x])
    assert in_both(g) == [12.0, 10.0]


def test_outputs_with_gradients_in_different_modes():
    x = parameter(1.0, 1.0)
    a, b = pd.split(x, [1, 1])
    cost = pd.mode_switch(a * 2.0, pd.constant([0.0])) + b * 5.0
    (g,) = pd.gradients(cost, [x])
    np.testing.assert_array_equal(pd.eval(g, training=True), [2.0, 5.0])
    np.testing.assert_array_equal(pd.eval(g, training=False), [0.0, 5.0])


def test_a_mode_switch_within_another():
    x = parameter(1.0)
    inner = pd.mode_switch(x * 2.0, x * 3.0)
    (g,) = pd.gradients(pd.mode_switch(inner * 10.0, inner * 100.0), [x])
    assert in_both(g) == [20.0, 300.0]


def test_second_derivative_through_a_mode_switch():
    x = parameter(3.0)
    (g,) = pd.gradients(pd.mode_switch(x * x * 0.5, x * x * x), [x])
    assert in_both(g) == [3.0, 27.0]
    (gg,) = pd.gradients(g, [x])
    assert in_both(gg) == [1.0, 18.0]


def test_gradient_of_dropout_is_the_mask_that_was_drawn():
    x = pd.Variable([None, 8])
    y = pd.dropout(x, 0.25)
    (g,) = pd.gradients(y, [x])
    feeds = {x: np.ones((50, 8))}
    kept, found = pd.eval([y, g], feeds, training=True)
    np.testing.assert_array_equal(kept, found)
    assert 0.6 < (found > 0).mean() < 0.9
    np.testing.assert_array_equal(pd.eval(g, feeds), np.ones((50, 8)))


def normalised():
    x = pd.Variable([None, 3])
    scale, shift = pd.Variable(data=np.ones(3)), pd.Variable(data=np.zeros(3))
    mean = pd.Variable(data=np.zeros(3), trainable=False)
    variance = pd.Variable(data=np.full(3, 4.0), trainable=False)
    y = pd.batch_norm(x, scale, shift, mean, variance, momentum=0.75)
    return x, y, scale, mean, variance


def test_gradient_of_batch_norm_in_either_mode(rng):
    x, y, scale, _, _ = normalised()
    gx, gs = pd.gradients(y, [x, scale])
    feeds = {x: rng.standard_normal((6, 3))}
    by_batch, by_stored = (pd.eval([gx, gs], feeds, training=mode) for mode in (True, False))
    # a sum over the batch does not change with one of its rows; nor do stored statistics
    np.testing.assert_allclose(by_batch[0], np.zeros((6, 3)), atol=1e-5)
    np.testing.assert_allclose(by_batch[1], np.zeros(3), atol=1e-5)
    np.testing.assert_allclose(by_stored[0], np.full((6, 3), 0.5), rtol=1e-5)
    np.testing.assert_allclose(by_stored[1], feeds[x].sum(0) / 2, rtol=1e-4)


def test_batch_norm_stores_statistics_in_training_steps_only(rng):
    x, y, scale, mean, variance = normalised()
    data = rng.standard_normal((6, 3))
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(y * y), var_list=[scale])
    pd.eval(y, {x: data})
    np.testing.assert_array_equal(mean.val(), np.zeros(3))
    pd.eval(step, {x: data})
    np.testing.assert_allclose(mean.val(), 0.25 * data.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(variance.val(), 3 + 0.25 * data.var(0), rtol=1e-5)


# ---- sizes known only at run time


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_a_bias_is_summed_over_whatever_batch(rows, rng):
    x, b = pd.Variable([None, 4]), pd.Variable(data=np.zeros(4))
    data = rng.standard_normal((rows, 4)).astype("float32")
    gx, gb = pd.gradients(pd.square(x + b), [x, b])
    found = pd.eval([gx, gb], {x: data})
    np.testing.assert_allclose(found[0], 2 * data, rtol=1e-6)
    np.testing.assert_allclose(found[1], 2 * data.sum(0), rtol=1e-5)


def test_one_graph_for_batches_of_several_sizes():
    x, w = pd.Variable([None, 2]), pd.Variable(data=np.ones((1, 2)))
    (g,) = pd.gradients(pd.reduce_mean(x * w), [w])
    for rows in (1, 4, 2):
        found = pd.eval(g, {x: np.ones((rows, 2))})
        np.testing.assert_allclose(found, [[0.5, 0.5]])


def test_mean_over_several_unknown_sizes():
    x = pd.Variable([None, None, 3])
    (g,) = pd.gradients(pd.reduce_mean(x, [0, 1]), [x])
    np.testing.assert_allclose(pd.eval(g, {x: np.ones((2, 5, 3))}), np.full((2, 5, 3), 0.1))


def test_columns_against_rows_of_unknown_sizes():
    a, b = pd.Variable([None, 1]), pd.Variable([1, None])
    ga, gb = pd.gradients(a * b, [a, b])
    feeds = {a: [[1], [2], [3]], b: [[10, 20]]}
    found = pd.eval([ga, gb], feeds)
    np.testing.assert_array_equal(found[0], [[30]] * 3)
    np.testing.assert_array_equal(found[1], [[6, 6]])


@pytest.mark.parametrize(
    ("op_type", "options", "rank"),
    [
        *(("ReduceSum", {"keepdims": 0}, 2), ("ReduceSum", {}, 3), ("ReduceMean", {}, 3)),
        *(("ReduceMax", {"keepdims": 0}, 2), ("ReduceProd", {"keepdims": 0}, 2)),
        *(("ReduceL2", {"keepdims": 0}, 2), ("ReduceLogSumExp", {}, 3)),
        *(("Squeeze", {}, 2), ("Unsqueeze", {}, 4)),
    ],
)
def test_axes_may_be_known_only_at_run_time(op_type, options, rank, rng):
    x, axes = pd.Variable([None, None, None]), pd.Variable([1], dtype="int64")
    feeds = {x: rng.standard_normal((2, 1, 3)), axes: [-2]}
    late = pd.apply(op_type, x, axes, **options)
    early = pd.apply(op_type, x, np.array([1 if op_type != "Unsqueeze" else 2]), **options)
    assert late.rank == rank
    for y, same in ((late, early), (pd.gradients(late, [x])[0], pd.gradients(early, [x])[0])):
        np.testing.assert_allclose(pd.eval(y, feeds), pd.eval(same, feeds), rtol=1e-5)


def test_how_many_axes_there_are_has_to_be_known():
    x, axes = pd.Variable([2, 3]), pd.Variable([None], dtype="int64")
    with pytest.raises(pd.ShapeError, match="the rank of the result is not known before it runs"):
        pd.apply("ReduceSum", x, axes, keepdims=0)


def test_what_is_stretched_may_be_known_only_at_run_time():
    x, sizes = pd.Variable([None, None]), pd.Variable([3], dtype="int64")
    (g,) = pd.gradients(pd.apply("Expand", x, sizes), [x])
    for shape in ((1, 3), (2, 1), (2, 3)):
        found = pd.eval(g, {x: np.zeros(shape), sizes: [4, 2, 3]})
        np.testing.assert_array_equal(found, np.full(shape, 24 / np.prod(shape)))


def test_an_empty_batch(rng):
    x, w = pd.Variable([None, 2, 6]), pd.Variable(data=rng.standard_normal((12, 3)))
    y = pd.log_softmax(pd.matmul(pd.reshape(pd.relu(x), [-1, 12]), w))
    gx, gw = pd.eval(pd.gradients(y, [x, w]), {x: np.zeros((0, 2, 6))})
    assert gx.shape == (0, 2, 6)
    np.testing.assert_array_equal(gw, np.zeros((12, 3)))
    rows = pd.reshape(x, [0, -1])
    assert rows.dims == (x.dims[0], 12)
    assert pd.eval(rows, {x: np.zeros((0, 2, 6))}).shape == (0, 12)
    columns = pd.Variable([3, None])
    (g,) = pd.gradients(pd.square(pd.reshape(columns, [-1])), [columns])
    assert pd.eval(g, {columns: np.zeros((3, 0))}).shape == (3, 0)


# ---- where several elements are the extreme


def test_ties():
    """As in PyTorch: shared between the largest of all, or between two; a window's first wins."""
    x = parameter(1.0, 1.0, 0.0)
    (g,) = pd.gradients(pd.reduce_max(x), [x])
    np.testing.assert_array_equal(value(g), [0.5, 0.5, 0.0])
    a, b = parameter(1.0, 2.0), parameter(1.0, 1.0)
    ga, gb = pd.gradients(pd.maximum(a, b), [a, b])
    np.testing.assert_array_equal(value([ga, gb]), [[0.5, 1.0], [0.5, 0.0]])
    image = pd.Variable(data=np.zeros((1, 1, 2, 2)))
    (first,) = pd.gradients(pd.max_pool(image, 2), [image])
    (every,) = pd.gradients(pd.max_pool(image, 2, ties="all"), [image])
    np.testing.assert_array_equal(
        value([first, every]), [[[[[1, 0], [0, 0]]]], [[[[1, 1], [1, 1]]]]]
    )


@pytest.mark.parametrize("function", [pd.relu, pd.abs], ids=["relu", "abs"])
def test_kinks_at_zero_have_gradient_zero(function):
    x = parameter(0.0)
    assert value(pd.gradients(function(x), [x])[0]) == [0.0]


# ---- refusals


def test_only_variables_and_floats_have_gradients():
    x, k = parameter(1.0), pd.Variable(data=np.arange(3))
    with pytest.raises(TypeError, match="gradients: takes Variables, not 'x'"):
        pd.gradients(x, ["x"])
    with pytest.raises(pd.NoGradient, match=r"gradients: var-1: int64\[3\] is no float"):
        pd.gradients(x, [k])
    with pytest.raises(pd.NoGradient, match=r"mul_0: int64\[3\] is no float"):
        pd.gradients(k * 2, [x])


def test_an_operator_without_a_rule_is_named_with_its_line(monkeypatch):
    monkeypatch.delitem(gradient_rules, "Asinh")
    x = parameter(1.0)
    y = pd.apply("Asinh", x)
    line = inspect.currentframe().f_lineno - 1
    expected = rf"Asinh: it has no gradient rule\n  node   built at .*{Path(__file__).name}:{line}"
    with pytest.raises(pd.NoGradient, match=expected):
        pd.gradients(y * 2.0, [x])


def test_an_operator_without_a_rule_off_the_path_is_allowed(monkeypatch):
    monkeypatch.delitem(gradient_rules, "Asinh")
    x, w = parameter(1.0), parameter(2.0)
    (g,) = pd.gradients(pd.apply("Asinh", x) * w, [w])
    np.testing.assert_allclose(value(g), np.arcsinh([1.0]), rtol=1e-6)


def test_the_reason_for_having_no_gradient(monkeypatch):
    monkeypatch.delitem(gradient_rules, "Asinh")
    monkeypatch.setitem(reasons, "Asinh", "nobody has worked it out")
    x = parameter(1.0)
    with pytest.raises(pd.NoGradient, match="Asinh: nobody has worked it out\n  node"):
        pd.gradients(pd.apply("Asinh", x), [x])


def test_derivatives_are_whole_and_do_not_clash():
    """Every operator of ONNX has one derivative, and what is none has no derivative."""
    registered = [set(gradient_rules), zeros, set(reasons)]
    for op_type in operators():
        assert sum(op_type in found for found in registered) == 1, op_type


def test_the_table_of_derivatives_names_an_operator_without_one(monkeypatch):
    monkeypatch.delitem(gradient_rules, "Asinh")
    with pytest.raises(pd.GraphError, match="Asinh has no rule, zero or reason in pd_core/gradi"):
        derivative("Asinh")


# ---- sizes of images that are known only at run time


def judged_by_known_sizes(build, shape, rng, filters=None):
    """Gradients of build(x, w) for images of unknown sizes are those for known ones."""
    image = rng.standard_normal(shape).astype("float32")
    weights = None if filters is None else rng.standard_normal(filters).astype("float32")
    found = []
    for dims in ([None, shape[1], *[None] * (len(shape) - 2)], list(shape)):
        x = pd.Variable(dims)
        w = pd.constant(0.0) if weights is None else pd.Variable(data=weights)
        y = build(x, w)
        first = [g for g in pd.gradients(pd.sin(y), [x, w]) if g is not None]
        second = pd.gradients([pd.reduce_sum(pd.square(g)) for g in first], [x])
        found.append(pd.eval([*first, *second], {x: image}))
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


POOLS = {
    "max": lambda x, w: pd.max_pool(x, 2, 2),
    "max, overlapping": lambda x, w: pd.max_pool(x, 3, 2, 1),
    "avg": lambda x, w: pd.avg_pool(x, 2, 2),
    "avg, padded": lambda x, w: pd.avg_pool(x, 3, 2, 1),
    "avg, padding counted": lambda x, w: pd.avg_pool(x, 3, 2, 1, include_pad=True),
    "interpolate": lambda x, w: pd.interpolate(x, [5, 7]),
}


@pytest.mark.parametrize("build", POOLS.values(), ids=POOLS)
def test_pooling_of_images_of_unknown_size(build, rng):
    judged_by_known_sizes(build, (2, 2, 6, 7), rng)


CONVOLUTIONS = {
    "plain": ((2, 3, 6, 7), (4, 3, 3, 2), {}),
    "strided": ((2, 2, 8, 7), (2, 2, 3, 3), {"strides": 3, "pads": [1, 0, 0, 2]}),
    "dilated": ((1, 2, 7, 9), (3, 2, 2, 3), {"dilations": 2, "pads": 1}),
    "groups": ((2, 4, 5, 6), (6, 2, 2, 2), {"group": 2, "strides": 2}),
    "1-D": ((3, 2, 9), (2, 2, 4), {"strides": 2}),
}


@pytest.mark.parametrize("row", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_convolution_of_images_of_unknown_size(row, rng):
    image, filters, options = row
    judged_by_known_sizes(lambda x, w: pd.conv(x, w, **options), image, rng, filters)


def test_uses_that_have_no_gradient_where_sizes_are_unknown():
    x = pd.Variable([None, 1, None, 8])
    same = pd.apply("MaxPool", x, kernel_shape=[2, 2], auto_pad="SAME_UPPER")
    ceil = pd.avg_pool(x, 2, 2, ceil_mode=True)
    padded = pd.apply("AveragePool", x, kernel_shape=[2, 2], auto_pad="SAME_LOWER")
    for y, what in ((ceil, "ceil_mode"), (padded, "auto_pad=SAME_LOWER")):
        with pytest.raises(pd.NoGradient, match=rf"{what} has a gradient for images of known"):
            pd.gradients(y, [x])
    (g,) = pd.gradients(same, [x])  # by the indices, which know it all
    assert pd.eval(g, {x: np.zeros((1, 1, 3, 8))}).sum() == 24


def test_a_rule_that_gives_another_shape_is_found_out(monkeypatch):
    monkeypatch.setitem(gradient_rules, "Tanh", lambda node, dy: [pd.reduce_sum(dy, [0])])
    x = pd.Variable([3, 4])
    with pytest.raises(pd.GraphError, match=r"the rule of Tanh gave .*\[4\] for var-0: .*\[3, 4\]"):
        pd.gradients(pd.tanh(x), [x])
    monkeypatch.setitem(
        gradient_rules, "Tanh", lambda node, dy: [pd.reduce_sum(dy, [0], keep_dim=True)]
    )
    with pytest.raises(pd.GraphError, match=r"the rule of Tanh gave .*\[1, 4\] for .*\[3, 4\]"):
        pd.gradients(pd.tanh(x), [x])
