"""Ranks that are killed: the others go on, or the job ends with a message and is resumed."""

import re

import pytest

from pd_core.distributed import process
from tests.core.distributed import jobs, kills

MODULE = "tests.core.distributed.failures"


def job(name, **options):
    return jobs.run(3, "-m", MODULE, name, options=jobs.FAULT_TOLERANT, **options)


@pytest.mark.parametrize(
    "plan",
    [
        {"ranks": 3, "victim": 0, "place": "call", "step": 4, "call": 20, "divisions": 2},
        {"ranks": 3, "victim": 1, "place": "exchanged", "step": kills.STEPS - 1},
    ],
    ids=["in_the_exchange", "after_the_last_exchange"],
)
def test_the_others_go_on_with_the_same_bits(plan):
    kills.shrinking(plan)


def test_a_job_that_ended_is_resumed_to_the_same_bits():
    """The ranks cannot go on: the message of one of them says how to."""
    plan = {"ranks": 2, "victim": 1, "place": "call", "step": 11, "call": 9}
    assert kills.ending(plan, kills.undisturbed(2)) < kills.LIMIT


def test_a_rank_that_is_behind_gets_the_result_of_the_others():
    lines = re.findall(r"<behind> (.*)", job("behind").stdout)
    assert sorted(lines) == ["0: 3 [3] 2 (0, 1)", "1: 3 [3] 2 (0, 1)"]


def test_values_come_from_the_first_rank_that_is_left():
    lines = re.findall(r"<root> (.*)", job("root").stdout)
    assert sorted(lines) == ["0: [2.0]", "1: [2.0]"]


@pytest.mark.parametrize(
    "name, because",
    [("killed", ""), ("divided", "; each rank has a part of table 'words'")],
)
def test_ranks_that_cannot_go_on_say_so_once(name, because):
    ended = job(name, check=False)
    assert ended.returncode != 0
    text = f"rank 1 of 3 was lost: killed, or the machine is down{because}\n  hint: {kills.HINT}\n"
    assert ended.stderr.count(text) == 1, ended.stderr
    assert "Traceback" not in ended.stderr


def test_going_on_needs_fault_tolerance(monkeypatch):
    monkeypatch.delenv("OMPI_MCA_mpi_ft_enable", raising=False)
    with pytest.raises(RuntimeError, match=r"'shrink' is impossible: .*\n.*mpiexec --with-ft ulfm"):
        process._can_shrink(object(), "shrink")
    assert not process._can_shrink(object(), None)
    with pytest.raises(ValueError, match="on_failure is 'shrink' or 'end', not 'retry'"):
        process.init(on_failure="retry")
