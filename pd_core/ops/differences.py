"""Where ops give something else than NumPy, and why: the rows of a table in docs/ops.md.

The tests compare every op with NumPy over element types, values and sizes. They fail where
something differs that is not listed here, and where something listed does not differ any more.
"""

from typing import NamedTuple


class Difference(NamedTuple):
    """What some functions give for some samples, where NumPy has something else."""

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
        "`sort`, `argsort`, `top_k`, `unique`, `sequence_top_k`, `ndcg`, `lambda_rank`",
        "NaN",
        "some order; NumPy has NaN last",
        "ONNX's TopK and Unique do not say where NaN belongs",
    ),
    "place of NaN": Difference(
        "`arg_max`, `arg_min`",
        "NaN",
        "the place of a number; NumPy has that of the first NaN",
        "ONNX's ArgMax compares, and NaN is not larger",
    ),
    "mean of nothing": Difference(
        "`reduce_mean`",
        "no elements",
        "0; NumPy has NaN",
        "an empty batch then costs nothing, and leaves parameters as they are",
    ),
    "NaN in maxima": Difference(
        "`reduce_max`, `reduce_min`, `norm`, pools of maxima, `roi_max_pool`, `scatter`",
        "NaN",
        "a number, depending on where the NaN is; NumPy has NaN",
        "the kernels of ONNX Runtime compare, and NaN is not larger",
    ),
    "long sums": Difference(
        "`reduce_sum`, `reduce_mean`, `var`, `std`, `norm`, `cum_sum`",
        "float32, millions of elements",
        "up to a few percent off",
        "the kernels of ONNX Runtime add one after the other",
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
    "limits of NaN": Difference(
        "`clip`",
        "NaN as a limit",
        "no limit; NumPy has NaN",
        "ONNX's Clip compares, and nothing is beyond NaN",
    ),
    "infinite scale": Difference(
        "`batch_norm` with stored statistics",
        "infinite scales",
        "NaN; NumPy has infinity",
        "it is computed as x s + t, where t is infinite, too",
    ),
}
