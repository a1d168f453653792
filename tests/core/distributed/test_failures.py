"""What ranks are told when they disagree, wait in vain, or one of them fails."""

import re

import pytest

from pd_core.backend.fused import onednn
from pd_core.backend.fused.build import available
from tests.core.distributed import jobs
from tests.core.distributed.failures import DISAGREEMENTS
from tests.thinned import thinned

MODULE = "tests.core.distributed.failures"


@pytest.fixture(scope="module")
def caught():
    """The output of a job in which every disagreement is caught."""
    return jobs.run(2, "-m", MODULE, "caught").stdout


@pytest.mark.parametrize(
    "name, words",
    {
        "shapes": "rank 1 has gradient 0 of w: float32[4, 1]; rank 0 has gradient 0 of w: "
        "float32[3, 1]",
        "parameters": "rank 1 has gradient 1 of bias: float32[1]; rank 0 has no gradient 1",
        "feeds": "rank 1 has feed 0: float32[None, 4]; rank 0 has feed 0: float32[None, 3]",
        "operators": "rank 1 has Relu(…); rank 0 has Tanh(…)",
        "places": "rank 0 has come to a training step, rank 1 has come to barrier()",
        "reductions": "allreduce(): the ranks disagree   rank 1 has op=max; rank 0 has op=sum",
        "weights": "the ranks disagree: ranks [0] have no set_batch_size()",
        "values": "the values of w are not the same on all ranks, and gradients were computed",
    }.items(),
)
def test_a_disagreement_is_told_on_all_ranks(caught, name, words):
    lines = re.findall(rf"<{name}> (\d): (.*)", caught)
    assert sorted(rank for rank, _ in lines) == ["0", "1"]
    assert all(words in text for _, text in lines)


@pytest.mark.skipif(not available(), reason="there is no C compiler here")
def test_ranks_agree_on_fused_kernels(caught):
    lines = re.findall(r"<kernels> (\d): (.*)", caught)
    assert sorted(rank for rank, _ in lines) == ["0", "1"]
    told = f"rank 1 has fused=True{' with oneDNN' * onednn.active()}; rank 0 has fused=False"
    assert all(told in text for _, text in lines)


def test_training_goes_on_after_a_disagreement(caught):
    assert len(DISAGREEMENTS) == 8 + available()
    assert sorted(re.findall(r"<end> (.*)", caught)) == ["0: 2", "1: 2"]


@pytest.mark.parametrize(
    "name, ranks, words",
    [
        ("versions", 2, r"init\(\): the ranks disagree\n.*rank 1 has numpy 1\.1; rank 0 has"),
        ("absence", 3, "TimeoutError: rank 1 of 3 did not come to a training step of rank . withi"),
        *thinned(
            [
                ("silence_in_thread", 3, "within 3 s: rank 1 stopped in it"),
                ("silence", 3, "all 3 ranks began the exchange, .* 3 s: rank 1 stopped in it"),
            ],
            2,
        ),
        ("end", 2, "RuntimeError: rank 1 of 2 ended while rank 0 has come to a training step"),
        ("error", 2, "rank 1 of 2: KeyError: 'a mistake in the reader'"),
    ],
)
def test_a_failure_ends_all_ranks(name, ranks, words):
    job = jobs.run(ranks, "-m", MODULE, name, check=False)
    assert job.returncode != 0
    assert re.search(words, job.stderr), job.stderr
    if ranks == 3:  # on both ranks that wait, but it is said once
        assert len(re.findall(r"TimeoutError: ", job.stderr)) == 1
