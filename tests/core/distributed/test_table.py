"""Sharded tables on 2 and 4 ranks train as a row-sparse parameter of one process."""

import re

import numpy as np
import pytest

import pd_core as pd
from pd_core import distributed
from pd_core.distributed import ShardedTable
from pd_core.distributed.table_draws import RowInitializer, _fractions
from pd_core.training.tables import load_tables
from tests.core.distributed import jobs, table_programs
from tests.core.distributed.table_programs import HEIGHT, OPTIMIZERS, PROGRAMS, WIDTH
from tests.thinned import EVERY

PROGRAM = "tests.core.distributed.table_programs"
LOCAL = (
    *("drawn_ids", "resharded", "loaded_in_guard", "resumed_by_others", "resumed_from_one"),
    *("failed_checkpoint", "traffic", "errors", "larger_than_memory"),
)
EQUAL = [p.__name__ for p in PROGRAMS if p.__name__ not in LOCAL]
# On four ranks: what is of the rows and numbers of ranks, and a training of each kind.
OF_FOUR = (
    *("sgd", "two_tables", "frozen_ids", "in_guard", "uneven", "inference", "resharded"),
    *("loaded_in_guard", "resumed_by_others", "failed_checkpoint", "larger_than_memory"),
)
CHOSEN = {4: () if EVERY else OF_FOUR}
PAIRS = [(r, n) for r in (2, 4) for n in EQUAL if n in (CHOSEN.get(r) or EQUAL)]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What jobs of 2, 4 and 1 ranks ended with: a list of the ranks' values by program."""
    jobs.mpiexec()  # skips before the first job
    shared = tmp_path_factory.mktemp("tables")
    done: dict = {}
    with pd.fresh(seed=3):
        distributed.init()
        table_programs.root = shared
        table_programs.resumed_by_others("one")
        distributed.shutdown()
    for ranks in (2, 4, 1):  # each goes on from the tables that the one before has written
        folder = tmp_path_factory.mktemp("job")
        (folder / "again").mkdir()
        jobs.run(ranks, "-m", PROGRAM, folder, shared, *CHOSEN.get(ranks, ()))
        done[ranks] = {name: _loaded(folder, name, ranks) for name in _names(folder)}
        if ranks == 2:
            again = folder / "again"
            done["again"] = {name: _loaded(again, name, ranks) for name in _names(again)}
    return done


def _names(folder):
    return {path.name.rpartition("-")[0] for path in folder.glob("*.npz")}


def _loaded(folder, name, ranks):
    return [dict(np.load(folder / f"{name}-{r}.npz")) for r in range(ranks)]


@pytest.mark.parametrize("ranks, name", PAIRS)
def test_ranks_train_as_one_process(results, ranks, name):
    (whole,) = results[1][name]
    for own in results[ranks][name]:
        assert own.keys() == whole.keys()
        for key, value in whole.items():
            np.testing.assert_allclose(own[key], value, rtol=2e-5, atol=2e-6, err_msg=key)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_as_a_row_sparse_parameter(results, name):
    """The same training without a table, from the initial values of the tables."""
    with pd.fresh():
        (one,) = results[1][name]
        table = pd.Variable("words", data=one["initial"], row_sparse=True)
        ids, y, cost = table_programs.network(lambda ids: pd.gather(table, ids))
        step = OPTIMIZERS[name]().minimize(cost)
        for rows, targets in table_programs.batches():
            pd.eval(step, {ids: rows, y: targets})
        np.testing.assert_allclose(table.val(), one["table"], rtol=1e-6, atol=1e-7)
        assert np.abs(table.val() - one["initial"]).max() > 0.05


@pytest.mark.parametrize("ranks", [2, 4])
def test_initial_values_do_not_depend_on_the_ranks(results, ranks):
    for own in results[ranks]["sgd"]:
        assert own["initial"].tobytes() == results[1]["sgd"][0]["initial"].tobytes()


@pytest.mark.parametrize("ranks", [2, 4])
def test_all_ranks_have_the_same_bits(results, ranks):
    for name in set(EQUAL) & results[ranks].keys():
        first, *others = results[ranks][name]
        for other in others:
            for key, value in first.items():
                assert value.tobytes() == other[key].tobytes(), (name, key)


