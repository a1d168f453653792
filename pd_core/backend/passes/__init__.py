"""Lowerings of our composites to ONNX operators: lowering(node, inputs, sizes, seed) -> outputs."""

from .convolution import conv_filter_grad, conv_input_grad
from .pooling import avg_pool_grad, max_pool_grad, max_pool_pick
from .random import uniform

lowerings = {
    "ConvInputGrad": conv_input_grad,
    "ConvFilterGrad": conv_filter_grad,
    "MaxPoolGrad": max_pool_grad,
    "MaxPoolPick": max_pool_pick,
    "AveragePoolGrad": avg_pool_grad,
    "Uniform": uniform,
}
