"""C sources as shared libraries, each compiled once: a folder keeps them for all processes.

A library's name is a digest of all that decides what is in it: the source, the compiler, its flags,
the processor, ONNX Runtime. So is the name of an object file, which has a part of a library.
"""

import hashlib
import os
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from ...graph.errors import CompilerError
from ...storage.partial import is_partial
from ..devices import cores
from ..installed import ONNX_RUNTIME
from .compilers import FLAGS, available, compiler, machine_flags, processor, suffix, why_not
from .home import OBJECT, complete, folder, is_there, locked, remove_oldest
from .parts import Part, Source

__all__ = ["available", "build", "compiler", "find", "folder", "why_not"]

Paths = Iterable[str | os.PathLike[str]]
_SWITCH = "the kernels are compiled because of fused=True, pd.fused() or PD_FUSE=1"
_BATCH = 6000  # characters of parts that are worth another run of the compiler


def build(
    source: str | Source, *, include: Paths = (), libraries: Paths = (), flags: Iterable[str] = ()
) -> Path:
    """Return the shared library of a C source, compiled unless the folder has it.

    Of a `Source` the parts that no other library has had yet are compiled, several at a time.
    `include` are folders of headers, `libraries` shared libraries that it is linked with and that
    it finds where they are now; `flags` come last. CompilerError if the compiler fails, with its
    messages, or if others can write to the folder.
    """
    tools = _Tools(include, libraries, flags)
    path = tools.library(source)
    if not is_there(path):
        with locked(path.with_suffix(".c")) as alone:
            if not is_there(path):  # no other process has made it meanwhile
                _compile(source, path, tools, alone)
        remove_oldest(path.parent, path)
    return path


def find(
    source: str, *, include: Paths = (), libraries: Paths = (), flags: Iterable[str] = ()
) -> Path | None:
    """Return the library that `build` would return; None if it would have to compile it."""
    path = _Tools(include, libraries, flags).library(source)
    return path if is_there(path) else None


def toolchain(*, include: Paths = (), libraries: Paths = (), flags: Iterable[str] = ()) -> str:
    """Return a digest of what decides what `build` makes of a source."""
    return _Tools(include, libraries, flags).library("").stem


class _Tools:
    """The compiler with its arguments: those before the source, and those after it."""

    def __init__(self, include: Paths, libraries: Paths, flags: Iterable[str]):
        chosen = compiler()
        linked = [Path(library).resolve() for library in libraries]
        self.command, self.options = list(chosen.command), list(chosen.options)
        self.before = [*FLAGS, *machine_flags(), *(f"-I{os.fspath(p)}" for p in include), *flags]
        self.after = [] if os.name == "nt" else ["-lm"]
        for library in linked:
            self.after += [str(library), f"-Wl,-rpath,{library.parent}"]
        self.after += self.options
        stamps = [f"{s.st_size} {s.st_mtime_ns}" for s in map(os.stat, linked)]
        key = [*chosen.command, chosen.identity, *self.before, *self.after, *stamps, processor()]
        self._key = "\0".join([*key, ONNX_RUNTIME])
        self._headers: dict[str, str] = {}  # digests
        self.folder = folder()

    def library(self, source: str | Source) -> Path:
        """Return the path of a source's library."""
        if isinstance(source, Source):
            source = " ".join(self.object(part).stem for part in source.parts)
        return self.folder / f"{_digest(source, self._key)}{suffix()}"

    def object(self, part: Part) -> Path:
        """Return the path of a part's object file."""
        if part.header not in self._headers:
            self._headers[part.header] = _digest(part.header, self._key)
        name = _digest(self._headers[part.header], *part.flags, part.text)
        return self.folder / f"{name}{OBJECT}"


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:40]


