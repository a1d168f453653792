"""Structured costs: CRF, CTC, sampled and hierarchical softmax, beam search.

Each gives a number per row or sequence; training minimises their sum over the batch.
"""

import math
from dataclasses import dataclass

import pd_core as pd

from ..activation import Sigmoid
from ..config_base import Layer
from ..deprecated_keywords import deprecated_keywords
from ..warning import warn
from .base import layer, param_list
from .cost import weighted

_INPUTS = ("input", "label", "weight")


@layer("crf", "crf_layer", inputs=_INPUTS)
def crf(
    scope,
    input,
    label,
    size=None,
    weight=None,
    param_attr=None,
    name=None,
    coeff=1.0,
    layer_attr=None,
):
    """Linear-chain CRF: -ln p of each label sequence, from `size` scores per step.

    The parameter [size + 2, size] holds the scores of the first label, of the last one, and of
    the transitions from each label. `weight` has a row per sequence; `coeff` multiplies the
    gradient.
    """
    size = input.size if size is None else size
    if (input.size, label.size) != (size, size):
        raise pd.ShapeError(
            f"{size} labels, but {input.name!r} has {input.size} scores and "
            f"{label.name!r} {label.size} labels"
        )
    sequences, _ = _sequences(input), _sequences(label)
    value = pd.crf_loss(input, label, sequences, **_chain(scope, size, param_attr))
    scope.levels, scope.size = (), 1
    scope.config.size, scope.config.coeff = size, coeff
    value = weighted(value, weight)
    return value if coeff == 1.0 else pd.scale_gradient(value, coeff)


@layer("crf_decoding", "crf_decoding_layer", inputs=("input", "label"))
def crf_decoding(scope, input, size, label=None, param_attr=None, name=None, layer_attr=None):
    """Viterbi decoding: the labels of highest score; `param_attr` names the parameter of `crf`.

    With a label the result is 1 for each row whose decoded label is wrong, else 0, and the decoded
    labels are the `ids` of the layer.
    """
    if input.size != size:
        raise pd.ShapeError(f"{size} labels, but {input.name!r} has {input.size} scores")
    sequences = _sequences(input)
    decoded = pd.crf_decode(input, sequences, **_chain(scope, size, param_attr))
    scope.config.size, scope.size = size, 1
    if label is None:
        return decoded
    _check_ids(label)
    scope.ids = decoded
    return pd.unsqueeze(pd.cast(pd.logical_not(pd.equal(decoded, label)), input.dtype), 1)


def _chain(scope, size, attr):
    """Return the parameter of a linear chain, split into start, end and transition scores."""
    weights = scope.weight(0, [size + 2, size], attr)
    start, end, transitions = pd.split(weights, [1, 1, size])
    start, end = (pd.squeeze(row, 0) for row in (start, end))
    return {"start": start, "end": end, "transitions": transitions}


@layer("ctc", "ctc_layer", inputs=("input", "label"))
def ctc(scope, input, label, size=None, name=None, norm_by_times=False, layer_attr=None):
    """CTC: -ln p of each label sequence, from `size` probabilities per step, the blank last.

    `size` is the number of labels plus 1. A label sequence that needs more steps than the input
    has costs 0. `norm_by_times` divides the gradient by the number of steps.
    """
    size = _ctc_size(input, label, size)
    return _ctc(scope, pd.log_probability(input), label, size - 1, norm_by_times)


@layer("warp_ctc", "warp_ctc_layer", inputs=("input", "label"))
def warp_ctc(
    scope, input, label, size=None, name=None, blank=0, norm_by_times=False, layer_attr=None
):
    """`ctc` on scores: applies softmax itself, and takes the index of the blank.

    The labels are the `size` classes without the blank.
    """
    _ctc_size(input, label, size)
    scope.config.blank = blank
    return _ctc(scope, pd.log_softmax(input), label, blank, norm_by_times)


def _ctc_size(input, label, size):
    size = label.size + 1 if size is None else size
    if (input.size, label.size) != (size, size - 1):
        raise pd.ShapeError(
            f"{size} classes are a blank and {size - 1} labels, but {input.name!r} is "
            f"{input.size} wide and {label.name!r} has {label.size} labels"
        )
    return size


def _ctc(scope, steps, label, blank, norm_by_times):
    sequences, labels = _sequences(scope.inputs[0]), _sequences(label)
    value = pd.ctc_loss(steps, label, sequences, labels, blank)
    scope.config.norm_by_times = norm_by_times
    scope.levels, scope.size = (), steps.dims[1]
    if not norm_by_times:
        return value
    return pd.straight_through(value, value / sequences.counts(value))


def _sigmoid_only(act):
    """Accept nce's `act` of releases before 2017-11; warn unless it is a sigmoid."""
    if act is not None and not isinstance(act, Sigmoid):
        warn(f"nce: act={type(act).__name__} has no effect, its activation is a sigmoid")
    return {}


