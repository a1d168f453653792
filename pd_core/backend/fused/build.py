"""C sources as shared libraries, each compiled once: a folder keeps them for all processes.

What is in the folder is run, so nobody else may write to it. A library's name is a digest of all
that decides what is in it: the source, the compiler, its flags, the processor, ONNX Runtime.
"""

import hashlib
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...graph.errors import CompilerError
from ...storage.partial import is_partial, partial_path
from ..installed import ONNX_RUNTIME
from .compilers import FLAGS, available, compiler, machine_flags, processor, suffix, why_not

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["available", "build", "compiler", "find", "folder", "why_not"]

_DAY = 86400  # seconds
_DATA = ".program"
_LIMIT = 512 << 20  # bytes of libraries, of which the least recently used go
_SWITCH = "the kernels are compiled because of fused=True, pd.fused() or PD_FUSE=1"


def build(
    source: str,
    *,
    include: Iterable[str | os.PathLike[str]] = (),
    libraries: Iterable[str | os.PathLike[str]] = (),
    flags: Iterable[str] = (),
) -> Path:
    """Return the shared library of a C source, compiled unless the folder has it.

    `include` are folders of headers, `libraries` shared libraries that it is linked with and that
    it finds where they are now; `flags` come last. CompilerError if the compiler fails, with its
    messages, or if others can write to the folder.
    """
    command, path, after = _described(source, include, libraries, flags)
    if not _is_there(path):
        with _locked(path.with_suffix(".c")) as alone:
            if not _is_there(path):  # no other process has made it meanwhile
                _compile(source, path, command, after, alone)
        _remove_oldest(path.parent, path)
    return path


def find(
    source: str,
    *,
    include: Iterable[str | os.PathLike[str]] = (),
    libraries: Iterable[str | os.PathLike[str]] = (),
    flags: Iterable[str] = (),
) -> Path | None:
    """Return the library that `build` would return; None if it would have to compile it."""
    _, path, _ = _described(source, include, libraries, flags)
    return path if _is_there(path) else None


def toolchain(
    *,
    include: Iterable[str | os.PathLike[str]] = (),
    libraries: Iterable[str | os.PathLike[str]] = (),
    flags: Iterable[str] = (),
) -> str:
    """Return a digest of what decides what `build` makes of a source."""
    return _described("", include, libraries, flags)[1].stem


def keep(name: str, data: bytes) -> None:
    """Keep data in the folder under a name, which is there completely or not at all."""
    path = folder() / f"{name}{_DATA}"
    partial = partial_path(str(path))
    with suppress(OSError):  # it is made again where it is missing
        try:
            handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        finally:
            with suppress(FileNotFoundError):
                os.remove(partial)


def kept(name: str) -> bytes | None:
    """Return the data that `keep` was given, None if it is not there."""
    path = folder() / f"{name}{_DATA}"
    return path.read_bytes() if _is_there(path) else None


def library(name: str) -> Path | None:
    """Return the library of this name in the folder, None if it is not there."""
    path = folder() / name
    return path if _is_there(path) else None


def _described(
    source: str,
    include: Iterable[str | os.PathLike[str]],
    libraries: Iterable[str | os.PathLike[str]],
    flags: Iterable[str],
) -> tuple[list[str], Path, list[str]]:
    """The command for a source, the path of its library, and what follows the source."""
    chosen = compiler()
    linked = [Path(library).resolve() for library in libraries]
    before = [*FLAGS, *machine_flags(), *(f"-I{os.fspath(path)}" for path in include), *flags]
    after = [] if os.name == "nt" else ["-lm"]
    for library in linked:
        after += [str(library), f"-Wl,-rpath,{library.parent}"]
    stamps = [f"{s.st_size} {s.st_mtime_ns}" for s in map(os.stat, linked)]
    parts = [source, *chosen.command, chosen.identity, *before, *after, *stamps, processor()]
    key = "\0".join([*parts, ONNX_RUNTIME])
    name = hashlib.sha256(key.encode()).hexdigest()[:40]
    return [*chosen.command, *before], folder() / f"{name}{suffix()}", after


def folder() -> Path:
    """Return the folder of the libraries; it is made if it is not there.

    It is `PD_FUSED_HOME`, by default `pd/fused` in the user's folder for caches. CompilerError if
    another user owns it or can write to it, or put another in its place.
    """
    path = Path(os.path.abspath(os.environ.get("PD_FUSED_HOME") or _default()))
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hasattr(os, "getuid"):
            _check_private(path)
    except OSError as error:
        raise CompilerError(
            f"the folder of compiled kernels cannot be made: {error}"
            "\n  hint: the environment variable PD_FUSED_HOME names another"
        ) from error
    return path


