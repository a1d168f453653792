"""Trainings on 2 and 4 ranks end with the parameters of one process on the whole batches."""

import numpy as np
import pytest

from tests.core.distributed import jobs
from tests.core.distributed.programs import OF_MANY, OPTIONS, PROGRAMS
from tests.thinned import thinned

LOCAL = "dropout", "own_statistics", "collectives"
EQUAL = [p.__name__ for p in PROGRAMS if p.__name__ not in LOCAL]
PAIRS = [(r, n) for r in (2, 4) for n in EQUAL if r == 2 or n in (OF_MANY.split() or EQUAL)]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What a job ended with, by number of ranks and options: a list of the ranks' values."""
    folders, done = {}, {}
    chosen = {1: ["plain"], 2: list(OPTIONS), 4: thinned(["plain", "again"], 2)}

    def of(ranks, options="plain"):
        if ranks not in folders:
            folders[ranks] = tmp_path_factory.mktemp("job")
            program = "tests.core.distributed.programs"
            jobs.run(ranks, "-m", program, folders[ranks], *chosen[ranks])
        if (ranks, options) not in done:
            folder = folders[ranks] / options
            names = {path.name.rpartition("-")[0] for path in folder.iterdir()}
            done[ranks, options] = {
                name: [dict(np.load(folder / f"{name}-{r}.npz")) for r in range(ranks)]
                for name in names
            }
        return done[ranks, options]

    jobs.mpiexec()  # skips before the first job
    return of


@pytest.mark.parametrize("ranks, name", PAIRS)
def test_as_one_process_on_the_whole_batch(results, ranks, name):
    (whole,) = results(1)[name]
    for own in results(ranks)[name]:
        assert own.keys() == whole.keys()
        for key, value in whole.items():
            np.testing.assert_allclose(own[key], value, rtol=2e-5, atol=2e-6, err_msg=key)


@pytest.mark.parametrize("ranks", [2, 4])
def test_all_ranks_have_the_same_bits(results, ranks):
    of_all = results(ranks)
    for name in {*EQUAL, "collectives"} & of_all.keys():
        first, *others = of_all[name]
        for other in others:
            for key, value in first.items():
                assert value.tobytes() == other[key].tobytes(), (name, key)


def test_first_gradients_travel_while_others_are_computed(results):
    """The backward pass in several stages: the same bits."""
    whole, divided = results(2), results(2, "divided")
    for name in set(EQUAL) & divided.keys():
        for one, other in zip(whole[name], divided[name], strict=True):
            for key, value in one.items():
                np.testing.assert_array_equal(value, other[key], err_msg=f"{name} {key}")


@pytest.mark.parametrize("ranks", thinned([2, 4], 2))
def test_two_runs_have_the_same_bits(results, ranks):
    first, second = results(ranks), results(ranks, "again")
    for name, again in second.items():
        for one, other in zip(first[name], again, strict=True):
            for key, value in one.items():
                assert value.tobytes() == other[key].tobytes(), (name, key)


def test_accumulated_gradients_are_those_of_the_whole_rows(results):
    done = results(2)
    for summed, whole in zip(done["accumulation"], done["accumulated_whole"], strict=True):
        for key in ("W", "fc_0.W", "fc_0.B"):
            np.testing.assert_allclose(summed[key], whole[key], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("wire", ["float16", "bfloat16"])
def test_short_floats_on_the_wire(results, wire):
    exact, short = results(2)["adam"], results(2, wire)["adam"]
    for key, value in exact[0].items():
        assert short[0][key].tobytes() == short[1][key].tobytes()
        np.testing.assert_allclose(short[0][key], value, atol=0.02)
    assert any((short[0][key] != value).any() for key, value in exact[0].items())


def test_sums_instead_of_means(results):
    """Twice the mean: what a doubled rate gives, with momentum and without clipping."""
    mean, total = results(2)["own_statistics"], results(2, "sum")["own_statistics"]
    np.testing.assert_allclose(1.0 - total[0]["w"], 2.0 * (1.0 - mean[0]["w"]), rtol=1e-5)


def test_statistics_are_those_of_each_rank(results):
    for rank, own in enumerate(results(4)["own_statistics"]):
        np.testing.assert_allclose(own["seen"], 1.5 * (rank + 1))
        np.testing.assert_allclose(own["w"], 1.0 - 0.1 * 2.5 / 2, rtol=1e-6)


def test_ranks_draw_different_masks_and_equal_parameters(results):
    (whole,) = results(1)["dropout"]
    own = results(4)["dropout"]
    for key in ("mask", "recorded"):
        assert len({rank[key].tobytes() for rank in own}) == 4
        assert whole[key].tobytes() == own[0][key].tobytes()
    assert {rank["W"].tobytes() for rank in own} == {whole["W"].tobytes()}


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_collectives_are_those_of_numpy(results, ranks):
    arrays = [np.arange(5, dtype=np.float32) * np.float32(r + 1) / 3 for r in range(ranks)]
    for own in results(ranks)["collectives"]:
        np.testing.assert_allclose(own["sum"], np.sum(arrays, 0), rtol=1e-6)
        assert own["mean"].tolist() == [(ranks - 1) / 2, 1.0]
        np.testing.assert_array_equal(own["max"], np.max([-a for a in arrays], 0))
        np.testing.assert_allclose(own["v"], arrays[-1], rtol=1e-6)
        pieces = [a[: r + 1] for r, a in enumerate(arrays)]
        np.testing.assert_allclose(own["gathered"], np.concatenate(pieces), rtol=1e-6)
        assert own["large"].dtype == np.int64
        assert (own["large"] == ranks * (ranks + 1) // 2).all()
