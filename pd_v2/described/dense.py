"""Layers that multiply by a matrix, and layers of single elements."""

from ..layer import (
    addto,
    clip,
    factorization_machine,
    fc,
    interpolation,
    power,
    prelu,
    row_l2_norm,
    scale_shift,
    scaling,
    selective_fc,
    slope_intercept,
    sum_to_one_norm,
    tensor,
)
from .options import acted, bias, biased, learned, made_by, of_first, weight, weighted


def _selective(config, inputs):
    *inputs, select = inputs
    return selective_fc(
        inputs,
        config.size,
        select,
        pass_generation=config.selective_fc_pass_generation,
        has_selected_colums=config.has_selected_colums,
        mul_ratio=config.selective_fc_full_mul_ratio,
        **learned(config),
    )


def _interpolated(config, inputs):
    weight, *inputs = inputs
    return made_by(interpolation, "weight", "input")(config, [weight, inputs])


def _machine(config):
    return acted(config, param_attr=weight(config.inputs[0]))


LAYERS = {
    "addto": made_by(addto, listed="input", base=biased),
    "clip": made_by(clip, "input", min=of_first("clip_conf.min"), max=of_first("clip_conf.max")),
    "factorization_machine": made_by(
        factorization_machine, "input", base=_machine, factor_size="factor_size"
    ),
    "fc": made_by(fc, listed="input", base=learned, size="size"),
    "interpolation": _interpolated,
    "power": made_by(power, "weight", "input"),
    "prelu": made_by(prelu, "input", base=weighted, partial_sum="partial_sum"),
    "row_l2_norm": made_by(row_l2_norm, "input"),
    "scale_shift": made_by(scale_shift, "input", base=weighted, bias_attr=bias),
    "scaling": made_by(scaling, "weight", "input"),
    "selective_fc": _selective,
    "slope_intercept": made_by(slope_intercept, "input", slope="slope", intercept="intercept"),
    "sum_to_one_norm": made_by(sum_to_one_norm, "input"),
    "tensor": made_by(tensor, "a", "b", base=learned, size="size"),
}
