"""Each layer against its formula: value, gradient, small batches, and the exported model."""

import inspect

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import build, settings
from pd_v2.attr import Extra, Param

from .layer_checks import LayerChecks, dense, gradient_of, image
from .layer_rows import ROWS, A, L, P, T


class TestRows(LayerChecks):
    """The layers of every network."""

    rows = ROWS


# ---- names, defaults and geometry


def test_automatic_names_count_by_prefix():
    x, ids = dense("x", 4), L.data(name="ids", type=T.integer_value(4))
    p = L.fc(input=x, size=4, act=A.Softmax())
    made = [
        p,
        L.fc(input=x, size=2),
        L.fc(input=x, size=2, name="own"),
        L.fc(input=x, size=2, name=None),
        L.square_error_cost(input=p, label=x),
        L.regression_cost(input=p, label=x),
        L.classification_cost(input=p, label=ids),
        L.cross_entropy_cost(input=p, label=ids),
        L.dropout(x, 0.5),
        L.addto(x),
        L.concat(x),
        L.batch_norm(x),
        L.img_conv(input=image(), filter_size=1, num_filters=1),
        L.img_pool(input=image("im2"), pool_size=2),
    ]
    assert [layer.name for layer in made] == [
        *("__fc_layer_0__", "__fc_layer_1__", "own", "__fc_layer_2__", "__square_error_cost_0__"),
        *("__square_error_cost_1__", "__cost_0__", "__cross_entropy_0__", "__dropout_0__"),
        *("__addto_0__", "__concat_0__", "__batch_norm_0__", "__conv_0__", "__pool_0__"),
    ]


def test_names_start_anew_in_a_fresh_build():
    L.fc(input=dense("x", 4), size=2)
    with build.fresh():
        assert L.fc(input=dense("x", 4), size=2).name == "__fc_layer_0__"
    assert L.fc(input=L.get_layer("x"), size=2).name == "__fc_layer_1__"


def test_default_activations():
    x, im = dense("x", 4), image()
    assert repr(L.fc(input=x, size=2).activation) == "tanh"
    assert repr(L.img_conv(input=im, filter_size=1, num_filters=1).activation) == "relu"
    assert repr(L.batch_norm(input=x).activation) == "relu"
    assert repr(L.addto(x).activation) == repr(L.concat(x).activation) == ""
    assert L.img_pool(input=im, pool_size=2).activation is None
    assert repr(L.fc(input=x, size=2, act=None).activation) == "tanh"


def test_signatures_are_those_of_2017():
    parameters = "input, size, act=None, name=None, param_attr=None, bias_attr=None"
    assert str(inspect.signature(L.fc)) == f"({parameters}, layer_attr=None)"
    assert L.fc(dense("x", 4), 3).size == 3


@pytest.mark.parametrize(
    ("build_layer", "expected"),
    [
        (lambda im: im, (3, 6, 4)),
        (lambda im: L.img_conv(im, filter_size=3, num_filters=5), (5, 4, 2)),
        (lambda im: L.img_conv(im, filter_size=(1, 3), num_filters=5, stride=(3, 1)), (5, 4, 2)),
        (lambda im: L.img_pool(im, pool_size=3, stride=2), (3, 3, 2)),
        (lambda im: L.img_pool(im, pool_size=3, stride=2, ceil_mode=False), (3, 2, 1)),
        (lambda im: L.img_pool(im, pool_size=5, stride=4), (3, 2, 1)),
        (lambda im: L.batch_norm(im), (3, 6, 4)),
        (lambda im: L.batch_norm(L.img_pool(im, pool_size=4, pool_size_y=6)), (3, 1, 1)),
        (lambda im: L.batch_norm(dense("x", 7)), (7, 0, 0)),
        (lambda im: L.addto([im, im]), (3, 6, 4)),
        (lambda im: L.dropout(im, 0.5), (3, 6, 4)),
        (lambda im: L.concat([im, im]), (None, 6, 4)),
        (lambda im: L.fc(im, size=3), (None, 0, 0)),
    ],
)
def test_geometry(build_layer, expected):
    layer = build_layer(image())
    assert (layer.num_filters, layer.height, layer.width) == expected
    channels, height, width = expected
    if channels and height:
        assert layer.size == channels * height * width


def test_a_convolution_after_a_concatenation_needs_its_channels():
    both = L.concat([image("a"), image("b")])
    assert L.img_conv(both, filter_size=3, num_filters=2, num_channels=6).size == 2 * 4 * 2


