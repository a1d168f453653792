"""One rank alone saves tables whose rows are spread: its files are those of one process."""

import numpy as np
import pytest

from tests.core.distributed import jobs

from . import programs, saves


@pytest.fixture(scope="module", params=[2, 4])
def found(request, tmp_path_factory):
    """What the ranks have saved: their number, and [what rank 0 has, ...] by program."""
    ranks, folder = request.param, tmp_path_factory.mktemp("saves")
    jobs.mpiexec()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONHASHSEED", "0")  # Python is not started once more
        jobs.run(ranks, "-m", "pd_v2", saves.__file__, folder)
    names = ("several_trainers", "local", "cluster")
    files = {n: [np.load(folder / f"{n}-{r}.npz") for r in range(ranks)] for n in names}
    return ranks, files


def check(files, whole):
    assert files[0].keys() | files[-1].keys() == whole.keys()
    for file in files:
        for key in file:
            assert file[key].tobytes() == whole[key].tobytes(), key


def test_a_local_script(found):
    check(found[1]["local"], programs.run(saves.ended, saves.local))


def test_trainers_of_a_cluster(found):
    ranks, files = found
    whole = programs.run(saves.ended, saves.cluster, ranks)
    keys = files["cluster"][0].keys() | files["cluster"][-1].keys()
    assert len(keys) > 10
    check(files["cluster"], {key: whole[key] for key in keys})


def test_a_trainer_that_others_have_forgotten(found):
    check(found[1]["several_trainers"], programs.run(saves.several_trainers))
