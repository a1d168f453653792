"""Chunks on storages that fsspec reaches: in memory, by file:// and by s3://."""

import contextlib
import errno
import itertools
import json
import os
import pickle
import secrets
import sys

import pytest

import pd_v2 as paddle
from pd_core import DamagedFile
from pd_core.training import positions
from pd_v2.master.journal import read_journal
from pd_v2.reader import creator
from pd_v2.recordio import chunks, storage
from pd_v2.recordio.chunks import chunk_offsets, read_chunk, write_records
from tests.v2.master.test_server import connected

fsspec = pytest.importorskip("fsspec")

FILES, RECORDS = 3, 5
SAMPLES = list(range(FILES * RECORDS))


@contextlib.contextmanager
def in_memory(tmp_path, monkeypatch):
    yield "memory://bucket"
    fsspec.filesystem("memory").store.clear()


@contextlib.contextmanager
def in_files(tmp_path, monkeypatch):
    (tmp_path / "bucket").mkdir()
    yield f"file://{tmp_path}/bucket"


@contextlib.contextmanager
def on_s3(tmp_path, monkeypatch):
    """A server of moto on this machine."""
    s3fs = pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "testing")
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        s3fs.S3FileSystem.clear_instance_cache()
        name = f"bucket-{secrets.token_hex(4)}"  # moto keeps those of earlier servers
        s3fs.S3FileSystem().mkdir(name)
        yield f"s3://{name}"
    finally:
        server.stop()
        s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture(params=[in_memory, in_files, on_s3], ids=["memory", "file", "s3"])
def bucket(request, tmp_path, monkeypatch):
    """The URL of a folder."""
    with request.param(tmp_path, monkeypatch) as url:
        yield url


@pytest.fixture
def files(bucket, monkeypatch):
    """A pattern of files, each of two chunks."""
    monkeypatch.setattr(chunks, "_RECORDS_PER_CHUNK", 3)
    for k in range(FILES):
        samples = [pickle.dumps(k * RECORDS + i) for i in range(RECORDS)]
        write_records(f"{bucket}/part-{k}", samples)
    return f"{bucket}/part-*"


def test_a_worker_goes_on_in_the_middle_of_a_chunk(files, served, another_process):
    """Killed behind any sample, with the master that it had."""
    for place in range(len(SAMPLES) + 1):
        items = positions.positioned(creator.cloud_reader(files, f"job {place}"))
        assert list(itertools.islice(items, place)) == SAMPLES[:place]
        state = json.loads(json.dumps(items.state()))
        list(items)  # what it reads before it is killed
        another_process()
        items = positions.resumed(creator.cloud_reader(files, f"job {place}"), state)
        assert list(items) == SAMPLES[place:]
        another_process()
    for one in read_journal(served.state):
        assert one.is_complete and len(one.tasks) == 2 * FILES
        assert all(file.startswith(files.partition("://")[0]) for file, _ in one.tasks)


def test_records_are_read_by_their_urls(files):
    assert list(paddle.reader.creator.recordio(files)()) == SAMPLES
    names = storage.matching("here", files)
    assert [name.rpartition("/")[2] for name in names] == ["part-0", "part-1", "part-2"]
    first, second = chunk_offsets(names[1])
    assert [pickle.loads(record) for record in read_chunk(names[1], second)] == SAMPLES[8:10]
    with pytest.raises(DamagedFile, match="part-1, chunk at byte 1: no RecordIO chunk"):
        read_chunk(names[1], first + 1)
    with pytest.raises(DamagedFile, match=f"chunk at byte {10**6}: "):
        read_chunk(names[1], 10**6)


def test_a_file_that_is_not_there(files, bucket):
    with pytest.raises(FileNotFoundError, match=r"here: no file matches '.*/none-\*'"):
        storage.matching("here", f"{bucket}/none-*")
    with pytest.raises(FileNotFoundError, match=r"none"):
        list(chunk_offsets(f"{bucket}/none"))


def test_a_file_is_whole_or_not_there(bucket):
    def fails():
        yield b"one"
        raise KeyError("two")

    with pytest.raises(KeyError):
        write_records(f"{bucket}/part-0", fails())
    with pytest.raises(FileNotFoundError):
        storage.matching("here", f"{bucket}/part-*")


# ---- what is the same on all of them


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """The URL of a file in memory, and its file system."""
    with in_memory(tmp_path, monkeypatch) as url:
        write_records(f"{url}/part-0", [b"one", b"two"])
        yield f"{url}/part-0", fsspec.filesystem("memory")


def test_a_chunk_is_two_requests(memory, monkeypatch):
    path, system = memory
    asked, size = [], system.size(path)
    real = system.cat_file
    monkeypatch.setattr(
        type(system),
        "cat_file",
        lambda self, path, start=None, end=None: (
            asked.append((start, end)) or real(path, start, end)
        ),
    )
    assert list(read_chunk(path, 0)) == [b"one", b"two"]
    assert asked == [(0, 20), (20, size)]


class StorageError(Exception):
    """An error of a library for a storage."""


ERRORS = [
    (StorageError("no credentials"), errno.EIO, "StorageError: no credentials"),
    (PermissionError("bucket"), errno.EACCES, os.strerror(errno.EACCES)),
    (FileNotFoundError("bucket"), errno.ENOENT, os.strerror(errno.ENOENT)),
]


@pytest.mark.parametrize(("error", "number", "text"), ERRORS)
def test_errors_of_a_storage_name_the_file(error, number, text, memory, monkeypatch):
    path, system = memory

    def fails(*args, **kwargs):
        raise error

    monkeypatch.setattr(type(system), "cat_file", fails)
    with pytest.raises(OSError, match=f"{text}.*part-0") as caught:
        read_chunk(path, 0)
    assert caught.value.errno == number and not isinstance(caught.value, DamagedFile)


def test_a_storage_that_does_not_know_sizes(memory, monkeypatch):
    path, system = memory
    monkeypatch.setattr(type(system), "size", lambda self, path: None)
    with pytest.raises(OSError, match="its storage does not tell the size of the file"):
        list(chunk_offsets(path))


def test_a_chunk_that_a_storage_does_not_give_is_tried_again(memory, served, monkeypatch):
    path, system = memory
    real, fails = system.cat_file, iter([True, True, False, False, False])

    def flaky(self, path, start=None, end=None):
        if next(fails):
            raise StorageError("slow down")
        return real(path, start, end)

    client = connected(path)
    monkeypatch.setattr(type(system), "cat_file", flaky)
    assert list(client.records(0)) == [b"one", b"two"]
    assert [row["outcome"] for row in read_journal(served.state)[0].leases] == [
        *["failed"] * 2,
        "done",
    ]


def test_what_is_missing_is_named(memory, monkeypatch):
    with pytest.raises(ValueError, match="none"):
        storage.matching("here", "none://bucket/*")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ImportError, match=r"(?s)recordio: memory://.*pip install 'pd-onnx\[storag"):
        list(chunk_offsets(memory[0]))


@pytest.mark.parametrize(
    ("path", "is_one"),
    [("s3://b/x", True), ("/a/b://c", False), ("C://x", False), ("x", False), (b"s3://b", False)],
)
def test_which_paths_are_urls(path, is_one):
    assert storage.is_url(path) == is_one
