"""Writing of models in Hugging Face's layout."""

import errno
import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..graph.errors import DTypeError
from ..storage.folders import atomic_folder
from ..storage.small_floats import dtype_named, is_float, rounded
from ..storage.tensors import tensor_bytes
from .model_folder import CONFIG, INDEX, SINGLE

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{letter}B": 1000 ** (k + 1) for k, letter in enumerate("KMGT")}
_UNITS |= {f"{letter}IB": 1024 ** (k + 1) for k, letter in enumerate("KMGT")}
_SHARD = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors(\.index\.json)?")
_METADATA = {"format": "pt"}  # without it other programs refuse a file


def write_model_folder(
    path: str | os.PathLike,
    tensors: Mapping[str, ArrayLike],
    config: Mapping[str, Any] | None = None,
    *,
    max_shard_size: int | str = "5GB",
    dtype: DTypeLike | None = None,
) -> list[str]:
    """Write tensors by name as Hugging Face does; return the names of the files with tensors.

    If they take more than `max_shard_size`, they are in several files, `model-00001-of-00002…`, and
    an index says which. The folder is written completely or not at all; in one that is there
    before, its other files stay, such as those of a tokenizer.

    Args:
        path: the folder.
        tensors: {name: array}, such as `to_pytorch(layer)`.
        config: what `config.json` gets, JSON; None leaves the file out, or as it is.
        max_shard_size: bytes of the tensors of a file, or text such as "5GB", "200MB", "64KiB"; a
            larger tensor has a file of its own.
        dtype: floats are stored so, such as "bfloat16" or "float16"; None as they are.

    Returns:
        The names of the files, in the order of the tensors.

    Raises:
        DTypeError: a value holds no numbers, or one that `dtype` does not hold.
        NotADirectoryError: there is a file of that name.
        TypeError: config is no JSON, or there is no such dtype.
        ValueError: there are no tensors, or max_shard_size is no size.
    """
    limit = _bytes(max_shard_size)
    stored = None if dtype is None else dtype_named(dtype)
    if stored is not None and not is_float(stored):
        raise TypeError(f"write_model_folder: dtype is one of floats, not {stored}")
    if not tensors:
        raise ValueError("write_model_folder: there are no tensors")
    text = None if config is None else _json_text(dict(config))
    if Path(path).exists() and not Path(path).is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(path))
    sizes = {name: _size(name, tensors[name], stored) for name in tensors}
    shards = _sharded(sizes, limit)
    count = len(shards)
    files = [SINGLE] if count == 1 else []
    files = files or [f"model-{k + 1:05}-of-{count:05}.safetensors" for k in range(count)]
    with atomic_folder(path) as folder:
        _keep_others(Path(path), folder, text is not None)
        for file, names in zip(files, shards, strict=True):
            arrays = {name: _stored(name, tensors[name], stored) for name in names}
            (folder / file).write_bytes(tensor_bytes(arrays, _METADATA))
        if count > 1:
            places = {n: file for file, names in zip(files, shards, strict=True) for n in names}
            index = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": places}
            (folder / INDEX).write_bytes(_json_text(index))
        if text is not None:
            (folder / CONFIG).write_bytes(text)
    return files


def _bytes(size):
    """Return a number of bytes; ValueError for what is none."""
    if isinstance(size, str):
        match = re.fullmatch(r"(\d+(?:\.\d+)?) *([A-Za-z]*)", size.strip())
        unit = _UNITS.get(match.group(2).upper()) if match else None
        number = int(float(match.group(1)) * unit) if match and unit else 0
    else:
        number = int(size) if isinstance(size, (int, np.integer)) and size is not True else 0
    if number < 1:
        raise ValueError(
            f"write_model_folder: max_shard_size is a number of bytes, or text such as '5GB', "
            f"not {size!r}"
        )
    return number


def _json_text(content):
    try:
        return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise TypeError(f"write_model_folder: config is no JSON: {error}") from None


def _stored(name, value, dtype):
    array = np.asarray(value)
    if dtype is None or not is_float(array.dtype):
        return array
    return rounded(f"write_model_folder: {name!r}", array, dtype)


def _size(name, value, dtype):
    """Return the bytes that a value takes in a file."""
    array = np.asarray(value)
    if not is_float(array.dtype) and array.dtype.kind not in "iubc":
        raise DTypeError(f"write_model_folder: {name!r} is {array.dtype}, not numbers")
    width = array.dtype if dtype is None or not is_float(array.dtype) else dtype
    return array.size * width.itemsize


def _sharded(sizes, limit):
    """Return the names of each file: as many as fit one after the other, one at least."""
    shards: list[list[str]] = [[]]
    used = 0
    for name, size in sizes.items():
        if shards[-1] and used + size > limit:
            shards.append([])
            used = 0
        shards[-1].append(name)
        used += size
    return shards


def _keep_others(old, folder, has_config):
    """Bring what a folder had besides a model into the one that takes its place."""
    if not old.is_dir():
        return
    for entry in sorted(old.iterdir()):
        is_ours = _SHARD.fullmatch(entry.name) or (has_config and entry.name == CONFIG)
        if is_ours:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, folder / entry.name, symlinks=True, copy_function=_same)
        else:
            _same(entry, folder / entry.name)


def _same(source, target):
    """Give a file a second name, or copy it where that cannot be; a link stays one."""
    if not os.path.islink(source):
        with suppress(OSError):
            os.link(source, target)
            return target
    return shutil.copy2(source, target, follow_symlinks=False)
