"""Registering derivatives: one for each operator, replaced only where that is asked for."""

import re
from pathlib import Path

import numpy as np
import pytest

import pd_core as pd
from pd_core.gradients import elementwise, gradient, gradient_rules, reasons, undefined, zero, zeros
from pd_core.gradients.expression import expression
from pd_core.gradients.registry import expressions

TABLES = (gradient_rules, expressions, zeros, reasons)
HERE = re.escape(Path(__file__).name)


@pytest.fixture(autouse=True)
def restored():
    """Undo what a test registers."""
    saved = [table.copy() for table in TABLES]
    yield
    for table, former in zip(TABLES, saved, strict=True):
        table.clear()
        table.update(former)


def rule(node, dy):
    return [dy * 2.0]


def formula(a, x):
    return x * 3.0


REGISTRATIONS = {
    "gradient": lambda name, **options: gradient(name, **options)(rule),
    "elementwise": lambda name, **options: elementwise(name, lambda x, y, dy: dy * 2.0, **options),
    "expression": lambda name, **options: expression(name, **options)(formula),
    "zero": zero,
    "undefined": lambda name, **options: undefined("it is a secret", name, **options),
}
DESCRIPTIONS = {
    "gradient": rf"the rule rule \(.*{HERE}:\d+\)",
    "elementwise": rf"the rule <lambda> \(.*{HERE}:\d+\)",
    "expression": rf"the rule formula \(.*{HERE}:\d+\)",
    "zero": "a zero derivative",
    "undefined": r"no gradient \(it is a secret\)",
}


@pytest.mark.parametrize("first", REGISTRATIONS)
@pytest.mark.parametrize("second", REGISTRATIONS)
def test_a_second_registration_names_both_functions(first, second):
    REGISTRATIONS[first]("Novel")
    before = [table.copy() for table in TABLES]
    expected = (
        f"Novel has {DESCRIPTIONS[first]} already, and is registered again with "
        rf"{DESCRIPTIONS[second]}\n  hint: replace=True"
    )
    with pytest.raises(ValueError, match=expected):
        REGISTRATIONS[second]("Novel")
    assert list(TABLES) == before


@pytest.mark.parametrize("first", REGISTRATIONS)
@pytest.mark.parametrize("second", REGISTRATIONS)
def test_replace_leaves_one_verdict(first, second):
    REGISTRATIONS[first]("Novel")
    REGISTRATIONS[second]("Novel", replace=True)
    assert ("Novel" in gradient_rules) + ("Novel" in zeros) + ("Novel" in reasons) == 1
    assert ("Novel" in expressions) == (second == "expression")


def test_several_operators_are_registered_together_or_not():
    with pytest.raises(ValueError, match=r"Tanh has the rule <lambda> \(.*math.py:\d+\) already"):
        gradient("Novel", "Tanh")(rule)
    assert "Novel" not in gradient_rules


def test_a_replaced_rule_is_used():
    x = pd.Variable(data=[1.0])
    gradient("Tanh", replace=True)(rule)
    np.testing.assert_array_equal(pd.eval(pd.gradients(pd.tanh(x), [x])[0]), [2.0])
    expression("Tanh", replace=True)(formula)
    np.testing.assert_array_equal(pd.eval(pd.gradients(pd.tanh(x), [x])[0]), [3.0])
    zero("Tanh", replace=True)
    assert pd.gradients(pd.tanh(x), [x]) == [None]
