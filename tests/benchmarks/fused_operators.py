"""The time of each fused operator of training steps, and of the operators that it replaces.

`python -m tests.benchmarks.fused_operators NAME ...` runs the programs of workloads, fused and
unfused in turns, and takes the least time of each operator from the runtime's profile: an operator
is timed where it runs, with what is in the caches there, on one core. Equal operators are one row;
those that lose most come first. MB are those of inputs, outputs and memory of its own. Profiles
have wall times: where other work interrupts, long operators look slower than several short ones.

Then whole programs are timed without a profile, on two cores: processor time, in turns, the least
of them. The fused ones have convolutions by oneDNN if it is there, unless PD_ONEDNN=0; those of the
table never have.
"""

import argparse
import json
import os
import pickle
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import pd_core as pd
from pd_core.backend.fused import onednn
from pd_core.backend.fused.build import build
from pd_core.backend.fused.groups import DOMAIN
from pd_core.backend.fused.program import FUSERS
from pd_core.backend.ort import session
from tests.benchmarks.child import load
from tests.benchmarks.contender import ROOT
from tests.benchmarks.measure import WORKLOADS
from tests.core.backend.fused.recorded import recorded

_CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
_SMALLEST = 1e-3  # ms; operators that take less are no rows


def programs(name, is_fused=False):
    """Return the programs of the first steps of a workload before it is fused, as `Recorded`.

    With `is_fused` they are laid out as those that are, for oneDNN's convolutions.
    """
    workload = load(WORKLOADS / f"{name}.py")
    with recorded() as found, pd.fused() if is_fused else nullcontext():
        loop = workload.ours()
        loop = loop[0] if isinstance(loop, tuple) else loop
        list(loop(workload.batches()[:3]))
    return list(found.values())


