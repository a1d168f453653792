"""What comes of a trial: the truth, an error of ours, or a difference."""

import re

import numpy as np

import pd_core as pd

from ..tower import build, run, slots
from .known import explained
from .trials import Doubled

SAME, REFUSED = "same", "refused"
BAD = ("value", "gradient", "type", "late error", "raw error", "wrong error", "crash", "hang")
OURS = (pd.GraphError, pd.FeedError, pd.BackendError, pd.ModelError)
# Words of ONNX Runtime and of ONNX that nobody should have to read.
_RAW = re.compile(
    r"NOT_IMPLEMENTED|ONNXRuntimeError|[Nn]on-zero status|Could not find an implementation"
    r"|RUNTIME_EXCEPTION|INVALID_GRAPH|INVALID_ARGUMENT|onnxruntime|ShapeInferenceError"
    r"|Status Message|\.cc:|TypeInferenceError"
)
_RTOL = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-10}


def verdict(trial):
    """(outcome, what is to be seen) of a trial: `known` and the name of what differs."""
    outcome, text = _judged(trial)
    return (explained(trial, outcome) if outcome in BAD else None) or (outcome, text)


def _judged(trial):
    try:
        with pd.fresh(), np.errstate(all="ignore"):
            return _verdict(trial)
    except OURS as error:
        text = str(error)
        if raw := _RAW.search(text):
            return "raw error", f"{type(error).__name__}: ...{raw[0]}... {text[:400]}"
        if type(error) is pd.BackendError and trial.truth() is not None:
            return "late error", text  # of what NumPy has a value for
        return REFUSED, f"{type(error).__name__}: {text}"
    except IndexError as error:  # of a key, as Python has it
        return (REFUSED if "out of range for axis" in str(error) else "wrong error"), str(error)
    except Exception as error:
        return "wrong error", f"{type(error).__name__}: {error}"


def _verdict(trial):
    arrays = trial.arrays
    batch = bool(trial.rng().integers(2))
    inputs = slots(trial.row, arrays, batch)
    results = build(trial.row, inputs)
    feeds = dict(zip(inputs, arrays, strict=True))
    session = pd.Session()
    values = run(session, results, feeds, trial.row.training)
    for y, value in zip(results, values, strict=True):
        if misfit := _misfit(y, value):
            return "type", misfit
    truths = [t for t in trial.truths() if len(t) == len(values)]
    for k, value in enumerate(values):
        wanted = [t[k] for t in truths if value.dtype.kind == "f" or not isinstance(t[k], Doubled)]
        if text := wanted and difference(value, wanted, trial):
            return "value", text
    if trial.is_differentiable:
        return _gradients(trial, session, inputs, results, feeds, values)
    return (SAME, "") if truths else (SAME, "no truth")


def _misfit(y, value):
    """What differs between a value and what was announced."""
    known = zip(y.shape, value.shape, strict=False)
    if value.dtype != y.dtype or value.ndim != y.rank:
        return f"{value.dtype}{value.shape}, announced {y!r}"
    if any(d is not None and d != n for d, n in known):
        return f"{value.dtype}{value.shape}, announced {y!r}"
    return ""


def difference(value, wanted, trial):
    """Where a value is none of those that NumPy has, in one precision or another; or nothing."""
    fitting = [w for w in wanted if w.shape == value.shape]
    if not fitting:
        return f"shape {value.shape}, NumPy's is {wanted[0].shape}"
    right = np.zeros(value.shape, bool)
    for want in fitting:
        right |= _close(value, want, trial)
    if right.all():
        return ""
    at = tuple(np.argwhere(~right)[0].tolist())
    others = " or ".join(f"{w[at]!r}" for w in fitting)
    return f"{list(at)} is {value[at]!r}, NumPy has {others}; {(~right).sum()} of {right.size}"


