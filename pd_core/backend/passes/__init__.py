"""Ordered lists of passes, which turn a graph into one that can be written as an ONNX model.

A pass is a function (targets, context) -> targets. Most are made by `each_node` from rules,
`rule(node, inputs, context) -> outputs`, or None to keep the node; a table {op_type: rule} is one
walk. `context` is a `context.Context`. `program.build` runs ALWAYS, then EXPORT or WEBGPU; a
backend adds the passes of its device.
"""

from ..dtypes import by_formulas, with_halves_rounded, with_kernels
from . import cuda, nan, portable
from .affine import channel_affine
from .attention import attention
from .blocked import blocked_kernels
from .blocks_of_rows import add_rows_in_blocks
from .bytes import BYTEWISE, in_bytes
from .chains import reassociated
from .context import each_node
from .convolution import conv_filter_grad, conv_input_grad
from .crops import pad_of_crop
from .empty import (
    attention_if_any,
    nothing_expanded,
    operands_in_order,
    places_along,
    rows_if_any,
    scans_if_any,
    steps_if_any,
)
from .gelu import gelu_by_cdf, normal_cdf, normal_pdf
from .integers import INTEGERS, whole_numbers
from .long_means import LONG_MEANS
from .long_sums import REDUCTIONS, long_cumulative_sum, long_softmax, long_sum
from .loops import lighten_loops
from .loss import (
    LOGARITHMS,
    binary_cross_entropy,
    binary_cross_entropy_grad,
    in_log_space,
    log_probability,
    log_probability_grad,
)
from .momentum import momentum_gemm
from .normalization import batch_norm, by_layer_normalization, own_statistics, standardize
from .numbers import gather_numbers
from .pooling import (
    avg_pool_grad,
    max_pool,
    max_pool_grad,
    max_pool_grad_if_nan,
    max_pool_pick,
    sum_of_max_pool_grad,
)
from .products import column_of_vector, product_if_any
from .random import uniform
from .recurrent import steps_first
from .relu import exchange_relu_and_pool, relu_grad
from .scaled_sums import scaled_sum
from .scatter import add_rows, scattered_once
from .sequence import (
    pack_chunks,
    pack_rows,
    pad_chunks,
    pad_rows,
    padded_again,
    permute_rows,
    repeat_rows,
    segment_arg_max,
    segment_max,
    segment_sum,
)
from .signal import dft, stft
from .softmax import softmax_grad, softmax_grad_of_weights
from .sums import sum_rows
from .transposed import exchange_factors
from .unread import without_unread_outputs

# A rule for each composite, and for ONNX operators that ONNX Runtime has in one form only.
LOWERINGS = {
    "BinaryCrossEntropy": binary_cross_entropy,
    "BinaryCrossEntropyGrad": binary_cross_entropy_grad,
    "LogProbability": log_probability,
    "LogProbabilityGrad": log_probability_grad,
    "SoftmaxGrad": softmax_grad,
    "NormalCdf": normal_cdf,
    "NormalPdf": normal_pdf,
    "ConvInputGrad": conv_input_grad,
    "ConvFilterGrad": conv_filter_grad,
    "BatchNorm": batch_norm,
    "BatchNormalization": own_statistics,
    "Standardize": standardize,
    "TiedMaxPool": max_pool,
    "MaxPoolGrad": max_pool_grad,
    "MaxPoolPick": max_pool_pick,
    "AveragePoolGrad": avg_pool_grad,
    "ReluGrad": relu_grad,
    "PadRows": pad_rows,
    "PackRows": pack_rows,
    "PadChunks": pad_chunks,
    "PackChunks": pack_chunks,
    "PermuteRows": permute_rows,
    "SegmentSum": segment_sum,
    "SegmentMax": segment_max,
    "SegmentArgMax": segment_arg_max,
    "RepeatRows": repeat_rows,
    "DFT": dft,
    "STFT": stft,
    "Uniform": uniform,
    "Attention": attention,
    **dict.fromkeys(("RNN", "GRU", "LSTM"), steps_first),
}

_POOLED = frozenset({"MaxPoolGrad"})

