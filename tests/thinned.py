"""Tables of cases of which the tests try some: one or more of each kind, the campaign all.

`PD_EVERY_CASE=1` tries all of them: `python -m tests.campaign cases`.
"""

import itertools
import os

EVERY = bool(os.environ.get("PD_EVERY_CASE"))


def thinned(cases, step):
    """Return each `step`-th case; all of them in the campaign.

    Of a product, a step that has no divisor in common with the sizes of its axes meets every value
    of each axis.
    """
    return list(cases)[:: 1 if EVERY else step]


def in_turn(cases, kinds):
    """Return pairs: each case with one of the kinds, in turn; in the campaign with all."""
    if EVERY:
        return list(itertools.product(cases, kinds))
    return list(zip(cases, itertools.cycle(kinds), strict=False))


def words(value):
    """Return the name of a function or class, else the text of a value: for ids of cases."""
    return getattr(value, "__name__", str(value))


def one_of_each(cases, key, step):
    """Return the first case of each key, and each `step`-th of the others; all in the campaign."""
    seen, others, chosen = set(), 0, []
    for case in cases:
        is_first = key(case) not in seen
        seen.add(key(case))
        others += not is_first
        if EVERY or is_first or others % step == 0:
            chosen.append(case)
    return chosen