def _on(cores):
    """Let this process run on so many cores: the runtime has as many threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, _CORES[-cores:])


class Side:
    """A program that is opened, bound to its inputs, and timed."""

    def __init__(self, model, libraries, program, profile=""):
        self.opened = session(model, without=program.without, libraries=libraries, profile=profile)
        self.binding = self.opened.io_binding()
        for v in self.opened.get_inputs():
            value = onnxruntime.OrtValue.ortvalue_from_numpy(program.values[v.name])
            self.binding.bind_ortvalue_input(v.name, value)
        for v in self.opened.get_outputs():
            self.binding.bind_output(v.name)
        self.run()
        outputs = self.binding.get_outputs()
        for v, value in zip(self.opened.get_outputs(), outputs, strict=True):
            if value.is_tensor():
                self.binding.bind_ortvalue_output(v.name, value)
        self.least = self.least_wall = np.inf

    def run(self):
        """Run once."""
        self.opened.run_with_iobinding(self.binding)

    def timed(self):
        """Run once, and keep the least processor time and the least wall time."""
        start, wall = time.process_time(), time.perf_counter()
        self.run()
        self.least_wall = min(self.least_wall, time.perf_counter() - wall)
        self.least = min(self.least, time.process_time() - start)


def fused(program):
    """Return (the fused model, its libraries, {operator: values that are made inside})."""
    model = onnx.load_from_string(program.model)
    libraries, members = [], {}
    for fuser in FUSERS:
        source, statistics = fuser.fuse(model, program.kinds, program.equal)
        members |= getattr(statistics, "members", {})
        if source is not None:
            libraries.append(build(source, **fuser.options()))
    return model, libraries, members


def _profiled(opened):
    """{operator: (least ms, type, bytes)} of a session that was run with a profile."""
    path = opened.end_profiling()
    found = {}
    for event in json.loads(Path(path).read_text()):
        if event["cat"] == "Node" and event["name"].endswith("_kernel_time"):
            name, given = event["name"].removesuffix("_kernel_time"), event["args"]
            ms = event["dur"] / 1e3
            if name not in found or found[name][0] > ms:
                sizes = given.get("input_type_shape", []) + given.get("output_type_shape", [])
                found[name] = ms, given["op_name"], sum(map(_bytes, sizes))
    os.remove(path)
    return found


_WIDTHS = {"float": 4, "int64": 8, "double": 8, "bool": 1, "int32": 4, "uint8": 1}


def _bytes(typed):
    ((kind, dims),) = typed.items()
    return _WIDTHS.get(kind, 4) * int(np.prod(dims, dtype=np.int64))


def operators(program, rounds):
    """Return (rows of fused operators, sums of the others' ms unfused and fused).

    A row is (type, how many, ms fused, ms of what they replace, bytes, an operator's name).
    """
    model, libraries, members = fused(program)
    with tempfile.TemporaryDirectory() as folder:
        plain = Side(program.model, (), program, f"{folder}/plain")
        changed = Side(model.SerializeToString(), libraries, program, f"{folder}/fused")
        for _ in range(rounds):
            plain.run()
            changed.run()
        before, after = _profiled(plain.opened), _profiled(changed.opened)
        produced = _makers(program, folder)
    group_of = {y: name for name, made in members.items() for y in made}
    replaced = defaultdict(float)
    inside = defaultdict(list)
    for name, (ms, op, _) in before.items():
        outputs = produced.get(name, ())
        group = next((group_of[y] for y in outputs if y in group_of), None)
        replaced[group] += ms
        inside[group].append((ms, op))
    rows = defaultdict(lambda: [0, 0.0, 0.0, 0, "", []])
    types = {node.name: node.op_type for node in model.graph.node if node.domain == DOMAIN}
    rest = 0.0
    for name, (ms, op, moved) in after.items():
        if name in types:
            row = rows[types[name]]
            row[0] += 1
            row[1] += ms
            row[2] += replaced.pop(name, 0.0)
            row[3] += moved
            row[4] = name
            row[5] += inside[name]
        else:
            rest += ms
            rows[op][5].append((ms, op))
    others = {op: row[5] for op, row in rows.items() if not row[0]}
    result = [(op, *row) for op, row in rows.items() if row[0]]
    result.sort(key=lambda row: row[3] - row[2])
    return result, sum(replaced.values()), rest, inside[None], others


def _makers(program, folder):
    """{operator: its outputs} of the program after the runtime's own changes."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = f"{folder}/optimized.onnx"
    options.log_severity_level = 4
    onnxruntime.InferenceSession(
        program.model, options, ["CPUExecutionProvider"], disabled_optimizers=program.without
    )
    optimized = onnx.load(options.optimized_model_filepath)
    return {node.name: list(node.output) for node in optimized.graph.node}


def whole(programs, laid_out, rounds):
    """Return (ms unfused, ms fused, wall ms unfused, wall ms fused) of all programs of a step.

    `laid_out` are those that are fused.
    """
    total = np.zeros(4)
    for program, other in zip(programs, laid_out, strict=True):
        model, libraries, _ = fused(other)
        sides = (
            Side(program.model, (), program),
            Side(model.SerializeToString(), libraries, other),
        )
        for k in range(rounds):
            for side in sides[:: 1 if k % 2 else -1]:
                side.timed()
        total += [s.least for s in sides] + [s.least_wall for s in sides]
    return total * 1e3


def main(arguments):
    """Print the tables of the workloads."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--rows", type=int, default=12)
    parser.add_argument("--whole", action="store_true", help="whole programs alone")
    parser.add_argument("--single", action="store_true", help="single operators alone")
    parser.add_argument("--others", action="store_true", help="also operators outside of groups")
    parser.add_argument("--programs", metavar="FOLDER", help="keep programs in a folder")
    given = parser.parse_args(arguments)
    os.environ.setdefault("PD_DATASET_HOME", str(ROOT / "demos" / "data"))
    os.environ.setdefault("PD_DATASET_CHECK", "0")
    for name in given.names:
        kept = Path(given.programs, f"{name}.pickle") if given.programs else None
        if kept is not None and kept.exists():
            found = pickle.loads(kept.read_bytes())
        else:
            found = programs(name)
            if kept is not None:
                kept.write_bytes(pickle.dumps(found))
        _on(1)
        for program in [] if given.whole else found:
            rows, before, after, plain, others = operators(program, given.rounds)
            print(f"{'operator':>9} {'n':>3} {'ms':>8} {'replaced':>8} {'ratio':>5} {'MB':>7} GB/s")
            for op, count, ms, replaced, moved, label, inside in rows[: given.rows]:
                if max(ms, replaced) > _SMALLEST:
                    ops = defaultdict(float)
                    for t, each in inside:
                        ops[each] += t
                    text = " ".join(
                        f"{k} {v:.3f}" for k, v in sorted(ops.items(), key=lambda p: -p[1])[:6]
                    )
                    print(
                        f"{op:>9} {count:3} {ms:8.3f} {replaced:8.3f} {replaced / ms:5.2f} "
                        f"{moved / 1e6:7.2f} {moved / ms / 1e6:5.1f} {label[:30]} | {text}"
                    )
            total = sum(row[2] for row in rows), sum(row[3] for row in rows)
            print(f"in groups: {total[1]:.3f} ms, then {total[0]:.3f}")
            print(f"others: {before:.3f} ms, then {after:.3f}")
            if given.others:
                ops = defaultdict(float)
                for t, each in plain:
                    ops[each] += t
                for op in sorted({*ops, *others}):
                    print(f"  {op} {ops[op]:.3f} {sum(t for t, _ in others.get(op, ())):.3f}")
        _on(2)
        if not given.single:
            laid_out = programs(name, is_fused=True) if onednn.active() else found
            ms = whole(found, laid_out, given.rounds)
            print(
                f"{name}: {ms[0]:.2f} ms of processor time, fused {ms[1]:.2f}: "
                f"{ms[0] / ms[1]:.2f}; wall {ms[2]:.2f}, {ms[3]:.2f}: {ms[2] / ms[3]:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
