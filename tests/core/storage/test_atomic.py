"""Files written whole: what was there before survives an error and a kill at any moment."""

import errno
import glob
import os
import secrets
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import pd_core as pd
from pd_core import atomic_write
from pd_core.storage.atomic import check_writable

ROOT = str(Path(__file__).parents[3])
POSIX = pytest.mark.skipif(os.name != "posix", reason="links, pipes and modes")


def test_a_file_is_there_when_the_block_ends(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with atomic_write(path) as f:
        f.write(b"new")
        f.flush()
        assert path.read_bytes() == b"old"
        assert glob.glob(str(tmp_path / "*")) == [str(path)]  # what is half written is hidden
    assert path.read_bytes() == b"new" and os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(os.name != "posix", reason="folders are no files elsewhere")
def test_bytes_are_synced_before_the_name_and_the_name_after(tmp_path, monkeypatch):
    calls, sync, replace = [], os.fsync, os.replace

    def noted(handle):
        calls.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "replace", lambda *a: calls.append("name") or replace(*a))
    with atomic_write(tmp_path / "file") as f:
        f.write(b"new")
    assert calls == ["file", "name", "folder"]


@pytest.mark.parametrize("before", [None, b"old"])
def test_an_error_leaves_what_was_there(tmp_path, before):
    path = tmp_path / "file"
    if before is not None:
        path.write_bytes(before)
    with pytest.raises(KeyboardInterrupt), atomic_write(str(path)) as f:
        f.write(b"half")
        raise KeyboardInterrupt
    assert [p.read_bytes() for p in tmp_path.iterdir()] == ([] if before is None else [before])


