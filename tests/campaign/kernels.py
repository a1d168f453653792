"""Fused kernels where faults of memory, undefined behaviour and races are seen: GCC's sanitizers.

    python -m tests.campaign.kernels address tests/core/backend/fused/test_rows.py -x

runs chosen tests; other arguments are pytest's. `address` and `thread` are the sanitizers of these
names, the first one with that of undefined behaviour. What is not compiled for them, such as ONNX
Runtime and oneDNN, they see where it calls the C library. `pages` sees all accesses behind tensors
and to freed ones, but only the first: see pages.c.
"""

import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .plan import Plan, Row

ROOT = Path(__file__).resolve().parents[2]
SANITIZERS = {  # what kernels are compiled with
    "address": "-fsanitize=address,undefined,float-cast-overflow -fsanitize-recover=all",
    "thread": "-fsanitize=thread -DOWN_THREADS=3",
    "pages": "",
}
OPTIONS = {
    # what is freed is overwritten: who reads it sees that, if not compiled for a sanitizer, too
    "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=0:detect_odr_violation=0:quarantine_size_mb=64"
    ":max_free_fill_size=65536:free_fill_byte=219",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "report_signal_unsafe=0:halt_on_error=0:exitcode=0",
}
FOLDERS = ("tests/core/backend/fused", "tests/core/run/test_fusion.py")
PLANTED = "tests/campaign/planted.py"
_FOUND = re.compile(
    r"ERROR: (AddressSanitizer: [\w-]+)|WARNING: (ThreadSanitizer: [\w ]+?) *\(|"
    r"(runtime error: .*)|(Fatal Python error: .*)"
)
# the functions of kernels, or, where their names are not found, libraries and places in them
_OURS = re.compile(r"#\d+ \S+ (?:in )?(\w+) (?:<stdin>|\S*\.c):\d|([0-9a-f]{40}\.so\+\w+)")


def run(plan: Plan) -> list[Row]:
    """Run the tests of fused kernels, a process for each file; a row for each with a sanitizer."""
    files = [str(p.relative_to(ROOT)) for p in sorted((ROOT / FOLDERS[0]).glob("test_*.py"))]
    files.remove("tests/core/backend/fused/test_build.py")  # of compilers and processes
    trials = list(itertools.product([*files, *FOLDERS[1:]], SANITIZERS))
    if plan.quick:
        trials = [("tests/core/backend/fused/test_rows.py", how) for how in SANITIZERS]
    with tempfile.TemporaryDirectory(prefix="pd-kernels-") as name:
        home = Path(name)
        planted = [seen(how, home) for how in SANITIZERS]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return planted + list(pool.map(lambda each: row(*each, home), trials))


def seen(how: str, home: Path) -> Row:
    """Run a test with faults, which have to be reported; return its row."""
    found = Row("kernels", f"{how}: a planted fault")
    output, reports = sanitized(how, [PLANTED], home)
    if reports:
        found.add("seen")
    else:
        found.add("failed", f"not seen by python -m tests.campaign.kernels {how}: {output[-500:]}")
    return found


def row(file: str, how: str, home: Path) -> Row:
    """Run a file of tests under a sanitizer; return its row."""
    output, reports = sanitized(how, [file], home)
    again = f"python -m tests.campaign.kernels {how} {file}"
    found = Row("kernels", f"{how}: {file.removeprefix('tests/').removesuffix('.py')}")
    for count, _ in re.findall(r"(\d+) (passed|failed)", output):
        found.outcomes["run"] += int(count)  # sums of other parts than elsewhere may fail
    for report in reports:
        found.add("memory", f"{report} ({again})")
    if not found.trials:
        found.add("crash", f"{output[-2000:]} ({again})")
    return found


def sanitized(how: str, arguments: Sequence[str], home: Path) -> tuple[str, list[str]]:
    """Run pytest under a sanitizer; return (its output, distinct reports of the sanitizer)."""
    logs = Path(tempfile.mkdtemp(dir=home))
    gcc = shutil.which("gcc")
    if gcc is None:
        raise RuntimeError("sanitizers are GCC's, which is not here")
    if how == "pages":
        preloaded = str(logs / "pages.so")
        source = str(Path(__file__).with_name("pages.c"))
        subprocess.run([gcc, "-O1", "-shared", "-fPIC", "-o", preloaded, source], check=True)
    else:
        # that of C++ as well, of which the sanitizer calls what throws exceptions
        names = [f"lib{how[0]}san.so", "libstdc++.so"]
        asked = [[gcc, f"-print-file-name={name}"] for name in names]
        preloaded = ":".join(subprocess.check_output(c, text=True).strip() for c in asked)
    environment = {k: f"{v}:log_path={logs / 'report'}" for k, v in OPTIONS.items()} | {
        "PD_CC": f"{gcc} {SANITIZERS[how]} -fno-omit-frame-pointer -g",
        "PD_FUSED_HOME": str(home / how),
        "PD_SMALL_PARTS": "1",
        "LD_PRELOAD": preloaded,
        "OMP_NUM_THREADS": "1",
    }
    program = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist"]
    program += ["-p", "tests.campaign.sanitized", *arguments]
    if how == "thread" and shutil.which("setarch"):  # its shadow memory has fixed addresses
        program = ["setarch", os.uname().machine, "-R", *program]
    done = subprocess.run(
        program, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True
    )
    texts = [p.read_text(errors="replace") for p in sorted(logs.glob("report.*"))]
    return done.stdout + done.stderr, reported("\n".join([*texts, done.stderr]))


def reported(text: str) -> list[str]:
    """Return a line for each distinct report: what, and the functions of ours where it was."""
    lines: dict[str, None] = {}
    places = [m.start() for m in _FOUND.finditer(text)] + [len(text)]
    for start, end in itertools.pairwise(places):
        what = _FOUND.match(text, start)
        assert what is not None
        where = list(dict.fromkeys(m[1] or m[2] for m in _OURS.finditer(text, start, end)))[:4]
        if where or not what[2]:  # how threads of the runtime wait for each other is not seen
            name = next(filter(None, what.groups()))
            lines[f"{name} in {' < '.join(where) or 'other code'}"] = None
    return list(lines)


def main(arguments: Sequence[str]) -> int:
    """Run chosen tests under a sanitizer; return the exit code."""
    if not arguments or arguments[0] not in SANITIZERS:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="pd-kernels-") as name:
        home = Path(os.environ.get("PD_SANITIZED_HOME", name))  # to keep kernels and reports
        output, reports = sanitized(arguments[0], arguments[1:], home)
    print(output, *reports, f"{len(reports)} reports", sep="\n")
    return bool(reports)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
