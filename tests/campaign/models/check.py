"""A model of any origin beside plain ONNX Runtime: values, exports, slopes and training steps."""

import json
import warnings
from collections.abc import Iterator

import numpy as np
import onnxruntime
from onnx import ModelProto

import pd_core as pd
from pd_core.backend.program import leaves
from tests.core.gradients.node_suite.cases import doubled

CLEAR = (pd.GraphError, pd.ModelError, pd.ExportError)
_SHARP = 1e-5  # what values may differ by
_STEPS = {np.dtype(np.float64): 1e-5, np.dtype(np.float32): 4e-3}  # of differences
_SLOPES = {np.dtype(np.float64): 2e-4, np.dtype(np.float32): 2e-2}  # what slopes may differ by


def plain(model: ModelProto, feeds: dict, optimise: bool = True) -> list[np.ndarray] | str:
    """Return the outputs of a stock session, or why it refuses the model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimise else level.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, ["CPUExecutionProvider"], enable_fallback=0
        )
        return session.run(None, feeds)
    except Exception as error:
        return " ".join(str(error).split())


def verdicts(
    model: ModelProto, feeds: dict, known: bool = True, deep: bool = True
) -> Iterator[tuple[str, str]]:
    """Yield (outcome, what it was) of each comparison of a model on these inputs.

    With `known` the sizes of inputs are those that the file declares, else none is known. With
    `deep` slopes and a training step are compared, too.
    """
    wanted = plain(model, feeds)
    if isinstance(wanted, str):
        yield "refused by ONNX Runtime", wanted
        return
    again = plain(model, feeds, optimise=False)
    if isinstance(again, str) or _differ(again, wanted):
        yield "ONNX Runtime differs from itself", "with and without its optimizations"
        return
    with pd.fresh(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from _checked(model, feeds, wanted, known, deep)


def _checked(model, feeds, wanted, known, deep):
    found = _attempt("import", lambda: _built(model, feeds, known))
    if isinstance(found, tuple) and isinstance(found[0], str):
        yield found
        return
    slots, outputs = found
    fed = {slots[n]: a for n, a in feeds.items() if n in slots}
    got = _attempt("run", lambda: pd.eval(outputs, fed))
    if isinstance(got, tuple):
        yield ("late error" if got[0] == "clear error" else got[0]), got[1]
        return
    why = _differ(got, wanted) or _types(outputs, wanted)
    yield ("silent difference", f"values: {why}") if why else ("right", "values")
    yield _exported(slots, outputs, feeds, wanted)
    if deep:
        yield from _slopes(model, feeds, slots, outputs, fed, wanted)
        yield from _trained(slots, outputs, feeds, fed, wanted)


def _attempt(what, work):
    """Return the result of work, or (outcome, error)."""
    try:
        return work()
    except CLEAR as error:
        return "clear error", f"{what}: {error}"
    except (pd.BackendError, pd.FeedError) as error:
        return "late error", f"{what}: {error}"
    except Exception as error:
        return "wrong error", f"{what}: {type(error).__name__}: {error}"


def _built(model, feeds, known):
    f = pd.import_onnx(model)
    slots = {}
    for n, (dims, dtype) in f.inputs.items():
        if n not in feeds:
            continue
        sizes = dims if known and dims is not None else [None] * feeds[n].ndim
        if feeds[n].ndim == 1 and dtype.kind == "i":
            sizes = feeds[n].shape  # axes, pads, sizes: their number decides ranks
        slots[n] = pd.Variable(n, shape=list(sizes), dtype=dtype)
        slots[n].trainable = False
    outputs = f(**slots)
    outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
    return slots, outputs


def _differ(got, wanted, rtol=_SHARP):
    """Say how arrays differ from those that are wanted, None if they are equal."""
    if len(got) != len(wanted):
        return f"{len(got)} outputs, not {len(wanted)}"
    for k, (a, b) in enumerate(zip(got, wanted, strict=True)):
        if isinstance(b, list) or isinstance(a, list):
            same = isinstance(a, list) and isinstance(b, list)
            why = _differ(a, b, rtol) if same else f"{type(a)}, not {type(b)}"
        else:
            why = _differs(np.asarray(a), np.asarray(b), rtol)
        if why:
            return f"output {k}: {why}"
    return None


def _differs(a, b, rtol):
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"
    if a.dtype.kind in "OUS":
        return None if (a == b).all() else "other text"
    if a.dtype.kind not in "fcV":
        return None if (a == b).all() else f"{a.ravel()[:6]}, not {b.ravel()[:6]}"
    x, y = a.astype(np.float64), b.astype(np.float64)
    fine = {2: 2e-3, 1: 0.2}.get(a.dtype.itemsize, rtol)
    fine = 1e-2 if a.dtype.kind == "V" else fine
    scale = np.abs(y[np.isfinite(y)]).max(initial=0.0)
    with np.errstate(invalid="ignore"):
        if np.allclose(x, y, rtol=fine, atol=fine * max(min(scale, 1.0), 0.1), equal_nan=True):
            return None
    return f"{x.ravel()[:6]}, not {y.ravel()[:6]}"


def _types(outputs, wanted):
    for y, b in zip(outputs, wanted, strict=True):
        if isinstance(y, list):
            continue
        shape = np.shape(b)
        pairs = zip(y.symbolic_dims, shape, strict=False)
        if y.rank != len(shape) or any(isinstance(d, int) and d != e for d, e in pairs):
            return f"announced {y!r}, is {list(shape)}"
    return None


def _needed(slots, targets):
    """Return the inputs that targets depend on."""
    read = set(leaves(targets))
    return [v for v in slots.values() if v in read]


def _exported(slots, outputs, feeds, wanted):
    def work():
        flat = [y for y in outputs if not isinstance(y, list)]
        return pd.export_onnx(None, flat, inputs=_needed(slots, flat))

    model = _attempt("export", work)
    if isinstance(model, tuple):
        return model
    names = {i.name for i in model.graph.input}
    got = plain(model, {n: a for n, a in feeds.items() if n in names})
    if isinstance(got, str):
        return "silent difference", f"the exported model does not run: {got}"
    flat = [b for y, b in zip(outputs, wanted, strict=True) if not isinstance(y, list)]
    why = _differ(got, flat)
    return ("silent difference", f"exported: {why}") if why else ("right", "export")


def _projection(outputs, rng):
    """Return (place, weights) of the outputs that have slopes."""
    return [
        (k, rng.standard_normal(np.shape(y)))
        for k, y in enumerate(outputs)
        if isinstance(y, np.ndarray) and y.dtype in (np.float32, np.float64) and y.size
    ]


def _slopes(model, feeds, slots, outputs, fed, wanted):
    """Compare gradients for the float inputs with differences of ONNX Runtime's outputs."""
    rng = np.random.default_rng(0)
    free = {
        n: rng.standard_normal(a.shape)
        for n, a in feeds.items()
        if n in slots and a.dtype in (np.float32, np.float64) and a.size
    }
    if any("Quantize" in node.op_type for node in model.graph.node):
        free = {}  # whose gradients are those of the straight-through estimator
    truth = _directional(model, feeds, free, rng, wanted) if free else "nothing to move"
    if isinstance(truth, str):
        yield "no slope", truth
        return
    slope, weights, dtype, scale = truth

    def work():
        places = [k for k, _ in weights if outputs[k].dtype.kind == "f"]
        seeds = [np.asarray(w, outputs[k].dtype) for k, w in weights]
        ys, xs = [outputs[k] for k in places], [slots[n] for n in free]
        found = pd.gradients(ys, xs, seeds)
        return found, pd.eval([g for g in found if g is not None], fed)

    result = _attempt("gradient", work)
    if isinstance(result[0], str):
        yield ("late error" if result[0] == "late error" else result[0]), result[1]
        return
    found, arrays = result
    there = [n for n, g in zip(free, found, strict=True) if g is not None]
    for n, g in zip(there, arrays, strict=True):
        if g.shape != feeds[n].shape or g.dtype != feeds[n].dtype:
            yield "silent difference", f"the gradient of {n} is {g.dtype}{list(g.shape)}"
            return
    parts = [np.vdot(g.astype(np.float64), free[n]) for n, g in zip(there, arrays, strict=True)]
    got = float(sum(parts))
    size = max([abs(slope), scale, *map(abs, parts)])
    if abs(got - slope) <= _SLOPES[dtype] * size + (1e-6 if dtype == np.float64 else 1e-3):
        yield "right", "slope"
    else:
        yield "silent difference", f"slope {slope:.6g}, the gradient gives {got:.6g}"


