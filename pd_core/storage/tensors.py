"""Files of named tensors: safetensors, which other frameworks read and write too."""

import json
import os
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ..graph.errors import DamagedFile, DTypeError
from .atomic import atomic_write
from .small_floats import is_small_float, small_floats

_RESERVED = "__metadata__"
_STORED = "pd.__metadata__"  # key of the metadata: the name in the file of a tensor `__metadata__`
_TYPES = {
    "BOOL": "bool",
    "C64": "complex64",
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
}


def write_tensors(
    path: str | os.PathLike, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Write arrays by name, and metadata, to a file in the format safetensors."""
    with atomic_write(path) as file:
        file.write(tensor_bytes(tensors, metadata))


def tensor_bytes(tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> bytes:
    """Return arrays by name, and metadata, in the format safetensors.

    The format keeps the name `__metadata__` for itself: a tensor of that name has another one in
    the file, and the metadata has its own. DTypeError for elements that the format lacks.
    """
    arrays = {name: np.asarray(a, order="C") for name, a in tensors.items()}
    for name, array in arrays.items():
        if array.dtype.name not in _TYPES.values() and not is_small_float(array.dtype):
            raise DTypeError(f"{name!r} is {array.dtype}, which safetensors does not store")
    content = dict(metadata)
    if _RESERVED in arrays:
        stored = f"{_RESERVED}_"
        while stored in arrays:
            stored += "_"
        arrays[stored] = arrays.pop(_RESERVED)
        content[_STORED] = stored
    return save(arrays, content or None)


def read_tensors(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the arrays of a file by name, and its metadata; DamagedFile if it is none."""
    file = TensorFile(path)
    return dict(file), file.metadata


class TensorFile(Mapping[str, np.ndarray]):
    """The tensors of a safetensors file by name; each is read when it is asked for.

    DamagedFile if it is none, or has elements that neither NumPy nor ml_dtypes has.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = os.fspath(path)
        if os.path.exists(self.path) and not os.path.isfile(self.path):
            raise DamagedFile(self._text("it is no file"))  # a pipe would be waited for
        try:
            with safe_open(self.path, framework="numpy") as checked:  # all of the header
                self.metadata: dict[str, str] = dict(checked.metadata() or {})
        except SafetensorError as error:
            raise DamagedFile(self._text(error)) from None
        with open(self.path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        self._start = 8 + length
        header.pop(_RESERVED, None)
        self._entries: dict[str, dict[str, Any]] = header
        self._types = {name: self._type_of(name) for name in header}
        stored = self.metadata.pop(_STORED, None)
        if stored is not None:
            if stored not in header:
                raise DamagedFile(
                    f"{self.path} lacks the tensor {stored!r}, which its metadata names"
                )
            self._entries[_RESERVED] = header.pop(stored)
            self._types[_RESERVED] = self._types.pop(stored)

    def _text(self, error):
        return f"{self.path} is no file of tensors that can be read: {error}"

    def _type_of(self, name):
        code = self._entries[name]["dtype"]
        dtype = _TYPES.get(code) or small_floats().get(code)
        if dtype is None:
            raise DamagedFile(self._text(f"{name!r} has elements of the type {code}"))
        return np.dtype(dtype)

    def dtype(self, name: str) -> np.dtype:
        """Return the dtype of a tensor."""
        return self._types[name]

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return tuple(self._entries[name]["shape"])

    def __getitem__(self, name: str) -> np.ndarray:
        begin, end = self._entries[name]["data_offsets"]
        data = bytearray(end - begin)
        with open(self.path, "rb") as file:
            file.seek(self._start + begin)
            count = file.readinto(data)
        if count != len(data):
            raise DamagedFile(self._text(f"it has become shorter, and lacks {name!r}"))
        array = np.frombuffer(data, self._types[name].newbyteorder("<")).reshape(self.shape(name))
        return array.astype(self._types[name], copy=False)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)