def _close(value, want, trial):
    """Where a value is what is wanted, to rounding; integers exactly, wrapping around."""
    if want.dtype.kind not in "fiub":
        return np.zeros(value.shape, bool)
    if value.dtype.kind == "b":
        return value == want.astype(bool)
    if value.dtype.kind in "iu":
        if want.dtype.kind == "f":  # what the type does not hold, NumPy has no integer for
            inside = np.abs(want) < 2.0 ** min(53, 8 * value.itemsize - 1)
            return (value == want) | ~inside
        return value == want.astype(value.dtype)
    want = want.astype("float64")
    info = np.finfo(value.dtype)
    rtol = _RTOL[value.dtype.name] * trial.row.rtol / 1e-5
    finite = np.abs(want[np.isfinite(want)])
    scale = finite.max(initial=1e-3) if finite.max(initial=0) < 1e4 else 1e-3
    with np.errstate(all="ignore"):
        right = value == want.astype(value.dtype)
        right |= np.abs(value.astype("float64") - want) <= rtol * (np.abs(want) + scale)
    right |= np.isnan(value) & np.isnan(want)
    if trial.kind == "extremes":  # in which order something overflows is not a promise
        right |= ~np.isfinite(value) & ~(np.abs(want) < info.max / 16)
    return right


def _gradients(trial, session, inputs, results, feeds, values):
    rng = np.random.default_rng([1, *trial.seed])
    free = [x for x in inputs if x.dtype.kind == "f"]
    floats = [y for y in results if y.dtype.kind == "f"]
    weights = [rng.standard_normal(v.shape) for v in values]
    if not results or len(floats) != len(results) or not free:
        return SAME, "no gradient"
    slots_ = [pd.Variable(y.shape, dtype=y.dtype) for y in results]
    cost = sum(
        pd.reduce_sum(pd.cast(y * w, "float64")) for y, w in zip(results, slots_, strict=True)
    )
    given = {v: w.astype(v.dtype) for v, w in zip(slots_, weights, strict=True)}
    found = [(x, g) for x, g in zip(free, pd.gradients(cost, free), strict=True) if g is not None]
    slopes = run(session, [g for _, g in found], {**feeds, **given}, trial.row.training)
    for (x, _), value in zip(found, slopes, strict=True):
        if value.dtype != x.dtype or value.shape != feeds[x].shape:
            return "type", f"gradient {value.dtype}{value.shape} of {x.dtype}{feeds[x].shape}"
    if not trial.is_ordinary:
        return SAME, ""
    directions = {x: rng.standard_normal(feeds[x].shape) for x in free}
    slope = _slope(trial, inputs, feeds, directions, [g.astype("float64") for g in given.values()])
    if slope is None:
        return SAME, "no truth"
    parts = [v.astype("float64") * directions[x] for (x, _), v in zip(found, slopes, strict=True)]
    total, scale = sum(p.sum() for p in parts), sum(np.abs(p).sum() for p in parts)
    rtol = {"float16": 2e-2, "float32": 2e-4, "float64": 2e-5}[trial.dtype] * trial.row.rtol / 1e-5
    if not abs(total - slope) <= rtol * (scale + abs(slope)) + 1e-7:
        return "gradient", f"slope {total!r}, that of the reference is {slope!r}"
    return SAME, ""


def _slope(trial, inputs, feeds, directions, weights, step=1e-7):
    """The reference's slope along directions, by a central difference in double precision."""
    sides = []
    for sign in (1, -1):
        moved = [
            feeds[x].astype("float64") + sign * step * directions[x]
            if x in directions
            else feeds[x]
            for x in inputs
        ]
        values = trial.truth(moved)
        if values is None or [v.shape for v in values] != [w.shape for w in weights]:
            return None
        sides.append(sum((v * w).sum() for v, w in zip(values, weights, strict=True)))
    slope = (sides[0] - sides[1]) / (2 * step)
    return slope if np.isfinite(slope) else None
