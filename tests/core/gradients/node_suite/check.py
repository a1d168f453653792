"""A case imported, differentiated, and run on ONNX Runtime."""

import numpy as np

import pd_core as pd
from pd_core.backend import ort, program
from pd_core.backend.lowering import lower

# Linear operators that ONNX Runtime and the evaluator compute differently, so that their slope is
# computed by the runtime: random draws, and the ends of an image that is made smaller.
DROPOUT = "test_training_dropout"
OTHER = {
    "test_resize_downsample_scales_cubic_align_corners",
    "test_resize_downsample_scales_linear_align_corners",
}
FLOOR = 2e-6  # rounding error of float32 in a slope of zero


def failures(case, levels=(False, True), late=False):
    """Return {optimised: error} for the levels of ONNX Runtime's graph optimisation that fail.

    With `late` the first size of the first input is unknown until it runs.
    """
    try:
        with pd.fresh():
            targets, slots = build(case, late)
            lowered, feeds = _lowered(targets, slots, case)
    except Exception as error:
        return dict.fromkeys(levels, _text(error))
    found = {level: _failure(case, lowered, feeds, level) for level in levels}
    return {level: why for level, why in found.items() if why is not None}


def build(case, late):
    """Return ((outputs, gradients), {name: slot}) of a case, by a projection of its outputs."""
    slots = {n: _slot(x) for n, x in case.inputs.items()}
    first = case.model.graph.node[0].input[0]
    if late and first in case.direction and slots[first].rank:
        slots[first] = pd.Variable([None, *slots[first].shape[1:]])
    outputs = pd.import_onnx(case.model)(**slots)
    outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
    pairs = [(y, w) for y, w in zip(outputs, case.weights, strict=True) if w is not None]
    seeds = [np.asarray(w, y.dtype) for y, w in pairs]
    moved = [slots[n] for n in case.direction]
    return (outputs, pd.gradients([y for y, _ in pairs], moved, seeds)), slots


def _slot(x):
    if not isinstance(x, np.ndarray):
        raise TypeError(f"an input is {type(x).__name__}")
    return pd.Variable(list(x.shape), dtype=_single(x).dtype, initializer=_never)


def _never(shape, rng):
    raise AssertionError("it is fed")


def _single(x):
    return x.astype(np.float32) if x.dtype == np.float64 else x


def _lowered(targets, slots, case):
    outputs, gradients = targets
    wanted = [*outputs, *(g for g in gradients if g is not None)]
    graph = program.build(wanted, [], list(slots.values()), False, {})
    lowered = lower(graph)
    feeds = {lowered.names[slot]: v for v, slot in zip(graph.fed, graph.feeds, strict=True)}
    arrays = {slots[n]: _single(x) for n, x in case.inputs.items()}
    places = [g is not None for g in gradients]
    return (lowered, places), {name: arrays[v] for name, v in feeds.items()}


def _failure(case, lowered, feeds, optimise):
    """Return the error of a case, or None."""
    (lowered, places), count = lowered, len(case.outputs)
    try:
        session = ort.session(lowered.model.SerializeToString(), optimize=optimise)
        found = session.run(lowered.outputs, feeds)
    except Exception as error:
        return _text(error)
    own = case.name in OTHER or case.name.startswith(DROPOUT)
    truth = _by_runtime(case) if own else (case.outputs, case.slope)
    for y, want, w in zip(found, truth[0], case.weights, strict=False):
        if w is not None and not _close(y, want):
            return "the imported model gives other values"
    gradients = iter(found[count:])
    shapes = [d.shape for d, there in zip(case.direction.values(), places, strict=True) if there]
    if [g.shape for g in found[count:]] != shapes:
        return f"gradients have shapes {[g.shape for g in found[count:]]}, not {shapes}"
    parts = [
        np.vdot(next(gradients).astype(np.float64), d) if there else 0.0
        for there, d in zip(places, case.direction.values(), strict=True)
    ]
    slope, wanted = sum(parts), truth[1]
    scale = max(abs(wanted), *map(abs, parts))
    if not abs(slope - wanted) <= 2 * case.rtol * scale + FLOOR:
        return f"its slope is {wanted:.6g}, the gradient gives {slope:.6g}"
    return None


def _close(y, want):
    scale = np.max(np.abs(want), where=np.isfinite(want), initial=1e-3)
    return np.allclose(y, want, rtol=1e-3, atol=1e-4 * scale, equal_nan=True)


def _by_runtime(case):
    """Return (outputs, slope) of a linear operator by ONNX Runtime; sessions draw equal numbers."""

    def outputs(inputs):
        session = ort.session(case.model.SerializeToString(), optimize=False)
        return session.run(None, {n: np.asarray(_single(x)) for n, x in inputs.items()})

    here = outputs(case.inputs)
    moved = {n: case.inputs[n] + d for n, d in case.direction.items()}
    there = outputs({**case.inputs, **moved})
    both = zip(case.weights, here, there, strict=True)
    return here, sum(np.vdot(w, b - a) for w, a, b in both if w is not None)


def _text(error):
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200]
