"""ONNX Runtime's graph optimizers, and which of them a program goes without.

Each walks over the whole graph, also where it cannot find anything: for a step of thousands of
operators that is a quarter of the time of creating a session. One fusion is slower on a CPU.
"""

from itertools import product

from .lowering import GATHER_OF_ONE, Lowered

_QUANTIZED = "an operator on quantized numbers"
_FRAGMENTS = ("quant", "integer", "qlinear", "nbits", "qgemm", "qattention")

# ReduceMean stands for a normalisation where there is a Pow too: no fusion finds x * x.
_NORMALIZED = {"LayerNormalization", "RMSNormalization", "GroupNormalization"}
_NORMALIZED |= {"InstanceNormalization", "MeanVarianceNormalization"}

# optimizer: groups of operators, of each of which its pattern holds one
_PATTERNS = {
    "DoubleQDQPairsRemover": [{_QUANTIZED}],
    "DynamicQuantizeMatMulFusion": [{_QUANTIZED}],
    "MatMulIntegerToFloatFusion": [{_QUANTIZED}],
    "MatMulNBitsFusion": [{_QUANTIZED}],
    "QDQFinalCleanupTransformer": [{_QUANTIZED}],
    "QDQPropagationTransformer": [{_QUANTIZED}],
    "QDQS8ToU8Transformer": [{_QUANTIZED}],
    "QDQSelectorActionTransformer": [{_QUANTIZED}],
    "WeightBiasQuantization": [{_QUANTIZED}],
    "WhereDummyDq": [{_QUANTIZED}],
    "LayerNormFusionL1": [_NORMALIZED],
    "LayerNormFusionL2": [_NORMALIZED],
    "SimplifiedLayerNormFusion": [_NORMALIZED],
    "SkipLayerNormFusion": [_NORMALIZED],
    "BiasSkipLayerNormFusion": [_NORMALIZED],
    "EmbedLayerNormFusion": [_NORMALIZED, {"Gather"}],
    "AttentionFusion": [_NORMALIZED, {"Softmax"}],
    "GroupQueryAttentionFusion": [{"GroupQueryAttention"}],
    "GroupQueryAttentionPreNormFusion": [{"GroupQueryAttention"}],
    "GeluFusionL1": [{"Erf", "Gelu"}],
    "GeluFusionL2": [{"Erf", "Gelu"}],
    "BiasGeluFusion": [{"Erf", "Gelu", "FastGelu", "Tanh"}],
    "FastGeluFusion": [{"Tanh", "Gelu"}],
    "QuickGeluFusion": [{"Sigmoid", "Swish"}],
    "BiasDropoutFusion": [{"Dropout"}],
    "SliceConcatToSpaceToDepthFusion": [{"Slice"}, {"Concat"}],
    "GatherSliceToSplitFusion": [{GATHER_OF_ONE, "Slice"}],
    "ConvActivationFusion": [{"Conv", "NhwcConv"}],
    "ConvAddActivationFusion": [{"Conv", "FusedConv", "NhwcConv"}],
    "NchwcTransformer": [{"Conv", "FusedConv"}],
    "NhwcTransformer": [{"Conv", "FusedConv", "MaxPool", "AveragePool", _QUANTIZED}],
}

_VIEWS = ("Reshape", "Squeeze", "Unsqueeze", "Flatten")

# optimizer: pairs (operator, one that reads it), of which its pattern holds one. In a program of
# thousands of operators a handful of matches saves less than the walks that follow a change: all
# optimizers look again until none of them changes anything.
_FEW = 1 / 1000
_PAIRS = {
    "MatMulAddFusion": {("MatMul", "Add")},
    "ReshapeFusion": {("Concat", "Reshape"), *product(_VIEWS, _VIEWS)},
    "GatherToSliceFusion": {("Range", "Gather")},
    "BiasSoftmaxFusion": {("Add", "Softmax")},
}
_ACTIVATIONS = (
    *("Celu", "Clip", "Elu", "HardSigmoid", "HardSwish", "LeakyRelu", "Relu", "ScaledTanh"),
    *("Selu", "Sigmoid", "Softplus", "Softsign", "Tanh", "ThresholdedRelu"),
)

# SkipLayerNormalization takes a CPU seven times as long as a sum and a LayerNormalization: 0.72 and
# 0.10 ms for 2048 rows of 128, in ONNX Runtime 1.31.
# MatMulActivationFusion is for DirectML.
_NOT_FOR_CPU = ["SkipLayerNormFusion", "MatMulActivationFusion"]
# It makes the factor an attribute, of which ONNX has float32 alone.
_NOT_FOR_DOUBLE = ["MatMulScaleFusion"]
# Its kernel fails where there are no rows.
_NOT_FOR_CUDA = ["BiasSoftmaxFusion"]


def unwanted_optimizers(program: Lowered, device: str) -> list[str]:
    """Return the optimizers that a program goes without on a device."""
    others = _NOT_FOR_CUDA if device.startswith("cuda") else []
    others = _NOT_FOR_CPU if device == "cpu" else others
    return idle_optimizers(program) + others + (_NOT_FOR_DOUBLE if program.has_doubles else [])


def idle_optimizers(program: Lowered) -> list[str]:
    """The optimizers whose patterns hold something that a program does not have."""
    there = set(program.op_types)
    if any(fragment in op_type.lower() for op_type in there for fragment in _FRAGMENTS):
        there.add(_QUANTIZED)
    if {"ReduceMean", "Pow"} <= there:
        there.add("LayerNormalization")
    idle = [name for name, groups in _PATTERNS.items() if any(map(there.isdisjoint, groups))]
    least = max(1, len(program.sites) * _FEW)
    found = {name: sum(map(program.pairs.__getitem__, pairs)) for name, pairs in _PAIRS.items()}
    idle += [name for name, count in found.items() if count < least]
    if "MatMulAddFusion" in idle and not any(program.pairs["Gemm", f] for f in _ACTIVATIONS):
        idle.append("GemmActivationFusion")  # there are no other Gemms than those
    idle += [] if program.is_foldable else ["ConstantFolding"]
    return idle + (["CommonSubexpressionElimination"] if program.is_merged else [])
