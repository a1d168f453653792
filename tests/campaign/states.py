"""Everything that has a state: restored, copied, damaged at every key, and set.

The same checks as in `tests/states`, of all subjects and all damages.
"""

from tests.states import checks
from tests.states.subjects import QUICK, SUBJECTS

from .plan import Plan, Row


def run(plan: Plan) -> list[Row]:
    """Check every subject; a row for each."""
    subjects = QUICK if plan.quick else SUBJECTS
    return [_row(name, subject, plan) for name, subject in subjects.items()]


def _row(name, subject, plan):
    row = Row("states", name)
    damages = plan.count(3, 1000)
    trials = [(checks.restored, ()), (checks.copied, ()), (checks.unharmed, (damages,))]
    trials += [(checks.changed, pair) for pair in subject.settings.items()]
    for check, arguments in trials:
        wrong = check(subject, *arguments)
        row.add("failed" if wrong else "right", f"{name}: {check.__name__}: {wrong}")
    return row
