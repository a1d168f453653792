"""Composed networks: the layers they make, their names, and what the attributes reach."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.activation import Linear, Relu, Tanh
from pd_v2.attr import Param

L, N, T = paddle.layer, paddle.networks, paddle.data_type


def image(channels, size, name="im"):
    type_ = T.dense_vector(channels * size * size)
    return L.data(name=name, type=type_, height=size, width=size)


def chain(layer):
    """(type, activation, size) of a layer and those before it, data first."""
    found = []
    while layer.parents:
        found.append((layer.layer_type, layer.config.active_type, layer.size))
        layer = layer.parents[0]
    return found[::-1]


def test_simple_img_conv_pool():
    x = image(1, 28)
    y = N.simple_img_conv_pool(
        input=x, filter_size=5, num_filters=20, num_channel=1, pool_size=2, pool_stride=2
    )
    assert chain(y) == [("conv", "relu", 20 * 24 * 24), ("pool", "", 20 * 12 * 12)]
    assert y.name == "__conv_pool_0___pool"
    again = N.simple_img_conv_pool(
        input=y, filter_size=5, num_filters=50, pool_size=2, name="second", act=Tanh()
    )
    assert chain(again)[2:] == [("conv", "tanh", 50 * 8 * 8), ("pool", "", 50 * 7 * 7)]
    assert again.name == "second_pool"


def test_simple_img_conv_pool_computes_its_parts(rng):
    y = N.simple_img_conv_pool(image(2, 6), 3, 4, 2, name="a", bias_attr=Param(name="bias"))
    conv = L.img_conv(
        L.get_layer("im"),
        filter_size=3,
        num_filters=4,
        param_attr=Param(name="_a_conv.w0"),
        bias_attr=Param(name="bias"),
    )
    pool = L.img_pool(conv, pool_size=2)
    found = pd.eval([y, pool], {"im": rng.standard_normal((2, 72))})
    np.testing.assert_array_equal(*found)


def test_img_conv_bn_pool():
    y = N.img_conv_bn_pool(
        input=image(3, 8), filter_size=3, num_filters=4, pool_size=2, act=Relu(), name="a"
    )
    assert chain(y) == [
        ("conv", "", 4 * 36),
        ("batch_norm", "relu", 4 * 36),
        ("pool", "", 4 * 25),
    ]
    assert [p.name for p in (y, y.parents[0], y.parents[0].parents[0])] == [
        *("a_pool", "a_bn", "a_conv")
    ]


def test_img_conv_group():
    y = N.img_conv_group(
        input=image(3, 8),
        num_channels=3,
        conv_num_filter=[4, 5],
        conv_filter_size=[3, 1],
        conv_padding=[1, 0],
        conv_act=[Relu(), Tanh()],
        conv_with_batchnorm=[False, True],
        conv_batchnorm_drop_rate=[0, 0.5],
        pool_size=2,
        pool_stride=2,
        pool_type=paddle.pooling.Avg(),
    )
    assert chain(y) == [
        ("conv", "relu", 4 * 64),
        ("conv", "", 5 * 64),
        ("batch_norm", "tanh", 5 * 64),
        ("pool", "", 5 * 16),
    ]
    assert y.parents[0].config.drop_rate == 0.5
    assert y.config.inputs[0].pool_conf.pool_type == "avg-projection"


def test_one_attribute_starts_all_filters_of_a_group_alike():
    y = N.img_conv_group(
        input=image(3, 8), num_channels=3, conv_num_filter=[4, 5], pool_size=2, param_attr=Param()
    )
    conf = paddle.parameters.create(y).__param_conf__
    stds = [conf[f"___conv_{k}__.w0"].initial_std for k in (0, 1)]
    assert stds == pytest.approx([np.sqrt(2 / (9 * 3))] * 2)


def test_a_group_needs_a_value_for_each_convolution():
    with pytest.raises(ValueError, match=r"img_conv_group: 1 values \[1\] for 2 convolutions"):
        N.img_conv_group(image(3, 8), conv_num_filter=[1, 2], pool_size=2, conv_padding=[1])


def test_img_separable_conv():
    y = N.img_separable_conv(
        input=image(3, 8),
        num_channels=3,
        num_out_channels=4,
        filter_size=3,
        depth_multiplier=2,
        act=Linear(),
    )
    assert chain(y) == [("conv", "", 6 * 36), ("conv", "", 4 * 36)]
    assert y.name == "__separable_conv_0___pointwise_conv"
    conf = y.parents[0].config.inputs[0].conv_conf
    assert (conf.groups, conf.filter_channels, conf.channels) == (3, 1, 3)


def test_small_vgg():
    y = N.small_vgg(input_image=image(3, 32), num_channels=3, num_classes=10)
    layers = chain(y)
    assert len(layers) == 10 * 2 + 4 + 5
    assert [row[2] for row in layers if row[0] == "pool"] == [
        *(64 * 256, 128 * 64, 256 * 16, 512 * 4, 512)
    ]
    assert layers[-5:] == [
        ("pool", "", 512),
        ("addto", "", 512),
        ("fc", "", 512),
        ("batch_norm", "relu", 512),
        ("fc", "softmax", 10),
    ]
    rates = [c.drop_rate for c in L.parse_network(y).layers if c.drop_rate]
    assert rates == [0.3, 0.4, 0.4, 0.4, 0.4, 0.4, 0.5, 0.5]


def test_vgg_16_network():
    y = N.vgg_16_network(input_image=image(3, 32), num_channels=3, num_classes=10)
    layers = chain(y)
    assert [row[0] for row in layers].count("conv") == 13
    assert layers[-3:] == [("fc", "relu", 4096), ("fc", "relu", 4096), ("fc", "softmax", 10)]
    assert sum(c.size for c in L.parse_network(y).parameters) == 33_638_218


def test_a_network_of_2017_runs(rng):
    y = N.small_vgg(input_image=image(3, 32), num_channels=3, num_classes=10)
    found = pd.eval(y, {"im": rng.standard_normal((2, 3072))}, training=True)
    np.testing.assert_allclose(found.sum(1), [1, 1], rtol=1e-5)
