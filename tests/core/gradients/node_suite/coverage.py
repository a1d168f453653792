"""Which of the cases the gradients get right on ONNX Runtime, by operator."""

from collections import defaultdict
from dataclasses import dataclass, field

from .cases import Case, case, tests
from .check import failures

LEVELS = {"DISABLE_ALL": False, "ENABLE_ALL": True}
# Operators all of whose cases are right, and cases that are right, at each level of optimisation.
LEAST = (128, 760)


@dataclass
class Coverage:
    """`cases` by operator; `failed` holds (case, level, what is wrong)."""

    levels: tuple = tuple(LEVELS)
    cases: dict = field(default_factory=lambda: defaultdict(list))
    failed: list = field(default_factory=list)

    def right(self, op_type, level=None):
        """How many cases of an operator are right, at one level or at all."""
        wrong = {c.name for c, at, _ in self.failed if level in (None, at)}
        return sum(c.name not in wrong for c in self.cases[op_type])

    def totals(self, level):
        """(operators all of whose cases are right, cases that are right)."""
        right = {op_type: self.right(op_type, level) for op_type in self.cases}
        whole = sum(right[op_type] == len(found) for op_type, found in self.cases.items())
        return whole, sum(right.values())

    def wrong(self):
        """(name, level, what is wrong), by name."""
        return sorted((c.name, level, why) for c, level, why in self.failed)


def measured(operators=(), most=None, late=False):
    """The Coverage of these operators, all of them if none are named; `most` cases of each.

    With `late` the first size of the first input is known only at run time.
    """
    found = Coverage()
    for op_type, *test in tests():
        if (operators and op_type not in operators) or len(found.cases.get(op_type, ())) == most:
            continue
        made = case(op_type, *test)
        if isinstance(made, Case):
            found.cases[op_type].append(made)
            wrong = failures(made, tuple(LEVELS.values()), late)
            names = {on: level for level, on in LEVELS.items()}
            found.failed += [(made, names[on], why) for on, why in wrong.items()]
    return found
