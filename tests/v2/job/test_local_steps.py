"""`pd-v2 --local-steps` is local SGD, as NumPy computes it."""

import numpy as np
import pytest

from tests.core.distributed import jobs

from . import local_steps as program

RANKS = 2


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """The weights after batches and passes, and the costs of tests, of each rank."""
    jobs.mpiexec()
    folder = tmp_path_factory.mktemp("local")
    options = "--own-files", "--local-steps", program.EVERY
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONHASHSEED", "0")  # Python is not started once more
        jobs.run(RANKS, "-m", "pd_v2", *options, program.__file__, folder)
    return [np.load(folder / f"{rank}.npz") for rank in range(RANKS)]


def local_sgd():
    """Weights of each rank after each batch, at the ends of passes, costs of tests, in float64.

    A rank steps by as many times its own sum of gradients as there are ranks. Rounds end at tests
    and with passes, too.
    """
    features = program.FEATURES.astype(np.float64)
    w = np.zeros((RANKS, 3, 1))
    seen, ends, tests = [], [], []
    share = program.BATCH // RANKS
    for _ in range(program.PASSES):
        count = 0
        for batch in range(program.BATCHES):
            for rank in range(RANKS):
                own = slice(batch * program.BATCH + rank * share, None)
                x, y = features[own][:share], program.TARGETS[own][:share]
                w[rank] -= program.RATE * RANKS * 2 * x.T @ (x @ w[rank] - y)
            count += 1
            if count == program.EVERY:
                w[:], count = w.mean(0), 0
            seen.append(w.copy())
            if batch == program.TESTED:
                w[:], count = w.mean(0), 0
                tests.append(np.mean((features @ w[0] - program.TARGETS) ** 2))
        w[:] = w.mean(0)
        ends.append(w.copy())
    return np.array(seen), np.array(ends), np.array(tests)


def test_weights_are_averaged_after_so_many_steps(ranks):
    seen, ends, _ = local_sgd()
    for rank, own in enumerate(ranks):
        np.testing.assert_allclose(own["seen"].reshape(-1, 3, 1), seen[:, rank], rtol=1e-4)
        np.testing.assert_allclose(own["ends"].reshape(-1, 3, 1), ends[:, rank], rtol=1e-4)
    assert ranks[0]["ends"].tobytes() == ranks[1]["ends"].tobytes()
    assert (ranks[0]["seen"][0] != ranks[1]["seen"][0]).any()


def test_a_test_is_of_the_means(ranks):
    for own in ranks:
        np.testing.assert_allclose(own["tests"], local_sgd()[2], rtol=1e-4)


def test_tables_that_are_spread_are_refused(ranks):
    for own in ranks:
        assert "local steps: the rows of 'table' are spread over the ranks" in str(own["error"])
        assert "hint: without --local-steps" in str(own["error"])
