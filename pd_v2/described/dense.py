"""Layers that multiply by a matrix, and elementwise layers."""

from .. import layer
from .options import acted, bias, biased, built_by, first_input, learned, weight, weighted


def _selective(config, inputs):
    *inputs, select = inputs
    return layer.selective_fc(
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
    return built_by(layer.interpolation, "weight", "input")(config, [weight, inputs])


def _machine(config):
    return acted(config, param_attr=weight(config.inputs[0]))


LAYERS = {
    "addto": built_by(layer.addto, as_list="input", base=biased),
    "clip": built_by(
        layer.clip, "input", min=first_input("clip_conf.min"), max=first_input("clip_conf.max")
    ),
    "factorization_machine": built_by(
        layer.factorization_machine, "input", base=_machine, factor_size="factor_size"
    ),
    "fc": built_by(layer.fc, as_list="input", base=learned, size="size"),
    "interpolation": _interpolated,
    "power": built_by(layer.power, "weight", "input"),
    "prelu": built_by(layer.prelu, "input", base=weighted, partial_sum="partial_sum"),
    "row_l2_norm": built_by(layer.row_l2_norm, "input"),
    "scale_shift": built_by(layer.scale_shift, "input", base=weighted, bias_attr=bias),
    "scaling": built_by(layer.scaling, "weight", "input"),
    "selective_fc": _selective,
    "slope_intercept": built_by(
        layer.slope_intercept, "input", slope="slope", intercept="intercept"
    ),
    "sum_to_one_norm": built_by(layer.sum_to_one_norm, "input"),
    "tensor": built_by(layer.tensor, "a", "b", base=learned, size="size"),
}
