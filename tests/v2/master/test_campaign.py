"""A few kills; more with PD_MASTER_KILLS."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
KILLS = os.environ.get("PD_MASTER_KILLS", "5")


@pytest.mark.skipif(os.name != "posix", reason="kills processes as POSIX does")
def test_workers_killed_at_random_lose_nothing():
    chunks = "30" if KILLS == "5" else "200"
    command = [sys.executable, "-m", "tests.v2.master.campaign", "--kills", KILLS]
    command += ["--chunks", chunks]
    job = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert job.returncode == 0, job.stderr
    assert "each done exactly once" in job.stdout
