"""Minibatches with the interface of 2017: slots by number, start positions, matrices."""

from dataclasses import dataclass

import numpy as np

__all__ = ["Arguments", "IVector", "Matrix", "OutputSlot", "SparseMatrix", "Vector"]


class Vector:
    """A 1-D array."""

    def __init__(self, array):
        self._array = array

    def copyToNumpyArray(self):
        """Return a 1-D copy."""
        return self._array.copy()


class IVector(Vector):
    """A 1-D array of int32."""

    def __init__(self, array):
        super().__init__(array.astype(np.int32))


class Matrix:
    """A dense matrix, float32 [height, width]."""

    def __init__(self, rows):
        self._rows = rows

    def getHeight(self):
        """Return the number of rows."""
        return self._rows.shape[0]

    def getWidth(self):
        """Return the number of columns."""
        return self._rows.shape[1]

    def isSparse(self):
        """Return whether the matrix is sparse."""
        return False

    def copyToNumpyMat(self):
        """Return a copy, float32 [height, width]."""
        return self._rows.copy()

    def getSparseRowCols(self, i):
        """Raise ValueError: the rows are dense."""
        raise ValueError("getSparseRowCols: the rows are dense\n  hint: copyToNumpyMat()")

    def getSparseRowColsVal(self, i):
        """Raise ValueError: the rows are dense."""
        raise ValueError("getSparseRowColsVal: the rows are dense\n  hint: copyToNumpyMat()")

    def sum(self):
        """Return the sum of all elements, a float."""
        return float(self._rows.sum(dtype=np.float64))


class SparseMatrix(Matrix):
    """A matrix in compressed sparse rows.

    columns int64 [N] are the column indices of the nonzeros, counts int64 [height] their number in
    each row, numbers float32 [N] their values, or None if all are 1.
    """

    def __init__(self, columns, counts, numbers, width):
        self._columns, self._numbers, self._width = columns, numbers, width
        self._ends = np.cumsum(counts)

    def getHeight(self):
        return len(self._ends)

    def getWidth(self):
        return self._width

    def isSparse(self):
        return True

    def copyToNumpyMat(self):
        """Raise ValueError: the rows are sparse."""
        raise ValueError("copyToNumpyMat: the rows are sparse\n  hint: getSparseRowCols(row)")

    def getSparseRowCols(self, i):
        """Return the list of the nonzero columns of row i, in the order of the sample."""
        return self._columns[self._row(i)].tolist()

    def getSparseRowColsVal(self, i):
        """Return the list of (column, value) of row i."""
        if self._numbers is None:
            raise ValueError("getSparseRowColsVal: all values are 1\n  hint: getSparseRowCols(row)")
        row = self._row(i)
        return list(zip(self._columns[row].tolist(), self._numbers[row].tolist(), strict=True))

    def sum(self):
        if self._numbers is None:
            return float(len(self._columns))
        return float(self._numbers.sum(dtype=np.float64))

    def _row(self, i):
        """Return the slice of row i."""
        if not 0 <= i < len(self._ends):
            raise IndexError(f"there is no row {i} of {len(self._ends)}")
        return slice(self._ends[i - 1] if i else 0, self._ends[i])


@dataclass(frozen=True)
class OutputSlot:
    """The output of a layer: a Matrix or None, ids [rows] or None; the rest is as in a Slot."""

    matrix: Matrix | None
    ids: np.ndarray | None
    lengths: tuple[np.ndarray, ...] = ()
    image_size: tuple[int, int] | None = None


class Arguments(dict):
    """{layer name: slot}; 2017's methods read the slots by number, in the order of the dict.

    A slot has a `matrix` or `ids`, the `lengths` of each level of sequence, the outermost first,
    and the `image_size` (height, width) of images. What does not apply is None.
    """

    @classmethod
    def createArguments(cls, slotNum):
        """Create Arguments without slots, for `forward` to fill; slotNum has to be 0."""
        if slotNum:
            raise ValueError(f"createArguments: it begins with 0 slots, not with {slotNum!r}")
        return cls()

    def getSlotNum(self):
        """Return the number of slots."""
        return len(self)

    def getSlotValue(self, i):
        """Return the rows of slot i, a Matrix."""
        return self._slot(i).matrix

    def getSlotIds(self, i):
        """Return the ids of slot i, an IVector."""
        ids = self._slot(i).ids
        return None if ids is None else IVector(ids)

    def getSlotSequenceStartPositions(self, i):
        """Return the first row of each sequence of slot i, and the end of the last, an IVector."""
        lengths = self._slot(i).lengths
        if not lengths:
            return None
        starts = _starts(lengths[0])
        return IVector(starts if len(lengths) == 1 else _starts(lengths[1])[starts])

    def getSlotSubSequenceStartPositions(self, i):
        """Return the first row of each sub-sequence of slot i, and the end of the last."""
        lengths = self._slot(i).lengths
        return IVector(_starts(lengths[1])) if len(lengths) > 1 else None

    def getSlotFrameHeight(self, i):
        """Return the height of the images in slot i, 0 if it has none."""
        return (self._slot(i).image_size or (0, 0))[0]

    def getSlotFrameWidth(self, i):
        """Return the width of the images in slot i, 0 if it has none."""
        return (self._slot(i).image_size or (0, 0))[1]

    def getBatchSize(self, i):
        """Return the number of rows of slot i, those of all sequences."""
        slot = self._slot(i)
        return len(slot.ids) if slot.matrix is None else slot.matrix.getHeight()

    def sum(self):
        """Return the sum of all elements of all matrices; ids do not count."""
        matrices = [slot.matrix for slot in self.values()]
        return sum(m.sum() for m in matrices if m is not None)

    def _slot(self, i):
        if not 0 <= i < len(self):
            raise IndexError(f"there is no slot {i} of {len(self)}")
        return list(self.values())[i]


def _starts(lengths):
    """Return the start positions of sequences of these lengths, and the end of the last."""
    return np.concatenate([[0], np.cumsum(lengths)])
