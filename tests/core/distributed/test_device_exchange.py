"""Gradients that are summed where they are: the same bits, and who sums is agreed."""

import re

import pytest

import pd_core as pd
from pd_core import distributed
from pd_core.distributed import device_sums
from tests.core.distributed import device_programs, jobs


def test_sums_in_the_memory_of_a_device():
    job = jobs.run(2, "-m", "tests.core.distributed.device_programs")
    for name, (_, calls) in device_programs.CASES.items():
        found = sorted(re.findall(rf"<{name}> (.*)", job.stdout))
        assert found == [f"{rank}: True True {calls}" for rank in range(2)], name
    refused = [re.findall(rf"<refused> {rank}: (.*)", job.stdout) for rank in range(2)]
    assert refused[0] == refused[1]
    disagree, halved, fewer, arrays = refused[0]
    assert "rank 1 has gradients are summed by one by one on cpu" in disagree
    form = r"the gradient of fc_\d\.W is tensor\(float\)\[4, 6\] on cpu, its sum"
    assert re.match(rf"halved\.sum: {form} tensor\(float\)\[1, 6\] on cpu", halved)
    assert fewer == "fewer.sum: returned 3 values for 4 gradients"
    assert re.match(rf"arrays\.sum: {form} no OrtValue, but a ndarray", arrays)


@pytest.fixture
def joined():
    """A function that joins a job of one with options."""
    yield distributed.init
    distributed.shutdown()


class Takes:
    name, device = "takes", "cuda"

    def sum(self, values, factor):
        return values


class TakesOne(Takes):
    def sum(self, values):
        return values


def test_what_cannot_sum_is_refused(joined):
    with pytest.raises(RuntimeError, match=r"call init\(\) first"):
        distributed.use_device_exchange(Takes())
    joined()
    with pytest.raises(TypeError, match="use_device_exchange: a object has no name, device, sum"):
        distributed.use_device_exchange(object())
    with pytest.raises(TypeError, match=r"use_device_exchange: sum is called with \(values, fac"):
        distributed.use_device_exchange(TakesOne())
    distributed.use_device_exchange(Takes())
    distributed.use_device_exchange(None)


@pytest.mark.parametrize(
    ("name", "value"), [("divisions", 2), ("wire_dtype", "bfloat16")], ids=["divisions", "wire"]
)
def test_options_for_the_host_are_refused(joined, name, value):
    joined(**{name: value})
    with pytest.raises(ValueError, match=f"init has {name}, which is for the host"):
        distributed.use_device_exchange(Takes())


def test_a_session_on_another_device_is_left_to_the_host(joined):
    joined()
    distributed.use_device_exchange(Takes())
    x = pd.Variable([None, 2])
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_mean(pd.fc(x, 1)))
    with distributed.no_sync():
        pd.eval(step, {x: [[1.0, 2.0]]})
    pd.eval(step, {x: [[1.0, 2.0]]})
    assert device_sums.name_of(Takes()) == "gradients are summed by takes on cuda"