def test_a_gpu_changes_types_only(monkeypatch):
    monkeypatch.setattr(settings._process, "settings", settings.Settings(use_gpu=True))
    conv = L.img_conv(image(), filter_size=3, num_filters=2)
    assert conv.config.type == "cudnn_conv"
    assert L.batch_norm(conv).config.type == "cudnn_batch_norm"
    assert (
        L.img_conv(conv, filter_size=1, num_filters=2, layer_type="exconv").config.type == "exconv"
    )


# ---- parameters


def test_the_start_of_filters_is_written_into_the_attribute():
    attr = Param(name=None)
    first = L.img_conv(image(), filter_size=(2, 5), num_filters=2, param_attr=attr, name="first")
    L.img_conv(first, filter_size=1, num_filters=2, param_attr=attr, name="second")
    conf = paddle.parameters.create(L.get_layer("second")).__param_conf__
    assert conf["_first.w0"].initial_std == pytest.approx(np.sqrt(2 / (2**2 * 3)))
    assert conf["_second.w0"].initial_std == conf["_first.w0"].initial_std
    assert attr.attr["initial_smart"] is False


def test_a_given_start_of_filters_is_kept():
    attr = Param(initial_mean=1.0, initial_std=0.5)
    L.img_conv(image(), filter_size=3, num_filters=2, param_attr=attr, name="y")
    conf = paddle.parameters.create(L.get_layer("y")).__param_conf__["_y.w0"]
    assert (conf.initial_mean, conf.initial_std) == (1.0, 0.5)


def test_a_bias_with_an_attribute_but_no_start_is_random():
    L.fc(dense("x", 4), size=5, name="y", bias_attr=Param(learning_rate=2.0))
    conf = paddle.parameters.create(L.get_layer("y")).__param_conf__["_y.wbias"]
    assert (conf.initial_std, conf.initial_smart, conf.learning_rate) == (1.0, True, 2.0)


@pytest.mark.parametrize(("bias", "has_one"), [(None, True), (True, True), (False, False)])
def test_bias_of_fc(bias, has_one):
    pool = paddle.parameters.create(L.fc(dense("x", 4), size=5, name="y", bias_attr=bias))
    assert pool.has_key("_y.wbias") == has_one


@pytest.mark.parametrize(("bias", "has_one"), [(None, False), (True, True), (False, False)])
def test_bias_of_addto(bias, has_one):
    pool = paddle.parameters.create(L.addto(dense("x", 4), name="y", bias_attr=bias))
    assert pool.has_key("_y.wbias") == has_one


def test_one_attribute_is_the_pattern_of_each_input():
    attr = Param(initial_std=0.5)
    y = L.fc([dense("x", 4), dense("z", 3)], size=2, name="y", param_attr=attr)
    conf = paddle.parameters.create(y).__param_conf__
    assert conf["_y.w0"].initial_std == conf["_y.w1"].initial_std == 0.5


def test_inputs_share_a_named_parameter():
    x, z = dense("x", 4), dense("z", 4)
    y = L.fc(input=[x, z], size=2, act=A.Linear(), param_attr=Param(name="w"), bias_attr=False)
    pool = paddle.parameters.create(y)
    assert pool.names() == ["w"]
    pool.set("w", np.arange(8).reshape(4, 2))
    found = paddle.infer(output_layer=y, parameters=pool, input=[([1, 0, 0, 0], [0, 0, 0, 1])])
    assert found.tolist() == [[6, 8]]


def test_statistics_can_be_shared_by_name():
    x = dense("x", 4)
    names = ["mean", "variance"]
    both = [L.batch_norm(x, name=n, mean_var_names=names) for n in ("a", "b")]
    pool = paddle.parameters.create(both)
    assert pool.names() == ["_a.w0", "mean", "variance", "_a.wbias", "_b.w0", "_b.wbias"]
    assert pool.__param_conf__["mean"].is_static and pool.__param_conf__["mean"].is_shared


def test_a_layer_that_fails_leaves_nothing_behind():
    z = dense("z", 3)
    L.fc(dense("x", 4), size=2, param_attr=Param(name="w"), bias_attr=False)
    with pytest.raises(pd.ShapeError):
        L.fc([z, z], size=2, name="y", param_attr=[Param(), Param(name="w")])
    assert L.get_layer("y") is None
    y = L.fc(z, size=5, name="y")
    assert paddle.parameters.create(y).get_shape("_y.w0") == (3, 5)


# ---- training


def test_dropout_in_training_masks_and_does_not_scale(rng):
    x = dense("x", 500)
    value = rng.uniform(1, 2, (8, 500)).astype(np.float32)
    found, gradient = gradient_of(L.dropout(x, 0.3), x, {x: value})
    kept = found != 0
    np.testing.assert_array_equal(found, np.where(kept, value, 0))
    np.testing.assert_array_equal(gradient, kept)
    assert abs(kept.mean() - 0.7) < 0.03
    again = pd.eval(L.get_layer("__dropout_0__"), {x: value}, training=True)
    assert ((again != 0) != kept).any()


