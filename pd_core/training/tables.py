"""The parts of a checkpoint that every rank writes: rows of tables, and compression errors."""

import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from ..distributed import restore, state
from ..distributed.process import current
from ..distributed.table_files import table_name
from ..graph.errors import DamagedFile, GraphError
from ..graph.namespace import persistent_variables
from ..run.session import default_session
from ..storage.tensors import read_tensors, write_tensors
from .checkpoint import Checkpoint, sums, write_checkpoint
from .ranks import Ranks, on_first

_TABLES = "tables"  # the folder with a folder for each
_ERRORS = "compression"  # the folder with what each rank has lost of its gradients


def save_checkpoint(
    path: str | os.PathLike, checkpoint: Checkpoint | None, ranks: Ranks | None
) -> None:
    """Write a checkpoint, which rank 0 has, and with it what all ranks add.

    Nobody sees a part of it. OSError on all ranks if one of them cannot write its part, or rank 0
    the state.
    """
    tables = [] if ranks is None else _sharded()
    if ranks is None or not (tables or _compresses()):
        if checkpoint is not None:
            write_checkpoint(path, checkpoint)
        return
    if checkpoint is None:
        name = ranks.gather(None)[0]
        if name is None:
            raise OSError(f"rank 0 could not write {path}")
        _save(tables, Path(path).resolve().parent / name, ranks)
        return
    is_known = False

    def add(folder: Path) -> dict[str, Any]:
        nonlocal is_known
        is_known = True
        ranks.gather(folder.name)
        return _save(tables, folder, ranks)

    try:
        write_checkpoint(path, checkpoint, add)
    except Exception:
        if not is_known:
            ranks.gather(None)
        raise


def load_tables(path: Path, ranks: Ranks | None) -> None:
    """Load the tables of a checkpoint, which any number of ranks has written.

    GraphError, before any is loaded, if there is none of a name; DamagedFile for one that is not
    whole.
    """
    found = on_first(ranks, lambda: {str(f): table_name(f) for f in (path / _TABLES).glob("*")})
    parameters = [v for v in persistent_variables() if v.storage.table is not None]
    tables = {v.storage.table.name: v.storage.table for v in parameters}
    lacking = [name for name in found.values() if name not in tables]
    if lacking:
        raise GraphError(
            f"{path} has the sharded tables {', '.join(sorted(lacking))}, which are not here\n"
            "  hint: a table has the name that ShardedTable() was given"
        )
    for folder, name in sorted(found.items()):
        tables[name].load(folder)


def _sharded() -> list[Any]:
    """The tables with rows on several ranks, in an order that all of them have."""
    shards = [v for v in default_session().store.variables() if v.is_shard]
    tables = {v.storage.table.name: v.storage.table for v in shards}
    return [tables[name] for name in sorted(tables)]


def _save(tables: list[Any], folder: Path, ranks: Ranks) -> dict[str, Any]:
    """Write the part of this rank; return the sums of the files of all ranks."""
    for number, table in enumerate(tables):
        table.save(folder / _TABLES / str(number))
    own, failure = f"rank-{ranks.rank}-of-{ranks.size}", ""
    written: dict[str, Any] = {}
    try:
        if _compresses():
            (folder / _ERRORS).mkdir(parents=True, exist_ok=True)
            write_tensors(folder / _ERRORS / own, state(), {})
        patterns = [f"{_TABLES}/*/{own}/*", f"{_ERRORS}/{own}"]
        patterns += [f"{_TABLES}/*/*.json"] if ranks.is_first else []
        written = sums(folder, [f for pattern in patterns for f in sorted(folder.glob(pattern))])
    except OSError as error:
        failure = f"rank {ranks.rank}: {error}"
    parts = ranks.gather((failure, written))
    failures = [text for text, _ in parts if text]
    if failures:
        raise OSError(f"{folder}: {'; '.join(failures)}")
    return {name: each for _, found in parts for name, each in found.items()}


def _compresses() -> bool:
    """Whether gradients are compressed, so that a part of them waits on each rank."""
    return current().settings.compression is not None


def load_errors(path: Path, ranks: Ranks | None) -> None:
    """Go on with what compressed gradients had lost when a checkpoint was written.

    On another number of ranks the first ones take what there is too much, so that nothing of the
    sums over the ranks is missing. DamagedFile if the part of a rank is not there.
    """
    if ranks is None or not _compresses():
        return
    found = {f.name: f for f in (path / _ERRORS).glob("rank-*-of-*")}
    counts = {int(m[1]) for name in found if (m := re.fullmatch(r"rank-\d+-of-(\d+)", name))}
    if len(counts) > 1 or len(found) != sum(counts):
        raise DamagedFile(f"{path / _ERRORS} has {', '.join(sorted(found))}, which is not whole")
    total: dict[str, np.ndarray] = {}
    for old in range(ranks.rank, sum(counts), ranks.size):
        tensors, _ = read_tensors(found[f"rank-{old}-of-{sum(counts)}"])
        for name, array in tensors.items():
            total[name] = total[name] + array if name in total else array
    restore(total)
