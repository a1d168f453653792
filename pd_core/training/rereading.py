"""Places in data: what tells other data from those that a place belongs to, and reading again."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..graph.errors import GraphError
from ..graph.variable import Variable
from .positions import Reader, reader_name, resumed

_OF_A_PASS = ("samples of a pass", "replacement")  # where they are not the usual ones
_BYTES = 1 << 20  # of each array that a digest takes in
_END = object()
_HINT = "\n  hint: Resume(..., new_data=True) begins a pass over other data"


def described(arrays: Sequence[np.ndarray]) -> dict[str, Any]:
    """Return the number of samples, types and shapes of arrays, and a digest of samples.

    It takes in all of small arrays, and of large ones samples from the first to the last.
    """
    types = [f"{a.dtype}{list(a.shape[1:])}" for a in arrays]
    return {"samples": len(arrays[0]), "arrays": types, "values": _digest(arrays)}


def _digest(arrays):
    digest = hashlib.sha256()
    for a in arrays:
        row = max(1, a.nbytes // max(1, len(a)))
        count = min(len(a), max(2, _BYTES // row))
        places = np.linspace(0, len(a) - 1, count).astype(np.int64)
        if not a.dtype.hasobject:
            digest.update((a if count == len(a) else a[places]).tobytes())
    return digest.hexdigest()


def require_same(there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Raise a GraphError that names what differs between data of a checkpoint and those given."""
    named = [*here, *(key for key in _OF_A_PASS if key not in here)]
    different = [key for key in named if there.get(key) != here.get(key)]
    if not different:
        return
    if different == ["values"]:
        raise GraphError(
            "Resume: the checkpoint is of other data: as many samples, of other values" + _HINT
        )
    pairs = [(key, there.get(key), here.get(key)) for key in different if key != "values"]
    texts = [f"{key} {_text(old)}, here {_text(new)}" for key, old, new in pairs]
    raise GraphError(f"Resume: the checkpoint is of other data: {'; '.join(texts)}{_HINT}")


def _text(value):
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def first_sample(batch: Any) -> str:
    """Return a digest of the first sample of a batch: of the first row of each array."""
    digest = hashlib.sha256()
    _add_first(digest, batch)
    return digest.hexdigest()[:16]


def _add_first(digest, value):
    if isinstance(value, Mapping):
        for key, part in value.items():
            digest.update((key.name if isinstance(key, Variable) else str(key)).encode())
            _add_first(digest, part)
    elif isinstance(value, tuple) or _is_several(value):
        for part in value:
            _add_first(digest, part)
    elif isinstance(value, list):
        _add_whole(digest, value[0] if value else None)
    else:
        shape = getattr(value, "shape", ())
        _add_whole(digest, value[0] if shape and shape[0] else value)


def _is_several(value):
    return isinstance(value, list) and value and all(getattr(a, "shape", ()) for a in value)


def _add_whole(digest, value):
    if isinstance(value, Mapping):
        for key, part in value.items():
            digest.update(str(key).encode())
            _add_whole(digest, part)
        return
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):  # such as a tensor of another device
        array = np.empty(0, object)
    if array.dtype.hasobject:
        digest.update(type(value).__name__.encode())
    else:
        digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())


def read_again(
    reader: Reader, position: Any, read: Mapping[str, Any], measured: Callable[[Any], Any]
) -> Any:
    """Return the iterator of a reader that is read again, behind as many samples as were `read`.

    `measured(batch)` returns the feeds of a batch and its number of samples. Batches may have
    another size, if one ends at that sample. GraphError for other data.
    """

    def take(items, count):
        done = batches = 0
        while done < read["samples"]:
            batch = next(items, _END)
            if batch is _END:
                raise GraphError(
                    f"Resume: the reader {reader_name(reader)} ends after {done} samples, the "
                    f"checkpoint is behind {read['samples']}{_HINT}"
                )
            feeds, size = measured(batch)
            if not batches and first_sample(feeds) != read["first"]:
                raise GraphError(
                    f"Resume: the reader {reader_name(reader)} gives other samples than those of "
                    f"the checkpoint: already the first one differs{_HINT}"
                )
            done, batches = done + size, batches + 1
        if done > read["samples"]:
            raise GraphError(
                f"Resume: the checkpoint is behind {read['samples']} samples in {count} batches; "
                f"those of the reader {reader_name(reader)} end at {done - size} and {done}\n"
                "  hint: give it the size of batches that it had, or one that ends there, or "
                "Resume(..., new_data=True)"
            )
        if not done:  # batches without samples
            for _ in range(count):
                next(items, None)

    items = resumed(reader, position, take)
    if position.get("ended") and not items.beginning.ended:
        raise GraphError(
            f"Resume: the reader {reader_name(reader)} goes on behind {read['samples']} samples, "
            f"with which the pass of the checkpoint ended{_HINT}"
        )
    return items


def require_length(read: Mapping[str, Any], batches: int, length: int | None) -> None:
    """Raise a GraphError if a pass of batches of the same size has another number of them."""
    if read["batches"] == batches and read["length"] != length:
        raise GraphError(
            f"Resume: the checkpoint is of other data: a pass of {read['length']} batches, "
            f"here {length}{_HINT}"
        )
