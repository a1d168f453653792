"""A world of one, and what is checked before there is any other rank."""

import gc
import sys

import numpy as np
import pytest

import pd_core as pd
from pd_core import distributed
from pd_core.distributed.buffers import Buffer
from pd_core.distributed.process import own_cores
from pd_core.distributed.rows import gather_rows, join_rows
from pd_core.distributed.world import World

f32 = np.float32
LAUNCHED = "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in LAUNCHED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)
    yield
    distributed.shutdown()


def descent():
    x = pd.Variable([None, 2])
    w = pd.Variable("w", data=np.ones(2))
    return x, w, pd.SGDOptimizer(1.0).minimize(pd.reduce_sum(x * w))


def test_a_process_alone_is_a_world_of_one():
    assert not distributed.is_initialized()
    assert (distributed.rank(), distributed.world_size()) == (0, 1)
    distributed.init()
    distributed.init()
    assert distributed.is_initialized()
    assert (distributed.rank(), distributed.world_size()) == (0, 1)
    distributed.barrier()
    x, w, step = descent()
    distributed.broadcast()
    pd.eval(step, {x: np.ones((3, 2))})
    assert w.val().tolist() == [-2.0, -2.0]
    for op in ("sum", "mean", "max"):
        assert distributed.allreduce([1.5, 2.0], op).tolist() == [1.5, 2.0]
    assert distributed.allgather({"cost": 1.5}) == [{"cost": 1.5}]
    distributed.shutdown()
    distributed.shutdown()
    assert not distributed.is_initialized()


def test_dropped_graphs_are_not_broadcast(monkeypatch):
    """Ranks have the same variables, however far the collector of each of them has come."""
    distributed.init()
    _, kept, _ = descent()
    sent = []
    monkeypatch.setattr(
        "pd_core.distributed.collectives.send_values",
        lambda world, session, every, *_: sent.extend(every) or [w.val() for w in every],
    )
    gc.disable()
    try:
        pd.fc(pd.Variable([None, 2]), 3)
        distributed.broadcast()
    finally:
        gc.enable()
    assert sent == [kept]


def test_how_a_process_was_started(monkeypatch):
    assert not distributed.is_launched()
    monkeypatch.setenv("PMI_RANK", "0")
    assert distributed.is_launched()
    with pytest.raises(RuntimeError, match="init"):
        distributed.reduction()
    monkeypatch.delenv("PMI_RANK")
    distributed.init(reduce="sum")
    assert distributed.reduction() == "sum"


def test_accumulation_alone_updates_once():
    distributed.init()
    x, w, step = descent()
    with distributed.no_sync():
        pd.eval(step, {x: [[1.0, 2.0]]})
        pd.eval(step, {x: [[3.0, 4.0]]})
    assert w.val().tolist() == [1.0, 1.0]
    pd.eval(step, {x: [[0.5, 0.5]]})
    assert w.val().tolist() == [1.0 - 4.5, 1.0 - 6.5]
    pd.eval(step, {x: [[0.5, 0.5]]})
    assert w.val().tolist() == [-4.0, -6.0]


def test_accumulation_of_rows():
    distributed.init()
    table = pd.Variable("table", data=np.zeros((4, 1)), row_sparse=True)
    ids = pd.Variable([None], dtype="int64")
    step = pd.SGDOptimizer(1.0).minimize(pd.reduce_sum(pd.gather(table, ids)))
    with distributed.no_sync():
        pd.eval(step, {ids: [3, 1]})
    pd.eval(step, {ids: [0, 1, 1]})
    assert table.val().ravel().tolist() == [-1.0, -3.0, 0.0, -1.0]


def test_a_session_with_its_own_exchange_keeps_it():
    distributed.init()
    x, w, step = descent()
    with pd.default_session().exchanging(lambda g: {w: g[w] * 0.0}), distributed.no_sync():
        pd.eval(step, {x: np.ones((3, 2))})
    assert w.val().tolist() == [1.0, 1.0]
    pd.eval(step, {x: np.ones((1, 2))})  # nothing was accumulated
    assert w.val().tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"reduce": "max"}, "reduce is 'mean' or 'sum', not 'max'"),
        ({"wire_dtype": "int8"}, "wire_dtype is 'float16' or 'bfloat16', not 'int8'"),
        ({"timeout": 0}, "timeout is positive, not 0"),
        ({"divisions": 0}, "bucket_bytes 4194304, divisions 0 and local_steps 1 are positive"),
    ],
)
def test_options_are_checked(options, words):
    with pytest.raises(ValueError, match=words):
        distributed.init(**options)
    assert not distributed.is_initialized()


def test_misuse_is_refused():
    with pytest.raises(RuntimeError, match=r"pd\.distributed: call init\(\) first"):
        distributed.barrier()
    distributed.init()
    with pytest.raises(RuntimeError, match=r"init: already initialized with .*reduce='mean'"):
        distributed.init(reduce="sum")
    with pytest.raises(ValueError, match="op is one of sum, mean, max, not 'min'"):
        distributed.allreduce(1.0, "min")
    with pytest.raises(TypeError, match="takes numbers, not bool"):
        distributed.allreduce(True)
    with pytest.raises(ValueError, match="root is a rank below 1, not 1"):
        distributed.broadcast(root=1)
    with pytest.raises(ValueError, match="set_batch_size: a number of samples, not -1"):
        distributed.set_batch_size(-1)


def test_a_job_without_mpi4py_is_an_error(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(
        ImportError, match=r"started by mpiexec, but mpi4py .*\n.*pip install mpi4py"
    ):
        distributed.init()


def test_gradients_without_samples_do_not_count():
    """Not even the NaN of a mean over nothing."""
    buffer = Buffer(World(None, 1.0), [(2, 3), (), (5,)], np.dtype("float32"))
    arrays = [np.full((2, 3), np.nan, f32), np.array(2.0, f32), np.arange(5, dtype=f32)]
    summed = buffer.reduce(arrays, 0.0)
    assert [g.shape for g in summed] == [(2, 3), (), (5,)]
    assert not any(g.any() for g in summed)
    summed = buffer.reduce(arrays, 0.5)
    assert summed[1] == 1.0 and summed[2].tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert all(g.ctypes.data % 64 == 0 for g in summed)


def test_rows_of_several_ranks_are_added_in_their_order():
    big, small = f32(1e8), f32(1.0)
    parts = [([1, 4], [big, small]), ([0, 4], [small, small]), ([1], [-big]), ([1], [small])]
    pairs = [(np.array(r), np.array(v, f32).reshape(-1, 1)) for r, v in parts]
    rows, values = join_rows(pairs)
    assert rows.tolist() == [0, 1, 4]
    assert values.ravel().tolist() == [1.0, 1.0, 2.0]  # 1e8 - 1e8 + 1, not 1e8 + 1 - 1e8
    ((rows, values),) = gather_rows(World(None, 1.0), [join_rows(pairs)], 0.5)
    assert rows.tolist() == [0, 1, 4] and values.ravel().tolist() == [0.5, 0.5, 1.0]


def test_the_cores_of_a_machine_are_divided():
    cores = [0, 1, 2, 4, 6]
    assert [own_cores(cores, k, 2) for k in range(2)] == [[0, 1], [2, 4, 6]]
    assert [own_cores(cores[:2], k, 3) for k in range(3)] == [[0], [1], [0]]
    assert own_cores(cores, 0, 1) == cores
