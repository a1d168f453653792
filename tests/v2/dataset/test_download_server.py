"""Downloads from a server of HTTP that misbehaves, and onto a disk that is full."""

import errno
import hashlib
import http.server

import pytest

from pd_v2.dataset import common, transfer

CONTENT = bytes(range(256)) * 1200
FIRST_BYTES = 100_000
MD5 = hashlib.md5(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Sends CONTENT from where it is asked to; `habits` of the server say what goes wrong."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        habits, asked = self.server.habits, self.server.asked
        asked.append(self.headers["Range"])
        start = int(asked[-1][6:-1]) if asked[-1] else 0
        if "moved" in habits and self.path == "/data.bin":
            return self.answer(302, b"", Location="/elsewhere")
        if "missing" in habits:
            return self.answer(404, b"gone")
        resumes = bool(asked[-1]) and "cannot resume" not in habits
        body = CONTENT if "resumes elsewhere" in habits or not resumes else CONTENT[start:]
        if "other content" in habits:
            body = bytes(len(body))
        stops = "stops once" in habits and len(asked) == 1
        announced = {} if "announces nothing" in habits else {"Content-Length": len(body)}
        return self.answer(206 if resumes else 200, body, stops, **announced)

    def answer(self, status, body, stops=False, **headers):
        self.send_response(status)
        if status >= 300:
            headers["Content-Length"] = len(body)
        for name, value in {"Connection": "close", **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body[:FIRST_BYTES] if stops else body)
        self.close_connection = True


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path / "cache"))


def cached(tmp_path):
    """{name: size} of what is in the cache."""
    return {p.name: p.stat().st_size for p in tmp_path.rglob("*") if p.is_file()}


REST = f"bytes={FIRST_BYTES}-"


@pytest.mark.parametrize(
    ("habits", "asked"),
    [
        ([], [None]),
        (["moved"], [None, None]),
        (["announces nothing"], [None]),
        (["stops once"], [None, REST]),
        (["stops once", "cannot resume"], [None, REST]),
        (["stops once", "resumes elsewhere"], [None, REST, None]),
        # Then nothing but the md5 tells that the end is missing.
        (["stops once", "announces nothing"], [None, None]),
    ],
)
def test_a_file_arrives_whole(server, tmp_path, habits, asked):
    server.habits = habits
    path = common.download(server.url, "digits", MD5)
    with open(path, "rb") as file:
        assert file.read() == CONTENT
    assert server.asked == asked
    assert cached(tmp_path) == {"data.bin": len(CONTENT)}


@pytest.mark.parametrize(
    ("habit", "message"),
    [
        ("missing", "HTTPError 404"),
        ("other content", f"received {len(CONTENT)} bytes with md5 .*, expected {MD5}"),
    ],
)
def test_nothing_is_left_of_a_file_that_is_not_the_right_one(server, tmp_path, habit, message):
    server.habits = [habit]
    with pytest.raises(RuntimeError, match=f"data.bin is not in the cache .*{message}"):
        common.download(server.url, "digits", MD5)
    assert server.asked == [None] * 3
    assert cached(tmp_path) == {}


def test_a_full_disk_leaves_what_a_later_download_goes_on_with(server, tmp_path, monkeypatch):
    class OnFullDisk:
        """A file that can grow to FIRST_BYTES."""

        def __init__(self, path, mode):
            self.file = open(path, mode)  # noqa: SIM115  closed by __exit__

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.file.close()

        def write(self, block):
            room = FIRST_BYTES - self.file.tell()
            self.file.write(block[:room])
            if len(block) > room:
                raise OSError(errno.ENOSPC, "No space left on device")

    def open_on_full_disk(path, mode, opener=None):
        return OnFullDisk(path, mode) if mode in ("ab", "wb") else open(path, mode)

    with monkeypatch.context() as patch:
        patch.setattr(transfer, "open", open_on_full_disk, raising=False)
        with pytest.raises(RuntimeError, match="No space left on device"):
            common.download(server.url, "digits", MD5)
    assert cached(tmp_path) == {"data.bin.part": FIRST_BYTES}
    common.download(server.url, "digits", MD5)
    assert server.asked[-1] == REST
    assert cached(tmp_path) == {"data.bin": len(CONTENT)}
