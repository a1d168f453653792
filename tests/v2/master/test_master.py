"""The task queue, its clients and cloud_reader."""

import contextlib
import itertools
import pickle
import threading
import time

import pytest

import pd_v2 as paddle
from pd_v2 import master
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


@pytest.fixture(autouse=True)
def no_jobs(monkeypatch):
    """No jobs of other tests, and passes count from 0."""
    from pd_v2.master.connection import _connection

    _connection.cache_clear()
    monkeypatch.setattr(creator, "pass_num", 0)


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
    client.paddle_start_get_records(3)
    assert len(drained(client)) == 4500
    client.paddle_start_get_records(2)
    assert drained(client) == []


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


def taken(queue, client, pass_id):
    return list(iter(lambda: queue.take(client, pass_id), None))


def test_a_client_ahead_waits_for_those_behind():
    queue = TaskQueue("ab")
    queue.enter("fast", 0)
    queue.enter("slow", 0)
    assert queue.take("fast", 0) == "a" and queue.take("slow", 0) == "b"
    queue.finish("fast", "a")
    assert queue.take("fast", 0) is None
    entered = threading.Event()

    def go_ahead():
        queue.enter("fast", 1)
        entered.set()

    thread = threading.Thread(target=go_ahead)
    thread.start()
    assert not entered.wait(0.05)
    queue.finish("slow", "b")
    assert entered.wait(10)
    thread.join()
    assert taken(queue, "slow", 0) == []
    assert taken(queue, "fast", 1) == ["a", "b"]


def test_who_begins_anew_gives_back_its_tasks():
    queue = TaskQueue("ab")
    queue.enter("x", 0)
    assert queue.take("x", 0) == "a"
    queue.enter("x", 0)
    assert taken(queue, "x", 0) == ["b", "a"]
    queue.enter("x", 1)
    assert taken(queue, "x", 1) == ["a", "b"]


def test_leaving_an_earlier_pass_changes_nothing():
    queue = TaskQueue("ab")
    queue.enter("x", 0)
    queue.enter("x", 1)
    queue.leave("x", 0)
    assert taken(queue, "x", 1) == ["a", "b"]


def test_a_task_whose_lease_has_ended_goes_to_another(monkeypatch):
    now = [0.0]
    queue = TaskQueue("ab", lease_seconds=10)
    queue.enter("lost", 0)
    queue.enter("other", 0)
    assert (queue.take("lost", 0), queue.take("other", 0)) == ("a", "b")
    now[0] = 9
    queue.finish("other", "b")
    assert queue.take("lost", 0) is None
    queue.enter("lost", 0)
    assert queue.take("lost", 0) == "a"
    now[0] = 20
    queue.enter("other", 0)
    assert queue.take("other", 0) == "a"
    queue.finish("lost", "a")  # too late
    assert queue.take("lost", 0) is None
    queue.finish("other", "a")
    queue.enter("other", 1)
    assert taken(queue, "other", 1) == ["a", "b"]


def test_waiting_ends_with_the_lease_of_a_lost_client():
    queue = TaskQueue("a", lease_seconds=0.02)
    queue.enter("lost", 0)
    assert queue.take("lost", 0) == "a"
    in_a_thread(lambda: queue.enter("other", 1))
    assert taken(queue, "other", 1) == ["a"]


def in_a_thread(work):
    """The result of work in a thread that has ended."""
    found = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    return found[0]


@pytest.mark.parametrize("ended", [False, True])
def test_nobody_waits_for_a_client_that_cannot_go_on(ended):
    """As long as its lease, which is 20 minutes."""
    queue = TaskQueue("ab")
    first = in_a_thread if ended else lambda work: work()
    first(lambda: queue.enter("half", 0))
    assert first(lambda: queue.take("half", 0)) == "a"
    start = time.monotonic()
    queue.enter("next", 1)
    assert time.monotonic() - start < 10
    assert taken(queue, "next", 1) == ["a", "b"] and queue.take("half", 0) is None


def test_who_waits_sees_a_thread_end():
    queue, begun, done = TaskQueue("ab"), threading.Event(), threading.Event()

    def half():
        queue.enter("half", 0)
        queue.take("half", 0)
        begun.set()
        done.wait(20)

    threading.Thread(target=half, daemon=True).start()
    assert begun.wait(20)
    threading.Timer(0.1, done.set).start()
    queue.enter("next", 1)
    assert done.is_set() and taken(queue, "next", 1) == ["a", "b"]


def test_one_trainer_at_a_time_saves_the_model(files, monkeypatch):
    now = [0.0]
    one, two = connected(files), connected(files)
    assert one.request_save_model("trainer 1", 5000) == 1
    assert two.request_save_model("trainer 2", 5000) == 0
    assert two.request_save_model("trainer 1", 5000) == 1
    assert connected(files, "another").request_save_model("trainer 2", 5000) == 1
    now[0] = 5.0
    assert two.request_save_model("trainer 2", 5000) == 1


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
    first = reader()
    assert next(first) == 0
    assert len(list(paddle.reader.firstn(reader, 10)())) == 10
    second = reader()
    assert next(second) == 0
    del first
    assert len(list(second)) == 4499


def test_a_half_read_cloud_reader_does_not_block_the_next(files):
    half = creator.cloud_reader(files, "etcd")()
    assert next(half) == 0
    assert list(creator.cloud_reader(files, "etcd")()) == list(range(4500))
    assert list(half) == list(range(1, CHUNK))  # what it has at hand


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
