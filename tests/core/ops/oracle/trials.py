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
    cells,
    copies,
    gather,
    math,
    order,
    reduce,
    sequence,
    sequence_parts,
    shape,
    statistics,
    structured,
)
from ..case import Case, as_list
from .samples import (
    DTYPES,
    FLOATS,
    INTEGERS,
    LONG,
    SIZES,
    VALUES,
    as_type,
    data_of,
    large,
    resized,
    with_values,
)


class Doubled(np.ndarray):
    """What a reference gives for integers that were made floats: a measure of floats only."""


DRAWN = "drawn"  # the kind of a trial with the row's own values and sizes

BESIDE = " beside"  # of a trial whose labels and indices have another type


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
        if self.kind == LONG:
            return [large(arrays[0], _long_axis(self.row, arrays[0]), rng)]
        data = data_of(arrays)
        for k, a in enumerate(arrays):
            if k in data:
                arrays[k] = as_type(a, self.dtype)
            elif self.kind.endswith(BESIDE) and a.dtype.kind in "iu":
                arrays[k] = as_type(a, self.kind.removesuffix(BESIDE))
        if self.kind in VALUES:
            values = VALUES[self.kind](self.dtype, id(self.row) not in _WITHOUT_SUMS)
            for k in data:
                arrays[k] = with_values(arrays[k], values, rng)
        return arrays

    @property
    def is_differentiable(self):
        """Whether gradients are computed, too."""
        return self.row.smooth and self.dtype in FLOATS and self.kind != LONG

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
        if self.kind == LONG:
            return [self.truth()]
        data = data_of(self.arrays)
        wide = [a.astype("float64") if k in data else a for k, a in enumerate(self.arrays)]
        found = [_computed(self.row, self.arrays), self.truth()]
        if np.dtype(self.dtype).kind != "f":
            found.append(_of_floats(_computed(self.row, wide)))
        return [t for t in found if t is not None]


def _of_floats(results):
    """Results without those that are integers, of which floats are no measure."""
    return None if results is None else [y.view(Doubled) for y in results]


# Operators that only gradient rules add: of floats, with sizes that fit.
_FUNCTIONS = {getattr(ops, name) for name in ops.GRADIENT_OPS}
# Families whose samples tell how long sequences are: other sizes would not fit.
_PACKED = {id(row) for f in (sequence, sequence_parts, structured, cells) for row in f.CASES}
# Families whose functions move, choose or change elements, one by one.
_ONE_BY_ONE = (math, activation, shape, copies, gather, order)
_COUNTS = ("Range", "uniform_random", "permutation")
_REDUCTIONS = {id(row) for row in reduce.CASES + statistics.CASES}
_WITHOUT_SUMS = {id(row) for family in _ONE_BY_ONE for row in family.CASES}


def _is_internal(row):
    return row.function in _FUNCTIONS or row.name.endswith(("Grad", "Pick"))


def _is_lengths(row, arrays):
    """Whether all samples of a row say how many numbers there are: memory has its end."""
    return all(a.dtype.kind != "f" for a in arrays) and (id(row) in _PACKED or row.name in _COUNTS)


def _has_its_sizes(row):
    """Whether the samples of a row cannot have other sizes."""
    return _is_internal(row) or id(row) in _PACKED or row.name in _COUNTS


def _is_long_sum(row, arrays):
    """Whether a row is a reduction of one array, that does not overflow."""
    one = len(arrays) == 1 and arrays[0].dtype.kind == "f" and arrays[0].ndim > 0
    return one and id(row) in _REDUCTIONS and row.name not in ("ReduceProd", "cum_prod")


def _long_axis(row, a):
    """The axis along which a row reduces."""
    axis = row.options.get("axis", row.options.get("axes"))
    axis = axis[0] if isinstance(axis, list) else axis
    return (-1 if axis is None else axis) % a.ndim


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
    for dtype in FLOATS if _is_internal(row) else DTYPES:
        found.append(Trial(row, dtype, DRAWN))
        found += [Trial(row, dtype, kind) for kind, of in values.items() if of(dtype) is not None]
    sizes = () if _has_its_sizes(row) else sorted({n for a in arrays for n in a.shape} - {0})
    for dtype in ("float32", "float64", "int64"):
        found += [
            Trial(row, dtype, kind, size)
            for kind, new in SIZES.items()
            for size in sizes
            if size != new
        ]
    if not any(a.dtype.kind == "f" for a in arrays):
        return [t for t in found if t.dtype not in FLOATS]
    if any(a.dtype.kind in "iu" for a in arrays):
        found += [Trial(row, "float32", t + BESIDE) for t in INTEGERS]
    if _is_long_sum(row, arrays):
        found.append(Trial(row, "float32", LONG))
    return found
