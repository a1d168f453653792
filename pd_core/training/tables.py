"""Checkpoints of a job with sharded tables: beside the state are the rows of every rank."""

import os
from pathlib import Path
from typing import Any

from ..distributed.table_files import table_name
from ..graph.errors import GraphError
from ..graph.namespace import persistent_variables
from ..run.session import default_session
from .checkpoint import Checkpoint, write_checkpoint
from .ranks import Ranks, on_first

_TABLES = "tables"  # the folder with a folder for each


def save_checkpoint(
    path: str | os.PathLike, checkpoint: Checkpoint | None, ranks: Ranks | None
) -> None:
    """Write a checkpoint, which rank 0 has, and the tables of all ranks with it.

    Nobody sees a part of it. OSError on all ranks if one of them cannot write its rows, or rank 0
    the state.
    """
    if ranks is None or not (tables := _sharded()):
        if checkpoint is not None:
            write_checkpoint(path, checkpoint)
        return
    if checkpoint is None:
        name = ranks.gather(None)[0]
        if name is None:
            raise OSError(f"rank 0 could not write {path}")
        _save(tables, Path(path).resolve().parent / name)
        return
    is_known = False

    def add(folder: Path) -> None:
        nonlocal is_known
        is_known = True
        ranks.gather(folder.name)
        _save(tables, folder)

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


def _save(tables: list[Any], folder: Path) -> None:
    for number, table in enumerate(tables):
        table.save(folder / _TABLES / str(number))
