"""The cases whose gradients are correct on ONNX Runtime, by operator."""

from collections import defaultdict
from dataclasses import dataclass, field

from .cases import Case, case, tests
from .check import failures

LEVELS = {"DISABLE_ALL": False, "ENABLE_ALL": True}
# Least number of operators with only correct cases, and of correct cases, at each level.
LEAST = (128, 760)


@dataclass
class Coverage:
    """`cases` by operator; `failed` holds (case, level, error)."""

    levels: tuple = tuple(LEVELS)
    cases: dict = field(default_factory=lambda: defaultdict(list))
    failed: list = field(default_factory=list)

    def right(self, op_type, level=None):
        """Return the number of correct cases of an operator, at one level or at all of them."""
        wrong = {c.name for c, at, _ in self.failed if level in (None, at)}
        return sum(c.name not in wrong for c in self.cases[op_type])

    def totals(self, level):
        """Return (number of operators with only correct cases, number of correct cases)."""
        right = {op_type: self.right(op_type, level) for op_type in self.cases}
        whole = sum(right[op_type] == len(found) for op_type, found in self.cases.items())
        return whole, sum(right.values())

    def wrong(self):
        """Return (name, level, error), sorted."""
        return sorted((c.name, level, why) for c, level, why in self.failed)


def measured(operators=(), most=None, late=False):
    """Measure the Coverage of these operators, or of all; up to `most` cases of each.

    With `late` the first size of the first input is unknown until it runs.
    """
    coverage = Coverage()
    for op_type, *test in tests():
        if (operators and op_type not in operators) or len(coverage.cases.get(op_type, ())) == most:
            continue
        tested = case(op_type, *test)
        if isinstance(tested, Case):
            coverage.cases[op_type].append(tested)
            errors = failures(tested, tuple(LEVELS.values()), late)
            names = {on: level for level, on in LEVELS.items()}
            coverage.failed += [(tested, names[on], error) for on, error in errors.items()]
    return coverage