def _close(wide, wanted):
    """Whether outputs in double precision are those in single precision, but for rounding."""
    pairs = zip(wide, wanted, strict=True)
    return all(
        np.shape(a) == np.shape(b)
        and (np.asarray(b).dtype.kind != "f" or np.allclose(a, b, 2e-3, 2e-3, equal_nan=True))
        for a, b in pairs
    )


def _directional(model, feeds, free, rng, wanted):
    """Return (slope, weights, the type it was computed in, the sizes of its parts)."""
    for form, dtype in ((doubled(model), np.dtype(np.float64)), (model, np.dtype(np.float32))):
        wide = dtype == np.float64
        point = {n: a.astype(np.float64) if wide and a.dtype == np.float32 else a
                 for n, a in feeds.items()}  # fmt: skip
        here = plain(form, point, optimise=False)
        if isinstance(here, str) or (wide and not _close(here, wanted)):
            continue  # of other types the runtime may take the body that ONNX gives
        weights = _projection(here, rng)
        if not weights:
            return "no output has a slope"
        h = _STEPS[dtype]
        values = []
        for k in (1, -1, 2, -2):
            moved = {n: (a + k * h * free[n]).astype(a.dtype) if n in free else a
                     for n, a in point.items()}  # fmt: skip
            there = plain(form, moved, optimise=False)
            if isinstance(there, str) or any(
                np.shape(a) != np.shape(b) for a, b in zip(there, here, strict=True)
            ):
                return "it has no slope here"
            values.append(
                sum(np.vdot(w, there[j].astype(np.float64) - here[j]) for j, w in weights)
            )
        slopes = [values[0] / h, -values[1] / h, values[2] / 2 / h, -values[3] / 2 / h]
        if not np.isfinite(slopes).all():
            return "its slope is not finite"
        slope, size = (slopes[0] + slopes[1]) / 2, max(map(abs, slopes))
        if max(abs(s - slope) for s in slopes) > _SLOPES[dtype] * max(size, 0.05):
            return "it has no slope here"
        return slope, weights, dtype, 0.0
    return "ONNX Runtime does not run it twice"


