"""Downloads against a server that is made of answers."""

import email.message
import hashlib
import http.client
import io
import os
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request

import pytest

from pd_v2.dataset.transfer import TransferError, md5file, transfer

CONTENT = bytes(range(256)) * 1000
MD5 = hashlib.md5(CONTENT).hexdigest()
URL = "http://host/folder/data.bin"


class Answer(io.BytesIO):
    """A response with a status and, unless it is None, an announced length."""

    def __init__(self, content, status=200, announced=None):
        super().__init__(content)
        self.status = status
        self.headers = email.message.Message()
        if announced is not None:
            self.headers["Content-Length"] = str(announced)


@pytest.fixture
def serve(monkeypatch):
    """serve(answers) answers requests in turn, and returns the list of their Range headers."""

    def start(*answers):
        waiting, ranges = list(answers), []

        def urlopen(request, timeout):
            assert request.full_url == URL
            ranges.append(request.headers.get("Range"))
            answer = waiting.pop(0)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        monkeypatch.setattr(urllib.request, "urlopen", urlopen)
        return ranges

    return start


def full():
    return Answer(CONTENT, announced=len(CONTENT))


def test_md5file(tmp_path):
    path = tmp_path / "hello"
    path.write_bytes(b"Hello\n")
    assert md5file(path) == "09f7e02f1290be211da707a266f153b3"


@pytest.mark.parametrize("md5sums", [(), (MD5,), ("0" * 32, MD5)])
@pytest.mark.parametrize("announced", [len(CONTENT), None])
def test_a_file_arrives(tmp_path, serve, md5sums, announced):
    serve(Answer(CONTENT, announced=announced))
    transfer(URL, str(tmp_path / "data"), *md5sums)
    assert (tmp_path / "data").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("length", [200, 201, 255])
def test_a_long_name_arrives_and_is_resumed(tmp_path, serve, length):
    path = tmp_path / ("d" * length)
    lost = Answer(CONTENT[:1000], announced=len(CONTENT))
    serve(lost, *[http.client.BadStatusLine("odd")] * 2)
    with pytest.raises(OSError, match="3 tries"):
        transfer(URL, str(path), MD5)
    ranges = serve(Answer(CONTENT[1000:], http.client.PARTIAL_CONTENT, len(CONTENT) - 1000))
    transfer(URL, str(path), MD5)
    assert ranges[-1] == "bytes=1000-" and path.read_bytes() == CONTENT
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_file_url(tmp_path):
    (tmp_path / "source").write_bytes(CONTENT)
    transfer((tmp_path / "source").as_uri(), str(tmp_path / "data"), MD5)
    assert (tmp_path / "data").read_bytes() == CONTENT


def test_a_lost_connection_is_resumed(tmp_path, serve):
    ranges = serve(
        Answer(CONTENT[:1000], announced=len(CONTENT)),
        Answer(CONTENT[1000:], http.client.PARTIAL_CONTENT, len(CONTENT) - 1000),
    )
    transfer(URL, str(tmp_path / "data"), MD5)
    assert ranges == [None, "bytes=1000-"]
    assert (tmp_path / "data").read_bytes() == CONTENT


def test_a_server_that_cannot_resume_sends_all_again(tmp_path, serve):
    serve(Answer(CONTENT[:1000], announced=len(CONTENT)), full())
    transfer(URL, str(tmp_path / "data"), MD5)
    assert (tmp_path / "data").read_bytes() == CONTENT


def test_a_wrong_content_is_fetched_again_from_the_start(tmp_path, serve):
    ranges = serve(Answer(b"<html>"), http.client.BadStatusLine("odd"), full())
    transfer(URL, str(tmp_path / "data"), MD5)
    assert ranges == [None, None, None]
    assert (tmp_path / "data").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda: Answer(b"<html>"), f"received 6 bytes with md5 [0-9a-f]{{32}}, expected {MD5}"),
        (lambda: Answer(b"", announced=9), "the connection closed after 0 of 9 bytes"),
        (lambda: Answer(CONTENT, announced="abc"), "the server announces a length of 'abc'"),
        (lambda: Answer(CONTENT, announced=-9), "the server announces a length of '-9'"),
        (lambda: urllib.error.URLError("no route"), "no route"),
        (lambda: TimeoutError("timed out"), "timed out"),
    ],
)
def test_three_tries_then_an_error_and_no_file(tmp_path, serve, answer, message):
    ranges = serve(*(answer() for _ in range(4)))
    old = tmp_path / "data"
    old.write_bytes(b"old")
    with pytest.raises(TransferError, match=f"3 tries failed, the last with .*{message}"):
        transfer(URL, str(old), MD5)
    assert len(ranges) == 3
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


@pytest.mark.parametrize("announced", [len(CONTENT), None])
def test_a_file_that_is_too_large_is_not_asked_for_again(tmp_path, serve, announced, monkeypatch):
    """Whether its size is announced, or it does not end."""
    monkeypatch.setenv("PD_DOWNLOAD_LIMIT", "100000")
    ranges = serve(Answer(CONTENT, announced=announced))
    message = r"the file has \d+ bytes or more, 100000 are allowed\n  hint: .* PD_DOWNLOAD_LIMIT"
    with pytest.raises(TransferError, match=message):
        transfer(URL, str(tmp_path / "data"), MD5)
    assert ranges == [None] and part_of_file(tmp_path) == {}


