"""Files of sharded tables: a folder with one for each rank, which any number of ranks read.

`table.json` says what the table is and how many ranks have written it. In `rank-<r>-of-<n>/` are
the rows and slots of the rank r, in the order of their numbers r, r + n, ... `table.json` is
written last, and has the token of all parts: a table that is not whole has none.
"""

import json
import secrets
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..graph.errors import ARRAY_ERRORS, DamagedFile, GraphError, ShapeError
from ..graph.names import names
from ..graph.variable import Variable, static
from ..run.session import Session
from ..run.undo import Undo
from ..storage.atomic import atomic_write
from ..storage.folders import atomic_folder

_FORMAT, _VERSION = "pd.table", 1
_MANIFEST = "table.json"
_BLOCK_BYTES = 1 << 24
_EXISTS, _FAILED = 1, 2  # flags: the folder has a table; this rank could not write


def write_table(table: Any, session: Session, folder: Path) -> None:
    """Write the rows that this rank has, and wait until all ranks have written theirs.

    OSError on all ranks if one of them could not.
    """
    world = table.world(session)
    if table.barrier(world, f"save() of {table.name}", _EXISTS * (folder / _MANIFEST).exists()):
        raise FileExistsError(f"{folder} has a table already, it is not replaced")
    token = np.frombuffer(secrets.token_bytes(8), np.uint8).copy()
    world.recovering(lambda: world.send_from(0, token, "save() of a table"))
    session.store.initialize([table.shard])
    parts = [v for v in session.store.variables() if v.storage.table is table]
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "name": table.name,
        "shape": list(table.shape),
        "ranks": table.ranks,
        "token": token.tobytes().hex(),
        "parts": sorted(v.name for v in parts),
    }
    count = len(range(table.rank, table.height, table.ranks))
    text = json.dumps(content).encode()
    part = _folder_of(folder, table.rank, table.ranks)
    with _on_all_ranks(table, world, folder), atomic_folder(part) as own:
        for v in parts:
            _write(table, session, v, count, own / _file_of(content["parts"], v.name))
        (own / _MANIFEST).write_bytes(text)
    with _on_all_ranks(table, world, folder):
        if table.rank == 0:
            with atomic_write(folder / _MANIFEST) as out:
                out.write(text)


@contextmanager
def _on_all_ranks(table, world, folder):
    """Wait at the end of a `with` for all ranks; what one could not write is an error on all."""
    failure = None
    try:
        yield
    except OSError as error:
        failure = error
    failed = table.barrier(world, f"the end of save() of {table.name}", _FAILED * bool(failure))
    if failure is not None:
        raise failure
    if failed:
        raise OSError(f"{folder}: another rank could not write its part of {table.name}")


def _write(table, session, v, count, file):
    """Write the first rows of a variable, a block of them at a time.

    Not through a memory map, where a full disk kills the process.
    """
    shape, reader = (count, *static(v.dims)[1:]), table.reader(v)
    descr = np.lib.format.dtype_to_descr(v.dtype)
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    with atomic_write(file) as out:
        np.lib.format.write_array_header_1_0(out, header)
        for start, stop in _blocks(shape, v.dtype):
            rows = table.own_rows(session, np.arange(start, stop), reader)
            out.write(np.ascontiguousarray(rows).data)


def table_name(folder: Path) -> str:
    """Return the name of the table in a folder; DamagedFile if there is no whole one."""
    return _manifest(folder / _MANIFEST)["name"]


def table_shape(folder: Path) -> tuple[int, ...]:
    """Return the sizes of the table in a folder; DamagedFile if there is no whole one."""
    return tuple(_manifest(folder / _MANIFEST)["shape"])


def read_table(table: Any, session: Session, folder: Path) -> None:
    """Read the rows of this rank from what other ranks, or this one, have written."""
    world = table.world(session)
    table.barrier(world, f"load() of {table.name}")
    known = {name: v for name, v in names().variables.items() if v.storage.table is table}
    share = Share(table.name, table.shape, table.rank, table.ranks)
    arrays = dict(read_parts(share, folder, known))
    with Undo(session):
        for name, v in known.items():
            session.set(v, arrays.pop(name), copy=False)
        session.store.waiting_rows.update(arrays)


