"""Checkpoints of one process resumed by two, and the other way round; those of a cluster."""

import os

import numpy as np
import pytest

from tests.core.distributed import jobs

from . import programs, resumed

pytestmark = pytest.mark.filterwarnings("ignore:read again from the beginning")


def end_of(arrays):
    """What a training ends with, without what it has seen on the way."""
    return {name: value for name, value in arrays.items() if name not in ("cost", "pass")}


def test_other_numbers_of_ranks_go_on(tmp_path, monkeypatch):
    jobs.mpiexec()
    monkeypatch.setenv("PYTHONHASHSEED", "0")  # Python is not started once more
    whole = programs.run(resumed.local)
    programs.run(resumed.local, tmp_path / "one", resumed.Stopping)
    jobs.run(2, "-m", "pd_v2", "--own-files", resumed.__file__, tmp_path)
    assert max(os.listdir(tmp_path / "two")) == "batch-00006"
    ends = [np.load(tmp_path / f"local-{rank}.npz") for rank in range(2)]
    ends.append(programs.run(resumed.local, tmp_path / "two"))
    for end in ends:
        np.testing.assert_allclose(end["pass"][-1], whole["pass"][-1], rtol=1e-5)
        np.testing.assert_allclose(end["cost"], whole["cost"][-len(end["cost"]) :], rtol=1e-4)
        for name, value in end_of(whole).items():
            np.testing.assert_allclose(end[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    for rank in range(2):
        expected = np.load(tmp_path / f"whole-{rank}.npz")
        for kind, batches in (("cluster", 1 + rank * 3), ("late", rank * 2)):
            end = np.load(tmp_path / f"{kind}-{rank}.npz")
            assert len(end.get("cost", ())) == batches
            if batches:
                np.testing.assert_array_equal(end["cost"], expected["cost"][-batches:])
            for name, value in end_of(expected).items():
                np.testing.assert_array_equal(end[name], value, err_msg=name)
