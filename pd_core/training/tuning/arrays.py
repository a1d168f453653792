"""Data of fine-tuning: arrays by the names of a model's inputs and of the label."""

import os
from collections.abc import Mapping, Sequence

import numpy as np

from ...graph.errors import ARRAY_ERRORS, DamagedFile, DTypeError, FeedError, ShapeError
from ...graph.variable import Variable, describe
from ..fit.arrays import checked
from .objectives import Objective


def read_arrays(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz file by name; DamagedFile if it is none."""
    with open(path, "rb") as stream:
        try:
            file = np.load(stream, allow_pickle=False)
            arrays = file if isinstance(file, np.ndarray) else {n: file[n] for n in file.files}
        except ARRAY_ERRORS as error:
            raise DamagedFile(f"{os.fspath(path)} is no .npz file: {error}") from None
    if isinstance(arrays, np.ndarray):
        raise DamagedFile(f"{os.fspath(path)} is one array, not an .npz file of several")
    return arrays


def columns(
    task: Objective, arrays: Mapping[str, np.ndarray], origin: str = "the data"
) -> list[np.ndarray]:
    """Return the arrays of the inputs of a task and of its label, in this order, checked.

    Numbers are converted to the types of the model where nothing is lost but precision: floats to
    its floats, integers to its integers. FeedError for an array that is missing or one too many,
    DTypeError and ShapeError for one that does not fit.
    """
    slots = {**task.inputs, task.label.name: task.label}
    for name in slots:
        if name not in arrays:
            what = "label" if name == task.label.name else "input"
            raise FeedError(
                f"{origin} has no array {name!r} for the {what} {describe(slots[name])}; there are "
                f"{', '.join(arrays) or 'none'}"
            )
    unknown = [name for name in arrays if name not in slots]
    if unknown:
        raise FeedError(
            f"{origin} has the array {unknown[0]!r}, which is none of {', '.join(slots)}"
        )
    found = checked(origin, {name: np.asarray(arrays[name]) for name in slots}, task.inputs)
    return [_fitted(origin, v, found[name]) for name, v in slots.items()]


def split(
    arrays: Sequence[np.ndarray], fraction: float
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return arrays without their last rows, and these: a fraction of all, at least one."""
    if not 0 < fraction < 1:
        raise ValueError(f"the fraction of the validation is within (0, 1), not {fraction}")
    samples = len(arrays[0])
    rows = samples - max(1, round(samples * fraction))
    if rows < 1:
        raise ShapeError(f"a validation of {fraction} of {samples} samples leaves none to train")
    return [a[:rows] for a in arrays], [a[rows:] for a in arrays]


def _fitted(origin: str, v: Variable, array: np.ndarray) -> np.ndarray:
    if v.rank and array.ndim == v.rank + 1 and array.shape[-1] == 1:
        array = array[..., 0]  # labels [N, 1] for [N]
    sizes = zip(array.shape[1:], v.dims[1:], strict=False)
    if array.ndim != v.rank or any(isinstance(d, int) and d != n for n, d in sizes):
        raise ShapeError(f"{origin}: {v.name!r} is {array.shape}, the model takes {describe(v)}")
    kinds = {"f": "f", "i": "iu", "u": "iu", "b": "b"}[v.dtype.kind]
    if array.dtype.kind not in kinds:
        raise DTypeError(
            f"{origin}: {v.name!r} holds {array.dtype} numbers, the model takes {v.dtype}"
        )
    return array.astype(v.dtype, copy=False)
