"""Skipped tests: expected reasons pass, any other fails the run where that is asked for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILE = "import pytest\ndef test_one(): pytest.skip({why!r})\ndef test_two(): pass\n"


@pytest.mark.parametrize(
    "why, options, code",
    [
        ("there is no CUDA device here", ["--expected-skips"], 0),
        ("could not import 'torch'", ["--expected-skips"], 1),
        ("could not import 'torch'", ["--expected-skips", "-p", "xdist", "-n", "1"], 1),
        ("could not import 'torch'", [], 0),
    ],
)
def test_only_expected_reasons_pass(why, options, code, tmp_path):
    (tmp_path / "test_few.py").write_text(FILE.format(why=why))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.skips", *options, tmp_path]
    path = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import runpy; "
    command[1:3] = ["-c", path + "runpy.run_module('pytest', run_name='__main__')"]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # they import much
    child = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert child.returncode == code, child.stdout + child.stderr
    if options:
        assert f"     1  {why}" in child.stdout
