"""The protobuf messages of 2017 for networks, parameters and training.

Checkpoints and topologies of that time are these messages, so the wire format is the same. The
classes are built at import from the schema below, in their own descriptor pool, as a process may
load another `paddle` package beside this one.
"""

import re

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from .proto_text import message_text

# A message per paragraph, fields as `number name[! required | * repeated]:type[=default] [packed]`.
# DataConfig described the data files of `paddle train`; scripts of paddle.v2 never set it, and as
# an empty message it preserves the fields of an old file as unknown fields.
_SCHEMA = """
ParameterUpdaterHookConfig: 1 type!:string; 2 sparsity_ratio:double=0.6
ParameterConfig: 1 name!:string; 2 size!:uint64; 3 learning_rate:double=1.0; 4 momentum:double=0;
  5 initial_mean:double=0; 6 initial_std:double=0.01; 7 decay_rate:double=0;
  8 decay_rate_l1:double=0; 9 dims*:uint64; 10 device:int32=-1; 11 initial_strategy:int32=0;
  12 initial_smart:bool=false; 13 num_batches_regularization:int32=1; 14 is_sparse:bool=false;
  15 format:string=; 16 sparse_remote_update:bool=false; 17 gradient_clipping_threshold:double=0;
  18 is_static:bool=false; 19 para_id:uint64; 20 update_hooks*:ParameterUpdaterHookConfig;
  21 need_compact:bool=false; 22 sparse_update:bool=false; 23 is_shared:bool=false;
  24 parameter_block_size:uint64=0
ExternalConfig: 1 layer_names*:string; 2 input_layer_names*:string; 3 output_layer_names*:string
ActivationConfig: 1 type!:string
ConvConfig: 1 filter_size!:uint32; 2 channels!:uint32; 3 stride!:uint32; 4 padding!:uint32;
  5 groups!:uint32; 6 filter_channels!:uint32; 7 output_x!:uint32; 8 img_size!:uint32;
  9 caffe_mode!:bool=true; 10 filter_size_y!:uint32; 11 padding_y!:uint32; 12 stride_y!:uint32;
  13 output_y:uint32; 14 img_size_y:uint32; 15 dilation:uint32=1; 16 dilation_y:uint32=1;
  17 filter_size_z:uint32=1; 18 padding_z:uint32=1; 19 stride_z:uint32=1; 20 output_z:uint32=1;
  21 img_size_z:uint32=1
PoolConfig: 1 pool_type!:string; 2 channels!:uint32; 3 size_x!:uint32; 4 start:uint32;
  5 stride!:uint32=1; 6 output_x!:uint32; 7 img_size!:uint32; 8 padding:uint32=0; 9 size_y:uint32;
  10 stride_y:uint32; 11 output_y:uint32; 12 img_size_y:uint32; 13 padding_y:uint32;
  14 size_z:uint32=1; 15 stride_z:uint32=1; 16 output_z:uint32=1; 17 img_size_z:uint32=1;
  18 padding_z:uint32=1; 19 exclude_mode:bool
SppConfig: 1 image_conf!:ImageConfig; 2 pool_type!:string; 3 pyramid_height!:uint32
NormConfig: 1 norm_type!:string; 2 channels!:uint32; 3 size!:uint32; 4 scale!:double;
  5 pow!:double; 6 output_x!:uint32; 7 img_size!:uint32; 8 blocked:bool; 9 output_y:uint32;
  10 img_size_y:uint32
BlockExpandConfig: 1 channels!:uint32; 2 stride_x!:uint32; 3 stride_y!:uint32;
  4 padding_x!:uint32; 5 padding_y!:uint32; 6 block_x!:uint32; 7 block_y!:uint32;
  8 output_x!:uint32; 9 output_y!:uint32; 10 img_size_x!:uint32; 11 img_size_y!:uint32
MaxOutConfig: 1 image_conf!:ImageConfig; 2 groups!:uint32
RowConvConfig: 1 context_length!:uint32
SliceConfig: 1 start!:uint32; 2 end!:uint32
ProjectionConfig: 1 type!:string; 2 name!:string; 3 input_size!:uint64; 4 output_size!:uint64;
  5 context_start:int32; 6 context_length:int32; 7 trainable_padding:bool=false;
  8 conv_conf:ConvConfig; 9 num_filters:int32; 11 offset:uint64=0; 12 pool_conf:PoolConfig;
  13 slices*:SliceConfig
OperatorConfig: 1 type!:string; 2 input_indices*:int32; 3 input_sizes*:uint64;
  4 output_size!:uint64; 5 dotmul_scale:double=1.0; 6 conv_conf:ConvConfig; 7 num_filters:int32
BilinearInterpConfig: 1 image_conf!:ImageConfig; 2 out_size_x!:uint32; 3 out_size_y!:uint32
ImageConfig: 2 channels!:uint32; 8 img_size!:uint32; 9 img_size_y:uint32; 10 img_size_z:uint32=1
PriorBoxConfig: 1 min_size*:uint32; 2 max_size*:uint32; 3 aspect_ratio*:float; 4 variance*:float
PadConfig: 1 image_conf!:ImageConfig; 2 pad_c*:uint32; 3 pad_h*:uint32; 4 pad_w*:uint32
ReshapeConfig: 1 height_axis*:uint32; 2 width_axis*:uint32
MultiBoxLossConfig: 1 num_classes!:uint32; 2 overlap_threshold!:float; 3 neg_pos_ratio!:float;
  4 neg_overlap!:float; 5 background_id!:uint32; 6 input_num!:uint32; 7 height:uint32=1;
  8 width:uint32=1
DetectionOutputConfig: 1 num_classes!:uint32; 2 nms_threshold!:float; 3 nms_top_k!:uint32;
  4 background_id!:uint32; 5 input_num!:uint32; 6 keep_top_k!:uint32;
  7 confidence_threshold!:float; 8 height:uint32=1; 9 width:uint32=1
ClipConfig: 1 min!:double; 2 max!:double
ROIPoolConfig: 1 pooled_width!:uint32; 2 pooled_height!:uint32; 3 spatial_scale!:float;
  4 height:uint32=1; 5 width:uint32=1
ScaleSubRegionConfig: 1 image_conf!:ImageConfig; 2 value!:float
LayerInputConfig: 1 input_layer_name!:string; 2 input_parameter_name:string;
  3 conv_conf:ConvConfig; 4 pool_conf:PoolConfig; 5 norm_conf:NormConfig;
  6 proj_conf:ProjectionConfig; 7 block_expand_conf:BlockExpandConfig; 8 image_conf:ImageConfig;
  9 input_layer_argument:string; 10 bilinear_interp_conf:BilinearInterpConfig;
  11 maxout_conf:MaxOutConfig; 12 spp_conf:SppConfig; 13 priorbox_conf:PriorBoxConfig;
  14 pad_conf:PadConfig; 15 row_conv_conf:RowConvConfig; 16 multibox_loss_conf:MultiBoxLossConfig;
  17 detection_output_conf:DetectionOutputConfig; 18 clip_conf:ClipConfig;
  19 scale_sub_region_conf:ScaleSubRegionConfig; 20 roi_pool_conf:ROIPoolConfig
LayerConfig: 1 name!:string; 2 type!:string; 3 size:uint64; 4 active_type:string;
  5 inputs*:LayerInputConfig; 6 bias_parameter_name:string; 7 num_filters:uint32;
  8 shared_biases:bool=false; 9 partial_sum:uint32; 10 drop_rate:double; 11 num_classes:uint32;
  12 device:int32=-1; 13 reversed:bool=false; 14 active_gate_type:string;
  15 active_state_type:string; 16 num_neg_samples:int32=10; 17 neg_sampling_dist*:double packed;
  19 output_max_index:bool=false; 21 softmax_selfnorm_alpha:double=0.1; 24 directions*:bool;
  25 norm_by_times:bool; 26 coeff:double=1.0; 27 average_strategy:string;
  28 error_clipping_threshold:double=0.0; 29 operator_confs*:OperatorConfig; 30 NDCG_num:int32;
  31 max_sort_size:int32; 32 slope:double; 33 intercept:double; 34 cos_scale:double;
  36 data_norm_strategy:string; 37 bos_id:uint32; 38 eos_id:uint32; 39 beam_size:uint32;
  40 select_first:bool=false; 41 trans_type:string=non-seq;
  42 selective_fc_pass_generation:bool=false; 43 has_selected_colums:bool=true;
  44 selective_fc_full_mul_ratio:double=0.02;
  45 selective_fc_parallel_plain_mul_thread_num:uint32=0; 46 use_global_stats:bool;
  47 moving_average_fraction:double=0.9; 48 bias_size:uint32=0; 49 user_arg:string;
  50 height:uint64; 51 width:uint64; 52 blank:uint32=0; 53 seq_pool_stride:int32=-1;
  54 axis:int32=2; 55 offset*:uint32; 56 shape*:uint32; 57 delta:double=1.0; 58 depth:uint64=1;
  59 reshape_conf:ReshapeConfig; 60 epsilon:double=0.00001; 61 factor_size:uint32
EvaluatorConfig: 1 name!:string; 2 type!:string; 3 input_layers*:string; 4 chunk_scheme:string;
  5 num_chunk_types:int32; 6 classification_threshold:double=0.5; 7 positive_label:int32=-1;
  8 dict_file:string; 9 result_file:string; 10 num_results:int32=1; 11 delimited:bool=true;
  12 excluded_chunk_types*:int32; 13 top_k:int32=1; 14 overlap_threshold:double=0.5;
  15 background_id:int32=0; 16 evaluate_difficult:bool=false; 17 ap_type:string=11point
LinkConfig: 1 layer_name!:string; 2 link_name!:string; 3 has_subseq:bool=false
MemoryConfig: 1 layer_name!:string; 2 link_name!:string; 3 boot_layer_name:string;
  4 boot_bias_parameter_name:string; 5 boot_bias_active_type:string; 7 boot_with_const_id:uint32;
  6 is_sequence:bool=false
GeneratorConfig: 1 max_num_frames!:uint32; 2 eos_layer_name!:string;
  3 num_results_per_sample:int32=1; 4 beam_size:int32=1; 5 log_prob:bool=true
SubModelConfig: 1 name!:string; 2 layer_names*:string; 3 input_layer_names*:string;
  4 output_layer_names*:string; 5 evaluator_names*:string; 6 is_recurrent_layer_group:bool=false;
  7 reversed:bool=false; 8 memories*:MemoryConfig; 9 in_links*:LinkConfig;
  10 out_links*:LinkConfig; 11 generator:GeneratorConfig; 12 target_inlinkid:int32
ModelConfig: 1 type!:string=nn; 2 layers*:LayerConfig; 3 parameters*:ParameterConfig;
  4 input_layer_names*:string; 5 output_layer_names*:string; 6 evaluators*:EvaluatorConfig;
  8 sub_models*:SubModelConfig; 9 external_config:ExternalConfig
DataConfig:
OptimizationConfig: 3 batch_size:int32=1; 4 algorithm!:string;
  5 num_batches_per_send_parameter:int32=1; 6 num_batches_per_get_parameter:int32=1;
  7 learning_rate!:double; 8 learning_rate_decay_a:double=0; 9 learning_rate_decay_b:double=0;
  10 l1weight:double=0.1; 11 l2weight:double=0; 12 c1:double=1e-4; 13 backoff:double=0.5;
  14 owlqn_steps:int32=10; 15 max_backoff:int32=5; 17 l2weight_zero_iter:int32=0;
  18 average_window:double=0; 19 max_average_window:int64=9223372036854775807;
  23 learning_method:string=momentum; 24 ada_epsilon:double=1e-6; 25 do_average_in_cpu:bool=false;
  26 ada_rou:double=0.95; 27 learning_rate_schedule:string=constant; 28 delta_add_rate:double=1;
  29 mini_batch_size:int32=128; 30 use_sparse_remote_updater:bool=false;
  31 center_parameter_update_method:string=average; 32 shrink_parameter_value:double=0;
  33 adam_beta1:double=0.9; 34 adam_beta2:double=0.999; 35 adam_epsilon:double=1e-8;
  36 learning_rate_args:string=; 37 async_lagged_grad_discard_ratio:double=1.5;
  38 gradient_clipping_threshold:double=0
TrainerConfig: 1 model_config:ModelConfig; 2 data_config:DataConfig;
  3 opt_config!:OptimizationConfig; 4 test_data_config:DataConfig; 5 config_files*:string;
  6 save_dir:string=./output/model; 7 init_model_path:string; 8 start_pass:int32=0;
  9 config_file:string
"""

