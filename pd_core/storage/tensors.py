"""Files of named tensors: safetensors, which other frameworks read and write too."""

import os
from collections.abc import Mapping

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ..graph.errors import DamagedFile
from .atomic import atomic_write

_RESERVED = "__metadata__"
_STORED = "pd.__metadata__"  # key of the metadata: the name in the file of a tensor `__metadata__`


def write_tensors(
    path: str | os.PathLike, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Write arrays by name, and metadata, to a file in the format safetensors."""
    with atomic_write(path) as file:
        file.write(tensor_bytes(tensors, metadata))


def tensor_bytes(tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> bytes:
    """Return arrays by name, and metadata, in the format safetensors.

    The format keeps the name `__metadata__` for itself: a tensor of that name has another one in
    the file, and the metadata has its own.
    """
    arrays = {name: np.asarray(a, order="C") for name, a in tensors.items()}
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
    path = os.fspath(path)
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = dict(file.metadata() or {})
    except (SafetensorError, TypeError, AttributeError) as error:  # element types numpy lacks
        raise DamagedFile(f"{path} is no file of tensors that can be read: {error}") from None
    stored = metadata.pop(_STORED, None)
    if stored is not None:
        if stored not in arrays:
            raise DamagedFile(f"{path} lacks the tensor {stored!r}, which its metadata names")
        arrays[_RESERVED] = arrays.pop(stored)
    return arrays, metadata
