"""The random order of 2017: a seed gives the one that it gave."""

import random


def shuffle(items, draw=random.random):
    """Put a list in random order, in place, as Python 2 did; `draw` gives numbers in [0, 1).

    Python 3's own function takes other numbers from the same generator.
    """
    for last in range(len(items) - 1, 0, -1):
        k = int(draw() * (last + 1))
        items[last], items[k] = items[k], items[last]
