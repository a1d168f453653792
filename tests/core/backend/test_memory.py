"""Memory of large programs."""

import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np
import pd_core as pd

def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) * 1024

x = h = pd.Variable([None, 1024])
for _ in range(24):
    h = pd.exp(h * 0.1)
loss = pd.reduce_mean(h)
slope, = pd.gradients(loss, [x])
a = np.ones((2048, 1024), "float32")
before = peak()
for _ in range(3):
    pd.eval(pd.reduce_mean(slope), {x: a})
print((peak() - before) / a.nbytes)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_large_program_takes_its_values_once():
    """24 activations of 8 MB are kept for the backward pass, and few others at a time."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert 20 < float(run.stdout) < 40
