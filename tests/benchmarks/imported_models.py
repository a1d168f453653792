"""Published ONNX models in pd: inference, a step of fine-tuning, and export, beside ONNX Runtime.

Arguments are folders of .onnx files, searched with all their folders; equal files are read once.
A Markdown row is printed for each, which a process of its own has measured. Inputs are made up;
sizes that a file leaves open are the first of SIZES that ONNX Runtime accepts. The loss is the mean
square of all outputs of floats. Its slope along random directions is compared with differences.
"""

import hashlib
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import pd_core as pd

SIZES = 64, 320, 512, 576, 32  # pictures, lines of text, frames of audio at 16 kHz
SAMPLE_RATE = 16000
# what some files call their sizes and numbers, which not every size or number fits
NAMED_SIZES = {"seq_len": 12, "samples": 4000}
NUMBERS = {"fmin": 46.875, "fmax": 2093.75}  # Hz
COLUMNS = (
    "file",
    "nodes",
    "opset",
    "inference",
    "slopes",
    "parameters",
    "elements",
    "first step",
    "later step",
    "peak",
    "loss after 5",
    "export",
)
DIRECTIONS = 4
STEPS = 1e-3, 1e-4, 1e-5, 1e-6  # of differences, relative to the parameters
TRIES = 600  # seconds for a file


def node_count(graph):
    """Count the nodes of a graph and of the graphs inside it."""
    inner = [a.g for n in graph.node for a in n.attribute if a.HasField("g")]
    return len(graph.node) + sum(map(node_count, inner))


def made_up(info, size, rng, most):
    """Return an array for an input of a session, with `size` for all open sizes but a first one.

    Integers are below `most`.
    """
    shape = [d if isinstance(d, int) else NAMED_SIZES.get(d, size) for d in info.shape]
    if len(shape) > 1 and not isinstance(info.shape[0], int):
        shape[0] = 1
    if len(shape) == 3 and isinstance(info.shape[0], int):  # states of layers
        shape[1] = info.shape[1] if isinstance(info.shape[1], int) else 1
    dtype = onnx.helper.tensor_dtype_to_np_dtype(TYPES[info.type[7:-1]])
    if info.name in NUMBERS:
        return np.array(NUMBERS[info.name], dtype)
    if dtype.kind == "f":
        return rng.normal(size=shape).astype(dtype)
    if not shape:
        return np.array(SAMPLE_RATE, dtype)
    if len(shape) == 1:  # lengths of a batch of one
        return np.array([size], dtype)
    return rng.integers(1, most, shape).astype(dtype)


TYPES = {t.lower(): v for t, v in onnx.TensorProto.DataType.items()}


def accepted(path):
    """Return made-up inputs, by name, that ONNX Runtime runs the file with, and its outputs."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for size, most in itertools.product(SIZES, (5, 3)):
        rng = np.random.default_rng(0)
        feeds = {i.name: made_up(i, size, rng, most) for i in session.get_inputs()}
        try:
            outputs = session.run(None, feeds)
        except Exception as error:
            refused = error
            continue
        if all(np.isfinite(y).all() for y in outputs if y.dtype.kind == "f"):
            return feeds, outputs
        refused = ValueError(f"outputs of inputs of the size {size} are not finite")
    raise refused


def difference(ours, theirs):
    """Return the largest difference of two lists of arrays, relative to the largest element."""
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if a.shape != b.shape:
            raise ValueError(f"the shape is {a.shape}, not {b.shape}")
        if a.size:
            a, b = a.astype("float64"), b.astype("float64")
            worst = max(worst, abs(a - b).max() / max(abs(b).max(), 1e-30))
    return worst


def message(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:240]}".replace("|", "/")


def timed(function):
    start = time.perf_counter()
    return function(), time.perf_counter() - start


def exported(outputs, slots, feeds, ours):
    """Export a graph; return the difference of what ONNX Runtime computes from the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "model.onnx"))
        pd.export_onnx(path, outputs)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = {v.name: feeds[n] for n, v in slots.items()}
    again = session.run(None, {i.name: names[i.name] for i in session.get_inputs()})
    return difference(again, ours)


def mean_squares(outputs):
    """Return the loss, as a graph."""
    means = [pd.reduce_mean(pd.square(y)) for y in outputs if y.dtype.kind == "f"]
    return sum(pd.cast(y, "float32") for y in means)


