"""Tables in the checkpoints of trainers: a folder for each, which any number of ranks reads."""

from pathlib import Path

import pd_core as pd
from pd_core.distributed.table_files import Share, read_parts, table_name, table_shape

_FOLDERS = "tables/*"


def load_tables(where, kept, variables, session):
    """Load the rows of this rank from the tables of the checkpoint `where`, or all in one process.

    `kept` are the names of Variables in the files, by those among the `variables`.
    """
    stored = {name: variables[key] for key, name in kept.items()}
    left = dict(stored)
    for folder in sorted(Path(where).glob(_FOLDERS)):
        name = table_name(folder)
        if name not in stored:
            continue
        shape = _whole_shape(stored[name])
        rank, ranks = pd.distributed.rank(), pd.distributed.world_size()
        for part, rows in read_parts(Share(name, shape, rank, ranks), folder, {}, stored):
            _check(part, stored[part], rows, folder)
            session.set(left.pop(part), rows, copy=False)
    if left:
        raise pd.DamagedFile(f"{where} lacks the rows of {', '.join(sorted(left))}")


def tables_in(where):
    """Yield (name, array of the whole table) for the tables of a checkpoint."""
    for folder in sorted(Path(where).glob(_FOLDERS)):
        name = table_name(folder)
        yield from read_parts(Share(name, table_shape(folder)), folder, {}, [name])


def _whole_shape(v):
    return v.storage.table.shape if v.is_shard else tuple(v.dims)


def _check(name, v, rows, folder):
    if rows.shape != tuple(v.dims) or rows.dtype != v.dtype:
        raise pd.ShapeError(
            f"{v!r} cannot take {rows.dtype}{list(rows.shape)} of {name} in {folder}"
        )
