"""The task queue, its clients and cloud_reader."""

import contextlib
import itertools
import pickle
import threading

import pytest

import pd_v2 as paddle
from pd_v2 import master
from pd_v2.master.connection import clear_connections, connect
from pd_v2.reader import creator
from pd_v2.recordio.chunks import chunk_offsets, read_chunk, write_records
from pd_v2.training.batches import Batches

CHUNK = 1000  # records that write_records puts into one


@pytest.fixture
def files(tmp_path):
    """A pattern of two files with 5 chunks, one of them not full, of the numbers up to 4,499."""
    samples = [pickle.dumps(i, protocol=2) for i in range(4500)]
    write_records(tmp_path / "part-00000", samples[:2000])
    write_records(tmp_path / "part-00001", samples[2000:])
    return str(tmp_path / "part-*")


def connected(files, job="job"):
    client = master.client(job, timeout_sec=5)
    client.set_dataset([files])
    return client


def test_chunks_of_a_file(files):
    path = files.replace("*", "00001")
    offsets = list(chunk_offsets(path))
    assert len(offsets) == 3 and offsets[0] == 0
    assert pickle.loads(next(read_chunk(path, offsets[1]))) == 3000
    assert len(list(read_chunk(path, offsets[2]))) == 500


def drained(client):
    found = []
    while (record := client.next_record())[1] == 0:
        found.append(pickle.loads(record[0]))
    assert record == (None, -2) == client.next_record()
    return found


def test_one_client_reads_everything_in_each_pass(files):
    client = connected(files)
    for pass_id in (0, 1, 5):
        client.paddle_start_get_records(pass_id)
        assert drained(client) == list(range(4500))


def test_two_clients_share_the_chunks(files):
    one, two = connected(files), connected(files)
    for client in (one, two):
        client.paddle_start_get_records(0)
    shares = [[], []]
    for _ in range(CHUNK + 1):  # one record more than a chunk has, so that each holds its second
        for client, share in zip((one, two), shares, strict=True):
            share.append(pickle.loads(client.next_record()[0]))
    rest = [drained(one), drained(two)]
    assert not set(shares[0]) & set(shares[1])
    assert sorted(itertools.chain(*shares, *rest)) == list(range(4500))


def test_clients_of_another_job_share_nothing(files):
    for job in ("http://one:2379", "http://two:2379"):
        client = connected(files, job)
        client.paddle_start_get_records(0)
        assert len(drained(client)) == 4500


def test_datasets_of_a_job_do_not_mix(files):
    whole, part = connected(files), connected(files.replace("*", "00000"))
    for client, count in ((whole, 4500), (part, 2000)):
        client.paddle_start_get_records(0)
        assert len(drained(client)) == count


def test_a_released_client_gives_its_chunk_to_another(files):
    one, two = connected(files), connected(files)
    one.paddle_start_get_records(0)
    two.paddle_start_get_records(0)
    first = pickle.loads(one.next_record()[0])
    one.release()
    assert first in drained(two)
    with pytest.raises(RuntimeError, match="paddle_start_get_records comes before next_record"):
        one.next_record()


def test_a_pass_that_is_over_has_no_records(files):
    client = connected(files)
    for pass_id, count in ((3, 4500), (2, 4500), (3, 0)):
        client.paddle_start_get_records(pass_id)
        assert len(drained(client)) == count


def test_a_client_ahead_does_not_wait(files):
    fast, slow = connected(files), connected(files)
    slow.paddle_start_get_records(0)
    assert slow.next_record()[1] == 0
    for pass_id, count in ((0, 3500), (1, 4500)):
        fast.paddle_start_get_records(pass_id)
        assert len(within(60, lambda: drained(fast))) == count
    assert len(drained(slow)) == CHUNK - 1


def test_a_chunk_that_comes_back_is_read_by_who_is_left(files):
    """A pass that one client has ended, while another one was inside of a chunk."""
    one, two, third = (connected(files) for _ in range(3))
    for client in (one, two):
        client.paddle_start_get_records(0)
    assert pickle.loads(one.next_record()[0]) == 0
    assert len(drained(two)) == 3500
    one.release()
    third.paddle_start_get_records(0)
    assert drained(third) == list(range(CHUNK))


def test_the_worker_of_a_forked_process_is_another(files):
    client = connected(files)
    before = connect().process
    clear_connections()  # what a fork does
    client.paddle_start_get_records(0)
    assert connect().process != before and len(drained(client)) == 4500


def test_a_dataset_that_has_changed_is_an_error(files):
    connected(files)
    write_records(files.replace("*", "00001"), [b"short"])
    with pytest.raises(ValueError, match=r"'job' has changed: .*part-00001 has \d+ bytes, it had"):
        connected(files)
    assert len(list(connected(files, "another").records(0))) == 2001


def test_many_threads_read_each_record_once_a_pass(files):
    read, lock = {0: [], 1: []}, threading.Lock()

    def work():
        client = connected(files)
        for pass_id in read:
            client.paddle_start_get_records(pass_id)
            found = drained(client)
            with lock:
                read[pass_id] += found

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A thread that comes when a pass is over has no part in it, and nothing is read twice.
    assert sorted(read[0]) == sorted(read[1]) == list(range(4500))


