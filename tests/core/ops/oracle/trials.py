"""Every trial: a row of the op tables with the samples that it is given."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from zlib import crc32

import numpy as np

from pd_core import ops

from .. import (
    CASES,
    activation,
    arrangement,
    cells,
    index,
    math,
    order,
    sequence,
    sequence_parts,
    shape,
    structured,
)
from ..case import Case, as_list
from .samples import DTYPES, FLOATS, SIZES, VALUES, as_type, data_of, resized, with_values


class Doubled(np.ndarray):
    """What a reference gives for integers that were made floats: a measure of floats only."""


DRAWN = "drawn"  # the kind of a trial with the row's own values and sizes


@dataclass(frozen=True)
class Trial:
    """A row, fed with samples of a type; `kind` says which values or sizes they have."""

    row: Case
    dtype: str
    kind: str
    size: int = 0  # of the axes that get another one

    def __str__(self):
        size = f", {self.size} to {SIZES[self.kind]}" if self.kind in SIZES else ""
        return f"{self.row}, {self.dtype}, {self.kind}{size}"

    @property
    def seed(self):
        """Of the samples: the same each time."""
        return [crc32(str(self).encode())]

    def rng(self):
        """The generator of the samples."""
        return np.random.default_rng(self.seed)

    @cached_property
    def arrays(self):
        """The samples."""
        rng = self.rng()
        arrays = _drawn(self.row, rng)
        if self.kind in SIZES:
            arrays = resized(arrays, self.size, SIZES[self.kind], rng)
        data = data_of(arrays)
        for k in data:
            arrays[k] = as_type(arrays[k], self.dtype)
        if self.kind in VALUES:
            values = VALUES[self.kind](self.dtype, id(self.row) not in _WITHOUT_SUMS)
            for k in data:
                arrays[k] = with_values(arrays[k], values, rng)
        return arrays

    @property
    def is_differentiable(self):
        """Whether gradients are computed, too."""
        return self.row.smooth and self.dtype in FLOATS

    @property
    def is_ordinary(self):
        """Whether samples are finite numbers of moderate size."""
        return self.kind not in VALUES

    def truth(self, arrays=None):
        """What the reference gives; in double precision, if not in the samples' own."""
        arrays = self.arrays if arrays is None else arrays
        return _computed(
            self.row, [a.astype("float64") if a.dtype.kind == "f" else a for a in arrays]
        )

    def truths(self):
        """What the reference gives: a list of results for each precision.

        That of the samples; double precision; and this for integers too, whose result is a float.
        What it does not take is left out.
        """
        data = data_of(self.arrays)
        wide = [a.astype("float64") if k in data else a for k, a in enumerate(self.arrays)]
        found = [_computed(self.row, self.arrays), self.truth()]
        if np.dtype(self.dtype).kind != "f":
            found.append(_of_floats(_computed(self.row, wide)))
        return [t for t in found if t is not None]


def _of_floats(results):
    """Results without those that are integers, of which floats are no measure."""
    return None if results is None else [y.view(Doubled) for y in results]


# Op functions that only gradient rules add: of floats, with sizes that fit.
_INTERNAL = {getattr(ops, name) for name in ops.GRADIENT_OPS}
# Families whose samples tell how long sequences are: other sizes would not fit.
_PACKED = {id(row) for f in (sequence, sequence_parts, structured, cells) for row in f.CASES}
# Families whose functions move, choose or change elements, one by one.
_ONE_BY_ONE = (math, activation, shape, arrangement, index, order)
_COUNTS = ("Range", "uniform_random", "permutation")
_WITHOUT_SUMS = {id(row) for family in _ONE_BY_ONE for row in family.CASES}


def _is_lengths(row, arrays):
    """Whether all samples of a row say how many numbers there are: memory has its end."""
    return all(a.dtype.kind != "f" for a in arrays) and (id(row) in _PACKED or row.name in _COUNTS)


def _has_its_sizes(row):
    """Whether the samples of a row cannot have other sizes."""
    return row.function in _INTERNAL or id(row) in _PACKED


def _drawn(row, rng):
    return [np.asarray(sample(rng)) for sample in row.samples]


def _computed(row, arrays):
    """The reference's results, a list; None if it has none for these samples."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return [np.asarray(y) for y in as_list(row.reference(*arrays, **row.options))]
        except Exception:  # of NumPy, or of a reference that is written for other samples
            return None


def trials(rows=CASES):
    """All trials, in the same order each time."""
    return [trial for row in rows for trial in _trials_of(row)]


def _trials_of(row):
    arrays = _drawn(row, np.random.default_rng(0))
    if not arrays:
        return [Trial(row, "float32", DRAWN)]
    found, values = [], {} if _is_lengths(row, arrays) else VALUES
    for dtype in FLOATS if row.function in _INTERNAL else DTYPES:
        found.append(Trial(row, dtype, DRAWN))
        found += [Trial(row, dtype, kind) for kind, of in values.items() if of(dtype) is not None]
    sizes = (
        ()
        if _has_its_sizes(row) or row.name in _COUNTS
        else sorted({n for a in arrays for n in a.shape} - {0})
    )
    for dtype in ("float32", "float64", "int64"):
        found += [
            Trial(row, dtype, kind, size)
            for kind, new in SIZES.items()
            for size in sizes
            if size != new
        ]
    if any(a.dtype.kind == "f" for a in arrays):
        return found
    return [t for t in found if t.dtype not in FLOATS]
