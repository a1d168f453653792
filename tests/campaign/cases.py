"""The tests that try some of many cases, with all of them: see `tests.thinned`.

They run as they are, in a process for each file.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .plan import Plan, Row

ROOT = Path(__file__).resolve().parents[2]
_THINNED = re.compile(r"^from (tests\.thinned|\.resuming) import", re.M)


def files() -> list[str]:
    """Return the files whose tables are thinned, there or by what they import."""
    return sorted(
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if _THINNED.search(path.read_text(encoding="utf-8"))
    )


def run(plan: Plan) -> list[Row]:
    """Run every file, with all cases in the long form; a row for each."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda file: row(file, plan), files()))


def row(file: str, plan: Plan) -> Row:
    """Run a file; return its row."""
    program = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file]
    environment = os.environ | {"PD_EVERY_CASE": "" if plan.quick else "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True)
    found = Row("cases", file.removeprefix("tests/").removesuffix(".py"))
    for count, outcome in re.findall(r"(\d+) (passed|failed|error)", done.stdout):
        found.outcomes["right" if outcome == "passed" else "failed"] += int(count)
    if not found.trials:
        raise RuntimeError(f"no tests of {file}:\n{done.stdout[-2000:]}{done.stderr}")
    if done.returncode:
        failed = re.findall(r"^FAILED .*", done.stdout, re.M) or [done.stdout[-500:] + done.stderr]
        found.defects += [f"failed: {line} (PD_EVERY_CASE=1 pytest {file})" for line in failed]
    return found
