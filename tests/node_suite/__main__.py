"""`python -m tests.node_suite [operator ...]` prints how many cases of each operator pass."""

import sys
import time

from .coverage import LEAST, measured


def main(operators):
    start = time.perf_counter()
    coverage = measured(operators)
    for op_type in sorted(coverage.cases):
        right, count = coverage.right(op_type), len(coverage.cases[op_type])
        print(f"{'' if right == count else '!'}\t{right}/{count}\t{op_type}")
    print()
    for name, level, why in coverage.wrong():
        print(f"{name}, {level}: {why}")
    for level in coverage.levels:
        found = coverage.totals(level)
        print(
            f"{level}: {found[0]} of {len(coverage.cases)} operators, {found[1]} of "
            f"{sum(map(len, coverage.cases.values()))} cases"
        )
    print(f"{time.perf_counter() - start:.0f} s")
    worse = not operators and any(coverage.totals(level) < LEAST for level in coverage.levels)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
