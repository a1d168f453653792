"""Positions of cloud_reader: a worker that goes on from a checkpoint reads the rest, exactly."""

import itertools
import json
import pickle

import pytest

from pd_core.training import positions
from pd_v2 import reader
from pd_v2.master.journal import read_journal
from pd_v2.reader import creator
from pd_v2.recordio.chunks import write_records
from tests.thinned import thinned

FILES, RECORDS = 4, 3
SAMPLES = list(range(FILES * RECORDS))


@pytest.fixture
def files(tmp_path):
    for k in range(FILES):
        samples = [pickle.dumps(k * RECORDS + i) for i in range(RECORDS)]
        write_records(tmp_path / f"part-{k}", samples)
    return str(tmp_path / "part-*")


def ending(items, source):
    """The rest of a pass, and the next pass."""
    return list(items), list(source())


def goes_on(make, another_process, places):
    """Check that the rest is the same behind each place, when the process is killed at the end."""
    for job, place in enumerate(places):
        source = make(f"job {job}")
        list(source())  # a pass before
        items = positions.positioned(source)
        list(itertools.islice(items, place))
        state = json.loads(json.dumps(items.state()))
        expected = ending(items, source)
        half = iter(source())  # it was in the middle of another pass
        next(half)
        for _ in range(2):
            another_process()
            source = make(f"job {job}")
            items = positions.resumed(source, state)
            assert json.loads(json.dumps(items.state())) == state
            assert ending(items, source) == expected, f"behind {place} samples"


PLACES = thinned(range(len(SAMPLES) + 2), 2)


def test_a_reader_goes_on_in_a_new_process(files, another_process):
    goes_on(lambda job: creator.cloud_reader(files, job), another_process, PLACES)


@pytest.mark.parametrize("named", [False, True])
def test_a_reader_goes_on_with_its_master(files, served, another_process, monkeypatch, named):
    if named:
        monkeypatch.setenv("PD_WORKER", "rank 0")
    goes_on(lambda job: creator.cloud_reader(files, job), another_process, PLACES)
    for one in read_journal(served.state):
        if one.number < 3:
            assert one.is_complete and one.records == len(SAMPLES)


def test_readers_of_readers_go_on(files, served, another_process):
    def make(job):
        one, two = (creator.cloud_reader(files, job) for _ in range(2))
        return reader.compose(reader.chain(one, two), reader.chain(two, one))

    goes_on(make, another_process, (1, 7, 12, 20))


def test_a_chunk_that_another_worker_has_is_left_to_it(files, served, another_process):
    items = positions.positioned(creator.cloud_reader(files, "job"))
    assert list(itertools.islice(items, 4)) == SAMPLES[:4]
    state = items.state()
    items.close()
    other = served.lease("other")
    assert other["task"] == 1
    another_process()
    items = positions.resumed(creator.cloud_reader(files, "job"), state)
    assert list(itertools.islice(items, 6)) == SAMPLES[6:]
    served.ledger.release(other["lease"], 0)
    assert list(items) == SAMPLES[3:6]


def test_a_position_of_another_rank_gives_the_pass(files, served, another_process, monkeypatch):
    monkeypatch.setenv("PD_WORKER", "rank 0")
    creator.pass_num = 5
    source = creator.cloud_reader(files, "job")
    items = positions.positioned(source)
    assert list(itertools.islice(items, 4)) == SAMPLES[:4]
    state = items.state()
    monkeypatch.setenv("PD_WORKER", "rank 1")
    another_process()
    source = creator.cloud_reader(files, "job")
    rest = positions.resumed(source, state)
    assert list(itertools.islice(rest, 6)) == SAMPLES[6:]
    assert creator.pass_num == 6
    items.close()
    assert list(rest) == SAMPLES[3:6]


def test_wrong_positions(files):
    source = creator.cloud_reader(files, "job")
    with pytest.raises(ValueError, match="cloud_reader is another one than that of the position"):
        positions.resumed(source, {"of": "chain"})
    items = positions.positioned(source)
    next(items)
    items.close()
    with pytest.raises(ValueError, match="cloud_reader has no position"):
        items.state()
