"""Convolutional networks."""

from .. import layer as layers
from ..activation import Linear, Relu, Softmax
from ..attr import ExtraLayerAttribute
from ..build import current
from ..pooling import Max

__all__ = [
    "img_conv_bn_pool",
    "img_conv_group",
    "img_separable_conv",
    "simple_img_conv_pool",
    "small_vgg",
    "vgg_16_network",
]


def simple_img_conv_pool(
    input,
    filter_size,
    num_filters,
    pool_size,
    name=None,
    pool_type=None,
    act=None,
    groups=1,
    conv_stride=1,
    conv_padding=0,
    bias_attr=None,
    num_channel=None,
    param_attr=None,
    shared_bias=True,
    conv_layer_attr=None,
    pool_stride=1,
    pool_padding=0,
    pool_layer_attr=None,
):
    """Convolution `<name>_conv`, then pooling `<name>_pool`."""
    given = {**locals(), "name": name or current().next_name("conv_pool")}
    return _pool(_conv(given, act, bias_attr, param_attr), given)


def img_conv_bn_pool(
    input,
    filter_size,
    num_filters,
    pool_size,
    name=None,
    pool_type=None,
    act=None,
    groups=1,
    conv_stride=1,
    conv_padding=0,
    conv_bias_attr=None,
    num_channel=None,
    conv_param_attr=None,
    shared_bias=True,
    conv_layer_attr=None,
    bn_param_attr=None,
    bn_bias_attr=None,
    bn_layer_attr=None,
    pool_stride=1,
    pool_padding=0,
    pool_layer_attr=None,
):
    """Linear convolution `<name>_conv`, batch norm `<name>_bn`, pooling `<name>_pool`."""
    given = {**locals(), "name": name or current().next_name("conv_bn_pool")}
    norm = layers.batch_norm(
        name=f"{given['name']}_bn",
        input=_conv(given, Linear(), conv_bias_attr, conv_param_attr),
        act=act,
        bias_attr=bn_bias_attr,
        param_attr=bn_param_attr,
        layer_attr=bn_layer_attr,
    )
    return _pool(norm, given)


def _conv(given, act, bias_attr, param_attr):
    """Return the convolution of a network that was given these arguments."""
    same = ("input", "filter_size", "num_filters", "groups")
    return layers.img_conv(
        name=f"{given['name']}_conv",
        num_channels=given["num_channel"],
        act=act,
        stride=given["conv_stride"],
        padding=given["conv_padding"],
        bias_attr=bias_attr,
        param_attr=param_attr,
        shared_biases=given["shared_bias"],
        layer_attr=given["conv_layer_attr"],
        **{name: given[name] for name in same},
    )


def _pool(x, given):
    """Return the pooling of a network that was given these arguments."""
    own = {k: given[f"pool_{k}"] for k in ("stride", "padding", "layer_attr")}
    sizes = {"pool_size": given["pool_size"], "pool_type": given["pool_type"]}
    return layers.img_pool(name=f"{given['name']}_pool", input=x, **sizes, **own)


def img_conv_group(
    input,
    conv_num_filter,
    pool_size,
    num_channels=None,
    conv_padding=1,
    conv_filter_size=3,
    conv_act=None,
    conv_with_batchnorm=False,
    conv_batchnorm_drop_rate=0,
    pool_stride=1,
    pool_type=None,
    param_attr=None,
):
    """VGG block: a convolution per entry of `conv_num_filter`, then one pooling.

    The other `conv_*` arguments are lists of as many values, or one value for all convolutions.
    With batch normalisation a convolution is linear and the normalisation has its activation.
    """
    count = len(conv_num_filter)
    options = (conv_padding, conv_filter_size, conv_act, conv_with_batchnorm)
    each = [_for_each(v, count) for v in (*options, conv_batchnorm_drop_rate)]
    x = input
    for k, (padding, size, act, norm, drop) in enumerate(zip(*each, strict=True)):
        x = layers.img_conv(
            input=x,
            filter_size=size,
            num_filters=conv_num_filter[k],
            num_channels=num_channels if k == 0 else None,
            padding=padding,
            act=Linear() if norm else act or Relu(),
            param_attr=param_attr,
        )
        if norm:
            extra = ExtraLayerAttribute(drop_rate=drop) if drop else None
            x = layers.batch_norm(input=x, act=act, layer_attr=extra)
    return layers.img_pool(input=x, pool_size=pool_size, stride=pool_stride, pool_type=pool_type)


def _for_each(value, count):
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise ValueError(f"img_conv_group: {len(value)} values {value!r} for {count} convolutions")
    return value


def img_separable_conv(
    input,
    num_channels,
    num_out_channels,
    filter_size,
    stride=1,
    padding=0,
    depth_multiplier=1,
    act=None,
    bias_attr=None,
    param_attr=None,
    shared_bias=True,
    layer_type="exconv",
    name=None,
):
    """Depthwise separable convolution: one per channel, then 1 x 1 over all (Sifre 2014)."""
    name = name or current().next_name("separable_conv")
    depthwise = layers.img_conv(
        name=f"{name}_depthwise_conv",
        input=input,
        num_channels=num_channels,
        num_filters=num_channels * depth_multiplier,
        groups=num_channels,
        filter_size=filter_size,
        stride=stride,
        padding=padding,
        act=Linear(),
        bias_attr=bias_attr,
        param_attr=param_attr,
        shared_biases=shared_bias,
        layer_type=layer_type,
    )
    return layers.img_conv(
        name=f"{name}_pointwise_conv",
        input=depthwise,
        num_channels=num_channels * depth_multiplier,
        num_filters=num_out_channels,
        filter_size=1,
        act=act,
        bias_attr=bias_attr,
        param_attr=param_attr,
        shared_biases=shared_bias,
    )


def small_vgg(input_image, num_channels, num_classes):
    """A small VGG with batch normalisation (Simonyan & Zisserman 2015), for 32 x 32 images."""
    x, channels = input_image, num_channels
    for filters, drops in (
        (64, (0.3, 0)),
        (128, (0.4, 0)),
        (256, (0.4, 0.4, 0)),
        (512, (0.4, 0.4, 0)),
    ):
        x = img_conv_group(
            input=x,
            num_channels=channels,
            conv_num_filter=[filters] * len(drops),
            conv_act=Relu(),
            conv_with_batchnorm=True,
            conv_batchnorm_drop_rate=list(drops),
            pool_size=2,
            pool_stride=2,
            pool_type=Max(),
        )
        channels = None
    x = layers.img_pool(input=x, pool_size=2, stride=2, pool_type=Max())
    x = layers.dropout(input=x, dropout_rate=0.5)
    half = ExtraLayerAttribute(drop_rate=0.5)
    x = layers.fc(input=x, size=512, act=Linear(), layer_attr=half)
    x = layers.batch_norm(input=x, act=Relu())
    return layers.fc(input=x, size=num_classes, act=Softmax())


def vgg_16_network(input_image, num_channels, num_classes=1000):
    """VGG with 16 layers (Simonyan & Zisserman 2015, configuration D)."""
    x, channels = input_image, num_channels
    for filters, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        x = img_conv_group(
            input=x,
            num_channels=channels,
            conv_num_filter=[filters] * count,
            conv_act=Relu(),
            pool_size=2,
            pool_stride=2,
            pool_type=Max(),
        )
        channels = None
    for _ in range(2):
        half = ExtraLayerAttribute(drop_rate=0.5)
        x = layers.fc(input=x, size=4096, act=Relu(), layer_attr=half)
    return layers.fc(input=x, size=num_classes, act=Softmax())
