"""Minibatches as 2017's programs read them: slots by number, start positions, matrices."""

from dataclasses import dataclass

import numpy as np

__all__ = ["Arguments", "IVector", "Matrix", "OutputSlot", "SparseMatrix", "Vector"]


class Vector:
    """Numbers in a row."""

    def __init__(self, array):
        self._array = array

    def copyToNumpyArray(self):
        """A copy, of one axis."""
        return self._array.copy()


class IVector(Vector):
    """Integers in a row, int32."""

    def __init__(self, array):
        super().__init__(array.astype(np.int32))


class Matrix:
    """Dense rows, float32 [height, width]."""

    def __init__(self, rows):
        self._rows = rows

    def getHeight(self):
        """The number of rows."""
        return self._rows.shape[0]

    def getWidth(self):
        """The number of columns."""
        return self._rows.shape[1]

    def isSparse(self):
        """Whether only the columns that are not zero are kept."""
        return False

    def copyToNumpyMat(self):
        """A copy, float32 [height, width]."""
        return self._rows.copy()

    def getSparseRowCols(self, i):
        """Dense rows are not read by their columns: ValueError."""
        raise ValueError("getSparseRowCols: the rows are dense\n  hint: copyToNumpyMat()")

    def getSparseRowColsVal(self, i):
        """Dense rows are not read by their columns: ValueError."""
        raise ValueError("getSparseRowColsVal: the rows are dense\n  hint: copyToNumpyMat()")

    def sum(self):
        """The sum of all elements, a float."""
        return float(self._rows.sum(dtype=np.float64))


class SparseMatrix(Matrix):
    """Rows of which the columns that are not zero are kept.

    columns is int64 [N], counts int64 [height] says how many of them each row has, numbers
    float32 [N] what stands there; None is 1 everywhere.
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
        """Sparse rows are not copied as a whole: ValueError."""
        raise ValueError("copyToNumpyMat: the rows are sparse\n  hint: getSparseRowCols(row)")

    def getSparseRowCols(self, i):
        """The columns of row i that are not zero, a list in the order in which they were given."""
        return self._columns[self._part(i)].tolist()

    def getSparseRowColsVal(self, i):
        """(column, value) for each column of row i that is not zero."""
        if self._numbers is None:
            raise ValueError("getSparseRowColsVal: all values are 1\n  hint: getSparseRowCols(row)")
        part = self._part(i)
        return list(zip(self._columns[part].tolist(), self._numbers[part].tolist(), strict=True))

    def sum(self):
        if self._numbers is None:
            return float(len(self._columns))
        return float(self._numbers.sum(dtype=np.float64))

    def _part(self, i):
        if not 0 <= i < len(self._ends):
            raise IndexError(f"there is no row {i} of {len(self._ends)}")
        return slice(self._ends[i - 1] if i else 0, self._ends[i])


@dataclass(frozen=True)
class OutputSlot:
    """What a layer gave: a Matrix or None, ids [rows] or None, lengths and frame as in a Slot."""

    matrix: Matrix | None
    ids: np.ndarray | None
    lengths: tuple[np.ndarray, ...] = ()
    frame: tuple[int, int] | None = None


class Arguments(dict):
    """{layer name: its slot}; 2017's methods read the slots by number, in the order of the dict.

    A slot has a Matrix of rows or `ids`, the `lengths` of the levels of its sequences, the
    outermost first, and the `frame` (height, width) of images. What a slot has not is None.
    """

    @classmethod
    def createArguments(cls, slotNum):
        """Arguments without slots, for `forward` to fill; slotNum is 0."""
        if slotNum:
            raise ValueError(f"createArguments: it begins with 0 slots, not with {slotNum!r}")
        return cls()

    def getSlotNum(self):
        """How many slots there are."""
        return len(self)

    def getSlotValue(self, i):
        """The rows of slot i, a Matrix."""
        return self._slot(i).matrix

    def getSlotIds(self, i):
        """The ids of slot i, an IVector."""
        ids = self._slot(i).ids
        return None if ids is None else IVector(ids)

    def getSlotSequenceStartPositions(self, i):
        """The rows that the sequences of slot i start at, and the end of the last, an IVector."""
        lengths = self._slot(i).lengths
        if not lengths:
            return None
        starts = _starts(lengths[0])
        return IVector(starts if len(lengths) == 1 else _starts(lengths[1])[starts])

    def getSlotSubSequenceStartPositions(self, i):
        """The rows that the sub-sequences of slot i start at, and the end of the last."""
        lengths = self._slot(i).lengths
        return IVector(_starts(lengths[1])) if len(lengths) > 1 else None

    def getSlotFrameHeight(self, i):
        """The height of the images in slot i, 0 if it has none."""
        return (self._slot(i).frame or (0, 0))[0]

    def getSlotFrameWidth(self, i):
        """The width of the images in slot i, 0 if it has none."""
        return (self._slot(i).frame or (0, 0))[1]

    def sum(self):
        """The sum of all elements of the rows of all slots; ids do not count."""
        matrices = [slot.matrix for slot in self.values()]
        return sum(m.sum() for m in matrices if m is not None)

    def _slot(self, i):
        if not 0 <= i < len(self):
            raise IndexError(f"there is no slot {i} of {len(self)}")
        return list(self.values())[i]


def _starts(lengths):
    """Where parts of these lengths start, and where the last ends."""
    return np.concatenate([[0], np.cumsum(lengths)])
