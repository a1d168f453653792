"""Layers under their names of v1: `fc_layer` is `paddle.layer.fc`.

`data_layer` is missing: in v1 the data provider knew the type of a column, and the layer only its
size.
"""

from .. import layer
from .renamed import lookup

_SAME = [
    "AggregateLevel", "BaseGeneratedInput", "BeamInput", "ExpandLevel", "GeneratedInput",
    "LayerOutput", "LayerType", "StaticInput", "SubsequenceInput", "beam_search",
    "classification_cost", "context_projection", "conv_operator", "conv_projection", "cos_sim",
    "cross_entropy", "cross_entropy_over_beam", "dotmul_operator", "dotmul_projection",
    "factorization_machine", "first_seq", "full_matrix_projection", "grumemory", "hsigmoid",
    "huber_classification_cost", "huber_regression_cost", "identity_projection", "lambda_cost",
    "last_seq", "layer_support", "lstmemory", "memory", "rank_cost", "recurrent_group",
    "regression_cost", "scaling_projection", "slice_projection", "smooth_l1_cost",
    "square_error_cost", "sum_cost", "table_projection", "trans_full_matrix_projection",
]  # fmt: skip
_WITH_LAYER = [
    "addto", "batch_norm", "bilinear_interp", "block_expand", "clip", "concat", "conv_shift",
    "convex_comb", "crf_decoding", "crf", "crop", "cross_channel_norm", "ctc",
    "detection_output", "dot_prod", "dropout", "embedding", "eos", "expand", "fc", "gated_unit",
    "get_output", "gru_step", "gru_step_naive", "img_cmrnorm", "img_conv3d", "img_conv",
    "img_pool3d", "img_pool", "interpolation", "kmax_seq_score", "l2_distance", "linear_comb",
    "lstm_step", "maxout", "mixed", "multibox_loss", "multiplex", "nce", "out_prod", "pad",
    "pooling", "power", "prelu", "print", "printer", "priorbox", "recurrent", "repeat",
    "resize", "roi_pool", "rotate", "row_conv", "row_l2_norm", "sampling_id", "scale_shift",
    "scale_sub_region", "scaling", "selective_fc", "seq_concat", "seq_reshape", "seq_slice",
    "slope_intercept", "spp", "sub_nested_seq", "sub_seq", "sum_to_one_norm", "switch_order",
    "tensor", "trans", "warp_ctc",
]  # fmt: skip
_NAMES = {
    **{name: name for name in _SAME},
    **{f"{name}_layer": name for name in _WITH_LAYER},
    "maxid_layer": "max_id",
    "cross_entropy_with_selfnorm": "cross_entropy_with_selfnorm_cost",
    "multi_binary_label_cross_entropy": "multi_binary_label_cross_entropy_cost",
}

__all__ = sorted(_NAMES)
__getattr__ = lookup(layer, _NAMES)
