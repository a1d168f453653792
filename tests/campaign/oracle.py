"""Ops and gradients over dtypes, values and sizes, beside NumPy: every trial of the oracle.

Each trial is made in a process that is under watch. A value or a slope is NumPy's, or the op
refuses in words of ours; known differences are those of docs/ops.md.

    python -m tests.campaign.oracle "ReduceSum-axes=None,keep_dim=False, int8, extremes"

judges one trial in this process.
"""

import sys
from collections import Counter

from tests.core.ops.oracle.runner import outcomes
from tests.core.ops.oracle.trials import BESIDE, trials
from tests.core.ops.oracle.verdict import verdict

from .plan import BAD, Plan, Row

QUICK = 300  # trials
_NAMES = {"value": "silent difference", "gradient": "silent difference", "type": "wrong error"}
_NAMES |= {"raw error": "wrong error", "late error": "wrong error"}


def run(plan: Plan) -> list[Row]:
    """Make all trials, or some of them; a row for each kind of samples."""
    every = trials()
    chosen = plan.rng("oracle").permutation(len(every))[: plan.count(QUICK, len(every))]
    rows: dict[str, Row] = {}
    for number, (outcome, text) in outcomes(chosen.tolist()).items():
        trial = every[number]
        kind = "types of labels" if trial.kind.endswith(BESIDE) else trial.kind
        row = rows.setdefault(kind, Row("oracle", kind))
        name = _NAMES.get(outcome, outcome)
        row.add(name, f"{trial}: {text}" if name in BAD else "")
    return [rows[kind] for kind in sorted(rows)]


if __name__ == "__main__":
    found = [trial for trial in trials() if str(trial) == sys.argv[1]]
    print(Counter(verdict(trial) for trial in found).most_common())
