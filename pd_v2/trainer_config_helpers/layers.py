"""Layers under their names of v1: `fc_layer` is `paddle.layer.fc`.

`data_layer` is missing: in v1 the data provider knew the type of a column, and the layer only its
size.
"""

# isort: skip_file
# fmt: off
from .. import layer
from ..layer import (
    AggregateLevel, BaseGeneratedInput, BeamInput, ExpandLevel, GeneratedInput, LayerOutput,
    LayerType, StaticInput, SubsequenceInput, beam_search, classification_cost, context_projection,
    conv_operator, conv_projection, cos_sim, cross_entropy, cross_entropy_over_beam,
    dotmul_operator, dotmul_projection, factorization_machine, first_seq, full_matrix_projection,
    grumemory, hsigmoid, huber_classification_cost, huber_regression_cost, identity_projection,
    lambda_cost, last_seq, layer_support, lstmemory, memory, rank_cost, recurrent_group,
    regression_cost, scaling_projection, slice_projection, smooth_l1_cost, square_error_cost,
    sum_cost, table_projection, trans_full_matrix_projection,
)

__all__ = [
    "AggregateLevel", "BaseGeneratedInput", "BeamInput", "ExpandLevel", "GeneratedInput",
    "LayerOutput", "LayerType", "StaticInput", "SubsequenceInput", "addto_layer",
    "batch_norm_layer", "beam_search", "bilinear_interp_layer", "block_expand_layer",
    "classification_cost", "clip_layer", "concat_layer", "context_projection", "conv_operator",
    "conv_projection", "conv_shift_layer", "convex_comb_layer", "cos_sim", "crf_decoding_layer",
    "crf_layer", "crop_layer", "cross_channel_norm_layer", "cross_entropy",
    "cross_entropy_over_beam", "cross_entropy_with_selfnorm", "ctc_layer", "detection_output_layer",
    "dot_prod_layer", "dotmul_operator", "dotmul_projection", "dropout_layer", "embedding_layer",
    "eos_layer", "expand_layer", "factorization_machine", "fc_layer", "first_seq",
    "full_matrix_projection", "gated_unit_layer", "get_output_layer", "gru_step_layer",
    "gru_step_naive_layer", "grumemory", "hsigmoid", "huber_classification_cost",
    "huber_regression_cost", "identity_projection", "img_cmrnorm_layer", "img_conv3d_layer",
    "img_conv_layer", "img_pool3d_layer", "img_pool_layer", "interpolation_layer",
    "kmax_seq_score_layer", "l2_distance_layer", "lambda_cost", "last_seq", "layer_support",
    "linear_comb_layer", "lstm_step_layer", "lstmemory", "maxid_layer", "maxout_layer", "memory",
    "mixed_layer", "multi_binary_label_cross_entropy", "multibox_loss_layer", "multiplex_layer",
    "nce_layer", "out_prod_layer", "pad_layer", "pooling_layer", "power_layer", "prelu_layer",
    "print_layer", "printer_layer", "priorbox_layer", "rank_cost", "recurrent_group",
    "recurrent_layer", "regression_cost", "repeat_layer", "resize_layer", "roi_pool_layer",
    "rotate_layer", "row_conv_layer", "row_l2_norm_layer", "sampling_id_layer", "scale_shift_layer",
    "scale_sub_region_layer", "scaling_layer", "scaling_projection", "selective_fc_layer",
    "seq_concat_layer", "seq_reshape_layer", "seq_slice_layer", "slice_projection",
    "slope_intercept_layer", "smooth_l1_cost", "spp_layer", "square_error_cost",
    "sub_nested_seq_layer", "sub_seq_layer", "sum_cost", "sum_to_one_norm_layer",
    "switch_order_layer", "table_projection", "tensor_layer", "trans_full_matrix_projection",
    "trans_layer", "warp_ctc_layer",
]

addto_layer = layer.addto
batch_norm_layer = layer.batch_norm
bilinear_interp_layer = layer.bilinear_interp
block_expand_layer = layer.block_expand
clip_layer = layer.clip
concat_layer = layer.concat
conv_shift_layer = layer.conv_shift
convex_comb_layer = layer.convex_comb
crf_decoding_layer = layer.crf_decoding
crf_layer = layer.crf
crop_layer = layer.crop
cross_channel_norm_layer = layer.cross_channel_norm
cross_entropy_with_selfnorm = layer.cross_entropy_with_selfnorm_cost
ctc_layer = layer.ctc
detection_output_layer = layer.detection_output
dot_prod_layer = layer.dot_prod
dropout_layer = layer.dropout
embedding_layer = layer.embedding
eos_layer = layer.eos
expand_layer = layer.expand
fc_layer = layer.fc
gated_unit_layer = layer.gated_unit
get_output_layer = layer.get_output
gru_step_layer = layer.gru_step
gru_step_naive_layer = layer.gru_step_naive
img_cmrnorm_layer = layer.img_cmrnorm
img_conv3d_layer = layer.img_conv3d
img_conv_layer = layer.img_conv
img_pool3d_layer = layer.img_pool3d
img_pool_layer = layer.img_pool
interpolation_layer = layer.interpolation
kmax_seq_score_layer = layer.kmax_seq_score
l2_distance_layer = layer.l2_distance
linear_comb_layer = layer.linear_comb
lstm_step_layer = layer.lstm_step
maxid_layer = layer.max_id
maxout_layer = layer.maxout
mixed_layer = layer.mixed
multi_binary_label_cross_entropy = layer.multi_binary_label_cross_entropy_cost
multibox_loss_layer = layer.multibox_loss
multiplex_layer = layer.multiplex
nce_layer = layer.nce
out_prod_layer = layer.out_prod
pad_layer = layer.pad
pooling_layer = layer.pooling
power_layer = layer.power
prelu_layer = layer.prelu
print_layer = layer.print
printer_layer = layer.printer
priorbox_layer = layer.priorbox
recurrent_layer = layer.recurrent
repeat_layer = layer.repeat
resize_layer = layer.resize
roi_pool_layer = layer.roi_pool
rotate_layer = layer.rotate
row_conv_layer = layer.row_conv
row_l2_norm_layer = layer.row_l2_norm
sampling_id_layer = layer.sampling_id
scale_shift_layer = layer.scale_shift
scale_sub_region_layer = layer.scale_sub_region
scaling_layer = layer.scaling
selective_fc_layer = layer.selective_fc
seq_concat_layer = layer.seq_concat
seq_reshape_layer = layer.seq_reshape
seq_slice_layer = layer.seq_slice
slope_intercept_layer = layer.slope_intercept
spp_layer = layer.spp
sub_nested_seq_layer = layer.sub_nested_seq
sub_seq_layer = layer.sub_seq
sum_to_one_norm_layer = layer.sum_to_one_norm
switch_order_layer = layer.switch_order
tensor_layer = layer.tensor
trans_layer = layer.trans
warp_ctc_layer = layer.warp_ctc
