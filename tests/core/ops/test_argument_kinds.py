"""Arguments of the wrong kind: numbers, integers, flags and text of ops, layers and optimizers."""

import inspect
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph.argument_kinds import arguments_of, arguments_of_class
from pd_core.optimizers.base import Optimizer
from tests.thinned import one_of_each

from . import CASES
from .tower import build, slots

# Values of which none is of the kinds that an argument's words name.
OTHERS = {
    "an integer": [1.5, "1", [1], None],
    "an integer or several": [1.5, "1", [1.5], ["1"]],
    "a sequence of integers": [1.5, 1, "12", [1.5]],
    "two integers": [1.5, 1, "12", [1.5, 1.5]],
    "a number": ["1", [1.0], None, 1j],
    "True or False": [1.5, "no", [True]],
    "text": [1, None, ["DCR"]],
}
OPS = {
    name: function
    for name in pd.__all__
    if inspect.isfunction(function := getattr(pd, name))
    and function.__code__ is pd.add.__code__
    and arguments_of(function.__wrapped__)
}


@pytest.mark.parametrize("name", OPS)
def test_other_kinds(name):
    """Each argument alone is refused by its name, before anything else is looked at."""
    function, parameters = OPS[name], inspect.signature(OPS[name]).parameters
    arguments = arguments_of(function.__wrapped__)
    given = {
        p.name: pd.Variable([2, 2])
        for p in parameters.values()
        if p.default is p.empty and p.name not in {a.name for a in arguments}
    }
    for argument in arguments:
        refused = rf"^{name}: {argument.name} is {argument.words}, not"
        for other in OTHERS[argument.words.removesuffix(", or None")]:
            if other is not None or "None" not in argument.words:
                with pytest.raises(TypeError, match=refused):
                    function(**given, **{argument.name: other})


def test_every_annotated_argument_is_checked():
    """Each annotated argument in the signature of an op is checked, under decorators too."""
    for name in pd.__all__:
        function = getattr(pd, name)
        if inspect.isfunction(function) and function.__code__ is pd.add.__code__:
            shown = inspect.signature(function).parameters.values()
            known = {a.name for a in arguments_of(function.__wrapped__)}
            kinds = (int, float, bool, str, int | Sequence[int], Sequence[int], tuple[int, int])
            wanted = {p.name for p in shown if p.annotation in (*kinds, *(k | None for k in kinds))}
            assert wanted == known, name


# but for two whose options are sizes of an operator's attributes, which users do not write
ROWS = [row for row in CASES if row.options and row.name not in ("ConvInputGrad", "ConvFilterGrad")]
# one for each set of options of a function
ROWS = one_of_each(ROWS, lambda row: (row.function, *row.options), 4)


CLASSES = {
    cls.__name__: cls
    for cls in (*vars(pd.nn).values(), *vars(pd).values())
    if inspect.isclass(cls)
    and issubclass(cls, (pd.nn.Layer, Optimizer))
    and arguments_of_class(cls)
}


@pytest.mark.parametrize("name", CLASSES)
def test_other_kinds_of_classes(name):
    """Layers and optimizers refuse them when they are made."""
    for argument in arguments_of_class(CLASSES[name]):
        refused = rf"^{name}: {argument.name} is {argument.words}, not"
        for other in OTHERS[argument.words.removesuffix(", or None")]:
            if other is not None or "None" not in argument.words:
                with pytest.raises(TypeError, match=refused):
                    CLASSES[name](**{argument.name: other})


def as_numpy(value):
    """Return a number or flag as numpy's scalar of 64 bits, a list of them as an array."""
    if isinstance(value, (bool, int, float)):
        return np.asarray(value)[()]
    if isinstance(value, (list, tuple)) and value and all(type(v) is int for v in value):
        return np.asarray(value)
    return value


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_numbers_of_numpy(row, rng):
    """Options are numbers of Python or numpy, which make the same graph."""
    inputs = slots(row, row.arrays(rng))
    plain = build(row, inputs)
    same = build(replace(row, options={k: as_numpy(v) for k, v in row.options.items()}), inputs)
    assert [(v.shape, v.dtype) for v in plain] == [(v.shape, v.dtype) for v in same]
    assert {type(size) for v in same for size in v.dims} <= {int, str}
