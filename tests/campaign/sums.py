"""Sums: reductions, normalizations and gradients of 2^24 numbers of one sign beside float64.

Static graphs of known and of unknown sizes, and dynamic ones, in every layout of
`tests.core.backend.long_sums`.

    python -m tests.campaign.sums "mean of [16777216] over [0], unknown"

computes one trial in this process.
"""

import sys

import numpy as np

import pd_core as pd
from tests.core.backend import long_sums

from .plan import Plan, Row

FEW, MANY = 1 << 20, 1 << 24
QUICK, FULL = 60, 5  # one trial in so many
SUBJECTS = {
    "reductions": long_sums.reductions,
    "normalizations": long_sums.others,
    "gradients": long_sums.gradients,
}


def run(plan: Plan) -> list[Row]:
    """Try all cases with 2^24 numbers, or some of them with 2^20; a row for each kind."""
    return [tried(subject, plan) for subject in SUBJECTS]


def tried(subject: str, plan: Plan) -> Row:
    """Try the cases of a kind."""
    row, worst = Row("sums", subject), 0.0
    cases = list(SUBJECTS[subject](plan.count(FEW, MANY)))
    step = min(len(cases), plan.count(QUICK, FULL))
    for case in cases[plan.seed % step :: step]:
        found = errors(case, plan.rng("sums", case.name), subject == "normalizations")
        row.add("failed" if max(found) > long_sums.TOLERANCE else "right", f"{case}: {found}")
        worst = max(worst, *found)
        pd.clear_programs()
    row.figures = f"largest relative error {worst:.1e}"
    return row


def errors(case: long_sums.Case, rng: np.random.Generator, is_spread: bool) -> list[float]:
    """Return the errors of a case, static and dynamic, of equal numbers and of others."""
    found = []
    for a in long_sums.numbers(rng, case.shape, is_spread):
        found.append(long_sums.error(case, a))
        if case.has_free_sizes and "unknown" not in case.name:
            found.append(long_sums.error(case, a, is_dynamic=True))
    return found


if __name__ == "__main__":
    for subject, cases in SUBJECTS.items():
        for case in cases(MANY):
            if case.name == sys.argv[1]:
                print(errors(case, np.random.default_rng(), subject == "normalizations"))
