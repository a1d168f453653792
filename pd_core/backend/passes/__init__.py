"""What happens to a graph before it is an ONNX model.

`rewrites` replace a composite by a faster one, rewrite(node, inputs) -> outputs or None;
`lowerings` turn composites into ONNX operators, lowering(node, inputs, sizes, seed) -> outputs.
"""

from .attention import full_mask
from .convolution import conv_filter_grad, conv_input_grad
from .loss import (
    binary_cross_entropy,
    binary_cross_entropy_grad,
    in_log_space,
    log_probability,
    log_probability_grad,
    softmax_grad,
)
from .normalization import batch_norm
from .pooling import avg_pool_grad, max_pool, max_pool_grad, max_pool_pick, sum_of_gradient
from .random import uniform
from .recurrent import steps_first
from .relu import exchange, relu_grad
from .scatter import add_rows, scattered_once
from .sequence import (
    exchange_rows,
    pack_parts,
    pack_rows,
    pad_parts,
    pad_rows,
    padded_again,
    repeat_rows,
    segment_max,
    segment_sum,
)
from .signal import dft, stft

rewrites = (exchange, sum_of_gradient, in_log_space, scattered_once, add_rows, padded_again)
lowerings = {
    "BinaryCrossEntropy": binary_cross_entropy,
    "BinaryCrossEntropyGrad": binary_cross_entropy_grad,
    "LogProbability": log_probability,
    "LogProbabilityGrad": log_probability_grad,
    "SoftmaxGrad": softmax_grad,
    "ConvInputGrad": conv_input_grad,
    "ConvFilterGrad": conv_filter_grad,
    "BatchNorm": batch_norm,
    "TiedMaxPool": max_pool,
    "MaxPoolGrad": max_pool_grad,
    "MaxPoolPick": max_pool_pick,
    "AveragePoolGrad": avg_pool_grad,
    "ReluGrad": relu_grad,
    "PadRows": pad_rows,
    "PackRows": pack_rows,
    "PadParts": pad_parts,
    "PackParts": pack_parts,
    "ExchangeRows": exchange_rows,
    "SegmentSum": segment_sum,
    "SegmentMax": segment_max,
    "RepeatRows": repeat_rows,
    "DFT": dft,
    "STFT": stft,
    "Uniform": uniform,
    "Attention": full_mask,
    **dict.fromkeys(("RNN", "GRU", "LSTM"), steps_first),
}
