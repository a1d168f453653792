"""Checkpoints: folders with all that a training needs to go on as if it had never stopped.

`tensors.safetensors` has the arrays; `state.json` has everything else, the versions that wrote it,
and the sizes and SHA-256 sums of both.
"""

import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from ..backend.installed import ONNX_RUNTIME
from ..graph.errors import DamagedFile, GraphError
from ..graph.site import is_internal, warn
from ..run.states import STATE_ERRORS
from ..run.undo import Undo
from ..storage.folders import atomic_folder, lock_folder
from ..storage.tensors import read_tensors, tensor_bytes
from ..storage.tree import TreeReader, TreeWriter
from .context import RunnerContext
from .generators import generators_state, set_generators
from .item import RunnerItem

_FORMAT = "pd.checkpoint"
_VERSION = 1
_NAME = "batch-"
_STATE, _TENSORS = "state.json", "tensors.safetensors"
_MOST_BYTES = 1 << 28  # of state.json


@dataclass
class Checkpoint:
    """The content of a checkpoint: trees of state by name, counts of batches and passes.

    `versions` are those of the packages that wrote it.
    """

    parts: dict[str, Any]
    batches: int = 0
    pass_id: int = -1
    versions: dict[str, str] = field(default_factory=dict)


class CheckpointWarning(UserWarning):
    """A checkpoint that could not be written, or is passed over."""


def checkpoint_of(items: Sequence[RunnerItem], context: RunnerContext) -> Checkpoint:
    """Return the state of the items of a runner, by their names."""
    names = item_names(items)
    states = {name: item.state() for name, item in zip(names, items, strict=True)}
    parts = {name: state for name, state in states.items() if state is not None}
    return Checkpoint(parts, context.batches, context.pass_id)


def restore_items(
    checkpoint: Checkpoint, items: Sequence[RunnerItem], where: str, undo: Undo
) -> None:
    """Restore the items of a runner, inside of a `with` that has their sessions.

    GraphError if the checkpoint is of other items, or an item refuses its state or fails, and
    DamagedFile if that is no state at all. States are checked before the first one is restored;
    `undo` takes back those that were restored before one that failed.
    """
    by_name = dict(zip(item_names(items), items, strict=True))
    unknown = [name for name in checkpoint.parts if name not in by_name]
    if unknown:
        raise GraphError(
            f"{where} is of a runner with other items: there is none for its {', '.join(unknown)}\n"
            f"  hint: this runner has {', '.join(by_name)}"
        )
    others = {name: item for name, item in by_name.items() if name not in checkpoint.parts}
    lacking = [name for name, item in others.items() if item.state() is not None]
    if lacking:
        raise GraphError(
            f"{where} is of a runner with other items: it has no state of {', '.join(lacking)}\n"
            f"  hint: it has that of {', '.join(checkpoint.parts)}"
        )
    for name, state in checkpoint.parts.items():
        with _naming(where, name, by_name[name].check):
            by_name[name].check(state)
    generators = generators_state()
    undo.add(lambda: set_generators(generators))
    for name, state in checkpoint.parts.items():
        with _naming(where, name, by_name[name].undoing):
            undo.add(by_name[name].undoing())
        with _naming(where, name, by_name[name].restore):
            by_name[name].restore(state)


@contextmanager
def _naming(where, name, method):
    """Let errors of a `with` say what failed: an item of ours finds the file wrong."""
    code = getattr(method, "__code__", None)
    if code is not None and is_internal[code.co_filename]:
        with checking(f"{where}: the state of {name}"):
            yield
        return
    try:
        yield
    except Exception as error:
        called = f"{name}.{getattr(method, '__name__', 'restore')}()"
        raise GraphError(
            f"{where}: {called} raised {type(error).__name__}: {error}\n  nothing is restored"
        ) from error


@contextmanager
def checking(what: str, kind: type[ValueError] = DamagedFile) -> Iterator[None]:
    """Turn errors of a `with` that reads a state into others, but for a GraphError."""
    try:
        yield
    except (GraphError, DamagedFile):
        raise
    except STATE_ERRORS as error:
        reason = f"{type(error).__name__}: {error}"
        raise kind(f"{what} cannot be restored: {reason}") from error


def item_names(items: Sequence[RunnerItem]) -> list[str]:
    """Return a name for each item: that of its class, with a number where it recurs."""
    names: list[str] = []
    counts: dict[str, int] = {}
    for item in items:
        kind = type(item).__name__
        counts[kind] = counts.get(kind, 0) + 1
        names.append(kind if counts[kind] == 1 else f"{kind}_{counts[kind]}")
    return names


# ---- files


def write_checkpoint(
    path: str | os.PathLike,
    checkpoint: Checkpoint,
    add: Callable[[Path], dict[str, Any]] | None = None,
) -> None:
    """Write a checkpoint, whole or not at all; an older one of this name is replaced.

    `add(folder)` writes what else belongs to it, and returns the `sums` of these files.
    FileExistsError if something else has the name.
    """
    path = Path(path)
    if path.exists() and not is_checkpoint(path):
        raise FileExistsError(f"{path} exists and is no checkpoint, it is not replaced")
    tensors: dict[str, np.ndarray] = {}
    writer = TreeWriter("checkpoint", tensors)
    parts = {name: writer.encoded(name, state) for name, state in checkpoint.parts.items()}
    data = tensor_bytes(tensors, {})
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": _versions(),
        "batches": checkpoint.batches,
        "pass_id": checkpoint.pass_id,
        "parts": parts,
        "files": {_TENSORS: {"bytes": len(data), "sha256": _sum(data)}},
    }
    with atomic_folder(path) as folder:
        (folder / _TENSORS).write_bytes(data)
        if add is not None:
            content["files"] = {**content["files"], **add(folder)}
        content["sha256"] = _sum(_canonical(content))
        (folder / _STATE).write_text(json.dumps(content, indent=1), encoding="utf-8")


