"""The order in which numbers of ranks are added: a binary tree that depends on their number alone.

The sum over the ranks lo, ..., hi - 1 is that over their first half plus that over their second
half, the first one larger by one rank if the number is odd. Where a rank is, how long a message is,
and in which of the ways below it travels change nothing of it.

- Doubling (for short arrays): the ranks of two halves swap their sums, in ceil(log2 N) rounds.
- Straight (for long ones on few ranks): each rank gets its share of the elements from all others,
  adds them up in the order of the tree, and sends the sums to all; two rounds.
- Halving (for long ones on many): after a round each rank has the sum over a larger group, but for
  a smaller share of the elements, at last 1/N of them; then the same messages back. In
  2 ceil(log2 N) rounds a rank sends and receives 2 (N - 1) / N times the array in the mean, and at
  most 2.3 times. For powers of two these are the recursive doubling and halving of Rabenseifner
  2004; here the shares of the two groups of a round are interleaved, so that they nest for any N.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

Piece = tuple[int, int, int]  # (another rank, start, stop): elements that travel to or from it


class Merge(NamedTuple):
    """Two groups of ranks whose sums are added; each in the order of their shares."""

    left: tuple[int, ...]
    right: tuple[int, ...]


@lru_cache(maxsize=64)
def merges(rank: int, size: int) -> tuple[Merge, ...]:
    """Return the merges that a rank takes part in, from its own number to the sum of all."""
    found: list[Merge] = []
    _order(0, size, rank, found)
    return tuple(found)


def _order(lo, hi, rank, found):
    """The ranks of a group in the order of their shares; the merges of `rank` are added."""
    if hi - lo == 1:
        return (lo,)
    middle = lo + (hi - lo + 1) // 2
    left, right = _order(lo, middle, rank, found), _order(middle, hi, rank, found)
    if lo <= rank < hi:
        found.append(Merge(left, right))
    every = [0] * (hi - lo)
    every[::2], every[1::2] = left, right
    return tuple(every)


class Swap(NamedTuple):
    """A round of doubling: the ranks to which this one sends its sum, and where it gets another's.

    `is_left` says whether the own sum is the first summand.
    """

    to: list[int]
    source: int
    is_left: bool


@lru_cache(maxsize=64)
def swaps(rank: int, size: int) -> tuple[Swap, ...]:
    """Return the rounds of doubling of a rank."""
    rounds = []
    for left, right in merges(rank, size):
        last = len(right) - 1
        if rank in left:
            k = left.index(rank)
            rounds.append(Swap([right[k]] if k <= last else [], right[min(k, last)], True))
        else:
            k = right.index(rank)
            # the last one of a smaller group has two partners
            rounds.append(Swap(list(left[k:]) if k == last else [left[k]], left[k], False))
    return tuple(rounds)


class Halving(NamedTuple):
    """A round of halving: what this rank sends away of its share, and what it adds to the rest.

    `share` is the rest, (start, stop).
    """

    sent: list[Piece]
    received: list[Piece]
    share: tuple[int, int]
    is_left: bool


def halvings(rank: int, size: int, count: int) -> Iterator[Halving]:
    """Yield the rounds of halving of a rank for an array of `count` elements."""
    for left, right in merges(rank, size):
        is_left = rank in left
        own, other = (left, right) if is_left else (right, left)
        k, whole = own.index(rank), len(left) + len(right)
        old, new = _share(k, len(own), count), _share(2 * k + (not is_left), whole, count)
        sent: list[Piece] = []
        received: list[Piece] = []
        for j in range(max(0, k - 1), min(k + 2, len(other))):
            theirs = _share(2 * j + is_left, whole, count)
            _add(sent, other[j], old, theirs)
            _add(received, other[j], new, _share(j, len(other), count))
        yield Halving(sent, received, new, is_left)


def _share(k, of, count):
    return count * k // of, count * (k + 1) // of


def _add(pieces, rank, a, b):
    """Add what two ranges have in common."""
    start, stop = max(a[0], b[0]), min(a[1], b[1])
    if start < stop:
        pieces.append((rank, start, stop))
