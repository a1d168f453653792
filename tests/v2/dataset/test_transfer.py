"""Downloads against a server that is made of answers."""

import email.message
import hashlib
import http.client
import io
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
            if isinstance(answer, Exception):
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


@pytest.mark.parametrize("md5sum", [MD5, None])
@pytest.mark.parametrize("announced", [len(CONTENT), None])
def test_a_file_arrives(tmp_path, serve, md5sum, announced):
    serve(Answer(CONTENT, announced=announced))
    transfer(URL, str(tmp_path / "data"), md5sum)
    assert (tmp_path / "data").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


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