_Field = descriptor_pb2.FieldDescriptorProto

_LABELS = {"": _Field.LABEL_OPTIONAL, "!": _Field.LABEL_REQUIRED, "*": _Field.LABEL_REPEATED}

_SCALARS = {
    "bool": _Field.TYPE_BOOL,
    "double": _Field.TYPE_DOUBLE,
    "float": _Field.TYPE_FLOAT,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING,
    "uint32": _Field.TYPE_UINT32,
    "uint64": _Field.TYPE_UINT64,
}

_FIELD = re.compile(r"(\d+) (\w+)([!*]?):(\w+)(?:=(\S*))?( packed)?")


def _add_field(message, text, package):
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ValueError(f"schema of {message.name}: not a field: {text!r}")
    number, name, label, kind, default, packed = match.groups()
    field = message.field.add(name=name, number=int(number), label=_LABELS[label])
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{package}.{kind}"
    if default is not None:
        field.default_value = default
    if packed:
        field.options.packed = True


def _file_of(schema, package):
    """Return the FileDescriptorProto (proto2) of a schema text."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package}/schema.proto", package=package, syntax="proto2"
    )
    for paragraph in re.split(r"\n(?=\S)", schema.strip()):
        name, _, fields = paragraph.partition(":")
        message = file.message_type.add(name=name)
        for field in filter(None, " ".join(fields.split()).split("; ")):
            _add_field(message, field, package)
    return file


_pool = descriptor_pool.DescriptorPool()
_pool.Add(_file_of(_SCHEMA, "paddle"))


def _message(name):
    message_class = message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"paddle.{name}"))
    # Pickle finds a class through its module, and the generated name is not a module.
    message_class.__module__ = __name__
    message_class.__str__ = message_class.__repr__ = message_text
    return message_class


ParameterUpdaterHookConfig = _message("ParameterUpdaterHookConfig")
ParameterConfig = _message("ParameterConfig")
ExternalConfig = _message("ExternalConfig")
ActivationConfig = _message("ActivationConfig")
ConvConfig = _message("ConvConfig")
PoolConfig = _message("PoolConfig")
SppConfig = _message("SppConfig")
NormConfig = _message("NormConfig")
BlockExpandConfig = _message("BlockExpandConfig")
MaxOutConfig = _message("MaxOutConfig")
RowConvConfig = _message("RowConvConfig")
SliceConfig = _message("SliceConfig")
ProjectionConfig = _message("ProjectionConfig")
OperatorConfig = _message("OperatorConfig")
BilinearInterpConfig = _message("BilinearInterpConfig")
ImageConfig = _message("ImageConfig")
PriorBoxConfig = _message("PriorBoxConfig")
PadConfig = _message("PadConfig")
ReshapeConfig = _message("ReshapeConfig")
MultiBoxLossConfig = _message("MultiBoxLossConfig")
DetectionOutputConfig = _message("DetectionOutputConfig")
ClipConfig = _message("ClipConfig")
ROIPoolConfig = _message("ROIPoolConfig")
ScaleSubRegionConfig = _message("ScaleSubRegionConfig")
LayerInputConfig = _message("LayerInputConfig")
LayerConfig = _message("LayerConfig")
EvaluatorConfig = _message("EvaluatorConfig")
LinkConfig = _message("LinkConfig")
MemoryConfig = _message("MemoryConfig")
GeneratorConfig = _message("GeneratorConfig")
SubModelConfig = _message("SubModelConfig")
ModelConfig = _message("ModelConfig")
DataConfig = _message("DataConfig")
OptimizationConfig = _message("OptimizationConfig")
TrainerConfig = _message("TrainerConfig")
