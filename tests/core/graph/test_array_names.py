"""Functions of torch, keras.ops and NumPy, and methods of tensors: none is without an answer."""

import re
import types

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph.array_words import LINES, OBJECTS, WITHOUT
from pd_core.graph.other_words import FUNCTIONS, VARIABLE, function_here
from pd_core.graph.tensor_words import IN_PLACE, METHODS, OTHERS, SAME

from ...array_names import FACES, INTERNAL, PAGE, found, is_variant, page, shares
from ..ops import test_array_words

# Lines without a number to compare: draws, and what is not yet anything.
DRAWING = "_random(", "randint(", "bernoulli(", ".sample("
DRAWS = {n for n in LINES if any(text in LINES[n] for text in DRAWING)}
WITHOUT_VALUES = {"empty", "empty_like", "new_zeros", "copy_", "zero_", *DRAWS}


def public(module):
    """The public functions of a module."""
    values = {n: getattr(module, n) for n in dir(module) if not n.startswith("_")}
    no_functions = (types.ModuleType, type)
    return {n for n, v in values.items() if callable(v) and not isinstance(v, no_functions)}


def test_the_page_is_fresh():
    assert PAGE.read_text("utf-8") == page(), "run python -m tests.torch_names"


def test_every_function_and_method_is_in_the_table():
    torch = pytest.importorskip("torch")
    methods = {n for n in dir(torch.Tensor) if not n.startswith("_")}
    named = public(torch)
    functions = {n for n in named if not is_variant(n, named | methods) and not INTERNAL.match(n)}
    assert functions == {n for n in FACES["torch"] if not is_variant(n, named | methods)}
    assert {n for n in methods if not n.endswith("_")} <= {*FACES["torch.Tensor"]}
    known = {n for n in public(np) if n in np.__all__}
    assert known <= {*FACES["numpy"]} | {"ptp", "in1d", "trapz", "row_stack"}


def test_every_name_has_an_answer():
    answers = {face: {n: found(face, n) for n in names} for face, names in FACES.items()}
    assert not [n for of in answers.values() for n, (kind, _) in of.items() if kind == "missing"]
    for there, how, no in shares().values():
        assert there + how > 2 * no
    listed = {n for names in FACES.values() for n in names}
    torch_names = {"hardshrink", "softshrink", "softmin", "logsigmoid"}  # of torch.nn.functional
    stale = {*LINES, *WITHOUT} - listed - torch_names
    assert {n for n in stale if "_loss" not in n and n != "pixel_unshuffle"} <= {
        "zero_",
        "get_rng_state",
        "set_rng_state",
    }
    assert not {*LINES} & ({*WITHOUT} | {*pd.__all__} | {*FUNCTIONS})
    assert not {*WITHOUT} & ({*pd.__all__} | {*FUNCTIONS})


def test_errors_give_the_answer():
    x = pd.Variable([3, 4])
    for name in {*LINES, *WITHOUT}:
        with pytest.raises(AttributeError) as raised:
            getattr(pd, name)
        says = f"; here it is {LINES[name]}" if name in LINES else f": {WITHOUT[name]}"
        assert str(raised.value) == f"pd has no {name!r}{says}"
    for name, text in METHODS.items():
        with pytest.raises(AttributeError) as raised:
            getattr(x, name)
        says = f": {text[4:]}" if text.startswith("no: ") else f"; here it is {text}"
        assert VARIABLE.get(name) or str(raised.value) == f"Variable has no {name!r}{says}"
        assert name not in dir(x)
    assert "here it is x - pd.trunc(x)" in error_of(lambda: x.frac())
    assert error_of(lambda: x.add_(1)) == (
        "Variable has no 'add_'; here it is x + y; a new value, none in place"
    )
    assert error_of(lambda: pd.svd).startswith("pd has no 'svd': ONNX has no operator for fact")


def error_of(call):
    with pytest.raises(AttributeError) as raised:
        call()
    return str(raised.value)


def test_every_method_of_a_tensor_is_answered():
    torch = pytest.importorskip("torch")
    for name in dir(torch.Tensor):
        if not name.startswith("_") and name not in dir(pd.Variable([2, 3])):
            assert " has no " in error_of(lambda name=name: getattr(pd.Variable([2, 3]), name)), (
                name
            )
    for name in SAME:
        assert name in pd.__all__
    assert not {*SAME} & {*OTHERS} and not {f"{n}_" for n in IN_PLACE} & {*OTHERS}


def test_names_of_pd_in_lines_exist():
    for text in (*LINES.values(), *WITHOUT.values(), *METHODS.values()):
        for path in re.findall(r"\bpd((?:\.[A-Za-z_]\w*)+)", text):
            of = pd
            for name in path[1:].split("."):
                of = getattr(of, name)


def test_every_line_is_computed():
    """By `test_array_words`, unless it is one name or has no value to compare."""
    tables = test_array_words.TABLES.values()
    tested = {LINES[n] for rows in tables for n, theirs in rows.items() if theirs}
    for name, text in LINES.items():
        is_name = re.fullmatch(r"(pd|x)(\.\w+)+", text.split("; ")[0])
        is_other = name in WITHOUT_VALUES or name in OBJECTS or name == "sparsemax"
        is_other = is_other or text == LINES["empty"]
        assert is_name or is_other or text in tested, name


def test_lines_that_draw_have_the_shape_of_x():
    x = pd.zeros([3, 4])
    drawn = [eval(LINES[n].split("; ")[0], {"pd": pd, "x": x}) for n in sorted(DRAWS)]
    assert {v.shape for v in pd.eval(drawn)} == {(3, 4)}
    made = [eval(LINES[n], {"pd": pd, "x": x}) for n in ("empty", "empty_like", "zero_")]
    assert [v.shape for v in pd.eval(made)] == [(2, 3), (3, 4), (3, 4)]


def test_lines_about_objects():
    x = y = pd.Variable(data=np.ones((3, 4), np.float32))
    known = {"pd": pd, "np": np, "x": x, "y": y}
    found = {n: eval(t.split("; ")[0], known) for n, t in OBJECTS.items() if n != "is_nonzero"}
    expected = {"is_floating_point": True, "is_signed": True, "is_complex": False, "itemsize": 4}
    expected |= {"isrealobj": True, "is_same_size": True, "is_tensor": True, "nbytes": 48}
    assert {n: found[n] for n in expected} == expected
    assert found["result_type"] == np.float32
    with pd.guard():
        assert eval(OBJECTS["is_nonzero"].split("; ")[0], {"x": pd.to_variable(2.0)})


def test_sparsemax_is_a_projection():
    """Rows are not negative, have the sum 1, and no point of the simplex is nearer."""
    x = pd.constant(np.array([[2.0, 1.9, 0.1, -1.0], [0.3, 0.2, 0.1, 0.0]], "float32"))
    expression, *rest = LINES["sparsemax"].split("; ")
    scope = {"pd": pd, "x": x}
    for line in rest:
        exec(line, scope)
    want = [[0.55, 0.45, 0.0, 0.0], [0.4, 0.3, 0.2, 0.1]]
    np.testing.assert_allclose(pd.eval(eval(expression, scope)), want, atol=1e-6)


def test_copies_and_variants():
    assert function_here("cumsum_") == function_here("cumsum") == "pd.cum_sum"
    assert function_here("frac_") == LINES["frac"] and function_here("bogus") is None
