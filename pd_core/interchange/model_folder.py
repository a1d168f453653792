"""Folders of models as Hugging Face writes them: a configuration, and tensors in one file or more.

`model.safetensors` has all tensors, or `model.safetensors.index.json` says which of the files
`model-00001-of-00002.safetensors`, … has which.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..graph.errors import DamagedFile
from ..graph.misfits import near
from ..storage.small_floats import dtype_named, is_float, rounded
from ..storage.tensors import TensorFile

CONFIG, SINGLE = "config.json", "model.safetensors"
INDEX = f"{SINGLE}.index.json"
_LONGEST = 255  # bytes of a name that file systems take
_LARGEST = 100_000_000  # bytes of a JSON file, the limit of the header of safetensors too


class ModelFolder(Mapping[str, np.ndarray]):
    """The tensors of a folder in Hugging Face's layout by name; each is read when asked for.

    It is what `load_dict` and `from_pytorch` take. `config` is the dict in `config.json`, `files`
    the names of the files by tensor, `metadata` what the first file says of itself. The headers of
    all files are checked at once. A tensor with a value that `dtype` does not hold is a DTypeError
    when it is read.

    Args:
        path: a folder, or one `.safetensors` file.
        dtype: floats are returned so, such as "float32" for a model of bfloat16; None as stored,
            bfloat16 and float8 as arrays of the package ml_dtypes.

    Raises:
        DamagedFile: a file is not what its name says, or lacks a tensor of the index; or the index
            names a file outside of the folder.
        FileNotFoundError: there are no such files.
        TypeError: there is no such dtype.
    """

    def __init__(self, path: str | os.PathLike, dtype: DTypeLike | None = None) -> None:
        self.path = Path(path)
        self._dtype = None if dtype is None else dtype_named(dtype)
        if self._dtype is not None and not is_float(self._dtype):
            raise TypeError(f"ModelFolder: dtype is one of floats, not {self._dtype}")
        self.config: dict[str, Any] = {}
        if self.path.is_file():
            shards = {self.path.name: TensorFile(self.path)}
            index: dict[str, str] = {}
        else:
            if (self.path / CONFIG).exists():
                self.config = _read_json(self.path / CONFIG)
            shards, index = self._shards()
        self.metadata = next((shard.metadata for shard in shards.values()), {})
        for name, file in index.items():
            if name not in shards[file]:
                raise DamagedFile(f"{shards[file].path} lacks {name!r}, which {INDEX} says it has")
        self._tensors = {name: shards[file] for name, file in index.items()}
        for shard in shards.values():  # more than the index has, as other programs read them
            self._tensors |= {name: shard for name in shard if name not in self._tensors}

    def _shards(self) -> tuple[dict[str, TensorFile], dict[str, str]]:
        """Return the files by name, and {tensor: file} of the index."""
        path = self.path / INDEX
        if not path.exists():
            if not (self.path / SINGLE).exists():
                raise FileNotFoundError(self._absent())
            return {SINGLE: TensorFile(self.path / SINGLE)}, {}
        if (self.path / SINGLE).exists():
            raise DamagedFile(f"{self.path} has both {SINGLE} and {INDEX}: one is of another model")
        index = _read_json(path).get("weight_map")
        if not isinstance(index, dict) or not index:
            raise DamagedFile(f"{path} has no weight_map of tensors and their files")
        for name, file in index.items():
            if not isinstance(file, str) or not _is_plain(file):
                raise DamagedFile(
                    f"{path}: {name!r} is in {file!r}, which is no .safetensors file of this folder"
                )
        files = dict.fromkeys(index.values())
        absent = [file for file in files if not (self.path / file).is_file()]
        if absent:
            raise DamagedFile(
                f"{self.path} lacks {', '.join(absent)}, {len(absent)} of the {len(files)} files "
                f"that {INDEX} names"
            )
        return {file: TensorFile(self.path / file) for file in files}, index

    def _absent(self):
        """The error message for a folder without tensors."""
        if not self.path.exists():
            return f"there is no {self.path}"
        others = [
            p.name for p in sorted(self.path.glob("*")) if p.suffix in (".safetensors", ".bin")
        ]
        text = f"{self.path} has neither {SINGLE} nor {INDEX}"
        text += f", but {', '.join(others)}" if others else ""
        if any(name.endswith(".bin") for name in others):
            text += "\n  hint: .bin files are pickles, which run code, and are not read: write them"
            text += " as safetensors with the program that made them"
        elif others:
            text += f"\n  hint: ModelFolder({str(self.path / others[0])!r}) reads one file"
        return text

    @property
    def files(self) -> dict[str, str]:
        """The name of the file of each tensor."""
        return {name: os.path.basename(file.path) for name, file in self._tensors.items()}

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor, which is not read."""
        return self._file(name).shape(name)

    def dtype(self, name: str) -> np.dtype:
        """Return the dtype of a tensor as it is stored."""
        return self._file(name).dtype(name)

    def _file(self, name):
        if name not in self._tensors:
            match = near(name, self._tensors) if isinstance(name, str) else None
            hint = f"; there is {match!r}" if match else ""
            raise KeyError(f"{self.path} has no tensor {name!r}{hint}")
        return self._tensors[name]

    def __getitem__(self, name: str) -> np.ndarray:
        array = self._file(name)[name]
        if self._dtype is None or not is_float(array.dtype):
            return array
        return rounded(f"{self.path}: {name!r}", array, self._dtype)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._tensors))

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        count = len(set(self.files.values()))
        files = "1 file" if count == 1 else f"{count} files"
        return f"ModelFolder({str(self.path)!r}, {len(self)} tensors in {files})"


def _is_plain(file):
    """Whether a name is that of a tensor file in the folder of the index itself."""
    return (
        file.endswith(".safetensors")
        and not file.startswith(".")
        and len(file.encode("utf-8", "surrogatepass")) <= _LONGEST
        and not any(letter in "/\\:\0" for letter in file)
    )


def _read_json(path: Path) -> dict[str, Any]:
    """Return the dict in a JSON file; DamagedFile if there is none."""
    if not path.is_file():
        raise DamagedFile(f"{path} is no file")
    if path.stat().st_size > _LARGEST:
        raise DamagedFile(f"{path} has more than {_LARGEST:,} bytes, no plain JSON file")
    try:
        content = json.loads(path.read_bytes(), object_pairs_hook=_without_twins)
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(content, dict):
        raise DamagedFile(f"{path} is a JSON {type(content).__name__}, not a dict")
    return content


def _without_twins(pairs):
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a key is there twice")
    return content
