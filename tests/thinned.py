"""Tables of cases of which the tests try some: one or more of each kind, the campaign all.

`PD_EVERY_CASE=1` tries all of them: `python -m tests.campaign cases`.
"""

import os

EVERY = bool(os.environ.get("PD_EVERY_CASE"))


def thinned(cases, step):
    """Return each `step`-th case; all of them in the campaign.

    Of a product, a step that has no divisor in common with the sizes of its axes meets every value
    of each axis.
    """
    return list(cases)[:: 1 if EVERY else step]
