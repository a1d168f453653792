"""What a program says of its place in a job, and how gradients are exchanged there."""

import warnings

import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import settings

from . import programs


@pytest.fixture
def job(monkeypatch):
    """A process that takes itself for one of three."""
    pd.distributed.init()
    monkeypatch.setattr(pd.distributed, "world_size", lambda: 3)
    yield lambda rank: monkeypatch.setattr(pd.distributed, "rank", lambda: rank)
    pd.distributed.shutdown()


@pytest.mark.parametrize(
    "rank, options, text",
    [
        (0, {}, None),
        (2, {"trainer_id": 2, "num_gradient_servers": "3"}, None),
        (0, {"trainer_id": 0, "num_gradient_servers": 1}, "num_gradient_servers=1"),
        (1, {"trainer_id": 0, "num_gradient_servers": 1}, None),
        (0, {"trainer_id": 2}, "trainer_id=2"),
        (0, {"trainer_id": 0}, None),
        (1, {"trainer_id": 0}, "trainer_id=0"),
        (2, {"trainer_id": 0}, None),
    ],
)
def test_the_rank_wins_with_one_warning(job, rank, options, text):
    job(rank)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        paddle.init(**options)
    messages = [str(w.message) for w in caught]
    expected = f"init: {text}: this job has 3 trainers, and trainer_id is the rank of each"
    assert messages == ([] if text is None else [expected])
    flags = settings.current().flags
    assert (flags["trainer_id"], flags["num_gradient_servers"]) == (rank, 3)


def test_gradients_have_to_be_summed(job):
    cost, _, _ = programs.classifier()
    pool = paddle.parameters.create(cost)
    with pytest.raises(ValueError, match="SGD: trainers of 2017 add gradients up, but init"):
        paddle.trainer.SGD(cost, pool, paddle.optimizer.Adam())
