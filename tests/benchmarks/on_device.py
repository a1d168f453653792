"""`python -m tests.benchmarks.on_device cuda:0`: every op on a device, and the workloads there.

Prints a dated section of Markdown: how many rows of the op tables agree with NumPy and with the
gradients of the CPU, the times of the workloads on the device beside those on the CPU and, for
CUDA, beside PyTorch on the same GPU. `--write` puts it into docs/devices.md, in the place of the
section of that device if it has one.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
from datetime import date
from importlib.util import find_spec

from .contender import EAGER, OURS, ROOT, Side, bind_to_cores
from .measure import FULL, QUICK, measure, workload_paths
from .report import details, summary

PAGE = ROOT / "docs" / "devices.md"
ROWS = "tests/core/ops/test_devices.py"


def main(argv=None):
    """Measure and report; return 1 if an op differs or pd failed in a workload."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.on_device", description=__doc__
    )
    parser.add_argument("device", help="a name of pd.devices()")
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="these workloads")
    parser.add_argument("--ops", default="", metavar="EXPRESSION", help="-k of the op tests")
    parser.add_argument("--no-ops", action="store_true", help="leave out the op tests")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter blocks")
    parser.add_argument("--write", action="store_true", help="write the section into the docs")
    args = parser.parse_args(argv)
    ops, failed = ("", 0) if args.no_ops else op_rows(args.device, args.ops)
    results = workloads(args.device, args.only, QUICK if args.quick else FULL)
    text = section(args.device, ops, results)
    print(text)
    if args.write:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(with_section(page, args.device, text), encoding="utf-8")
    return int(failed > 0 or any(r.sides[0].error for r in results))


def op_rows(device, expression=""):
    """Run the op tests on a device; return (a sentence about them, how many failed)."""
    choice = ["-k", expression] if expression else []
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", ROWS, *choice],
        cwd=ROOT,
        env={**os.environ, "PD_TEST_DEVICE": device},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return rows_sentence(done.stdout)


def rows_sentence(output):
    """Return (a sentence about what pytest printed, how many tests failed)."""
    counts = dict.fromkeys(("passed", "failed"), 0)
    last = output.strip().splitlines()[-1] if output.strip() else ""
    counts.update({word: int(n) for n, word in re.findall(r"(\d+) (passed|failed)", last)})
    names = re.findall(r"^FAILED \S+::(test_\w+\[.*?\])(?: - .*)?$", output, re.MULTILINE)
    total = sum(counts.values())
    if not total:
        return f"The op tests did not run: {last or 'pytest printed nothing'}.", 1
    text = f"{counts['passed']} of {total} op tests agree with NumPy and with the CPU"
    different = "; different are " + ", ".join(f"`{n}`" for n in names) if names else ""
    return f"{text}{different}.", counts["failed"]


def workloads(device, names, effort):
    """Return the Results of these workloads on a device, on the CPU and in PyTorch."""
    os.environ["PD_BENCHMARK_DEVICE"] = device
    bind_to_cores()
    sides = [Side(f"pd on {device}", "tests.benchmarks.placed_pd", "ours"), OURS]
    if device.startswith("cuda"):
        sides.append(Side(f"PyTorch on {device}", "tests.benchmarks.placed_torch", "pytorch"))
    elif find_spec("torch"):
        sides.append(EAGER)
    results = []
    for path in workload_paths(names):
        print(f"{path.stem} …", file=sys.stderr, flush=True)
        results.append(measure(path, effort, sides))
    return results


def section(device, ops, results):
    """Return the Markdown of a device, without its markers."""
    versions = {s.name: s.version for r in results for s in r.sides if s.version}
    versions = ", ".join(f"{name} {version}" for name, version in versions.items())
    machine = f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    head = f"`{device}` on {date.today().isoformat()}: {machine}; {versions}."
    parts = [head, ops, summary(results), details(results)]
    return "\n\n".join(part for part in parts if part)


def with_section(page, device, text):
    """Return a page with the section of a device, after all others if it is a new one."""
    begin, end = f"<!-- measured on {device} -->", f"<!-- end of {device} -->"
    block = f"{begin}\n{text}\n{end}"
    if begin in page:
        before, _, rest = page.partition(begin)
        return before + block + rest.partition(end)[2]
    return f"{page.rstrip()}\n\n{block}\n"


if __name__ == "__main__":
    sys.exit(main())
