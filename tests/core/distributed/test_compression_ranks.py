"""Compressed gradients, local steps and exact sums of MPI jobs, and their checkpoints."""

import numpy as np
import pytest

from tests.core.distributed import jobs


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What a job of 2 ranks has found."""
    jobs.mpiexec()
    folder = tmp_path_factory.mktemp("job")
    jobs.run(2, "-m", "tests.core.distributed.compression_programs", folder)
    return [np.load(folder / f"{r}.npy", allow_pickle=True).item() for r in range(2)]


@pytest.mark.parametrize("name", ["int8", "top_k", "local", "exact"])
def test_a_resumed_training_has_the_same_bits(ranks, name):
    for own in ranks:
        for one, other in (("whole", "resumed"), ("lost", "again")):
            first, second = own[name][one], own[name][other]
            assert first.keys() == second.keys()
            for key, value in first.items():
                assert np.asarray(value).tobytes() == np.asarray(second[key]).tobytes(), key
    first, second = (own[name]["whole"] for own in ranks)
    assert all(np.asarray(v).tobytes() == np.asarray(second[k]).tobytes() for k, v in first.items())


@pytest.mark.parametrize("name", ["int8", "top_k"])
def test_each_rank_has_errors_of_its_own(ranks, name):
    first, second = (own[name]["lost"] for own in ranks)
    assert first.keys() == second.keys() and len(first) == 4
    assert any((first[key] != second[key]).any() for key in first)


def test_tables_need_every_step(ranks):
    for own in ranks:
        assert "local_steps: each rank has a part of the table words" in own["table"]