def part_of_file(tmp_path):
    """Whatever is in the folder beside data."""
    return {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.name != "data"}


def half(rest=None):
    return Answer(CONTENT[:1000] if rest is None else rest, announced=len(CONTENT))


def test_a_later_download_goes_on_where_one_was_interrupted(tmp_path, serve):
    serve(half(), KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        transfer(URL, str(tmp_path / "data"), MD5)
    assert part_of_file(tmp_path) == {"data.part": CONTENT[:1000]}
    ranges = serve(
        Answer(CONTENT[1000:], http.client.PARTIAL_CONTENT, len(CONTENT) - 1000),
    )
    transfer(URL, str(tmp_path / "data"), MD5)
    assert ranges == ["bytes=1000-"]
    assert (tmp_path / "data").read_bytes() == CONTENT and part_of_file(tmp_path) == {}


def test_what_a_killed_process_left_is_taken_up_when_it_is_old(tmp_path, serve):
    for name, size, age in (("a", 10, 1000), ("b", 1000, 400), ("c", 2000, 5)):
        path = tmp_path / f"data.{name}.part"
        path.write_bytes(CONTENT[:size])
        os.utime(path, (time.time() - age,) * 2)
    ranges = serve(
        Answer(CONTENT[1000:], http.client.PARTIAL_CONTENT, len(CONTENT) - 1000),
    )
    transfer(URL, str(tmp_path / "data"), MD5)
    assert ranges == ["bytes=1000-"]
    assert part_of_file(tmp_path) == {"data.c.part": CONTENT[:2000]}  # its download may go on


def test_a_download_that_only_lacked_its_name_is_not_repeated(tmp_path, serve):
    (tmp_path / "data.part").write_bytes(CONTENT)
    assert serve() == []
    transfer(URL, str(tmp_path / "data"), MD5)
    assert (tmp_path / "data").read_bytes() == CONTENT and part_of_file(tmp_path) == {}


def test_a_wrong_rest_is_fetched_again_from_the_start(tmp_path, serve):
    (tmp_path / "data.part").write_bytes(b"?" * 1000)
    rest = Answer(CONTENT[1000:], http.client.PARTIAL_CONTENT, len(CONTENT) - 1000)
    ranges = serve(rest, full())
    transfer(URL, str(tmp_path / "data"), MD5)
    assert ranges == ["bytes=1000-", None]
    assert (tmp_path / "data").read_bytes() == CONTENT


def test_a_rest_longer_than_the_file_is_fetched_again(tmp_path, serve):
    (tmp_path / "data.part").write_bytes(CONTENT * 2)
    headers = email.message.Message()
    ranges = serve(urllib.error.HTTPError(URL, 416, "Range", headers, io.BytesIO()), full())
    transfer(URL, str(tmp_path / "data"), MD5)
    assert ranges == [f"bytes={2 * len(CONTENT)}-", None]
    assert (tmp_path / "data").read_bytes() == CONTENT


def test_without_an_md5_nothing_is_left_and_nothing_taken_up(tmp_path, serve):
    (tmp_path / "data.part").write_bytes(b"of another day")
    serve(half(), KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        transfer(URL, str(tmp_path / "data"))
    assert part_of_file(tmp_path) == {"data.part": b"of another day"}


def test_the_bar_counts_what_is_there_already(tmp_path, serve, capsys):
    serve(half(), Answer(CONTENT[1000:], http.client.PARTIAL_CONTENT, len(CONTENT) - 1000))
    transfer(URL, str(tmp_path / "data"), MD5)
    bars = capsys.readouterr().err
    assert "data.bin:   0%|" in bars and "| 1.00k/256k " in bars
    assert "data.bin: 100%|" in bars and "| 256k/256k " in bars


def test_a_process_killed_at_any_moment_leaves_no_half_file(tmp_path):
    """A server that waits, a client that is killed, again and again."""
    program = textwrap.dedent(
        """
        import http.client, io, sys, urllib.request
        from pd_v2.dataset.transfer import transfer

        class Slow(io.BytesIO):
            status, headers = 200, {"Content-Length": "400000"}
            def read(self, size):
                print("read", flush=True)
                sys.stdin.readline()
                return super().read(20000)

        def urlopen(request, timeout):
            start = int(request.headers.get("Range", "bytes=0-")[6:-1])
            answer = Slow(b"x" * (400000 - start))
            answer.headers = {"Content-Length": str(400000 - start)}
            answer.status = 206 if start else 200
            return answer

        urllib.request.urlopen = urlopen
        transfer("http://host/data", sys.argv[1], sys.argv[2])
        """
    )
    content = b"x" * 400000
    md5 = hashlib.md5(content).hexdigest()
    path = tmp_path / "data"
    for reads in (1, 3, 7, 16):
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(path), md5],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        with process:
            process.stdin.write(b"\n" * (reads - 1))
            process.stdin.flush()
            assert process.stdout.read(5 * reads) == b"read\n" * reads
            process.kill()
        assert not path.exists() or path.read_bytes() == content