def _default() -> Path:
    """The folder of the user's caches on this system."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser(r"~\AppData\Local")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base, "pd", "fused")


def _check_private(path: Path) -> None:
    """Check that what is in a folder is its user's own."""
    status, writable = os.stat(path), stat.S_IWGRP | stat.S_IWOTH
    why = ""
    if status.st_uid != os.getuid():
        why = f"{path} belongs to another user"
    elif status.st_mode & writable:
        why = f"others can write to {path} (mode {stat.S_IMODE(status.st_mode):o})"
    for parent in path.parents if not why else ():
        status = os.stat(parent)
        if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            why = f"others can replace what is in {parent}"
            break
    if why:
        raise CompilerError(
            f"compiled kernels are not read from a folder that is not private: {why}"
            f"\n  hint: chmod 700 {path}, or PD_FUSED_HOME=another folder"
        )


def _is_there(path: Path) -> bool:
    """Whether a library or data are there; if so, they are noted as used now."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False
    if hasattr(os, "getuid") and (
        not stat.S_ISREG(status.st_mode)
        or status.st_uid != os.getuid()
        or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ):
        raise CompilerError(f"{path} is not private to its user\n  hint: remove it")
    with suppress(OSError):  # removed meanwhile, or a file system that is read-only by now
        os.utime(path)
    return True


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Open the source file of a library for one process at a time; give whether it is alone.

    Ranks of a job compile the same programs at the same time: one of them does so. The lock ends
    with its process. On file systems without locks each compiles for itself.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    try:
        handle = os.open(path, flags, 0o600)
    except OSError as error:
        raise CompilerError(
            f"compiled kernels cannot be written: {error}"
            "\n  hint: the environment variable PD_FUSED_HOME names another folder"
        ) from error
    try:
        alone = fcntl is not None
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
            except OSError:
                alone = False
        yield alone
    finally:
        os.close(handle)


def _compile(
    source: str, path: Path, command: list[str], libraries: list[str], alone: bool
) -> None:
    """Compile a source to a library, which is there completely or not at all."""
    if alone:  # what killed processes have left
        for entry in os.listdir(path.parent):
            if is_partial(entry, str(path)):
                with suppress(OSError):
                    os.remove(path.parent / entry)
    partial = partial_path(str(path))
    if alone:
        text = path.with_suffix(".c")
        text.write_text(source, encoding="utf-8")
    else:
        text = Path(f"{partial}.c")
        text.write_text(source, encoding="utf-8")
    try:
        _run([*command, "-o", partial, str(text), *libraries], text)
        os.chmod(partial, 0o700)
        with open(partial, "rb") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise CompilerError(f"compiled kernels cannot be written: {error}") from error
    finally:
        with suppress(FileNotFoundError):
            os.remove(partial)
        if not alone:
            text.unlink(missing_ok=True)


def _run(command: list[str], text: Path) -> None:
    """Run the compiler."""
    try:
        done = subprocess.run(  # noqa: S603  no shell
            command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise CompilerError(f"{command[0]} does not start: {error}") from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        said = "\n  ".join(lines[:12] or [f"exit status {done.returncode}"])
        raise CompilerError(
            f"{command[0]} failed to compile {text}\n  {said}"
            f"\n  hint: {_SWITCH}: without it nothing is compiled"
        )


def _remove_oldest(place: Path, but: Path) -> None:
    """Remove the libraries that were not used for longest, beyond a number of bytes.

    So is what compilers have written after the end of the process that ran them.
    """
    found = []
    with suppress(OSError):
        for entry in os.scandir(place):
            status = entry.stat()
            if is_partial(entry.name) and status.st_mtime < time.time() - _DAY:
                os.remove(entry.path)
            elif entry.name.endswith((suffix(), _DATA)) and entry.path != str(but):
                found.append((status.st_mtime, status.st_size, entry.path))
    total = but.stat().st_size + sum(size for _, size, _ in found)
    for _, size, old in sorted(found):
        if total <= _LIMIT:
            break
        total -= size
        with suppress(OSError):
            os.remove(old)
            os.remove(Path(old).with_suffix(".c"))
