"""Samples from the output of a command."""

import gzip
import signal
import subprocess

import pytest

from pd_v2 import reader


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "part 0"
    path.write_text("0 1\n2 3\n4 é", encoding="utf-8")
    return path


def integers(lines):
    return [tuple(line.split()) for line in lines]


@pytest.mark.parametrize("bufsize", [1, 5, 8192])
def test_pipe_reader_parses_lines_at_any_buffer_size(text, bufsize):
    piped = reader.pipe_reader(f"cat '{text}'", integers, bufsize=bufsize)
    for _ in range(2):  # each call starts the command again
        assert list(piped()) == [("0", "1"), ("2", "3"), ("4", "é")]


def test_pipe_reader_gives_uncut_text_to_the_parser(text):
    piped = reader.pipe_reader(f"cat '{text}'", lambda chunk: [chunk], cut_lines=False)
    assert "".join(piped()) == "0 1\n2 3\n4 é"


def test_get_line_cuts_at_the_given_break(text):
    pipe = reader.PipeReader(f"cat '{text}'")
    assert list(pipe.get_line(line_break=" ")) == ["0", "1\n2", "3\n4", "é"]
    assert "".join(pipe.get_line(cut_lines=False)) == "0 1\n2 3\n4 é"


@pytest.mark.parametrize("bufsize", [1, 8192])
def test_bytes_that_are_no_text_are_kept(tmp_path, bufsize):
    (tmp_path / "data").write_bytes(b"\xd6\xd0 \xc3\xa9\n\xc3\n")
    lines = list(reader.PipeReader(f"cat {tmp_path / 'data'}", bufsize).get_line())
    assert lines == ["\udcd6\udcd0 é", "\udcc3"]


def test_a_command_without_output_has_no_lines():
    assert list(reader.PipeReader("true").get_line()) == []


@pytest.mark.parametrize("bufsize", [3, 8192])
def test_gzip_members_are_read_one_after_the_other(tmp_path, bufsize):
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(b"a\nb") + gzip.compress(b"c\nd\n"))
    pipe = reader.PipeReader(f"cat {path}", bufsize, "gzip")
    assert list(pipe.get_line()) == ["a", "bc", "d"]


def test_truncated_gzip_is_an_error(tmp_path):
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(b"a\nb\n")[:-9])
    with pytest.raises(ValueError, match="ended in the middle of its gzip data"):
        list(reader.PipeReader(f"cat {path}", file_type="gzip").get_line())


def test_text_is_no_gzip():
    with pytest.raises(ValueError, match=r"'echo plain' gave bad gzip data: .*header"):
        list(reader.PipeReader("echo plain", file_type="gzip").get_line())


def test_a_command_that_fails_is_an_error():
    lines = reader.PipeReader("sh -c 'echo a; exit 3'").get_line()
    assert next(lines) == "a"
    with pytest.raises(RuntimeError, match=r"exit 3.* ended with status 3"):
        next(lines)


def test_leaving_early_ends_the_command(monkeypatch):
    started = []

    class Recorded(subprocess.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    lines = reader.pipe_reader("sh -c 'echo a; exec tail -f /dev/null'", integers)()
    assert next(lines) == ("a",)
    lines.close()
    assert [process.returncode for process in started] == [-signal.SIGKILL]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: reader.PipeReader(["cat"]), "command must be a string, got list"),
        (lambda: reader.PipeReader("cat", file_type="bz2"), "'plain' or 'gzip', got 'bz2'"),
        (lambda: reader.pipe_reader("cat", None), "parser must be a function, got NoneType"),
        (lambda: reader.pipe_reader(1, str), "command must be a string, got int"),
    ],
)
def test_wrong_arguments_are_type_errors(make, message):
    with pytest.raises(TypeError, match=message):
        make()