def _compile(source: str | Source, path: Path, tools: _Tools, alone: bool) -> None:
    """Compile a source to a library, which is there completely or not at all."""
    if alone:  # what killed processes have left
        for entry in os.listdir(path.parent):
            if is_partial(entry, str(path)):
                with suppress(OSError):
                    os.remove(path.parent / entry)
    command = [*tools.command, "-shared"]
    with complete(path) as partial:
        text = path.with_suffix(".c") if alone else Path(f"{partial}.c")
        try:
            if isinstance(source, str):
                text.write_text(source, encoding="utf-8")
                command += [*tools.before, "-o", str(partial), str(text)]
            else:
                text.write_text(source.text(), encoding="utf-8")
                objects = _objects(source.parts, tools)
                command += [*machine_flags(), "-o", str(partial), *map(str, objects)]
            _run([*command, *tools.after], text)
            os.chmod(partial, 0o700)
        finally:
            if not alone:
                text.unlink(missing_ok=True)


def _objects(parts: Sequence[Part], tools: _Tools) -> list[Path]:
    """Return the object files of parts, compiled unless the folder has them; each file once."""
    paths = {part: tools.object(part) for part in parts}
    missing = [part for part, path in paths.items() if not is_there(path)]
    if missing:
        count = cores()
        with ThreadPoolExecutor(count) as pool:
            for done in [pool.submit(_compile_parts, b, tools) for b in _batches(missing, count)]:
                done.result()
    files: dict[tuple[int, int], Path] = {}
    for path in paths.values():
        status = os.stat(path)
        files.setdefault((status.st_dev, status.st_ino), path)
    return list(files.values())


def _batches(parts: Iterable[Part], most: int) -> list[list[Part]]:
    """The parts as so many runs of the compiler, the longest first.

    Those with the same header, flags and calls are one run, or some of about the same length.
    """
    alike: dict[object, list[Part]] = {}
    for part in parts:
        key = part if part.alone else (part.header, part.flags, part.calls)
        alike.setdefault(key, []).append(part)
    batches: list[list[Part]] = []
    for same in alike.values():
        count = min(most, len(same), 1 + sum(len(part.text) for part in same) // _BATCH)
        lengths = [0] * count
        runs: list[list[Part]] = [[] for _ in range(count)]
        for part in sorted(same, key=lambda part: -len(part.text)):
            k = lengths.index(min(lengths))
            runs[k].append(part)
            lengths[k] += len(part.text)
        batches += runs
    return sorted(batches, key=lambda run: -sum(len(part.text) for part in run))


def _compile_parts(parts: Sequence[Part], tools: _Tools) -> None:
    """Compile parts of one header to one file, which has the names of all of them."""
    text = "\n".join([parts[0].header, *(part.text for part in parts), ""])
    paths = [tools.object(part) for part in parts]
    with complete(paths[0]) as partial:
        options = [*tools.before, *parts[0].flags, *tools.options]
        options += ["-c", "-x", "c", "-o", str(partial), "-"]
        _run([*tools.command, *options], paths[0].with_suffix(".c"), text)
        os.chmod(partial, 0o600)
        for path in paths[1:]:
            try:
                os.link(partial, path)
            except FileExistsError:  # another process has compiled it as well
                continue
            except OSError:  # a file system without links
                with complete(path) as copy:
                    copy.write_bytes(partial.read_bytes())
                    os.chmod(copy, 0o600)


def _run(command: list[str], text: Path, given: str = "") -> None:
    """Run the compiler on a source, `text`, or on what it is given in its place."""
    try:
        done = subprocess.run(  # noqa: S603  no shell
            command, capture_output=True, text=True, errors="replace", input=given
        )
    except OSError as error:
        raise CompilerError(f"{command[0]} does not start: {error}") from error
    if done.returncode:
        if given:
            text.write_text(given, encoding="utf-8")
        lines = (done.stderr or done.stdout).strip().splitlines()
        said = "\n  ".join(lines[:12] or [f"exit status {done.returncode}"])
        raise CompilerError(
            f"{command[0]} failed to compile {text}\n  {said}"
            f"\n  hint: {_SWITCH}: without it nothing is compiled"
        )
