"""Atomic folders: whole or not at all, locks, what killed writers leave behind."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pd_core.storage import folders
from pd_core.storage.folders import (
    FolderLock,
    atomic_folder,
    lock_folder,
    remove_folder,
    remove_leftovers,
)

needs_posix = pytest.mark.skipif(os.name != "posix", reason="needs locks and fork of POSIX")


def content(folder):
    """{name: bytes} of all files below a folder, hidden ones too."""
    paths = [p for p in Path(folder).rglob("*") if p.is_file()]
    return {str(p.relative_to(folder)): p.read_bytes() for p in paths}


def write(path, text):
    with atomic_folder(path) as folder:
        (folder / "a").write_text(text)
        (folder / "b").write_text(text)


def test_errors_name_the_folder_itself(tmp_path, monkeypatch):
    path = tmp_path / "saved"
    with pytest.raises(FileNotFoundError, match=f"'{path}/x/a'$"), atomic_folder(path) as folder:
        (folder / "x" / "a").write_text("")

    def full(*paths):
        raise OSError(errno.ENOSPC, "No space left on device", str(paths[0]), None, str(paths[-1]))

    with pytest.raises(OSError, match=f"device: '{path}'$"), atomic_folder(path):
        monkeypatch.setattr(os, "rename", full)
    monkeypatch.undo()
    assert content(tmp_path) == {}


def test_a_folder_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "new" / "folder"
    with atomic_folder(path) as folder:
        (folder / "a").write_text("one")
        assert not path.exists() and folder.parent == path.parent
    assert content(tmp_path) == {"new/folder/a": b"one"}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_all_files_are_synced_before_the_folder_gets_its_name(tmp_path, monkeypatch):
    synced, real = [], os.fsync

    def fsync(handle):
        real(handle)
        synced.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)

    with atomic_folder(tmp_path / "f") as folder:
        (folder / "parts" / "0").mkdir(parents=True)
        (folder / "parts" / "0" / "a").write_text("one")
        (folder / "b").write_text("two")
        part = folder.name
        monkeypatch.setattr(os, "fsync", fsync)
    assert content(tmp_path) == {"f/parts/0/a": b"one", "f/b": b"two"}
    assert {"a", "b"} < set(synced[: synced.index(part)])
    assert synced.index("a") < synced.index("0") < synced.index("parts") < synced.index(part)


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_folder_is_replaced(exchanges, tmp_path, monkeypatch):
    if not exchanges:
        monkeypatch.setattr(folders, "_exchange", lambda *names: False)
    write(tmp_path / "f", "one")
    write(tmp_path / "f", "two")
    assert content(tmp_path) == {"f/a": b"two", "f/b": b"two"}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux exchanges names")
def test_a_folder_is_replaced_at_once(tmp_path, monkeypatch):
    """There is no moment without a folder at the path."""
    write(tmp_path / "f", "one")
    real, seen = folders._exchange, []

    def exchange(*names):
        seen.append(sorted(content(tmp_path / "f").values()))
        done = real(*names)
        seen.append(sorted(content(tmp_path / "f").values()))
        return done

    monkeypatch.setattr(folders, "_exchange", exchange)
    write(tmp_path / "f", "two")
    assert seen == [[b"one"] * 2, [b"two"] * 2]


def test_an_error_of_an_exchange(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "_renameat2", lambda: lambda *arguments: -1)
    for number, is_error in ((folders.errno.EINVAL, False), (folders.errno.EACCES, True)):
        monkeypatch.setattr(folders.ctypes, "get_errno", lambda number=number: number)
        write(tmp_path / str(number), "one")
        if is_error:
            with pytest.raises(PermissionError):
                write(tmp_path / str(number), "two")
        else:
            write(tmp_path / str(number), "two")
        text = b"one" if is_error else b"two"
        assert content(tmp_path / str(number)) == {"a": text, "b": text}
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_leaves_what_was_there(error, tmp_path):
    write(tmp_path / "f", "one")
    for name in ("f", "g"):
        with pytest.raises(error), atomic_folder(tmp_path / name) as folder:
            (folder / "a").write_text("two")
            raise error
    assert content(tmp_path) == {"f/a": b"one", "f/b": b"one"}
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("function", ["fsync", "rename"])
def test_a_system_that_fails_leaves_what_was_there(function, tmp_path, monkeypatch):
    write(tmp_path / "f", "one")
    monkeypatch.setattr(folders, "_exchange", lambda *names: False)

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, function, fail)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "f", "two")
    monkeypatch.undo()
    assert content(tmp_path) == {"f/a": b"one", "f/b": b"one"}


def test_a_rename_that_fails_is_undone(tmp_path, monkeypatch):
    write(tmp_path / "f", "one")
    monkeypatch.setattr(folders, "_exchange", lambda *names: False)
    real, calls = os.rename, []

    def rename(*names):
        calls.append(names)
        if len(calls) == 2:
            raise PermissionError(13, "Permission denied")
        real(*names)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(PermissionError):
        write(tmp_path / "f", "two")
    assert content(tmp_path) == {"f/a": b"one", "f/b": b"one"}


def test_a_folder_is_removed_at_once(tmp_path, monkeypatch):
    write(tmp_path / "f", "one")
    removed = []

    def rmtree(path, **settings):
        assert not (tmp_path / "f").exists()
        removed.append(path)

    monkeypatch.setattr(folders.shutil, "rmtree", rmtree)
    remove_folder(tmp_path / "f")
    assert len(removed) == 1
    monkeypatch.undo()
    remove_leftovers(tmp_path)  # as if it had been killed
    assert list(tmp_path.iterdir()) == []


def test_only_leftovers_are_removed(tmp_path):
    token = "0123456789abcdef"
    (tmp_path / f".batch-00001.{token}.part").mkdir()
    (tmp_path / f".batch-00001.{token}.part" / "a").write_text("x")
    kept = [f"batch-1.{token}.part", f".x.{token[:-1]}.part", f".x.{token}", f"..{token}.part"]
    for name in kept:
        (tmp_path / name).mkdir()
    (tmp_path / f".file.{token}.part").write_text("a file")
    (tmp_path / f".link.{token}.part").symlink_to(tmp_path / kept[0])
    remove_leftovers(tmp_path)
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {*kept, f".file.{token}.part", f".link.{token}.part"}
    remove_leftovers(tmp_path / "none")


@needs_posix
def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path):
    code = (
        "import os, sys\nfrom pd_core.storage.folders import atomic_folder\n"
        "with atomic_folder(sys.argv[1]) as folder:\n    os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "c"], check=False)
    assert len(list(tmp_path.iterdir())) == 1
    with atomic_folder(tmp_path / "c") as first, atomic_folder(tmp_path / "c") as second:
        assert first.is_dir() and second.is_dir()  # of two that live, neither removes the other's
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


# ---- locks


@needs_posix
def test_a_lock_is_for_one(tmp_path):
    first = lock_folder(tmp_path)
    assert first is not None and lock_folder(tmp_path) is None
    first.close()
    first.close()
    second = lock_folder(tmp_path)
    assert second is not None
    second.close()


@needs_posix
def test_a_lock_ends_with_its_process(tmp_path):
    code = (
        "import sys, time\nfrom pd_core.storage.folders import lock_folder\n"
        "lock = lock_folder(sys.argv[1])\nprint(lock is not None, flush=True)\ntime.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE)
    with process:
        assert process.stdout.readline() == b"True\n"
        assert lock_folder(tmp_path) is None
        process.kill()
    lock = lock_folder(tmp_path)
    assert lock is not None
    lock.close()


@needs_posix
def test_a_child_does_not_keep_the_lock(tmp_path):
    """A forked process, such as a reader's, may live longer than the training."""
    code = (
        "import os, sys, time\nfrom pd_core.storage.folders import lock_folder\n"
        "lock = lock_folder(sys.argv[1])\nchild = os.fork()\n"
        "os.write(1, f'{child or lock.handle}\\n'.encode())\ntime.sleep(0 if child else 60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE)
    with process:
        lines = [process.stdout.readline() for _ in range(2)]
        assert b"None\n" in lines  # of the child
        (child,) = (int(line) for line in lines if line != b"None\n")
        process.wait(60)
    lock = lock_folder(tmp_path)
    os.kill(child, signal.SIGKILL)  # it lives until now
    assert lock is not None
    lock.close()


def test_where_folders_cannot_be_locked(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "fcntl", None)
    locks = [lock_folder(tmp_path) for _ in range(2)]
    assert all(isinstance(lock, FolderLock) for lock in locks)
    for lock in locks:
        lock.close()
