"""The shuffle of Python 2: a seed gives the same order as in 2017."""

import random


def shuffle(items, draw=random.random):
    """Shuffle a list in place as Python 2 did; `draw` returns numbers in [0, 1).

    Python 3's `random.shuffle` consumes the generator in another way.
    """
    for last in range(len(items) - 1, 0, -1):
        k = int(draw() * (last + 1))
        items[last], items[k] = items[k], items[last]
