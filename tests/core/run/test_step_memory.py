"""How much memory a step takes, in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

STATUS = Path("/proc/self/status")

# Each value is read twice, so that no operator but the last to read it may write over it.
CHAIN = """
import numpy as np
import pd_core as pd

def peak():
    (line,) = [x for x in open("/proc/self/status") if x.startswith("VmHWM")]
    return int(line.split()[1]) / 1024

x = pd.Variable([None])
y = x
for _ in range(40):
    y = pd.sin(y) * y
y = pd.reduce_max(y)
array = np.ones(1 << 21, np.float32)  # 8 MB
pd.eval(y, {x: array[:8]})
before = peak()
for _ in range(3):
    pd.eval(y, {x: array})
print(peak() - before)
"""


@pytest.mark.skipif(not STATUS.exists(), reason="the peak is read from Linux's /proc")
def test_a_chain_takes_the_memory_of_a_few_of_its_values():
    done = subprocess.run(
        [sys.executable, "-c", CHAIN], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 80  # of the 640 MB that all its values take
