"""Runners and `Module.fit` on 2 and 4 ranks are the training of one process."""

import numpy as np
import pytest

from pd_core.training.event_files import find_event_files
from tests.core.distributed import jobs
from tests.core.distributed.runner_programs import OWN, PROGRAMS
from tests.thinned import thinned

RANKS = thinned([3, 2, 4], 3)  # of three ranks one has no batch of its own, and no last row
NAMES = [program.__name__ for program in PROGRAMS]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """The folder that the ranks of a job wrote to, by their number."""
    folders = {}

    def of(ranks):
        if ranks not in folders:
            folders[ranks] = tmp_path_factory.mktemp("job")
            ways = RANKS if ranks == 1 else ()
            program = "tests.core.distributed.runner_programs"
            jobs.run(ranks, "-m", program, folders[ranks], *ways)
        return folders[ranks]

    jobs.mpiexec()  # skips before the first job
    return of


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ranks", RANKS)
def test_as_one_process(job, ranks, name):
    if name in [program.__name__ for program in OWN]:
        name = f"{name}-{ranks}"
    whole = np.load(job(1) / f"{name}-0.npz")
    every = [np.load(job(ranks) / f"{name}-{r}.npz") for r in range(ranks)]
    for own in every:
        assert own.keys() == whole.keys()
        for key, value in whole.items():
            np.testing.assert_allclose(own[key], value, rtol=2e-5, atol=2e-6, err_msg=key)
            assert own[key].tobytes() == every[0][key].tobytes(), key


@pytest.mark.parametrize("ranks", RANKS)
def test_only_the_first_rank_writes(job, ranks):
    folder = job(ranks)
    (files,) = find_event_files(folder / "log").values()
    assert len(files) == 1
    bars = [(folder / f"bar-{r}").read_text() for r in range(ranks)]
    assert "pass 2/9" in bars[0]
    assert bars[1:] == [""] * (ranks - 1)