# Every program first: outputs that it does not read are dropped, and composites replaced by cheaper
# ones. Each rule has a walk of its own, since it looks at what the one before has built.
ALWAYS = (
    without_unread_outputs,
    each_node({"ReluGrad": exchange_relu_and_pool}, _POOLED),
    each_node({"ReduceSum": sum_of_max_pool_grad}, _POOLED),
    each_node(dict.fromkeys(LOGARITHMS, in_log_space), frozenset({"Softmax", "Sigmoid"})),
    each_node({"SoftmaxGrad": softmax_grad_of_weights}),
    each_node({"Gelu": gelu_by_cdf}, frozenset({"NormalCdf"})),
    each_node({"Add": scattered_once}, frozenset({"ScatterElements"})),
    each_node({"ScatterElements": add_rows}),
    each_node({"PadRows": padded_again}),
)
# Then ONNX's own operators alone: what is exported, and what every backend starts from.
EXPORT = (
    each_node(dict.fromkeys(INTEGERS, whole_numbers)),
    each_node(LOWERINGS),
    each_node({"MatMul": column_of_vector}),
    lighten_loops,
)
# In the place of EXPORT for models that shall run on WebGPU too (`export_step(portable=True)`).
WEBGPU = (EXPORT[0], each_node(LOWERINGS | portable.LOWERINGS), *EXPORT[2:])
# Before EXPORT where a CPU computes: composites for which ONNX Runtime has a faster kernel.
CPU_KERNELS = (each_node({"Standardize": by_layer_normalization}),)
# After the layouts of a CPU: gradients whose exact form for NaN is another one.
CPU_GRADIENTS = (each_node({"MaxPoolGrad": max_pool_grad_if_nan}),)
# On top for ONNX Runtime's kernels of a device; these may use operators that ONNX lacks.
CPU = (
    by_formulas,
    each_node({"Pad": pad_of_crop}),
    each_node({"MatMul": reassociated}),
    each_node({"Transpose": exchange_factors}),
    each_node(dict.fromkeys(BYTEWISE, in_bytes), frozenset({"Cast"})),
    each_node({"Add": channel_affine}),
    each_node({"Sub": momentum_gemm}),
    each_node({"ScatterElements": add_rows_in_blocks}),
    each_node({"Gather": gather_numbers}),
    each_node(LONG_MEANS),
    each_node(
        {
            **dict.fromkeys(REDUCTIONS, long_sum),
            **dict.fromkeys(("LogSoftmax", "Softmax"), long_softmax),
            "CumSum": long_cumulative_sum,
        }
    ),
    each_node(dict.fromkeys(("ReduceMean", "ReduceSum"), sum_rows)),
    each_node(dict.fromkeys(("Add", "Sub"), scaled_sum)),
    each_node(
        {
            **dict.fromkeys(("ReduceMax", "ReduceMin", "ReduceLogSumExp"), nan.reduced),
            **dict.fromkeys(("ArgMax", "ArgMin"), nan.arg_extreme),
            "MaxPool": nan.max_pool,
            "GlobalMaxPool": nan.global_max_pool,
            "TopK": nan.top_k,
            **dict.fromkeys(("ScatterElements", "ScatterND"), nan.scattered),
            "Clip": nan.clip,
            "Sign": nan.sign,
        }
    ),
    each_node(dict.fromkeys(("Conv", "Relu"), blocked_kernels), frozenset({"Conv"})),
    each_node(
        {
            "Attention": attention_if_any,
            "Einsum": operands_in_order,
            "Expand": nothing_expanded,
            "Unique": rows_if_any,
            "MatMul": product_if_any,
            **dict.fromkeys(("ArgMax", "ArgMin"), places_along),
            **dict.fromkeys(("GRU", "LSTM"), steps_if_any),
        }
    ),
    scans_if_any,
    with_halves_rounded,
    with_kernels,
)
CUDA = (each_node({"ConvTranspose": cuda.conv_transpose}), scans_if_any)
# On top where an operator has a kernel neither there nor on the CPU.
FORMULAS = (by_formulas, with_kernels)
