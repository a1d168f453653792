"""Layer functions, by family."""

# isort: skip_file
# fmt: off
from ..config_base import Layer as LayerOutput
from ..topology import get_layer, parse_network
from .base import layer_support
from .cost import (
    classification_cost, cross_entropy_cost, cross_entropy_with_selfnorm_cost,
    huber_classification_cost, huber_regression_cost, multi_binary_label_cross_entropy_cost,
    rank_cost, regression_cost, smooth_l1_cost, square_error_cost, sum_cost,
)
from .cost_rank import lambda_cost
from .data import data
from .dense import embedding, factorization_machine, fc, gated_unit, selective_fc, tensor
from .detection import detection_output, multibox_loss, priorbox
from .generate import BaseGeneratedInput, GeneratedInput, beam_search
from .group import StaticInput, SubsequenceInput, memory, recurrent_group
from .ids import eos, max_id, sampling_id
from .image import bilinear_interp, crop, maxout, pad, scale_sub_region, switch_order
from .image_conv import img_conv, img_conv3d
from .image_pool import img_pool, img_pool3d, roi_pool, spp
from .image_sequence import block_expand
from .layer_type import LayerType
from .math import (
    addto, clip, concat, dropout, interpolation, power, prelu, row_l2_norm, scale_shift, scaling,
    slope_intercept, sum_to_one_norm,
)
from .mixed import (
    dotmul_operator, dotmul_projection, full_matrix_projection, identity_projection, mixed,
    scaling_projection, slice_projection, table_projection, trans_full_matrix_projection,
)
from .mixed_conv import conv_operator, conv_projection
from .mixed_sequence import context_projection
from .norm import batch_norm, cross_channel_norm, img_cmrnorm
from .printing import print, printer
from .products import conv_shift, convex_comb, cos_sim, dot_prod, l2_distance, linear_comb, out_prod
from .recurrent import (
    get_output, gru_step, gru_step_naive, grumemory, lstm_step, lstmemory, recurrent,
)
from .reshape import multiplex, repeat, resize, rotate, trans
from .sequence import (
    AggregateLevel, ExpandLevel, expand, first_seq, last_seq, pooling, row_conv, seq_concat,
    seq_reshape,
)
from .sequence_slice import kmax_seq_score, seq_slice, sub_nested_seq, sub_seq
from .structured import (
    BeamInput, crf, crf_decoding, cross_entropy_over_beam, ctc, hsigmoid, nce, warp_ctc,
)

# Spellings that scripts of the first half of 2017 use.
mse_cost = square_error_cost
cross_entropy = cross_entropy_cost
StaticInputV2, GeneratedInputV2 = StaticInput, GeneratedInput
huber_cost = huber_classification_cost
kmax_sequence_score = kmax_seq_score

__all__ = [
    "AggregateLevel", "BaseGeneratedInput", "BeamInput", "ExpandLevel", "GeneratedInput",
    "GeneratedInputV2", "LayerOutput", "LayerType", "StaticInput", "StaticInputV2",
    "SubsequenceInput", "addto", "batch_norm", "beam_search", "bilinear_interp", "block_expand",
    "classification_cost", "clip", "concat", "context_projection", "conv_operator",
    "conv_projection", "conv_shift", "convex_comb", "cos_sim", "crf", "crf_decoding", "crop",
    "cross_channel_norm", "cross_entropy", "cross_entropy_cost", "cross_entropy_over_beam",
    "cross_entropy_with_selfnorm_cost", "ctc", "data", "detection_output", "dot_prod",
    "dotmul_operator", "dotmul_projection", "dropout", "embedding", "eos", "expand",
    "factorization_machine", "fc", "first_seq", "full_matrix_projection", "gated_unit", "get_layer",
    "get_output", "gru_step", "gru_step_naive", "grumemory", "hsigmoid",
    "huber_classification_cost", "huber_regression_cost", "identity_projection", "img_cmrnorm",
    "img_conv", "img_conv3d", "img_pool", "img_pool3d", "interpolation", "kmax_seq_score",
    "l2_distance", "lambda_cost", "last_seq", "layer_support", "linear_comb", "lstm_step",
    "lstmemory", "max_id", "maxout", "memory", "mixed", "mse_cost",
    "multi_binary_label_cross_entropy_cost", "multibox_loss", "multiplex", "nce", "out_prod", "pad",
    "parse_network", "pooling", "power", "prelu", "print", "printer", "priorbox", "rank_cost",
    "recurrent", "recurrent_group", "regression_cost", "repeat", "resize", "roi_pool", "rotate",
    "row_conv", "row_l2_norm", "sampling_id", "scale_shift", "scale_sub_region", "scaling",
    "scaling_projection", "selective_fc", "seq_concat", "seq_reshape", "seq_slice",
    "slice_projection", "slope_intercept", "smooth_l1_cost", "spp", "square_error_cost",
    "sub_nested_seq", "sub_seq", "sum_cost", "sum_to_one_norm", "switch_order", "table_projection",
    "tensor", "trans", "trans_full_matrix_projection", "warp_ctc",
]
