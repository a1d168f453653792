"""What every test of the v2 face starts from: nothing built, default settings."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pd_v2 import build, settings

ROOT = str(Path(__file__).parents[2])


@pytest.fixture(autouse=True)
def fresh_build(monkeypatch):
    """Layer names count from 0, the stream of initial values begins at seed 1."""
    monkeypatch.setattr(settings, "_process", settings._Process())
    with build.fresh():
        yield


@pytest.fixture(scope="session")
def zygote():
    """A function that runs `python -m pd_v2` with some arguments, without importing it anew.

    As subprocess.run with an input, which is text or bytes as the output is.
    """
    environment = {**os.environ, "PYTHONPATH": ROOT, "PYTHONHASHSEED": "0"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.v2.zygote"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def run(arguments, cwd, env, input):
        kind = "bytes" if isinstance(input, bytes) else "text"
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / name for name in ("stdin", "stdout", "stderr")]
            for file, content in zip(files, (input, input[:0], input[:0]), strict=True):
                getattr(file, f"write_{kind}")(content)
            order = {"arguments": [*map(str, arguments)], "folder": str(cwd), "environment": env}
            process.stdin.write(json.dumps({**order, "files": [*map(str, files)]}) + "\n")
            process.stdin.flush()
            status = int(process.stdout.readline())
            found = [getattr(file, f"read_{kind}")() for file in files[1:]]
            return subprocess.CompletedProcess(arguments, status, *found)

    with process:
        yield run
        process.stdin.close()


def pytest_generate_tests(metafunc):
    """A check of layers runs for every row of its class's table."""
    if "row" in metafunc.fixturenames and metafunc.cls is not None:
        rows = metafunc.cls.rows
        if metafunc.function.__name__ == "test_gradient":
            rows = [r for r in rows if not r.name.startswith("dropout")]  # its mask is random
        metafunc.parametrize("row", rows, ids=lambda r: r.name)
