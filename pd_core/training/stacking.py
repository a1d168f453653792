"""Columns of batches as arrays, by loops in C where kernels are fused.

Python takes 7 ns for each number of a list, the loop 2: most of that is reading the objects from
memory. Of 128 arrays the loop takes half the time. What it does not take, `stacking.c` says what,
Python converts; the numbers are the same.
"""

import struct
import sys
import sysconfig
from collections import deque
from collections.abc import Sequence
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from ..backend.fused.build import build, find
from ..graph.errors import CompilerError

_NAME = "pd_columns"  # of the module in stacking.c
_MANY = 1 << 26  # numbers of lists, for which Python takes as long as the compiler
_ARRAY = 100  # so many of them cost as much as an array or a sample
_BUFFERS = 3  # of one width: of the last two steps, which the runtime is bound to, and the next one


class Library:
    """The loops of `stacking.c`, used if they are compiled already.

    They are compiled once Python has converted so much that it would have paid; if that fails, the
    process goes on without.
    """

    def __init__(self, include: Path):
        versions = f"/* Python {sys.version}, NumPy {np.__version__} */\n"
        source = Path(__file__).with_suffix(".c").read_text(encoding="utf-8")
        links = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
        self._options: dict[str, Any] = {"include": [include, np.get_include()], "flags": links}
        self._source, self._module = versions + source, None
        self._converted = -1  # in numbers of lists, until now; before the first look for it
        self._is_lacking = False

    def module(self, numbers: int) -> Any:
        """Return the module, None if there is none yet; so many numbers are to be converted."""
        if self._module is not None or self._is_lacking:
            return self._module
        is_new = self._converted < 0
        self._converted = max(self._converted, 0) + numbers
        compiles = self._converted >= _MANY
        if compiles or is_new:
            try:
                path = (build if compiles else find)(self._source, **self._options)
                self._module = None if path is None else _loaded(path)
            except (CompilerError, OSError, ImportError):  # Python converts as well
                self._is_lacking = True
        return self._module


def _loaded(path):
    """Return the module in a library, which stays loaded."""
    loader = ExtensionFileLoader(_NAME, str(path))
    spec = spec_from_file_location(_NAME, path, loader=loader)
    if spec is None:
        raise ImportError(f"{path} is no library")
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


class Columns:
    """Conversions of the columns of batches, which one thread at a time makes.

    Each returns None for what Python is to convert. `batch` is a list or tuple of samples, and
    `field` the number of a field of each, or -1 for the samples themselves. Memory of rows is used
    again when nobody has the array any more.
    """

    def __init__(self, library: Library):
        self._library, self._module = library, None
        self._buffers: dict[int, deque[np.ndarray]] = {}

    def rows(self, batch: Sequence[Any], size: int, field: int = -1) -> np.ndarray | None:
        """Return float32 [rows, size] of lists and tuples of numbers, or of arrays of one type."""
        module = self._module
        if module is None:
            first = batch[0] if field < 0 else _field(batch[0], field)
            module = self._found(len(batch) * (size if isinstance(first, list | tuple) else _ARRAY))
        if module is None or size < 1:
            return None
        block = self._block(len(batch), size)
        return block if module.rows(batch, field, block) else None

    def ids(self, batch: Sequence[Any], limit: int, field: int = -1) -> np.ndarray | None:
        """Return int64 [rows] of integers in range(limit)."""
        module = self._module or self._found(len(batch))
        if module is None:
            return None
        block = np.empty(len(batch), np.int64)
        return block if module.ids(batch, field, block, limit, np.int64) else None

    def pairs(self, entries: Sequence[Any], limit: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Return (int64 [entries], float32 [entries]) of (column, value) pairs."""
        module = self._module or self._found(20 * len(entries))
        if module is None:
            return None
        columns, values = np.empty(len(entries), np.int64), np.empty(len(entries), np.float32)
        is_done = module.pairs(entries, columns, values, limit, np.int64)
        return (columns, values) if is_done else None

    def _found(self, numbers):
        self._module = self._library.module(numbers)
        return self._module

    def _block(self, count, size):
        """Return float32 [count, size] of any values."""
        buffers = self._buffers.get(size)
        if buffers is None:
            buffers = self._buffers[size] = deque()
        for _ in range(len(buffers)):
            if _references(buffers) == _UNUSED and buffers[-1].size >= count * size:
                return buffers[-1][: count * size].reshape(count, size)
        if len(buffers) == _BUFFERS:
            buffers.popleft()
        buffers.append(np.empty(count * size, np.float32))
        return buffers[-1][: count * size].reshape(count, size)


def _field(sample, field):
    return sample[field] if isinstance(sample, list | tuple) and field < len(sample) else None


def _references(buffers):
    """Move the first array to the end; return how many references there are to it.

    Arrays that are views of it are among them.
    """
    array = buffers.popleft()
    count = sys.getrefcount(array)
    buffers.append(array)
    return count


_UNUSED = _references(deque([np.empty(1, np.float32)]))  # differs between versions of Python


def columns_of(session: Any) -> Columns | None:
    """Return what converts the columns of batches by loops in C; None for one without kernels.

    None, too, where Python's headers are missing: what converts then takes longer, and gives the
    same numbers.
    """
    library = _library() if session.fused else None
    return None if library is None else Columns(library)


@cache
def _library() -> Library | None:
    include = Path(sysconfig.get_paths()["include"])
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()  # a list may change without it
    return Library(include) if has_lock and (include / "Python.h").exists() else None


# ---- without a compiler

_FLOAT32, _NDARRAY = np.dtype(np.float32), {np.ndarray}
_dtype, _rank = attrgetter("dtype"), attrgetter("ndim")


def joined(rows: Sequence[Any], dim: int) -> np.ndarray | None:
    """Stack float32 arrays [dim] to float32 [rows, dim]; None if any row is something else.

    Joining their buffers takes half the time that numpy takes for an array of arrays.
    """
    try:
        kinds = {*map(type, rows)}
        if kinds != _NDARRAY and any(issubclass(kind, np.ma.MaskedArray) for kind in kinds):
            return None  # their buffers include the masked elements
        count = len(rows)
        if [*map(_dtype, rows)].count(_FLOAT32) != count or [*map(_rank, rows)].count(1) != count:
            return None
        if [*map(len, rows)].count(dim) != count:
            return None
        data = bytearray().join(rows)
    except (AttributeError, TypeError, BufferError):
        return None
    return np.frombuffer(data, np.float32).reshape(len(rows), dim)


def packed(rows: Sequence[Any], dim: int) -> np.ndarray | None:
    """Stack lists of dim numbers to float32 [rows, dim]; None if any row is something else.

    For Python's own numbers `struct` takes a third of the time of an array of lists.
    """
    if not all(issubclass(kind, list | tuple) for kind in set(map(type, rows))):
        return None
    row = struct.Struct(f"{dim}f")
    try:
        data = bytearray().join([row.pack(*numbers) for numbers in rows])
    except (struct.error, OverflowError):
        return None
    return np.frombuffer(data, np.float32).reshape(len(rows), dim)
