"""The process of one contender, driven by `contender.py` over pipes of pickles.

`python -m tests.benchmarks.child WORKLOAD.py MODULE FUNCTION`: MODULE is imported first, and timed;
FUNCTION is `ours`, `pytorch`, `compiled` or `jax`.
"""

import contextlib
import gc
import importlib
import importlib.util
import os
import pickle
import sys
import time
from pathlib import Path

CHECKED = 3  # losses that must agree before anything is timed


def status_bytes(field):
    """Return a size in /proc/self/status, such as VmHWM, or None where there is no such file."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def reset_peak():
    """Let VmHWM start again from the memory in use, where Linux allows it."""
    gc.collect()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def load(path):
    """Return the module of a workload's file."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(workload, function, parameters):
    """Return (the contender's loop, the parameters it starts from if it is pd and chooses them)."""
    if parameters is None:
        return getattr(workload, function)()
    if function == "pytorch":
        return workload.pytorch(parameters, lambda f: f), None
    if function == "compiled":
        import torch

        return workload.pytorch(parameters, torch.compile), None
    return getattr(workload, function)(parameters), None


def serve(path, module, function, receive, send):
    """Build the contender, run its first steps, then a block for each (first batch, steps)."""
    start = time.perf_counter()
    imported = importlib.import_module(module)
    import_seconds = time.perf_counter() - start
    workload = load(path)
    batches = workload.batches()
    reset_peak()
    resident = status_bytes("VmRSS")
    about = {name: getattr(workload, name) for name in ("TITLE", "KIND", "RTOL", "FLOPS")}
    about["is_there"] = hasattr(workload, "pytorch" if function == "compiled" else function)
    version = getattr(imported, "__version__", "")
    send({"import_seconds": import_seconds, "version": version, **about})

    parameters = receive()
    start = time.perf_counter()
    loop, initial = build(workload, function, parameters)
    first_seconds = time.perf_counter() - start
    send(initial)
    # Neither the pickled parameters nor their copies are part of the training's memory.
    parameters = initial = None
    reset_peak()

    start = time.perf_counter()
    losses = list(loop(batches[:1]))
    first_seconds += time.perf_counter() - start
    losses += loop(batches[1:CHECKED])
    send({"first_seconds": first_seconds, "losses": [float(loss) for loss in losses]})

    while (request := receive()) is not None:
        first, steps = request
        block = [batches[(first + k) % len(batches)] for k in range(steps)]
        start = time.perf_counter()
        loop(block)
        seconds = time.perf_counter() - start
        peak = status_bytes("VmHWM")
        send({"seconds": seconds, "peak_bytes": None if peak is None else peak - resident})


def main():
    """Serve on the standard streams; whatever is printed goes to the standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def send(answer):
        pickle.dump(answer, answers, protocol=5)
        answers.flush()

    try:
        serve(*sys.argv[1:], lambda: pickle.load(sys.stdin.buffer), send)
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        send(RuntimeError(f"{type(error).__name__}: {lines[0]}"))
        raise


if __name__ == "__main__":
    main()
