"""Gradients of ONNX's own node tests: some cases of each operator, or all of them.

`PD_NODE_SUITE=full` runs all, as `python -m tests.core.gradients.node_suite` does.
"""

import os

import pytest

from .node_suite.coverage import LEAST, LEVELS, measured

FULL = os.environ.get("PD_NODE_SUITE") == "full"
OPERATORS, CASES = LEAST


@pytest.fixture(scope="module")
def coverage():
    return measured(most=None if FULL else 2)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_case_is_right(coverage):
    assert coverage.wrong() == []


@pytest.mark.parametrize("level", LEVELS)
def test_coverage_does_not_drop(coverage, level):
    operators, cases = coverage.totals(level)
    assert operators >= OPERATORS
    assert cases >= (CASES if FULL else OPERATORS)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_batch_may_be_known_only_at_run_time():
    found = measured(most=None if FULL else 1, late=True)
    assert found.wrong() == []
    assert len(found.cases) >= OPERATORS
