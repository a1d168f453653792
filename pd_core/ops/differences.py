"""Where ops give something else than NumPy, and why: the rows of a table in docs/ops.md.

The tests compare every op with NumPy over element types, values and sizes. They fail where
something differs that is not listed here, and where something listed does not differ any more.
"""

from typing import NamedTuple


class Difference(NamedTuple):
    """A class of results that differ from NumPy's: functions, samples and the reason."""

    functions: str
    samples: str
    result: str
    reason: str


DIFFERENCES = {
    "attributes": Difference(
        "`selu`, `celu`, `elu`, `leaky_relu`, `attention`",
        "float64",
        "constants and scales have the digits of float32",
        "attributes of ONNX's operators are float32",
    ),
    "order of NaN": Difference(
        "`unique`, `sequence_top_k`, `sequence_ranks`, `ndcg`, `lambda_rank`",
        "NaN",
        "some order; NumPy has NaN last",
        "they compare, and NaN is not larger, smaller or equal",
    ),
    "mean of nothing": Difference(
        "`reduce_mean`",
        "no elements",
        "0; NumPy has NaN",
        "an empty batch then costs nothing, and leaves parameters as they are",
    ),
    "products with infinity": Difference(
        "`conv`, `conv_transpose`, `dft`, `interpolate`",
        "infinities and NaN",
        "NaN also beside the windows that hold them",
        "zeros are multiplied too: of padding, between pixels, of filters in another basis",
    ),
    "digits of draws": Difference(
        "`uniform_random`, `gaussian_random`",
        "float64",
        "24 bits of each number are drawn, and scaled in float32",
        "the same seed gives the same numbers in every type and on every device",
    ),
    "sign of zero": Difference(
        "`atan2`",
        "-0.0",
        "pi for y = -0.0 and x < 0, as for 0.0; NumPy has -pi",
        "ONNX's comparisons do not see the sign of a zero",
    ),
    "masked gradients": Difference(
        "the gradient of `relu`",
        "NaN and infinities from above, where x is not positive",
        "NaN; the limit is 0",
        "a mask is multiplied with the gradient",
    ),
    "infinite logits": Difference(
        "`sigmoid_cross_entropy`",
        "infinite logits",
        "NaN; the limit is infinity",
        "the formula has z t, and infinity times 0 is NaN",
    ),
    "masked NaN": Difference(
        "`attention`",
        "NaN and infinities in masked keys and values",
        "NaN, where a weight of 0 is multiplied with them; 0 in a query that sees no key",
        "weights and values are multiplied as matrices",
    ),
    "infinite scale": Difference(
        "`batch_norm` with stored statistics",
        "infinite scales",
        "NaN; NumPy has infinity",
        "it is computed as x s + t, where t is infinite, too",
    ),
}
