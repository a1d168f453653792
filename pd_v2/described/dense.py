"""Layers that multiply by a matrix, and elementwise layers."""

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
from .options import acted, bias, biased, built_by, first_input, learned, weight, weighted


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
    return built_by(interpolation, "weight", "input")(config, [weight, inputs])


def _machine(config):
    return acted(config, param_attr=weight(config.inputs[0]))


LAYERS = {
    "addto": built_by(addto, as_list="input", base=biased),
    "clip": built_by(
        clip, "input", min=first_input("clip_conf.min"), max=first_input("clip_conf.max")
    ),
    "factorization_machine": built_by(
        factorization_machine, "input", base=_machine, factor_size="factor_size"
    ),
    "fc": built_by(fc, as_list="input", base=learned, size="size"),
    "interpolation": _interpolated,
    "power": built_by(power, "weight", "input"),
    "prelu": built_by(prelu, "input", base=weighted, partial_sum="partial_sum"),
    "row_l2_norm": built_by(row_l2_norm, "input"),
    "scale_shift": built_by(scale_shift, "input", base=weighted, bias_attr=bias),
    "scaling": built_by(scaling, "weight", "input"),
    "selective_fc": _selective,
    "slope_intercept": built_by(slope_intercept, "input", slope="slope", intercept="intercept"),
    "sum_to_one_norm": built_by(sum_to_one_norm, "input"),
    "tensor": built_by(tensor, "a", "b", base=learned, size="size"),
}
