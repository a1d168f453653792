"""Layers of pairs of rows, layers that rearrange elements, and layers of ids."""

from .. import build, layer
from ..layer.generate import Generator
from .options import acted, built_by, options


def _max_id(config, inputs):
    ids = layer.max_id(*inputs, **options(config))
    if config.HasField("beam_size") and isinstance(ids.within, Generator):
        ids.config.beam_size = ids.within.beam_size
    return ids


def _printed(config, inputs):
    layer.printer(inputs, format=config.user_arg, name=config.name)
    return build.current().layers[config.name]


LAYERS = {
    "conv_shift": built_by(layer.conv_shift, "a", "b"),
    "convex_comb": built_by(layer.linear_comb, "weights", "vectors", size="size"),
    "cos": built_by(layer.cos_sim, "a", "b", scale="cos_scale"),
    "cos_vm": built_by(layer.cos_sim, "a", "b", scale="cos_scale", size="size"),
    "dot_prod": built_by(layer.dot_prod, "input1", "input2"),
    "eos_id": built_by(layer.eos, "input", eos_id="eos_id"),
    "featmap_expand": built_by(
        layer.repeat,
        "input",
        base=acted,
        num_repeats="num_filters",
        as_row_vector=lambda config: config.user_arg != "as_col_vec",
    ),
    "l2_distance": built_by(layer.l2_distance, "x", "y"),
    "maxid": _max_id,
    "multiplex": built_by(layer.multiplex, as_list="input"),
    "out_prod": built_by(layer.out_prod, "input1", "input2"),
    "print": _printed,
    "resize": built_by(layer.resize, "input", size="size"),
    "rotate": built_by(layer.rotate, "input", height="height", width="width"),
    "sampling_id": built_by(layer.sampling_id, "input"),
    "trans": built_by(layer.trans, "input"),
}
