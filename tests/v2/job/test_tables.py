"""Tables with sparse_update on 2 and 4 ranks: everything is as in one process."""

import numpy as np
import pytest

import pd_v2 as paddle
from tests.core.distributed import jobs

from . import programs, tables

pytestmark = pytest.mark.filterwarnings("ignore:read again from the beginning")

LOCAL = [p.__name__ for p in tables.LOCAL]
OF_FOUR = ["several"]


def run(ranks, folder, *steps, check=True):
    jobs.mpiexec()
    command = ["-m", "pd_v2", tables.__file__, folder, *steps]
    return jobs.run(ranks, *command, check=check)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What the ranks of jobs have seen, by number of ranks and program."""
    jobs.mpiexec()
    folder = tmp_path_factory.mktemp("tables")
    (folder / "seen").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONHASHSEED", "0")  # Python is not started once more
        programs.run(tables.resumed, folder / "one", tables.Stopping)
        one = newest(folder / "one")
        killed = run(4, folder, *OF_FOUR, "killed=four", check=False)
        assert killed.returncode != 0
        assert "pd-v2" in killed.stderr or "Resume" in killed.stderr, killed.stderr
        four = {name: _loaded(folder, name, 4) for name in OF_FOUR}
        names = [*LOCAL, "clustered", "errors"]
        run(2, folder, *names, "end=one", "end=four", "stopped=two")
    two = {name: _loaded(folder, name, 2) for name in [*names, "endone", "endfour"]}
    return {2: two, 4: four, "folder": folder, "saved": (one, newest(folder / "two"))}


def newest(folder):
    """The Parameters of the newest checkpoint."""
    return paddle.parameters.Parameters.from_checkpoint(max(folder.iterdir()))


def _loaded(folder, name, ranks):
    return [dict(np.load(folder / "seen" / f"{name}-{r}.npz")) for r in range(ranks)]


@pytest.mark.parametrize("name", LOCAL)
def test_a_local_script_as_in_one_process(results, name):
    whole = programs.run(getattr(tables, name))
    for ranks in (2, 4) if name in OF_FOUR else (2,):
        for own in results[ranks][name]:
            programs.check(own, whole)


def test_trainers_of_a_cluster_as_one_on_all_samples(results):
    whole = programs.run(tables.clustered, 2)
    for own in results[2]["clustered"]:
        programs.check(own, whole)


def test_all_ranks_have_the_same_bits(results):
    for ranks in (2, 4):
        for name, (first, *others) in results[ranks].items():
            for own in others:
                for key, value in first.items():
                    assert own[key].tobytes() == value.tobytes(), (name, key)


def test_initial_values_and_files_have_the_bits_of_one_process(results):
    whole = programs.run(tables.optimizers)
    for key in (key for key in whole if key.endswith("before")):
        assert results[2]["optimizers"][1][key].tobytes() == whole[key].tobytes()
    tar = programs.run(tables.files)["tar"]
    assert results[2]["files"][1]["tar"].tobytes() == tar.tobytes()


def test_parameters_of_a_checkpoint_of_two_ranks(results):
    one, two = results["saved"]
    assert set(one.names()) == set(two.names())
    for name in one.names():
        assert one.get_shape(name) == two.get_shape(name)
        np.testing.assert_allclose(one[name], two[name], rtol=1e-5, atol=1e-6)


def test_checkpoints_are_resumed_by_other_numbers_of_ranks(results):
    """Of one process, and of four ranks of which one was killed, by two; of two by one process."""
    whole = programs.run(tables.resumed)
    ends = [*results[2]["endone"], *results[2]["endfour"]]
    ends.append(programs.run(tables.resumed, results["folder"] / "two"))
    for end in ends:
        for name, value in whole.items():
            expected = value[-len(end[name]) :] if name == "cost" else value
            if name != "pass":
                np.testing.assert_allclose(end[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)