class Share(NamedTuple):
    """The rows of a table [V, ...] that a rank reads: `rank`, `rank + ranks`, ..."""

    name: str
    shape: tuple[int, ...]
    rank: int = 0
    ranks: int = 1


def read_parts(
    share: Share,
    folder: Path,
    known: Mapping[str, Variable],
    wanted: Collection[str] | None = None,
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the names of a saved parameter and its slots, with the rows of a share.

    `known` variables of these names have to be there, and to fit: GraphError, ShapeError. Of others
    those `wanted` are read, by default all. Nothing but these rows is held in memory.
    """
    content = _manifest(folder / _MANIFEST)
    if content["name"] != share.name:
        raise GraphError(f"{folder} has the table {content['name']!r}, this one is {share.name!r}")
    if tuple(content["shape"]) != tuple(share.shape):
        here = f"ShardedTable({share.name!r}, {list(share.shape)}, {share.ranks} ranks)"
        raise ShapeError(f"{folder} has a table {content['shape']}, this one is {here}")
    lacking = [name for name in known if name not in content["parts"]]
    if lacking:
        raise GraphError(f"{folder} has no values for {', '.join(lacking)}")
    old = []
    for rank in range(content["ranks"]):
        part = _folder_of(folder, rank, content["ranks"])
        if _manifest(part / _MANIFEST) != content:
            raise DamagedFile(f"{part} was not written together with {folder / _MANIFEST}")
        old.append(part)
    for name in content["parts"]:
        if wanted is not None and name not in wanted and name not in known:
            continue
        file = _file_of(content["parts"], name)
        yield name, _own_rows(share, [_opened(part / file) for part in old], known.get(name))


def _own_rows(table, files, v):
    """The rows of a Share from the arrays of all that have written."""
    first, height = files[0], table.shape[0]
    shape = (-(-height // table.ranks), *first.shape[1:])
    if v is not None and (shape != v.dims or first.dtype != v.dtype):
        saved = f"{first.dtype}{list(shape)} in {first.filename}"
        raise ShapeError(f"{v!r} cannot take the saved {saved}")
    array = np.zeros(shape, first.dtype)
    for start, stop in _blocks(shape, first.dtype):
        ids = table.rank + table.ranks * np.arange(start, stop)
        for rank, file in enumerate(files):
            whole = (len(range(rank, height, len(files))), *first.shape[1:])
            if (file.shape, file.dtype) != (whole, first.dtype):
                found = f"{file.dtype}{list(file.shape)}"
                raise DamagedFile(f"{file.filename} has {found}, not {first.dtype}{list(whole)}")
            mine = np.flatnonzero((ids % len(files) == rank) & (ids < height))
            array[start + mine] = file[ids[mine] // len(files)]
    return array


def _blocks(shape, dtype) -> Iterator[tuple[int, int]]:
    """The (start, stop) of blocks of rows."""
    row_bytes = max(1, int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize)
    height = max(1, _BLOCK_BYTES // row_bytes)
    for start in range(0, shape[0], height):
        yield start, min(start + height, shape[0])


def _opened(file):
    """The array of a file, which is read where it is used."""
    try:
        return np.lib.format.open_memmap(file, "r")
    except ARRAY_ERRORS as error:
        raise DamagedFile(f"{file} is no array of a table: {error}") from None


def _manifest(file):
    """The content of a JSON file of a table, after a check."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if (content["format"], content["version"]) != (_FORMAT, _VERSION):
            raise DamagedFile(f"{file} is no version {_VERSION} of a table")
        kinds = {"name": str, "shape": list, "ranks": int, "token": str, "parts": list}
        for key, kind in kinds.items():
            if not isinstance(content[key], kind):
                raise DamagedFile(f"{file}: {key!r} is a {kind.__name__}, not {content[key]!r:.80}")
        if content["ranks"] < 1 or not all(isinstance(name, str) for name in content["parts"]):
            raise DamagedFile(f"{file} lacks ranks, or names of parts")
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        if isinstance(error, DamagedFile):
            raise
        raise DamagedFile(f"{file.parent} is no whole table: {error}") from None
    return content


def _folder_of(folder, rank, ranks):
    return folder / f"rank-{rank}-of-{ranks}"


def _file_of(parts, name):
    return f"part-{parts.index(name)}.npy"