@deprecated_keywords(act=_sigmoid_only)
@layer("nce", "nce_layer", inputs=_INPUTS, several=True, sparse=("label",))
def nce(
    scope,
    input,
    label,
    num_classes=None,
    param_attr=None,
    weight=None,
    num_neg_samples=10,
    neg_distribution=None,
    name=None,
    bias_attr=None,
    layer_attr=None,
):
    """Noise-contrastive estimation: discriminate the label from `num_neg_samples` random classes.

    They are drawn in each step with the probabilities `neg_distribution`, uniformly if None. A
    list of inputs takes a list of `param_attr`, or one that is copied for each input. A label of
    sparse rows has several classes: each column that a row names is one, whatever its number is.
    """
    _check_data_label(label)
    classes = label.size if num_classes is None else num_classes
    weights = [
        scope.weight(i, [classes, x.size], attr, by_rows=True)
        for i, (x, attr) in enumerate(zip(input, param_list(param_attr, len(input)), strict=True))
    ]
    bias = scope.bias([1, classes], bias_attr)
    scope.config.active_type = "sigmoid"
    scope.config.num_classes, scope.config.num_neg_samples = classes, num_neg_samples
    if neg_distribution is not None:
        scope.config.neg_sampling_dist.extend(neg_distribution)
    target = label if label.sparse is None else label.sparse
    value = pd.nce_loss(input, target, weights, bias, num_neg_samples, neg_distribution)
    return weighted(value, weight)


@layer("hsigmoid", "hsigmoid", inputs=("input", "label"), several=True)
def hsigmoid(
    scope,
    input,
    label,
    num_classes=None,
    name=None,
    bias_attr=None,
    param_attr=None,
    layer_attr=None,
):
    """Hierarchical softmax: -ln p of the label, a leaf of a binary tree of sigmoids.

    As in 2017, a class whose path is one node shorter than the longest costs ln 2 more.
    """
    _check_data_label(label)
    classes = label.size if num_classes is None else num_classes
    if classes <= 2:
        raise pd.GraphError(f"num_classes is greater than 2, not {classes}")
    weights = [
        scope.weight(i, [classes - 1, x.size], attr, by_rows=True)
        for i, (x, attr) in enumerate(zip(input, param_list(param_attr, len(input)), strict=True))
    ]
    bias = scope.bias([1, classes - 1], bias_attr)
    scope.config.num_classes = classes
    value = pd.hierarchical_sigmoid(input, label, weights, bias)
    shorter = label < 2 ** (classes - 1).bit_length() - classes
    return value + pd.unsqueeze(pd.cast(shorter, value.dtype) * math.log(2.0), 1)


@dataclass(frozen=True, eq=False)
class BeamInput:
    """One expansion of a beam: candidate scores, those selected by `kmax_seq_score`, the gold.

    `candidate_scores` are one number per step: sequences in the first expansion, then nested ones
    with a sub-sequence per candidate selected before. `gold` is the index of the right candidate.
    """

    candidate_scores: Layer
    selected_candidates: Layer
    gold: Layer


def cross_entropy_over_beam(input, name=None):
    """Cross-entropy over beam: -ln p of the gold path among all paths of a beam.

    `input` is a BeamInput or a list of them. Where gold is not selected, it is added to the paths
    of that expansion, which is then the last.
    """
    beams = list(input) if isinstance(input, (list, tuple)) else [input]
    for beam in beams:
        if not isinstance(beam, BeamInput):
            raise TypeError(f"cross_entropy_over_beam: input is BeamInput, not {beam!r}")
    parts = [(b.candidate_scores, b.selected_candidates, b.gold) for b in beams]
    out = _cross_entropy_over_beam(input=[x for part in parts for x in part], name=name)
    out.config.ClearField("size")  # 2017 left it open
    return out


@layer(
    "cross_entropy_over_beam",
    "cross_entropy_over_beam",
    several=True,
    label="multi-class-cross-entropy",
    rows=(),
)
def _cross_entropy_over_beam(scope, input, name):
    parts = zip(*[iter(input)] * 3, strict=True)
    expansions = [_expansion(k, *part) for k, part in enumerate(parts)]
    scope.levels = ()
    return pd.cross_entropy_over_beam(expansions)


def _expansion(number, scores, candidates, gold):
    depth = 2 if number else 1
    if len(scores.levels) != depth:
        expected = "nested sequences" if number else "sequences"
        raise pd.GraphError(f"the scores {scores.name!r} of expansion {number} are no {expected}")
    samples = scores.levels[0] if number else None
    return pd.BeamExpansion(scores, scores.levels[-1], candidates, gold, samples)


def _sequences(x):
    """Return the Segments of rows by sample; GraphError without sequences."""
    if x.sequences is None:
        raise pd.GraphError(f"{x.name!r} holds no sequences")
    return x.sequences


def _check_ids(label):
    if label.dtype.kind != "i":
        raise pd.DTypeError(f"the label {label.name!r} holds rows of numbers, no ids")


def _check_data_label(label):
    if label.layer_type != "data":
        raise pd.GraphError(f"the label {label.name!r} must be a data layer")
