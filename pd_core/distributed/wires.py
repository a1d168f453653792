"""How the numbers of a buffer travel: as they are, as shorter floats, or as 8-bit integers."""

from typing import Any

import numpy as np

_ALIGNMENT = 64  # bytes, of arrays in a buffer
BLOCK = 256  # numbers that have one scale, as 8-bit integers
_LEVELS = 127


class Wire:
    """The numbers of an array, which travel as they are.

    `sent` is what messages are sent from and received into. It has an item for every `unit`
    numbers; places are counted in items. `halves` says that sums are only made by halving.
    """

    unit = 1
    halves = False

    def __init__(self, total: np.ndarray):
        self.total = total
        self.sent: np.ndarray = total

    @property
    def errors(self) -> np.ndarray:
        """The rounding errors of the numbers that this rank has sent: zeros."""
        return np.zeros_like(self.total)

    def begin(self, start: int, stop: int) -> None:
        """Forget what was lost in an earlier sum."""

    def encode(self, start: int, stop: int) -> None:
        """Write numbers into what is sent."""

    def kept(self, start: int, stop: int) -> np.ndarray:
        """Return this rank's summand of a sum, in the numbers' dtype."""
        return self.total[start:stop]

    def decoded(self, items: np.ndarray) -> np.ndarray:
        """Return the numbers of items that have come."""
        return items

    def rounded(self, numbers: np.ndarray) -> np.ndarray:
        """Return numbers as other ranks would get them."""
        return numbers

    def finish(self, start: int, stop: int) -> None:
        """Write the numbers of what has come."""


class ShortWire(Wire):
    """Numbers that travel as shorter floats.

    All summands are rounded alike, the own ones too, so that every rank adds the same numbers.
    """

    def __init__(self, total: np.ndarray, dtype: np.dtype):
        super().__init__(total)
        self.sent = aligned(total.size, dtype)

    def encode(self, start: int, stop: int) -> None:
        with np.errstate(over="ignore"):  # infinities are the caller's to see
            self.sent[start:stop] = self.total[start:stop]

    def kept(self, start: int, stop: int) -> np.ndarray:
        self.encode(start, stop)
        return self.decoded(self.sent[start:stop])

    def decoded(self, items: np.ndarray) -> np.ndarray:
        return items.astype(self.total.dtype)

    def rounded(self, numbers: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return self.decoded(numbers.astype(self.sent.dtype))

    def finish(self, start: int, stop: int) -> None:
        self.total[start:stop] = self.sent[start:stop]


class Int8Wire(Wire):
    """Numbers that travel as integers from -127 to 127, in blocks of 256 with a scale each.

    What a rank loses by sending integers it adds to `errors`: over all ranks the sums of what was
    lost are the differences between the sums that are wanted and those that come out. Each number
    that is sent, a sum of some ranks or of all, is rounded by one rank only: so it halves. A block
    with NaN or infinity is NaN or infinity as a whole, and leaves no error.
    """

    unit = BLOCK
    halves = True

    def __init__(self, total: np.ndarray):
        super().__init__(total)
        self._errors = np.zeros_like(total)
        self.sent = np.zeros(total.size // BLOCK, [("scale", total.dtype), ("level", "i1", BLOCK)])

    @property
    def errors(self) -> np.ndarray:
        return self._errors

    def begin(self, start: int, stop: int) -> None:
        self._errors[start * BLOCK : stop * BLOCK] = 0

    def encode(self, start: int, stop: int) -> None:
        if start == stop:
            return
        numbers = slice(start * BLOCK, stop * BLOCK)
        blocks = self.total[numbers].reshape(-1, BLOCK)
        items = self.sent[start:stop]
        items["scale"], items["level"] = quantized(blocks)
        lost = blocks - self.decoded(items).reshape(-1, BLOCK)
        lost[~np.isfinite(items["scale"])] = 0
        self._errors[numbers] += lost.reshape(-1)

    def kept(self, start: int, stop: int) -> np.ndarray:
        return self.total[start * BLOCK : stop * BLOCK]

    def decoded(self, items: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):  # 0 times infinity
            return (items["level"] * items["scale"][:, None]).reshape(-1)

    def finish(self, start: int, stop: int) -> None:
        self.total[start * BLOCK : stop * BLOCK] = self.decoded(self.sent[start:stop])


def quantized(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return scales [B], and levels int8 [B, n], of blocks [B, n]: levels times scales are near.

    A scale is 1/127 of the largest number of its block, or NaN or infinity if that is.
    """
    scale = np.abs(blocks).max(1) / blocks.dtype.type(_LEVELS)
    is_sound = (scale > 0) & np.isfinite(scale)
    divisor = np.where(is_sound, scale, 1)[:, None]
    with np.errstate(all="ignore"):
        levels = np.rint(blocks / divisor)
    # of a scale so small that it is rounded itself, too
    levels = np.clip(np.where(is_sound[:, None], levels, 1), -_LEVELS, _LEVELS)
    return scale, levels.astype(np.int8)


def aligned(size: int, dtype: Any) -> np.ndarray:
    """Return an array [size] that begins at a multiple of 64 bytes."""
    kind = np.dtype(dtype)
    memory = np.empty(size * kind.itemsize + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size * kind.itemsize].view(kind)
