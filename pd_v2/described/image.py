"""Layers of images."""

from .. import layer
from ..pooling import Avg, CudnnAvg, CudnnMax, Max, MaxWithMask
from .options import (
    act,
    acted,
    bias,
    built_by,
    first_input,
    first_input_list,
    learned,
    options,
    weight,
)

_POOLING = {
    "avg-projection": Avg,
    "cudnn-avg-pool": CudnnAvg,
    "cudnn-max-pool": CudnnMax,
    "max-pool-with-mask": MaxWithMask,
    "max-projection": Max,
}


def _conv(config, inputs):
    conf = config.inputs[0].conv_conf
    sizes = ("filter_size", "stride", "padding", "dilation")
    return layer.img_conv(
        *inputs,
        num_filters=config.num_filters,
        num_channels=conf.channels,
        groups=conf.groups,
        shared_biases=config.shared_biases,
        layer_type=config.type,
        trans=config.type.endswith("convt"),
        **{f: getattr(conf, f) for f in (*sizes, *(f"{f}_y" for f in sizes))},
        **learned(config),
    )


def _conv3d(config, inputs):
    conf = config.inputs[0].conv_conf
    return layer.img_conv3d(
        *inputs,
        num_filters=config.num_filters,
        num_channels=conf.channels,
        groups=conf.groups,
        shared_biases=config.shared_biases,
        trans=config.type == "deconv3d",
        **{f: _axes(conf, f) for f in ("filter_size", "stride", "padding")},
        **learned(config),
    )


def _axes(conf, field, last=""):
    """Return the (x, y, z) fields of a size."""
    return [getattr(conf, field + axis) for axis in (last, "_y", "_z")]


def _pool(config, inputs):
    conf = config.inputs[0].pool_conf
    own = {"exclude_mode": conf.exclude_mode} if conf.HasField("exclude_mode") else {}
    return _pooled(layer.img_pool, 2, config, inputs, **own)


def _pool3d(config, inputs):
    return _pooled(layer.img_pool3d, 3, config, inputs)


def _pooled(function, rank, config, inputs, **own):
    conf = config.inputs[0].pool_conf
    window, stride, pad, size, count = (
        _axes(conf, field, last)[:rank]
        for field, last in (
            *(("size", "_x"), ("stride", ""), ("padding", "")),
            *(("img_size", ""), ("output", "_x")),
        )
    )
    ceil = all(
        n == 1 - (k - m - 2 * p) // s
        for n, k, m, p, s in zip(count, window, size, pad, stride, strict=True)
    )
    return function(
        *inputs,
        pool_size=window,
        stride=stride,
        padding=pad,
        num_channels=conf.channels,
        pool_type=_kind_of_pooling(conf),
        ceil_mode=ceil,
        **options(config, **own),
    )


def _kind_of_pooling(conf):
    if conf.pool_type not in _POOLING:
        raise ValueError(f"there is no pooling {conf.pool_type!r} here")
    return _POOLING[conf.pool_type]()


def _batch_norm(config, inputs):
    conf = config.inputs[0].image_conf
    own = {"param_attr": weight(config.inputs[0]), "bias_attr": bias(config)}
    if config.HasField("use_global_stats"):
        own["use_global_stats"] = config.use_global_stats
    return layer.batch_norm(
        inputs[0],
        act=act(config.active_type),
        img3D=conf.HasField("img_size_z"),
        num_channels=conf.channels,
        epsilon=config.epsilon,
        moving_average_fraction=config.moving_average_fraction,
        mean_var_names=[slot.input_parameter_name for slot in config.inputs[1:]],
        batch_norm_type=config.type,
        **options(config, **own),
    )


def _norm(config, inputs):
    conf = config.inputs[0].norm_conf
    if conf.norm_type == "cross-channel-norm":
        _set_channels(inputs[0], conf)
        return layer.cross_channel_norm(
            *inputs, **options(config, param_attr=weight(config.inputs[0]))
        )
    if conf.norm_type != "cmrnorm-projection":
        raise ValueError(f"there is no norm {conf.norm_type!r} here")
    sizes = {"size": conf.size, "scale": conf.scale * conf.size, "power": conf.pow}
    return layer.img_cmrnorm(*inputs, num_channels=conf.channels, **sizes, **options(config))


def _set_channels(x, conf):
    """Set the number of channels of an input that does not record it, as data layers do not."""
    x.num_filters = x.num_filters or conf.channels


def _of_image(field, builder):
    """Return a builder that first sets the number of channels of the input."""

    def build(config, inputs):
        _set_channels(inputs[0], getattr(config.inputs[0], field).image_conf)
        return builder(config, inputs)

    return build


def _cells(conf):
    return conf.pooled_width * conf.pooled_height


_SPP, _ROI, _MAXOUT = "spp_conf", "roi_pool_conf", "maxout_conf"
_BLOCKS = ("block_x", "block_y", "stride_x", "stride_y", "padding_x", "padding_y")

LAYERS = {
    "batch_norm": _batch_norm,
    "bilinear_interp": _of_image(
        "bilinear_interp_conf",
        built_by(
            layer.bilinear_interp,
            "input",
            out_size_x=first_input("bilinear_interp_conf.out_size_x"),
            out_size_y=first_input("bilinear_interp_conf.out_size_y"),
        ),
    ),
    "blockexpand": built_by(
        layer.block_expand,
        "input",
        num_channels=first_input("block_expand_conf.channels"),
        **{field: first_input(f"block_expand_conf.{field}") for field in _BLOCKS},
    ),
    "conv3d": _conv3d,
    "crop": built_by(
        layer.crop,
        as_list="input",
        offset=lambda config: list(config.offset),
        axis="axis",
        shape=lambda config: list(config.shape) or None,
    ),
    "cudnn_batch_norm": _batch_norm,
    "cudnn_conv": _conv,
    "cudnn_convt": _conv,
    "deconv3d": _conv3d,
    "exconv": _conv,
    "exconvt": _conv,
    "maxout": built_by(
        layer.maxout,
        "input",
        groups=first_input(f"{_MAXOUT}.groups"),
        num_channels=first_input(f"{_MAXOUT}.image_conf.channels"),
    ),
    "norm": _norm,
    "pad": _of_image(
        "pad_conf",
        built_by(
            layer.pad,
            "input",
            **{f: first_input_list(f"pad_conf.{f}") for f in ("pad_c", "pad_h", "pad_w")},
        ),
    ),
    "pool": _pool,
    "pool3d": _pool3d,
    "roi_pool": built_by(
        layer.roi_pool,
        "input",
        "rois",
        num_channels=lambda config: config.size // _cells(config.inputs[0].roi_pool_conf),
        **{
            field: first_input(f"{_ROI}.{field}")
            for field in ("pooled_width", "pooled_height", "spatial_scale")
        },
    ),
    "scale_sub_region": _of_image(
        "scale_sub_region_conf",
        built_by(
            layer.scale_sub_region,
            "input",
            "indices",
            value=first_input("scale_sub_region_conf.value"),
        ),
    ),
    "spp": built_by(
        layer.spp,
        "input",
        num_channels=first_input(f"{_SPP}.image_conf.channels"),
        pool_type=lambda config: _kind_of_pooling(config.inputs[0].spp_conf),
        pyramid_height=first_input(f"{_SPP}.pyramid_height"),
    ),
    "switch_order": built_by(
        layer.switch_order,
        "input",
        base=acted,
        reshape_axis=lambda config: len(config.reshape_conf.height_axis),
    ),
}
