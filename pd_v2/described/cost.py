"""Costs, and the layers that decode for them."""

from .. import layer
from .options import bias, built_by, first_input_list, options, weighted, weights

_COST = ("input", "label", "weight")


def _of_classes(function, *after, **own):
    """Return the builder of a cost of several inputs, each with a weight, then those of `after`."""
    sources = {"param_attr": weights, "bias_attr": bias, "num_classes": "num_classes", **own}
    builder = built_by(function, "input", *after, **sources)

    def build(config, inputs):
        count = sum(bool(slot.input_parameter_name) for slot in config.inputs)
        return builder(config, [inputs[:count], *inputs[count:]])

    return build


def _over_beam(config, inputs):
    beams = [layer.BeamInput(*part) for part in zip(*[iter(inputs)] * 3, strict=True)]
    return layer.cross_entropy_over_beam(beams, **options(config))


def _maps(kind, inputs, maps):
    """Return the layers of boxes and those of classes as arguments."""
    if len(inputs) != 2 * maps:
        raise ValueError(f"{kind} has {len(inputs)} inputs for {maps} maps")
    return {"input_loc": inputs[:maps], "input_conf": inputs[maps:]}


def _fields(conf, *names):
    return {name: getattr(conf, name) for name in ("num_classes", "background_id", *names)}


def _boxes(config, inputs):
    conf = config.inputs[0].multibox_loss_conf
    priors, label, *maps = inputs
    return layer.multibox_loss(
        priorbox=priors,
        label=label,
        **_maps(config.type, maps, conf.input_num),
        **_fields(conf, "overlap_threshold", "neg_pos_ratio", "neg_overlap"),
        **options(config),
    )


def _detected(config, inputs):
    conf = config.inputs[0].detection_output_conf
    priors, *maps = inputs
    return layer.detection_output(
        priorbox=priors,
        **_maps(config.type, maps, conf.input_num),
        **_fields(conf, "nms_threshold", "nms_top_k", "keep_top_k", "confidence_threshold"),
        **options(config),
    )


_PRIORS = ("aspect_ratio", "variance", "min_size", "max_size")

LAYERS = {
    "crf": built_by(layer.crf, *_COST, base=weighted, size="size", coeff="coeff"),
    "crf_decoding": built_by(layer.crf_decoding, "input", "label", base=weighted, size="size"),
    "cross_entropy_over_beam": _over_beam,
    "ctc": built_by(layer.ctc, "input", "label", size="size", norm_by_times="norm_by_times"),
    "detection_output": _detected,
    "hsigmoid": _of_classes(layer.hsigmoid, "label"),
    "huber_classification": built_by(
        layer.huber_classification_cost, "input", "label", coeff="coeff"
    ),
    "huber_regression": built_by(
        layer.huber_regression_cost, "input", "label", delta="delta", coeff="coeff"
    ),
    "lambda_cost": built_by(
        layer.lambda_cost, "input", "score", NDCG_num="NDCG_num", max_sort_size="max_sort_size"
    ),
    "multi-class-cross-entropy": built_by(layer.cross_entropy_cost, *_COST, coeff="coeff"),
    "multi_binary_label_cross_entropy": built_by(
        layer.multi_binary_label_cross_entropy_cost, "input", "label", coeff="coeff"
    ),
    "multi_class_cross_entropy_with_selfnorm": built_by(
        layer.cross_entropy_with_selfnorm_cost,
        "input",
        "label",
        coeff="coeff",
        softmax_selfnorm_alpha="softmax_selfnorm_alpha",
    ),
    "multibox_loss": _boxes,
    "nce": _of_classes(
        layer.nce,
        "label",
        "weight",
        num_neg_samples="num_neg_samples",
        neg_distribution=lambda config: list(config.neg_sampling_dist) or None,
    ),
    "priorbox": built_by(
        layer.priorbox,
        "input",
        "image",
        **{field: first_input_list(f"priorbox_conf.{field}") for field in _PRIORS},
    ),
    "rank-cost": built_by(layer.rank_cost, "left", "right", "label", "weight", coeff="coeff"),
    "smooth_l1": built_by(layer.smooth_l1_cost, "input", "label", coeff="coeff"),
    "square_error": built_by(layer.square_error_cost, *_COST, coeff="coeff"),
    "sum_cost": built_by(layer.sum_cost, "input"),
    "warp_ctc": built_by(
        layer.warp_ctc, "input", "label", size="size", blank="blank", norm_by_times="norm_by_times"
    ),
}