@POSIX
def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with atomic_write(tmp_path / "link") as f:
        f.write(b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_bytes() == b"new"


def test_of_two_threads_that_write_one_file_the_last_to_end_wins(tmp_path):
    path = tmp_path / "file"

    def write():
        with atomic_write(path) as f:
            f.write(b"second")

    with atomic_write(path) as f:
        f.write(b"first")
        thread = threading.Thread(target=write)
        thread.start()
        thread.join(10)
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first" and os.listdir(tmp_path) == ["file"]


@POSIX
def test_a_file_that_was_secret_stays_so(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o600)
    with atomic_write(path) as f:
        f.write(b"new")
    assert path.read_bytes() == b"new" and stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes")
def test_a_pipe_stays_a_pipe(tmp_path):
    """So does /dev/null, which only root could replace."""
    path, found = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()), daemon=True)
    reader.start()
    with atomic_write(path) as f:
        f.write(b"new")
    reader.join(10)
    assert found == [b"new"] and stat.S_ISFIFO(path.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(OSError), atomic_write(tmp_path):
        pass
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_not_there(tmp_path):
    path = tmp_path / "none" / "file"
    with pytest.raises(FileNotFoundError, match=f"'{path}'$"), atomic_write(path):
        pass


def test_errors_name_the_file_itself(tmp_path, monkeypatch):
    """Not the hidden one beside it, whose name says nothing."""
    path = tmp_path / "file"

    def full(*paths):
        raise OSError(errno.ENOSPC, "No space left on device", paths[0], None, paths[-1])

    with pytest.raises(OSError) as raised, atomic_write(path):
        monkeypatch.setattr(os, "replace", full)
    monkeypatch.undo()
    assert str(raised.value) == f"[Errno {errno.ENOSPC}] No space left on device: '{path}'"
    with pytest.raises(OSError, match=r"'other'$"), atomic_write(path):
        raise OSError(errno.ENOENT, "No such file or directory", "other")


@pytest.mark.parametrize(
    ("name", "kind"),
    [(".", IsADirectoryError), ("none/x", FileNotFoundError), ("file/x", NotADirectoryError)],
)
def test_what_cannot_be_written_is_known_before(tmp_path, name, kind):
    (tmp_path / "file").write_text("old")
    with pytest.raises(kind) as raised:
        check_writable(tmp_path / name)
    assert raised.value.filename == str(tmp_path / name)
    with pytest.raises(OSError), atomic_write(tmp_path / name):
        pass
    for good in ("file", "new"):
        check_writable(tmp_path / good)
    assert os.listdir(tmp_path) == ["file"]


# ---- leftovers

# Writes half of a file and says so, then waits to be killed.
HALF = """
import sys, time
from pd_core.storage.atomic import atomic_write
with atomic_write(sys.argv[1]) as f:
    f.write(b"half")
    f.flush()
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def half_written(tmp_path):
    """Another process that is in the middle of writing tmp_path/file."""
    process = subprocess.Popen(
        [sys.executable, "-c", HALF, str(tmp_path / "file")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": ROOT},
    )
    with process:
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


@POSIX
def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path, half_written):
    """Not while it writes, and not the files of other names."""
    others = [".file.part", ".file.0123.part", f".other.{secrets.token_hex(8)}.part"]
    for name in others:
        (tmp_path / name).write_bytes(b"")

    def left():
        return [p.read_bytes() for p in tmp_path.iterdir() if p.name not in ("file", *others)]

    with atomic_write(tmp_path / "file") as f:
        f.write(b"new")
    assert left() == [b"half"]
    half_written.kill()
    half_written.wait()
    with atomic_write(tmp_path / "file") as f:
        f.write(b"newer")
    assert left() == [] and (tmp_path / "file").read_bytes() == b"newer"
    assert all((tmp_path / name).exists() for name in others)


@POSIX
def test_a_link_in_the_place_of_a_leftover_leads_nowhere(tmp_path):
    (tmp_path / "elsewhere").write_bytes(b"kept")
    (tmp_path / f".file.{secrets.token_hex(8)}.part").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / f".file.{secrets.token_hex(8)}.part")
    with atomic_write(tmp_path / "file") as f:
        f.write(b"new")
    assert (tmp_path / "elsewhere").read_bytes() == b"kept"


def test_readers_never_see_half_a_file(tmp_path):
    """Two threads write, each time the same byte; a reader finds one byte in one length."""
    path, stop = tmp_path / "file", threading.Event()
    size = 1 << 20

    def write(byte):
        while not stop.is_set():
            with atomic_write(path) as f:
                f.write(byte * (size // 2))
                f.write(byte * (size // 2))

    with atomic_write(path) as f:
        f.write(b"0" * size)
    threads = [threading.Thread(target=write, args=(byte,)) for byte in (b"1", b"2")]
    for thread in threads:
        thread.start()
    seen = [b"0"]
    while len(seen) < 20:  # the writers take turns
        content = path.read_bytes()
        assert len(content) == size and len(set(content)) == 1
        if content[:1] != seen[-1]:
            seen.append(content[:1])
    stop.set()
    for thread in threads:
        thread.join()
    assert os.listdir(tmp_path) == ["file"]


# ---- modes


@POSIX
def test_a_new_file_has_the_mode_of_the_umask(tmp_path):
    for umask in (0o022, 0o077):
        before = os.umask(umask)
        try:
            with atomic_write(tmp_path / f"{umask}"):
                pass
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / f"{umask}").stat().st_mode) == 0o666 & ~umask


@POSIX
def test_a_secret_file_is_secret_while_it_is_written(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o600)
    with atomic_write(path) as f:
        f.write(b"new")
        assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}


@POSIX
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write")
def test_a_read_only_file_is_not_replaced(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o400)
    with pytest.raises(PermissionError, match="file"), atomic_write(path):
        pass
    assert path.read_bytes() == b"old"


# ---- models


def inference(path):
    x = pd.Variable("x", shape=[None, 2])
    return pd.export_onnx(path, pd.fc(x, 3, W="w", B="b"))


def step(path):
    x = pd.Variable("x", shape=[None, 2])
    cost = pd.reduce_mean(pd.fc(x, 3, W="w", B="b"))
    return pd.export_step(path, pd.SGDOptimizer(0.1).minimize(cost), [cost])


@POSIX
@pytest.mark.parametrize("export", [inference, step])
def test_models_follow_links_and_keep_modes(tmp_path, export):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    model = export(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == model.SerializeToString()
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes")
@pytest.mark.parametrize("export", [inference, step])
def test_models_go_into_pipes(tmp_path, export):
    path, found = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()), daemon=True)
    reader.start()
    model = export(path)
    reader.join(10)
    assert found == [model.SerializeToString()] and stat.S_ISFIFO(path.stat().st_mode)