def sums(folder: Path, files: Iterable[Path]) -> dict[str, Any]:
    """Return {name in a checkpoint: its size and SHA-256 sum} of files in its folder."""
    found = {}
    for file in files:
        with open(file, "rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
            found[file.relative_to(folder).as_posix()] = {"bytes": opened.tell(), "sha256": digest}
    return found


def is_checkpoint(path: str | os.PathLike) -> bool:
    """Whether a folder looks like a checkpoint, whole or not."""
    return any((Path(path) / name).is_file() for name in (_STATE, _TENSORS))


def read_checkpoint(path: str | os.PathLike, of_others: bool = True) -> Checkpoint:
    """Return the content of a checkpoint; DamagedFile tells what is wrong with it.

    `of_others` says whether rows of tables, and other files of the ranks that have written it, are
    checked too; they are not in the result.
    """
    content = _read_state(Path(path) / _STATE)
    tensors = _read_tensors(Path(path) / _TENSORS, content)
    if of_others:
        _check_others(Path(path), content)
    reader = TreeReader(str(Path(path) / _STATE), tensors)
    try:
        parts = {str(name): reader.decoded(tree) for name, tree in content["parts"].items()}
        versions = {str(name): str(text) for name, text in content["versions"].items()}
        counts = index(content["batches"]), index(content["pass_id"])
        return Checkpoint(parts, *counts, versions)
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise DamagedFile(f"{Path(path) / _STATE} lacks what a checkpoint has: {error}") from None


def _read_state(file):
    """The JSON of a checkpoint after its checks."""
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise DamagedFile(f"{file} is of {file.stat().st_size} bytes, too many for a state")
        content = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise DamagedFile(f"{file.parent} is no checkpoint: it has no {file.name}") from None
    except OSError as error:
        raise DamagedFile(f"{file} cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{file} is no JSON: {error}") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise DamagedFile(f"{file} is no state of a checkpoint of pd")
    if content.get("version") != _VERSION:
        raise DamagedFile(
            f"{file} has version {content.get('version')!r} of the format, this pd reads {_VERSION}"
        )
    expected = content.pop("sha256", None)
    if expected != _sum(_canonical(content)):
        raise DamagedFile(f"{file} was altered: its content has another SHA-256 sum")
    return content


def _read_tensors(file, content):
    """The arrays of a checkpoint, from a file of the size and the sum that its state says."""
    try:
        said = content["files"][_TENSORS]
        size = file.stat().st_size
        if size != said["bytes"]:
            raise DamagedFile(f"{file} has {size} bytes, {said['bytes']} were written")
        if _sum(file.read_bytes()) != said["sha256"]:
            raise DamagedFile(f"{file} was altered: it has another SHA-256 sum")
    except FileNotFoundError:
        raise DamagedFile(f"{file.parent} lacks {file.name}") from None
    except OSError as error:
        raise DamagedFile(f"{file} cannot be read: {error}") from None
    except (KeyError, TypeError) as error:
        raise DamagedFile(
            f"{file.parent / _STATE} does not describe {file.name}: {error}"
        ) from None
    return read_tensors(file)[0]


def _check_others(folder, content):
    """Check the files that ranks have added."""
    own = folder.resolve()
    for name, said in content["files"].items():
        file = (own / name).resolve()
        if name == _TENSORS:
            continue
        if not file.is_relative_to(own):
            raise DamagedFile(f"{folder / _STATE} has a file {name!r}, which is none of its own")
        if not file.is_file():
            raise DamagedFile(f"{folder} lacks {name}")
        try:
            (found,) = sums(own, [file]).values()
        except OSError as error:
            raise DamagedFile(f"{file} cannot be read: {error}") from None
        if found != said:
            raise DamagedFile(f"{file} was altered: it has another size or SHA-256 sum")


def _canonical(content):
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _sum(data):
    return hashlib.sha256(data).hexdigest()


def _versions():
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "onnxruntime": ONNX_RUNTIME,
    }


# ---- the checkpoints of a training


def newest_checkpoint(folder: str | os.PathLike) -> tuple[Path, Checkpoint] | None:
    """Return the newest whole checkpoint in a folder and its path; None if there is none at all.

    Damaged ones are passed over with a CheckpointWarning that tells what is wrong; DamagedFile if
    all of them are damaged.
    """
    errors = []
    for path in reversed(checkpoints_in(folder)):
        try:
            return path, read_checkpoint(path)
        except DamagedFile as error:
            errors.append(error)
            warn(CheckpointWarning(f"a checkpoint is passed over: {error}"))
    if errors:
        raise DamagedFile(f"{folder} has no whole checkpoint; the newest: {errors[0]}")
    return None


def checkpoints_in(folder: str | os.PathLike) -> list[Path]:
    """Return the checkpoints of a training in a folder, whole or not, the newest last."""
    paths = [p for p in Path(folder).glob(f"{_NAME}*") if p.is_dir()]
    paths = [p for p in paths if p.name.removeprefix(_NAME).isdecimal()]
    return sorted(paths, key=batches_of)


def has_writer(folder: str | os.PathLike) -> bool:
    """Return whether a training writes checkpoints to a folder: a process that runs has its lock.

    False where folders cannot be locked.
    """
    lock = lock_folder(folder)
    if lock is not None:
        lock.close()
    return lock is None


def checkpoint_name(batches: int) -> str:
    """Return the name of the folder of a checkpoint after so many batches."""
    return f"{_NAME}{batches:05d}"


def batches_of(path: Path) -> int:
    """Return the number of batches in the name of a checkpoint."""
    return int(path.name.removeprefix(_NAME))
