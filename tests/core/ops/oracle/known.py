"""Trials whose results are not NumPy's: known differences, and references that are no measure."""

import re
from typing import NamedTuple

from .samples import EXTREMES, FLOATS, INTEGERS, NOT_FINITE


class Match(NamedTuple):
    """Trials by the beginning of their row's name, kind, and type; `outcomes` that may come."""

    rows: str
    kinds: tuple
    dtypes: tuple = FLOATS
    outcomes: tuple = ("value",)

    def fits(self, trial, outcome):
        """Check whether a trial with this outcome is meant."""
        return (
            outcome in self.outcomes
            and (not self.kinds or trial.kind in self.kinds)
            and (not self.dtypes or trial.dtype in self.dtypes)
            and re.match(self.rows, str(trial.row)) is not None
        )


SIZES = ("empty", "one", "odd")
NAN = (NOT_FINITE,)

# by the names of `pd_core.ops.differences`
KNOWN = {
    "attributes": Match("exponential_linear_units|LeakyRelu|attention", (), ("float64",)),
    "order of NaN": Match("Unique|sequence_top_k|sequence_ranks|ndcg|lambda_rank", NAN),
    "mean of nothing": Match("ReduceMean|classification_error|global_pools", ("empty",), ()),
    "products with infinity": Match("Conv|DFT|Resize|interpolate|grid_sample", NAN),
    "digits of draws": Match("uniform_random-range", (), ()),
    "sign of zero": Match("atan2", (EXTREMES,)),
    "masked gradients": Match("ReluGrad", NAN),
    "infinite logits": Match("sigmoid_cross_entropy", NAN),
    "masked NaN": Match("attention", NAN),
    "infinite scale": Match("batch_norm", NAN),
}

# What a reference is no measure of, with the reason.
NO_MEASURE = {
    "a formula in which infinities meet": Match(
        "lerp|NormalCdf|kl_divergence|class_losses|target_losses|ctc_loss|crf|cross_entropy_over"
        "|lstm_cell|softmax_cross_entropy|binary_cross_entropy|rotary|index_add|full|zeros"
        "|quantile|histogram-edges|gumbel_softmax-hard",
        NAN,
    ),
    "a loop of products, in which a NaN spreads": Match("cholesky|solve_triangular", NAN),
    "a quotient by 0 in the reference": Match("NormalCdf", (EXTREMES,)),
    "outputs of a relu that are negative": Match("ReluGrad", (EXTREMES,)),
    "draws of probabilities that are none": Match(
        "categorical|multinomial|Multinomial", (NOT_FINITE, EXTREMES)
    ),
    "a distance of 0, to which a small number is added": Match("metric_losses", SIZES, ()),
    "logarithms of negative numbers": Match(
        "binary_cross_entropy|kl_divergence|target_losses|class_losses", (EXTREMES,)
    ),
    "products of numbers that are almost 0, which keep few bits": Match(
        "lgamma", (EXTREMES,), ("float64",)
    ),
    "integers in place of probabilities": Match(
        "binary_cross|sigmoid_cross|kl_div|target_losses|class_losses|metric_losses",
        (),
        (*INTEGERS, "bool"),
    ),
    "bits of bools": Match("(Xor|And|Or|Not)-bits", (), INTEGERS),
    "a reference with sizes of its own": Match(
        "Slice|full|zeros|ones|permutation|GatherND|ScatterND|index_|Tile-run|pad-modes"
        "|Conv-pads=same|DFT|Reshape|interpolate-scaled|gumbel_softmax-hard",
        SIZES,
        (),
        ("value", "late error", "gradient"),
    ),
    "a reference that knows no equal maxima": Match(
        "MaxPoolGrad|MaxPoolPick", (NOT_FINITE, EXTREMES)
    ),
    "the order of equal places": Match(
        "ScatterElements-axis=0,reduction=none", SIZES, (), ("value", "gradient")
    ),
}


def explained(trial, outcome):
    """("known" or "no measure", why) of a trial that differs; or nothing."""
    for name, table in (("known", KNOWN), ("no measure", NO_MEASURE)):
        for key, match in table.items():
            if match.fits(trial, outcome):
                return name, key
    return None
