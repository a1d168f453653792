"""`python -m tests.benchmarks`: all workloads or some, as tables, JSON and a chart."""

import argparse
import dataclasses
import json
import platform
import sys
from pathlib import Path

from . import growth
from .contender import bind_to_cores
from .measure import FULL, QUICK, Measured, Result, measure, sides_here, workload_paths
from .report import details, means, summary


def main(argv=None):
    """Measure and report; return 1 if pd failed in a workload."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="these workloads")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter blocks")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured")
    parser.add_argument("--chart", type=Path, metavar="FILE.png", help="draw the ratios")
    parser.add_argument(
        "--merge", nargs="+", type=Path, metavar="FILE", help="report JSON files, measure nothing"
    )
    parser.add_argument(
        "--growth", action="store_true", help="measure growth with the size, and no workloads"
    )
    args = parser.parse_args(argv)
    if args.growth:
        growth.main(args.quick)
        return 0
    if args.merge:
        results = [r for path in args.merge for r in read(path)]
    else:
        try:
            paths = workload_paths(args.only)
        except ValueError as error:
            parser.error(str(error))
        results = run(paths, QUICK if args.quick else FULL)
    if args.json:
        args.json.write_text(json.dumps([dataclasses.asdict(r) for r in results], indent=1))
    print(report(results))
    if args.chart:
        from .chart import draw

        draw(results, args.chart)
    print(means(results))
    return int(any(r.sides[0].error for r in results))


def run(paths, effort):
    """Return the Results of these workloads."""
    bind_to_cores()
    sides = sides_here()
    results = []
    for path in paths:
        print(f"{path.stem} …", file=sys.stderr, flush=True)
        results.append(measure(path, effort, sides))
    return results


def read(path):
    """Return the Results of a JSON file."""
    entries = json.loads(path.read_text())
    return [Result(**{**e, "sides": [Measured(**s) for s in e["sides"]]}) for e in entries]


def report(results):
    """Return everything but the last line, as Markdown."""
    versions = {s.name: s.version for r in results for s in r.sides if s.version}
    peak = max((g for r in results for g in r.peak_gflops), default=0.0)
    machine = f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    versions = ", ".join(f"{name} {version}" for name, version in versions.items())
    lines = [f"{machine}; {versions}; matrix products reach {peak:.0f} GFLOP/s."]
    return "\n\n".join([*lines, summary(results), details(results)]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