def _trained(slots, outputs, feeds, fed, wanted):
    """Compare a training step of pd with that of the exported step on a stock session.

    The mean of nothing is no cost: it is NaN here, and 0 by ONNX Runtime.
    """
    costs = [
        y
        for y, b in zip(outputs, wanted, strict=True)
        if not isinstance(y, list) and y.dtype == np.float32 and b.size
    ]
    weights = list(pd.trainable_variables())
    if not costs or not weights:
        return
    cost = sum((pd.reduce_mean(pd.sin(y)) for y in costs[1:]), pd.reduce_mean(pd.sin(costs[0])))
    found = _attempt("gradient", lambda: pd.gradients(cost, weights))
    if isinstance(found, tuple) or all(g is None for g in found):
        return

    def work():
        step = pd.SGDOptimizer(0.1).minimize(cost)
        model = pd.export_step(None, step, [cost], inputs=_needed(slots, [cost]))
        _, value = pd.eval([step, cost], fed)
        return model, value, [pd.eval(v) for v in weights]

    result = _attempt("step", work)
    if isinstance(result[0], str):
        yield result
        return
    model, value, after = result
    metadata = {p.key: p.value for p in model.metadata_props}
    state = json.loads(metadata["pd.state"])
    needed = {i.name for i in model.graph.input}
    names = [y.name for y in model.graph.output]
    got = plain(model, {n: a for n, a in feeds.items() if n in needed})
    if isinstance(got, str):
        yield "silent difference", f"the exported step does not run: {got}"
        return
    by_name = dict(zip(names, got, strict=True))
    new = {before: by_name[y] for y, before in state.items()}
    pairs = [(new[v.name], a) for v, a in zip(weights, after, strict=True) if v.name in new]
    why = _differ([got[0], *(a for a, _ in pairs)], [value, *(b for _, b in pairs)], 1e-4)
    yield ("silent difference", f"step: {why}") if why else ("right", "step")