def within(seconds, work):
    """The result of work in a thread that has to end in time."""
    found, errors = [], []

    def run():
        try:
            found.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive()
    if errors:
        raise errors[0]
    return found[0]


def test_one_trainer_at_a_time_saves_the_model(files):
    one, two = connected(files), connected(files)
    assert one.request_save_model("trainer 1", 60_000) == 1
    assert two.request_save_model("trainer 2", 60_000) == 0
    assert two.request_save_model("trainer 1", 0) == 1
    assert connected(files, "another").request_save_model("trainer 2", 60_000) == 1
    assert two.request_save_model("trainer 2", 60_000) == 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda c: c.set_dataset("none"), ValueError, r"the dataset is \['.*part-\*'\] already"),
        (lambda c: c.next_record(), RuntimeError, "paddle_start_get_records comes before next_r"),
        (lambda c: c.request_save_model("", 1), ValueError, "request_save_model needs a trainer"),
        (
            lambda c: master.client("job", 5).paddle_start_get_records(0),
            RuntimeError,
            "set_dataset comes before paddle_start_get_records",
        ),
        (
            lambda c: master.client("job", 5).set_dataset(["/none-*"]),
            FileNotFoundError,
            r"master: no file matches '/none-\*'",
        ),
        (lambda c: master.get_c_lib(), OSError, "there is no native library"),
    ],
)
def test_wrong_use(files, call, error, message):
    with pytest.raises(error, match=message):
        call(connected(files))


def test_a_damaged_chunk_is_named(files):
    with open(files.replace("*", "00001"), "r+b") as file:
        file.seek(100)
        file.write(b"????")
    client = connected(files)
    client.paddle_start_get_records(0)
    with pytest.raises(ValueError, match=r"part-00001, chunk at byte 0: the checksum is"):
        drained(client)


def test_cloud_reader_reads_samples_pass_after_pass(files):
    reader = creator.cloud_reader([files], "http://127.0.0.1:2379")
    for passes in (1, 2):
        assert list(reader()) == list(range(4500))
        assert creator.pass_num == passes
    assert list(creator.cloud_reader(files, "http://127.0.0.1:2379")()) == list(range(4500))


def test_cloud_reader_begins_anew_after_a_part(files):
    reader = creator.cloud_reader(files, "etcd", timeout_sec=1, buf_size=8)
    with contextlib.closing(reader()) as samples:
        assert next(samples) == 0
    assert list(samples) == []
    first = reader()
    assert next(first) == 0
    assert len(list(paddle.reader.firstn(reader, 10)())) == 10
    second = reader()
    assert next(second) == 0
    del first
    assert within(60, lambda: list(second)) == list(range(1, 4500))


def test_a_half_read_cloud_reader_does_not_block_the_next(files):
    half = creator.cloud_reader(files, "etcd")()
    assert next(half) == 0
    whole = creator.cloud_reader(files, "etcd")
    assert within(60, lambda: list(whole())) == list(range(4500))
    assert within(60, lambda: list(half)) == list(range(1, 4500))  # a pass of its own


def test_zipped_cloud_readers_read_everything_each(files):
    readers = [creator.cloud_reader(files, "etcd") for _ in range(2)]
    compose = paddle.reader.compose(*readers, readers[0])
    for _ in range(2):
        assert within(60, lambda: list(compose())) == [(i, i, i) for i in range(4500)]


def test_chained_cloud_readers_read_everything_each(files):
    reader = creator.cloud_reader(files, "etcd")
    chain = paddle.reader.chain(reader, creator.cloud_reader(files, "etcd"), reader)
    assert within(60, lambda: list(chain())) == [*range(4500)] * 3


def test_readers_of_a_pass_in_one_thread_do_not_block(files):
    """Three iterators of one pass, taken from in turn and left at different places."""
    samples = [creator.cloud_reader(files, "etcd")() for _ in range(3)]

    def take():
        found = []
        for items in samples:
            creator.pass_num = 0
            found.append(next(items))
        for items in samples:
            found += items
        return found

    assert sorted(within(60, take)) == list(range(4500))


def test_an_iterator_that_is_collected_returns_its_chunk(files):
    one, two = connected(files), connected(files)
    one.paddle_start_get_records(0)
    first = one.next_record()
    del one
    two.paddle_start_get_records(0)
    assert first[1] == 0 and drained(two) == list(range(4500))


def test_a_training_that_fails_does_not_block_the_next(files):
    readers = [paddle.batch(creator.cloud_reader(files, "etcd"), 8) for _ in range(2)]
    for reader, expected in zip(readers, [1, 563], strict=True):
        seen = []
        with contextlib.suppress(KeyError), Batches(reader, lambda samples: {}) as batches:
            for batch in batches:
                seen.append(len(batch))
                if reader is readers[0]:
                    raise KeyError("in a handler")
        assert len(seen) == expected


def test_cloud_readers_share_a_pass(files):
    one, two = (creator.cloud_reader(files, "etcd") for _ in range(2))
    half = one()
    found = [next(half)]
    creator.pass_num = 0  # a trainer in another process has a count of its own
    found += [*two(), *half]
    assert sorted(found) == list(range(4500))


def test_it_is_a_module_of_the_package():
    assert paddle.master is master
