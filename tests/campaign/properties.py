"""The property tests with many more examples, other ones for each seed.

They compare shapes, feeds, optimizers and packed sequences with NumPy; here they run as they are,
in a process for each file.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .plan import Plan, Row

ROOT = Path(__file__).resolve().parents[2]
TIMES = 10  # as many examples as in the tests, in the long form
FILES = (
    "tests/core/ops/test_properties.py",
    "tests/core/ops/test_packed_properties.py",
    "tests/core/optimizers/test_properties.py",
    "tests/core/run/test_feed_properties.py",
)
_EXAMPLES = re.compile(r"(\d+) passing(?: examples)?, (\d+) failing")


def run(plan: Plan) -> list[Row]:
    """Run every file; a row for each."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda file: _row(file, plan), FILES))


def _row(file, plan):
    program = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file]
    program += [f"--hypothesis-seed={plan.seed}", "--hypothesis-show-statistics"]
    environment = os.environ | {"PD_EXAMPLES": str(plan.count(1, TIMES)), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True)
    row = Row("properties", Path(file).stem.removeprefix("test_").replace("_", " "))
    row.subject = f"{Path(file).parent.name}: {row.subject}"
    for passing, failing in _EXAMPLES.findall(done.stdout):
        row.outcomes["right"] += int(passing)
        row.outcomes["failed"] += int(failing)
    if not row.trials:
        raise RuntimeError(f"no statistics of {file}:\n{done.stdout[-2000:]}{done.stderr}")
    if done.returncode:
        failed = re.findall(r"^FAILED .*", done.stdout, re.M) or [done.stdout[-500:] + done.stderr]
        row.defects += [f"failed: {line} ({' '.join(program[1:6])})" for line in failed]
    row.outcomes = +row.outcomes
    return row
