"""Operators whose derivative is zero, and operators without one."""

from ..registry import undefined, zero

# piecewise constant
zero("Sign", "Floor", "Ceil", "Round", "Hardmax", "QuantizeLinear")
# comparisons and indices
zero("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "IsNaN", "IsInf")
zero("And", "Or", "Xor", "Not", "ArgMax", "ArgMin", "NonZero", "NonMaxSuppression")
# integers
zero("BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitCast")
zero("ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul", "TfIdfVectorizer")
# sizes, and values that depend on sizes or on attributes alone
zero("Shape", "Size", "Constant", "ConstantOfShape", "EyeLike", "OptionalHasElement")
zero("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix", "SequenceLength")
# random draws: each is a constant of its step
zero("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform")
zero("RandomUniformLike", "StopGradient", "Uniform")
# text and files
zero("ImageDecoder", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit")

undefined(
    "a list of values; `import_onnx` takes it apart",
    *("ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase"),
    *("SequenceInsert", "SequenceMap", "SplitToSequence"),
)
undefined("a value or none; `import_onnx` takes it apart", "Optional", "OptionalGetElement")
undefined(
    "no runtime loads it; `import_onnx` reads its body",
    *("CausalConvWithState", "LinearAttention", "SwiGLU"),
)
