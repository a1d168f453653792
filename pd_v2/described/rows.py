"""Layers of pairs of rows, layers that arrange elements, and layers of ids."""

from .. import build
from ..layer import (
    conv_shift,
    cos_sim,
    dot_prod,
    eos,
    l2_distance,
    linear_comb,
    max_id,
    multiplex,
    out_prod,
    printer,
    repeat,
    resize,
    rotate,
    sampling_id,
    trans,
)
from ..layer.generate import Generator
from .options import acted, made_by, options


def _best(config, inputs):
    best = max_id(*inputs, **options(config))
    if config.HasField("beam_size") and isinstance(best.within, Generator):
        best.config.beam_size = best.within.beam_size
    return best


def _printed(config, inputs):
    printer(inputs, format=config.user_arg, name=config.name)
    return build.current().layers[config.name]


LAYERS = {
    "conv_shift": made_by(conv_shift, "a", "b"),
    "convex_comb": made_by(linear_comb, "weights", "vectors", size="size"),
    "cos": made_by(cos_sim, "a", "b", scale="cos_scale"),
    "cos_vm": made_by(cos_sim, "a", "b", scale="cos_scale", size="size"),
    "dot_prod": made_by(dot_prod, "input1", "input2"),
    "eos_id": made_by(eos, "input", eos_id="eos_id"),
    "featmap_expand": made_by(
        repeat,
        "input",
        base=acted,
        num_repeats="num_filters",
        as_row_vector=lambda config: config.user_arg != "as_col_vec",
    ),
    "l2_distance": made_by(l2_distance, "x", "y"),
    "maxid": _best,
    "multiplex": made_by(multiplex, listed="input"),
    "out_prod": made_by(out_prod, "input1", "input2"),
    "print": _printed,
    "resize": made_by(resize, "input", size="size"),
    "rotate": made_by(rotate, "input", height="height", width="width"),
    "sampling_id": made_by(sampling_id, "input"),
    "trans": made_by(trans, "input"),
}
