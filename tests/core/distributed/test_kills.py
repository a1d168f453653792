"""Ranks that are killed: the others go on, or the job ends with a message and is resumed."""

import io
import re
from types import SimpleNamespace

import pytest

from pd_core.distributed import process, recovery
from tests.core.distributed import jobs, kills
from tests.thinned import thinned

MODULE = "tests.core.distributed.failures"


def job(name, ranks=3, **options):
    return jobs.run(ranks, "-m", MODULE, name, options=jobs.FAULT_TOLERANT, **options)


PLANS = {
    "in_the_exchange": {
        "ranks": 3,
        "victim": 0,
        "place": "call",
        "step": 4,
        "call": 20,
        "divisions": 2,
    },
    "after_the_last_exchange": {
        "ranks": 3,
        "victim": 1,
        "place": "exchanged",
        "step": kills.STEPS - 1,
    },
}


@pytest.mark.parametrize("name", thinned(PLANS, 2))
def test_the_others_go_on_with_the_same_bits(name):
    kills.shrinking(PLANS[name])


def test_a_runner_goes_on_and_saves():
    """Without rank 0, which has saved until then."""
    plan = {"ranks": 3, "victim": 0, "place": "call", "step": 21, "call": 9}
    kills.shrinking(plan, "resumed")


def test_a_job_that_ended_is_resumed_to_the_same_bits():
    """The ranks cannot go on: the message of one of them says how to."""
    plan = {"ranks": 2, "victim": 1, "place": "call", "step": 11, "call": 9}
    assert kills.ending(plan) is not None  # it was killed


def test_two_ranks_are_lost_one_after_the_other():
    """Values of the first one that is left are sent; a rank that is behind gets a result."""
    ended = job("losses", ranks=4)
    assert sorted(re.findall(r"<root> (.*)", ended.stdout)) == [f"{r}: [2.0]" for r in range(3)]
    behind = sorted(re.findall(r"<behind> (.*)", ended.stdout))
    assert behind == ["0: 3 [3] 2 (1, 2)", "1: 3 [3] 2 (1, 2)"]
    lines = "rank 0 of 4 was lost: .*; 3 ranks go on\n(?s:.*)rank 2 of 3 was lost: .*; 2 ranks"
    assert re.search(lines, ended.stderr)


@pytest.mark.parametrize(
    "name, because",
    [("killed", ""), ("divided", "; each rank has a part of the table words")],
)
def test_ranks_that_cannot_go_on_say_so_once(name, because):
    ended = job(name, check=False)
    assert ended.returncode != 0
    text = f"rank 1 of 3 was lost: killed, or the machine is down{because}\n  hint: {kills.HINT}\n"
    assert ended.stderr.count(text) == 1, ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_rank_waits_until_it_knows_who_is_lost():
    """A message that is printed once must name the rank, whichever of the others prints it."""
    news = iter([[], [], [1]])
    group = SimpleNamespace(Translate_ranks=lambda ranks, of: next(news))
    comm = SimpleNamespace(Get_failed=lambda: group, Get_group=lambda: group)
    mpi = SimpleNamespace(
        Exception=OSError, UNDEFINED=-1, COMM_WORLD=SimpleNamespace(Iprobe=lambda: False)
    )
    world = SimpleNamespace(mpi=mpi, comm=comm, timeout=60)
    assert recovery.Recovery(world)._failed() == [1]


def test_a_line_of_a_rank_is_written_in_one_piece(monkeypatch):
    """`mpiexec` puts what other ranks write between the pieces."""
    pieces = []

    class Pipe(io.RawIOBase):
        def writable(self):
            return True

        def write(self, data):
            pieces.append(bytes(data))
            return len(data)

    stream = io.TextIOWrapper(io.BufferedWriter(Pipe()), line_buffering=True)
    monkeypatch.setattr("sys.stderr", stream)
    recovery.write_line("rank 1 of 3 was lost\n  hint: start the program again")
    assert pieces == [b"rank 1 of 3 was lost\n  hint: start the program again\n"]


def test_going_on_needs_fault_tolerance(monkeypatch):
    monkeypatch.delenv("OMPI_MCA_mpi_ft_enable", raising=False)
    with pytest.raises(RuntimeError, match=r"'shrink' is impossible: .*\n.*mpiexec --with-ft ulfm"):
        process._can_shrink(object(), "shrink")
    assert not process._can_shrink(object(), None)
    with pytest.raises(ValueError, match="on_failure is 'shrink' or 'end', not 'retry'"):
        process.init(on_failure="retry")
