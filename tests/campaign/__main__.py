"""Search for defects by random trials, and print a table of what came out.

    python -m tests.campaign                  every part, in its long form (hours)
    python -m tests.campaign --quick          a minute, as in CI: what the tests do not make already
    python -m tests.campaign fuzz --seed 7    one part, other trials

Ends with 1 if anything went wrong, after a line for each defect that says how to see it again.
"""

import argparse
import json
import sys
import time
from importlib import import_module
from pathlib import Path

from .plan import Plan, Row, table

SHOWN = 20  # defects of a row
PARTS = {
    "fuzz": "mutated files of every format that is read",
    "kills": "kill -9 while files are written",
    "restarts": "kill -9 of jobs of several processes, which are started again",
    "power": "a power cut while files are written: what was not synced is lost or reordered",
    "places": "a full disk, a read-only folder, no HOME, odd locales, little memory, one core",
    "soak": "a million steps, and a thousand sessions",
    "sizes": "ONNX's node tests on empty arrays and others of unexpected sizes",
    "models": "random ONNX models beside ONNX Runtime: values, exports, slopes, training steps",
    "state_dicts": "random modules of PyTorch beside the same layers: outputs, names, training",
    "sums": "reductions, normalizations and gradients of 2^24 numbers beside float64",
    "oracle": "ops and gradients over dtypes, values and sizes, beside NumPy",
    "signals": "threads, forks and signals at random moments",
    "properties": "random shapes, feeds, optimizers and sequences beside NumPy",
    "kernels": "fused kernels under sanitizers of memory, undefined behaviour and races",
    "cases": "tables of which the tests try some rows, all of them",
    "states": "what has a state is restored, copied, damaged and set",
}

# Parts whose quick form is among the tests: tests/campaign/test_writers.py, tests/v2/job,
# tests/core/ops/oracle, the files of properties and of cases, tests/states; and kernels, which
# compile everything again for each sanitizer. `--quick` makes them where they are named.
TESTED = ("kills", "restarts", "power", "oracle", "properties", "kernels", "cases", "states")


def main(arguments: list[str] | None = None) -> int:
    """Run the parts that the command line names; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaign",
        description="Search for defects by random trials.",
        epilog="parts:\n" + "\n".join(f"  {name:<13}{what}" for name, what in PARTS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    text = "default: all; with --quick those that are not among the tests"
    parser.add_argument("parts", nargs="*", metavar="PART", help=text)
    parser.add_argument("--quick", action="store_true", help="a minute in place of hours")
    parser.add_argument("--seed", type=int, default=0, help="of the trials (default: 0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to a file")
    chosen = parser.parse_args(arguments)
    for name in chosen.parts:
        if name not in PARTS:
            parser.error(f"no part {name!r}; there are {', '.join(PARTS)}")
    plan, rows = Plan(chosen.seed, chosen.quick), list[Row]()
    left_out = TESTED if chosen.quick else ()
    for name in chosen.parts or [name for name in PARTS if name not in left_out]:
        start = time.monotonic()
        part = import_module(f".{name}", __package__).run(plan)
        rows += part
        trials, defects = sum(r.trials for r in part), sum(len(r.defects) for r in part)
        print(
            f"{name}: {trials:,} trials, {defects} defects, {time.monotonic() - start:.0f} s",
            file=sys.stderr,
            flush=True,
        )
        if chosen.json:
            chosen.json.write_text(json.dumps([r.as_json() for r in rows], indent=1))
    print(table(rows))
    for row in rows:
        for defect in row.defects[:SHOWN]:
            print(f"{row.part} {row.subject}: {defect}", file=sys.stderr)
    return any(row.defects for row in rows)


if __name__ == "__main__":
    sys.exit(main())