def test_dropout_comes_after_the_activation(rng):
    x = dense("x", 4)
    y = L.fc(x, size=200, act=A.Exp(), layer_attr=Extra(drop_rate=0.5))
    value = rng.standard_normal((2, 4)).astype(np.float32)
    trained, inferred = (pd.eval(y, {x: value}, training=t) for t in (True, False))
    kept = trained != 0
    assert 0.3 < kept.mean() < 0.7
    np.testing.assert_allclose(trained[kept], 2 * inferred[kept], rtol=1e-6)


def test_errors_are_clipped_before_the_activation_derivative(rng):
    x = dense("x", 3)
    y = L.addto(x, act=A.Square(), layer_attr=Extra(error_clipping_threshold=0.5))
    value = np.array([[1.0, 2.0, 3.0]], np.float32)
    seed = pd.constant(np.array([[0.25, 4.0, -4.0]], np.float32))
    (found,) = pd.gradients(y, [x], seeds=[seed])
    arrived = np.array([0.25, 0.5, -0.5])
    np.testing.assert_allclose(pd.eval(found, {x: value}), 2 * value * arrived)


def test_a_maximum_gives_its_gradient_to_all_equal_elements():
    im = dense("im", 4, height=2, width=2)
    _, found = gradient_of(L.img_pool(im, pool_size=2), im, {im: [[1, 3, 3, 2]]})
    assert found.tolist() == [[0, 1, 1, 0]]


def test_coeff_is_no_factor_of_the_value():
    x, z = dense("x", 1), dense("z", 1)
    cost = L.square_error_cost(input=x, label=z, coeff=0.1)
    value, found = gradient_of(cost, x, {x: [[3.0]], z: [[1.0]]})
    assert value.tolist() == [[4.0]]
    np.testing.assert_allclose(found, [[0.4]], rtol=1e-6)


def test_no_gradient_goes_to_a_computed_label_or_weight():
    x = dense("x", 1)
    label, weight = (L.fc(x, size=1, name=n) for n in ("label", "weight"))
    cost = L.square_error_cost(input=x, label=label, weight=weight)
    parameters = [pd.get_variable(n) for n in ("_label.w0", "_weight.w0")]
    assert pd.gradients(cost, parameters) == [None, None]


# ---- layers are Variables of the core


def test_v2_layers_are_core_variables(rng):
    x = dense("x", 4)
    y = L.fc(input=x, size=2, name="o")
    assert isinstance(y, pd.Variable) and y.shape == (None, 2)
    params = paddle.parameters.create(y)
    w = pd.get_variable("_o.w0")
    ones = np.ones((4, 2), np.float32)
    params.set("_o.w0", ones)
    assert (w.val() == ones).all()
    value = rng.standard_normal((1, 4)).astype(np.float32)
    inferred = paddle.infer(output_layer=y, parameters=params, input=[(value[0],)])
    np.testing.assert_allclose(pd.eval(y, feeds={"x": value}), inferred, rtol=1e-6)
    (g,) = pd.gradients(pd.reduce_sum(y), [w])
    assert pd.eval(g, feeds={x: np.ones((3, 4))}).shape == (4, 2)


def test_core_functions_take_layers_and_optimizers_train_them(rng):
    x, t = dense("x", 4), dense("t", 1)
    cost = pd.reduce_mean(pd.square(L.fc(x, size=1, act=A.Linear(), name="o") - t))
    paddle.parameters.create(L.get_layer("o")).set("_o.w0", np.zeros((4, 1), np.float32))
    step = pd.SGDOptimizer(0.1).minimize(cost)
    feeds = {x: rng.standard_normal((16, 4)), t: np.ones((16, 1))}
    before = pd.eval(cost, feeds)
    for _ in range(20):
        pd.eval(step, feeds)
    assert pd.eval(cost, feeds) < 0.5 * before


def test_every_pool_type_has_a_name():
    types = [P.Max(), P.Avg(), P.MaxWithMask(), P.CudnnMax(), P.CudnnAvg()]
    im = image()
    layers = [L.img_pool(im, pool_size=2, stride=2, pool_type=t) for t in types]
    kinds = [layer.config.inputs[0].pool_conf.pool_type for layer in layers]
    assert kinds == [
        *("max-projection", "avg-projection", "max-pool-with-mask"),
        *("cudnn-max-pool", "cudnn-avg-pool"),
    ]
    largest, mean, *others = pd.eval(layers, {im: np.arange(72, dtype=np.float32)[None]})
    for found, expected in zip(others, (largest, largest, mean), strict=True):
        np.testing.assert_array_equal(found, expected)
