"""Steps in which some ranks have no batch end with the parameters of one process."""

import numpy as np
import pytest

from tests.core.distributed import jobs
from tests.core.distributed.empty_programs import WHOLE
from tests.thinned import thinned

RANKS = thinned([3, 2, 4], 3)  # of three ranks two have a batch while one has none
EACH = pytest.mark.parametrize("ranks", RANKS)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What the ranks of a job ended with, by number of ranks and reduction, {name: [values]}."""
    done = {}

    def of(ranks, reduce="mean"):
        if (ranks, reduce) not in done:
            folder = tmp_path_factory.mktemp("job")
            jobs.run(ranks, "-m", "tests.core.distributed.empty_programs", folder)
            for each in folder.iterdir():
                names = {path.name.rpartition("-")[0] for path in each.iterdir()}
                done[ranks, each.name] = {
                    name: [dict(np.load(each / f"{name}-{r}.npz")) for r in range(ranks)]
                    for name in names
                }
        return done[ranks, reduce]

    jobs.mpiexec()  # skips before the first job
    return of


@pytest.mark.parametrize("name", [program.__name__ for program in WHOLE])
@EACH
def test_as_one_process_on_the_whole_batches(results, ranks, name):
    (whole,) = results(1)[name]
    first, *others = results(ranks)[name]
    assert first.keys() == whole.keys()
    for key, value in whole.items():
        np.testing.assert_allclose(first[key], value, rtol=2e-5, atol=2e-6, err_msg=key)
        assert all(other[key].tobytes() == first[key].tobytes() for other in others)


@EACH
def test_equal_weights_are_those_of_ranks_with_a_batch(results, ranks):
    parts = [[r + 1.0 for r in range(ranks) if s[r]] for s in shares(ranks)]
    for own in results(ranks)["equal_weights"]:
        expected = -np.sum([np.mean(part) for part in parts])
        np.testing.assert_allclose(own["w"], expected, rtol=1e-6)


@EACH
def test_sums_are_those_of_ranks_with_a_batch(results, ranks):
    total = sum(sum(r + 1.0 for r in range(ranks) if s[r]) for s in shares(ranks))
    for own in results(ranks, "sum")["equal_weights"]:
        np.testing.assert_allclose(own["w"], -total, rtol=1e-6)


def shares(ranks):
    """Whether each rank has rows, by step: as `empty_programs.shares` divides them."""
    first = [False] + [True] * (ranks - 1)
    alone = [[r == step % ranks for r in range(ranks)] for step in (2, 4)]
    return [first, [True] * ranks, alone[0], [True] * ranks, alone[1], [True] * ranks]


@EACH
def test_empty_steps_leave_moving_statistics(results, ranks):
    for rank, own in enumerate(results(ranks)["statistics"]):
        changed = (np.diff(own["seen"], axis=0) != 0).all(1)
        assert changed.tolist() == [step % ranks != rank for step in range(4)]


@EACH
def test_an_empty_step_exchanges_what_was_accumulated(results, ranks):
    for own in results(ranks)["accumulated"]:
        # two steps with the mean of rank 0's one gradient of 1, of rank 1's two of 2, and so on
        total = 1.0 + sum(2.0 * (rank + 1) for rank in range(1, ranks))
        np.testing.assert_allclose(own["w"], -2 * total / ranks, rtol=1e-6)


@EACH
def test_errors_of_empty_steps(results, ranks):
    for own in results(ranks)["errors"]:
        nobody, no_gradients, sums, exchanging = own["texts"]
        assert "the step sums over the ranks before its gradients" in sums
        assert "no rank has a batch in this step" in nobody
        assert "an update without gradients" in no_gradients
        assert "inside session.exchanging()" in exchanging
        assert own["w"] == 1.0
