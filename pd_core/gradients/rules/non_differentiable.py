"""Operators whose derivative is zero, and operators without one."""

from ..registry import ROUNDED, undefined, zero

# piecewise constant
zero("Sign", "Floor", "Ceil", "Round", "Hardmax")
# comparisons and indices
zero("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "IsNaN", "IsInf")
zero("And", "Or", "Xor", "Not", "ArgMax", "ArgMin", "NonZero", "NonMaxSuppression")
# integers
zero("BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitCast")
zero("TfIdfVectorizer")
# sizes, and values that depend on sizes or on attributes alone
zero("Shape", "Size", "Constant", "ConstantOfShape", "EyeLike", "OptionalHasElement")
zero("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix", "SequenceLength")
# random draws: each is a constant of its step
zero("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform")
zero("RandomUniformLike", "StopGradient", "Uniform")
# text and files
zero("ImageDecoder", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit")

undefined(ROUNDED, "QuantizeLinear")
undefined("it multiplies integers", "ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul")
undefined(
    "a sequence of tensors; `import_onnx` unrolls it",
    *("ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase"),
    *("SequenceInsert", "SequenceMap", "SplitToSequence"),
)
undefined("an optional value; `import_onnx` resolves it", "Optional", "OptionalGetElement")
undefined(
    "no runtime has a kernel; `import_onnx` expands it to its body",
    *("CausalConvWithState", "LinearAttention", "SwiGLU"),
)