def slopes(outputs, fed, parameters):
    """Return the largest error of the loss's derivative along random directions.

    It is relative to the derivative that differences give; of several widths the best one counts,
    since float32 rounds small ones away, and large ones leave the slope.
    """
    loss, rng, worst = mean_squares(outputs), np.random.default_rng(1), 0.0
    gradients = pd.gradients(loss, parameters)
    found = [np.asarray(g, "float64") for g in pd.eval(gradients, fed)]
    start = [np.asarray(pd.eval(v)) for v in parameters]
    floats = [y for y in outputs if y.dtype.kind == "f"]

    def moved(directions, width):
        for v, w, d in zip(parameters, start, directions, strict=True):
            pd.default_session().set(v, (w + width * d).astype(w.dtype))
        values = pd.eval(floats, fed)
        return sum(float(np.square(y.astype("float64")).mean()) for y in values)

    for _ in range(DIRECTIONS):
        # towards the gradient by half: a random direction alone is almost at right angles to it
        directions = []
        length = np.sqrt(sum(float((g**2).sum()) for g in found)) or 1.0
        size = np.sqrt(sum(float((w.astype("float64") ** 2).sum()) for w in start))
        for w, g in zip(start, found, strict=True):
            scale = np.sqrt((w.astype("float64") ** 2).mean())
            directions.append(scale * rng.normal(size=w.shape) + 0.5 * size * g / length)
        slope = sum(float((g * d).sum()) for g, d in zip(found, directions, strict=True))
        errors = []
        for width in STEPS:
            rise = (moved(directions, width) - moved(directions, -width)) / (2 * width)
            errors.append(abs(rise - slope) / max(abs(rise), abs(slope), 1e-30))
        worst = max(worst, min(errors))
    for v, w in zip(parameters, start, strict=True):
        pd.default_session().set(v, w)
    return worst


def trained(outputs, fed):
    """Return the times of the first and the fastest of four later steps, and the losses' ratio."""
    loss = mean_squares(outputs)
    update = pd.SGDOptimizer(0.01, clip=pd.ClipGlobalNorm(1.0)).minimize(loss)
    results = [timed(lambda: pd.eval([loss, update], fed)[0]) for _ in range(5)]
    before, after = float(results[0][0]), float(pd.eval(loss, fed))
    return results[0][1], min(t for _, t in results[1:]), f"{before:.4g} → {after:.4g}"


def row(path):
    """Return the cells of a file by column; where something failed, its message."""
    model = onnx.load(path)
    opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    cells = {"file": path.name, "nodes": node_count(model.graph), "opset": opset}
    stage = "inference"
    try:
        feeds, theirs = accepted(str(path))
        f = pd.import_onnx(str(path), float32=True)
        feeds = {n: x.astype(f.inputs[n][1]) for n, x in feeds.items()}
        slots = {n: pd.Variable.of(list(x.shape), x.dtype, n) for n, x in feeds.items()}
        outputs = f(*slots.values())
        outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
        fed = {slots[n]: x for n, x in feeds.items()}
        ours = pd.eval(outputs, fed)
        cells["inference"] = f"{difference(ours, theirs):.0e}"
        cells["parameters"] = len(f.parameters)
        cells["elements"] = sum(int(np.prod(v.dims)) for v in f.parameters.values())
        stage = "export"
        try:
            cells["export"] = f"{exported(outputs, slots, feeds, ours):.0e}"
        except Exception as error:
            cells["export"] = message(error)
        stage = "first step"
        first, later, losses = trained(outputs, fed)
        cells["peak"] = f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB"
        cells |= {"first step": f"{first:.2f} s", "later step": f"{1e3 * later:.1f} ms"}
        cells["loss after 5"] = losses
        stage = "slopes"
        parameters = [v for v in f.parameters.values() if v.trainable]
        cells["slopes"] = f"{slopes(outputs, fed, parameters):.0e}"
    except Exception as error:
        cells[stage] = message(error)
    return cells


def measured(path):
    """Return the cells of a file by column, from a process of its own."""
    command = [sys.executable, __file__, "--file", str(path)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TRIES)
    except subprocess.TimeoutExpired:
        return {"file": path.name, "inference": f"no end in {TRIES} s"}
    if done.returncode:
        return {"file": path.name, "inference": f"exit code {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def main():
    if sys.argv[1] == "--file":
        with pd.fresh():
            print(json.dumps(row(Path(sys.argv[2]))))
        return
    files = sorted(p for folder in sys.argv[1:] for p in Path(folder).rglob("*.onnx"))
    print("|", " | ".join(COLUMNS), "|")
    print("|", " | ".join("---" for _ in COLUMNS), "|", flush=True)
    read = set()
    for path in files:
        digest = hashlib.sha256(path.read_bytes()).digest()
        if digest not in read:
            read.add(digest)
            cells = measured(path)
            print("|", " | ".join(str(cells.get(c, "-")) for c in COLUMNS), "|", flush=True)


if __name__ == "__main__":
    main()
