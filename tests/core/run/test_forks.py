"""Forked processes drop what they have inherited, and end."""

import os
import subprocess
import sys

import pytest

# The children drop a session of ONNX Runtime, as a garbage collector may, or leave it to Python.
PROGRAM = """
import os, signal, sys
import numpy as np
from onnx import parser
from pd_core.backend import ort

MODEL = parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> agraph (float[n] x) => (float[n] y) { y = Tanh(x) }'
).SerializeToString()

def ended(work):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        work()
        sys.exit()  # Python ends what is left
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

for threads in 2, 4:
    ort.cores = lambda: threads
    kept = [ort.session(MODEL)]
    run = lambda: kept[0].run(None, {"x": np.ones(100_000, np.float32)})
    run()
    print(threads, ended(lambda: None), ended(kept.clear), ended(lambda: ended(kept.clear)))
    run()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_child_drops_sessions_with_threads():
    """It has none of the threads, for which the end of a session waits."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (run.stdout, run.stderr, run.returncode) == ("2 0 0 0\n4 0 0 0\n", "", 0)
