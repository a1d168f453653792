"""Checkpoints of jobs: written once, continued by other numbers of ranks; signals end all."""

import numpy as np
import pytest

from tests.core.distributed import jobs


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The folder of a training on 2, then 4 ranks, then one; results by number, of each rank."""
    jobs.mpiexec()  # skips before the first job
    folder = tmp_path_factory.mktemp("job")
    for ranks in (2, 4, 1):
        jobs.run(ranks, "-m", "tests.core.distributed.resume_programs", folder)
    return folder, {
        ranks: [
            np.load(folder / f"{ranks}-{r}.npy", allow_pickle=True).item() for r in range(ranks)
        ]
        for ranks in (2, 4, 1)
    }


def test_two_ranks_then_four_then_one(results):
    """The same as a process that was never stopped: place in the data, counts, slots, means."""
    _, of = results
    assert [each["killed"] for each in of[2]] == [{"batches": 5, "error": "Killed"}] * 2
    assert [each["killed"] for each in of[4]] == [{"batches": 9, "error": "Killed"}] * 4
    resumed, whole = of[1][0]["resumed"], of[1][0]["whole"]
    assert resumed.keys() == whole.keys()
    assert (resumed["batches"], resumed["samples"]) == (15, 3 * 43)
    for key, value in whole.items():
        np.testing.assert_allclose(resumed[key], value, rtol=2e-5, atol=2e-6, err_msg=key)


def test_own_batches_go_on_exactly(results):
    """Each rank at its own place, with the states of its own random generators."""
    _, of = results
    for each in of[2]:
        own, again = each["own"], each["own again"]
        assert own.keys() == again.keys()
        for key, value in own.items():
            assert np.asarray(value).tobytes() == np.asarray(again[key]).tobytes(), key


def test_own_batches_of_another_number_of_ranks(results):
    """Two ranks had taken one batch of the second pass; half of it are left out by each of four."""
    folder, of = results
    first, *others = [each["seen"] for each in of[4]]
    assert len(list((folder / "seen").glob("batch-*"))) == 2
    assert "the checkpoint is of 2 ranks with batches of their own" in first["warnings"][0]
    assert all(not other["warnings"] for other in others)
    assert [each["numbers"] for each in (first, *others)] == [first["numbers"]] * 4


def test_checkpoints_are_written_once(results):
    folder, _ = results
    names = sorted(path.name for path in (folder / "split").glob("batch-*"))
    assert names == ["batch-00012", "batch-00014"]


@pytest.mark.parametrize("name, error", [("term", "SystemExit"), ("int", "KeyboardInterrupt")])
def test_a_signal_on_one_rank_ends_all(results, name, error):
    folder, of = results
    first, second = [each[name] for each in of[2]]
    assert first == second == {"batches": first["batches"], "error": error}
    assert first["batches"] == 4  # it came after the numbers of the third were exchanged
    if name == "term":
        assert (folder / "term" / "batch-00004").is_dir()


def test_errors_are_raised_on_all_ranks(results):
    _, of = results
    for rank, each in enumerate(of[2]):
        errors = each["errors"]
        assert "rank 1 has a batch of 7 samples; rank 0 has a batch of 8" in errors["sizes"]
        assert "has come to a training step" in errors["lengths"] or (
            "rank 1 has come to a batch of a Runner" in errors["lengths"]
        )
        assert errors["none"].startswith("FileNotFoundError: Resume: there is no checkpoint in")
        assert errors["local"].startswith("Local" if rank == 0 else "RuntimeError: rank 0: Local")
        assert "of 2 ranks with batches of their own" in errors["other"]