def test_two_runs_have_the_same_bits(results):
    for name, again in results["again"].items():
        for one, other in zip(results[2][name], again, strict=True):
            for key, value in one.items():
                assert value.tobytes() == other[key].tobytes(), (name, key)


def test_files_are_read_by_other_numbers_of_ranks(results):
    """Three steps each on 2 ranks, 4 ranks and 1 are nine steps on one."""
    (last,) = results[1]["resharded"]
    for key in ("table", "W"):
        np.testing.assert_allclose(last[key], last[f"{key}-once"], rtol=2e-5, atol=2e-6)
    assert np.abs(last["table"] - results[4]["resharded"][0]["table"]).max() > 0.01


def test_checkpoints_are_resumed_by_other_numbers_of_ranks(results):
    """A pass each on 2 ranks, 4 ranks and 1, as passes of the same number of ranks."""
    for ranks in (2, 4, 1):
        for own in results[ranks]["resumed_by_others"]:
            for key in ("table", "W"):
                np.testing.assert_allclose(own[key], own[f"{key}-once"], rtol=2e-5, atol=2e-6)
    last, first = results[1]["resumed_by_others"][0], results[2]["resumed_by_others"][0]
    assert np.abs(last["table"] - first["table"]).max() > 0.01


def test_a_checkpoint_of_one_process_is_resumed_by_two(results):
    for own in results[2]["resumed_from_one"]:
        for key in ("table", "W"):
            np.testing.assert_allclose(own[key], own[f"{key}-once"], rtol=2e-5, atol=2e-6)


def test_a_full_disk_of_a_rank_costs_a_checkpoint(results):
    """The training goes on: its own assertions are about the files."""
    for ranks in (2, 4):
        own, other = results[ranks]["failed_checkpoint"][:2]
        assert own["table"].tobytes() == other["table"].tobytes()


def test_a_row_travels_once(results):
    """Ids to their owners, rows back, gradients forth: of distinct rows, however often read."""
    first, second = results[2]["traffic"]
    assert (first["ids"], first["rows"], first["gradients"]) == (4, 0, 2)
    assert (second["ids"], second["rows"], second["gradients"]) == (0, 2, 0)
    assert first["bytes"] == 4 * 8 + 2 * 4 * WIDTH
    assert second["bytes"] == 2 * 4 * WIDTH


def test_the_cut_model_serves_fetched_rows(results):
    for ranks in (1, 2, 4):
        for own in results[ranks]["inference"]:
            np.testing.assert_allclose(own["served"], own["y"], rtol=1e-6)


def test_a_table_larger_than_the_memory_of_a_rank(results):
    """Four ranks train a table that one process with the same limit cannot even draw."""
    (alone,) = results[1]["larger_than_memory"]
    assert str(alone["error"]).startswith("Unable to allocate")
    for own in results[4]["larger_than_memory"]:
        assert 0.8 < own["cost"] < 1.4
        assert own["rows"][0].tobytes() == own["rows"][2].tobytes()


# ---- on one process


def test_random_numbers_are_those_of_splitmix64():
    """The first outputs for the seed 1234567, as published at rosettacode.org."""
    outputs = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    drawn = _fractions(np.uint64(1234567), np.arange(3, dtype=np.uint64))
    assert drawn.tolist() == [(n >> 11) * 2.0**-53 for n in outputs]


def test_distributions_of_initial_values():
    normal, uniform, constant = (
        RowInitializer(each, 0, 1)((20_000, 8), np.random.default_rng(1))
        for each in (
            pd.gaussian_initializer(1.0, 0.5),
            pd.uniform_initializer(-1, 3),
            pd.constant_initializer(2.0),
        )
    )
    assert abs(normal.mean() - 1.0) < 0.005
    assert abs(normal.std() - 0.5) < 0.005
    within = np.mean(np.abs(normal - 1.0) < 0.5)
    assert abs(within - 0.6827) < 0.005
    assert -1 <= uniform.min() < -0.999
    assert 2.999 < uniform.max() <= 3
    assert abs(uniform.std() - 4 / 12**0.5) < 0.01
    assert (constant == 2).all()
    for drawn in (normal, uniform):
        assert abs(np.corrcoef(drawn[1:].ravel(), drawn[:-1].ravel())[0, 1]) < 0.01


