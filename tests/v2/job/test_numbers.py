"""Scripts of 2017 on 2 and 4 ranks: parameters, costs and metrics are those of one process."""

import numpy as np
import pytest

from tests.core.distributed import jobs
from tests.thinned import thinned

from . import programs

LOCAL = [p.__name__ for p in programs.LOCAL]
RANKS = thinned([2, 4], 2)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What the ranks of a job have seen, by program."""
    done = {}

    def of(ranks):
        if ranks not in done:
            folder = tmp_path_factory.mktemp("job")
            with pytest.MonkeyPatch.context() as patch:
                if ranks == 4:  # else the launcher sets it, and starts Python once more
                    patch.setenv("PYTHONHASHSEED", "0")
                jobs.run(ranks, "-m", "pd_v2", "--own-files", programs.__file__, folder)
            names = [*LOCAL, "noise", "synchronous", "again"]
            done[ranks] = {
                name: [dict(np.load(folder / f"{name}-{r}.npz")) for r in range(ranks)]
                for name in names
            }
        return done[ranks]

    jobs.mpiexec()
    return of


@pytest.mark.parametrize("name", LOCAL)
def test_a_local_script_as_in_one_process(results, name):
    whole = programs.run(getattr(programs, name))
    for ranks in RANKS:
        for own in results(ranks)[name]:
            programs.check(own, whole)


@pytest.mark.parametrize("ranks", RANKS)
def test_trainers_of_a_cluster_as_one_on_all_samples(results, ranks):
    whole = programs.run(programs.synchronous, ranks)
    tests = set()
    for own in results(ranks)["synchronous"]:
        tests.add(float(own.pop("own test")[0, 0]))
        costs, expected = own.pop("cost"), whole["cost"]
        steps = len(expected) // 2  # of a pass; a trainer sees those that it has samples for
        seen = len(costs) // 2
        kept = [*expected[:seen], *expected[steps : steps + seen]]
        np.testing.assert_allclose(costs, kept, rtol=1e-4, atol=1e-5)
        programs.check(own, {key: value for key, value in whole.items() if key != "cost"})
    assert len(tests) == ranks


@pytest.mark.parametrize("ranks", RANKS)
def test_noise_that_is_drawn_is_another_one_and_as_good(results, ranks):
    """The classes are drawn by each rank for its own samples: the same costs but for the noise."""
    whole = programs.run(programs.noise)
    for own in results(ranks)["noise"]:
        assert own.keys() == whole.keys()
        cost, expected = own["cost"][:, 0], whole["cost"][:, 0]
        assert (cost != expected).any()
        np.testing.assert_allclose(cost.mean(), expected.mean(), rtol=0.1)


@pytest.mark.parametrize("ranks", RANKS)
def test_all_ranks_and_runs_have_the_same_bits(results, ranks):
    done = results(ranks)
    for name in (*LOCAL, "noise", "again"):
        for own in done[name]:
            for key, value in done["momentum" if name == "again" else name][0].items():
                assert own[key].tobytes() == value.tobytes(), (name, key)
