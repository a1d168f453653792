"""One rank alone saves tables whose rows are spread: its files are those of one process."""

import numpy as np
import pytest

from tests.core.distributed import jobs
from tests.thinned import EVERY

from . import programs, saves

# The first, the last, and one between them.
RANKS = {3: saves.PROGRAMS, **({2: saves.PROGRAMS, 4: ["cluster"]} if EVERY else {})}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What the ranks have saved, by their number and program: of rank 0, of rank 1, and so on."""
    jobs.mpiexec()
    found = {ranks: dict.fromkeys(names) for ranks, names in RANKS.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONHASHSEED", "0")  # Python is not started once more
        for ranks, names in found.items():
            folder = tmp_path_factory.mktemp("saves")
            jobs.run(ranks, "-m", "pd_v2", saves.__file__, folder, *names)
            for name in names:
                names[name] = [np.load(folder / f"{name}-{r}.npz") for r in range(ranks)]
    return found


def check(files, whole):
    assert files[0].keys() | files[-1].keys() == whole.keys()
    for file in files:
        for key in file:
            assert file[key].tobytes() == whole[key].tobytes(), key


def test_a_local_script(found):
    check(found[3]["local"], programs.run(saves.ended, saves.local))


@pytest.mark.parametrize("ranks", RANKS)
def test_trainers_of_a_cluster(found, ranks):
    files = found[ranks]["cluster"]
    whole = programs.run(saves.ended, saves.cluster, ranks)
    keys = files[0].keys() | files[-1].keys()
    assert len(keys) > 10
    check(files, {key: whole[key] for key in keys})


def test_a_trainer_that_others_have_forgotten(found):
    check(found[3]["several_trainers"], programs.run(saves.several_trainers))


def test_rows_that_wait_for_their_penalty(found):
    file, whole = found[3]["penalised"][0], programs.run(saves.penalised)
    assert file.keys() == whole.keys()
    for key, value in whole.items():
        np.testing.assert_allclose(file[key], value, rtol=1e-5, atol=1e-6, err_msg=key)


def test_a_rank_that_dies_while_it_serves(tmp_path):
    jobs.mpiexec()
    arguments = "-m", "pd_v2", saves.__file__, tmp_path, "killed"
    job = jobs.run(2, *arguments, check=False, options=jobs.FAULT_TOLERANT)
    assert "rank 1 of 2 was lost" in job.stderr
    assert "each rank has a part of the table other, the table table" in job.stderr