def test_a_shard_has_every_nth_row():
    whole = RowInitializer(pd.gaussian_initializer(), 0, 1)((10, 3), np.random.default_rng(2))
    for rank in range(3):
        shard = RowInitializer(pd.gaussian_initializer(), rank, 3)((4, 3), np.random.default_rng(2))
        own = whole[rank::3]
        assert shard[: len(own)].tobytes() == own.tobytes()


def test_a_table_of_one_process_is_a_parameter():
    """Without init(): a parameter that is gathered, and exported with the model."""
    with pd.fresh() as session:
        table = ShardedTable([HEIGHT, WIDTH], "words", trainable=False)
        ids = pd.Variable([None], name="ids", dtype="int64")
        model = pd.export_onnx(None, table.lookup(ids))
        assert [node.op_type for node in model.graph.node] == ["Gather"]
        assert [i.name for i in model.graph.input] == ["ids"]
        np.testing.assert_array_equal(table.rows([3, 3, 1]), session.get(table.shard)[[3, 3, 1]])
        assert "words" in session.state()["values"]
        assert "tables" not in session.state()
        assert repr(table) == "ShardedTable('words', [23, 4], 1 ranks)"


def test_arguments_of_a_table():
    with pd.fresh():
        for shape in ([4], [0, 2], [4, None]):
            with pytest.raises(pd.ShapeError, match=r"a shape is \[rows, width\], not"):
                ShardedTable(shape)
        with pytest.raises(TypeError, match="draws from a Constant, Uniform or Gaussian"):
            ShardedTable([4, 2], initializer="xavier_uniform")
        with pytest.raises(pd.DTypeError, match="holds float32"):
            ShardedTable([4, 2], dtype="float64")
        with pytest.raises(ValueError, match="a lookup in t: there is no row 4, the last one is 3"):
            ShardedTable([4, 2], "t").rows([4])


def test_damaged_files(tmp_path):
    with pd.fresh():
        table = ShardedTable([6, 2], "t")
        table.save(tmp_path)
        part = tmp_path / "rank-0-of-1"
        np.save(part / "part-0.npy", np.zeros((5, 2), np.float32))
        with pytest.raises(
            pd.DamagedFile, match=r"part-0\.npy has float32\[5, 2\], not float32\[6, 2\]"
        ):
            table.load(tmp_path)
        (part / "part-0.npy").unlink()
        with pytest.raises(pd.DamagedFile, match=r"part-0\.npy is no array of a table"):
            table.load(tmp_path)
        text = (part / "table.json").read_text()
        (part / "table.json").write_text(text.replace('"token": "', '"token": "0'))
        with pytest.raises(pd.DamagedFile, match="was not written together with"):
            table.load(tmp_path)


def test_tables_of_a_checkpoint_that_are_not_here(tmp_path):
    with pd.fresh():
        ShardedTable([6, 2], "t").save(tmp_path / "tables" / "0")
    with pd.fresh():
        table = ShardedTable([6, 2], "other")
        before = pd.eval(table.shard)
        with pytest.raises(pd.GraphError, match="has the sharded tables t, which are not here"):
            load_tables(tmp_path, None)
        ShardedTable([6, 2], "t")
        load_tables(tmp_path, None)
        assert (pd.eval(table.shard) == before).all()


MANIFESTS = {
    "a list": "[" * 100_000,
    "ranks": '"ranks": 1.5',
    "no ranks": '"ranks": 0',
    "many ranks": f'"ranks": {2**62}',
    "shape": '"shape": 6',
    "parts": '"parts": [1]',
}


@pytest.mark.parametrize("text", MANIFESTS.values(), ids=MANIFESTS)
def test_damaged_manifests(text, tmp_path):
    with pd.fresh():
        table = ShardedTable([6, 2], "t")
        table.save(tmp_path)
        file = tmp_path / "table.json"
        key = text.split(":")[0]
        changed = re.sub(key + r": (\[.*?\]|\d+)", text, file.read_text()) if ":" in text else text
        file.write_text(changed)
        with pytest.raises(pd.DamagedFile, match=r"table\.json|rank-\d+-of|whole table"):
            table.load(tmp_path)


def test_parts_of_another_shape(tmp_path):
    with pd.fresh():
        table = ShardedTable([6, 2], "t")
        table.save(tmp_path)
        np.save(tmp_path / "rank-0-of-1" / "part-0.npy", np.float32(1))
        with pytest.raises(pd.ShapeError, match="cannot take the saved"):
            table.load(tmp_path)
