"""The places that the recipes of CONTRIBUTING.md list: each failure names the one left out."""

import ast
import inspect
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import pd_core as pd
from pd_core import nn, ops, training
from pd_core.layers.parameter import activations
from pd_core.ops import detection
from pd_core.optimizers.base import Optimizer
from pd_core.training import RunnerItem
from pd_v2 import layer
from pd_v2.described import network

from .core.ops import CASES

ROOT = Path(__file__).resolve().parent.parent
RULE, PASS = ["node", "inputs", "context"], ["targets", "context"]  # the parameters of each


@cache
def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def python_files(folder):
    return sorted((ROOT / folder).rglob("*.py"))


def public_functions(folder):
    """Yield (file name from the root, FunctionDef)."""
    for path in python_files(folder):
        for node in tree(path).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield str(path.relative_to(ROOT)), node


def attributes(paths, *roots):
    """Return what files use as attributes of some names: {"add"} of `ops.add`."""
    return {
        node.attr
        for path in paths
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in roots
    }


def op_functions():
    return {name for name, f in vars(ops).items() if inspect.isfunction(f)}


def check_none(missing):
    """Fail with these lines, if there are any."""
    lines = sorted(missing)
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)


# ---- an op with its gradient


def test_op_functions_are_imported_in_ops():
    check_none(
        f"{file}: {f.name} is not imported in pd_core/ops/__init__.py"
        for file, f in public_functions("pd_core/ops")
        if any(ast.unparse(d) == "op" for d in f.decorator_list) and not hasattr(ops, f.name)
    )


def test_op_functions_are_names_of_pd():
    check_none(
        f"{name} is not imported from .ops in pd_core/__init__.py; if only gradient rules add it, "
        "name it in GRADIENT_OPS of pd_core/ops/__init__.py"
        for name in op_functions() - ops.GRADIENT_OPS
        if not hasattr(pd, name)
    )


def test_public_names_are_in_all():
    body = tree(ROOT / "pd_core" / "__init__.py").body
    aliases = [a for node in body if isinstance(node, ast.ImportFrom) for a in node.names]
    names = {a.asname or a.name for a in aliases}
    public = {name for name in names - {*pd.__all__} if not name.startswith("_")}
    check_none(f"{name} is not in __all__ of pd_core/__init__.py" for name in public)
    check_none(f"{name} of __all__ is not imported" for name in {*pd.__all__} - names)


def functions_called(row):
    """Names of the op functions in a row: the function itself, or what its body mentions."""
    if not inspect.isfunction(row.function):
        return {row.function.__name__}
    code = row.function.__code__
    nested = [c for c in code.co_consts if inspect.iscode(c)]
    cells = [c.cell_contents for c in row.function.__closure__ or ()]
    inner = [c.__name__ for c in cells if inspect.isfunction(c)]
    names = [name for c in (code, *nested) for name in c.co_names]
    return {row.function.__name__, *names, *inner}


# Ops of functions, and of boxes: their tests are beside the tables.
WITHOUT_ROWS = {"cond", "for_loop", "ifelse", "rnn", "scan", "while_loop", "while_op"}
WITHOUT_ROWS |= {"beam_search", "odeint", "unroll", "vmap"}
WITHOUT_ROWS |= {f.__name__ for f in vars(detection).values() if inspect.isfunction(f)}


def test_op_functions_have_rows():
    tested = set().union(*map(functions_called, CASES))
    check_none(
        f"{name} has no row of CASES in tests/core/ops"
        for name in op_functions() - tested - WITHOUT_ROWS
    )


def names_of_the_reference():
    """The names that have a place on a page of docs/api, by page."""
    pages = (ROOT / "docs" / "api").glob("*.md")
    return {p.name: re.findall(r"{auto\w+} pd_core\.([\w.]+)", p.read_text()) for p in pages}


def test_public_names_are_in_the_reference():
    documented = {name for names in names_of_the_reference().values() for name in names}
    public = {name for name in pd.__all__ if not inspect.ismodule(getattr(pd, name))}
    public |= {f"nn.{name}" for name in nn.__all__}
    public |= {f"training.{name}" for name in training.__all__}
    check_none(
        f"{name} has no place on a page of docs/api"
        for name in public - documented - {"__version__"}
    )


# It has half the width of its input.
NOT_AN_ACT = {"glu"}


def test_activations_are_taken_by_layers():
    names = names_of_the_reference()["activations.md"]
    required = {
        name: [
            p
            for p in inspect.signature(getattr(pd, name)).parameters.values()
            if p.default is p.empty
        ]
        for name in names
    }
    check_none(
        f'{name} is not in `activations` of pd_core/layers/parameter.py, so act="{name}" is refused'
        for name, parameters in required.items()
        if len(parameters) == 1 and name not in {*activations, *NOT_AN_ACT}
    )


# ---- an optimizer


def optimizers(base=Optimizer):
    for subclass in base.__subclasses__():
        if subclass.__module__.startswith("pd_core."):
            if subclass.rule is not Optimizer.rule:  # else it is a base class
                yield subclass.__name__
            yield from optimizers(subclass)


def test_optimizers_are_names_of_pd():
    check_none(
        f"{name} is not imported in pd_core/__init__.py"
        for name in optimizers()
        if not hasattr(pd, name)
    )


def test_optimizers_have_rows():
    folder = ROOT / "tests" / "core" / "optimizers"
    whole = attributes([folder / "test_adaptive.py", folder / "test_optimizers.py"], "pd")
    rows = attributes([folder / "test_row_sparse.py"], "pd")
    check_none(
        [f"{name} has no row of CASES in test_adaptive.py" for name in {*optimizers()} - whole]
        + [f"{name} has no row of RULES in test_row_sparse.py" for name in {*optimizers()} - rows]
    )


# ---- a pass


def test_passes_are_listed():
    """Each rule is in a list of `passes/__init__.py`, or called by another rule."""
    folder = "pd_core/backend/passes"
    nodes = [node for path in python_files(folder) for node in ast.walk(tree(path))]
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    used |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    check_none(
        f"{file}: {f.name} is in no list of {folder}/__init__.py"
        for file, f in public_functions(folder)
        if [a.arg for a in f.args.args] in (RULE, PASS) and f.name not in used
    )


# ---- a layer of pd.nn


def layer_classes():
    """Yield (file name from the root, name) of the layers in pd_core/layers."""
    for path in python_files("pd_core/layers"):
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                thing = getattr(import_module(f"pd_core.layers.{path.stem}"), node.name)
                if issubclass(thing, nn.Layer):
                    yield str(path.relative_to(ROOT)), node.name


def test_layers_are_names_of_nn():
    check_none(
        f"{file}: {name} is not imported in pd_core/nn.py, or not in its __all__"
        for file, name in layer_classes()
        if name not in nn.__all__ or not hasattr(nn, name)
    )


def test_layers_are_compared():
    files = python_files("tests/core/layers")
    tested = attributes(files, "nn", "pd.nn")
    tested |= {n.value for f in files for n in ast.walk(tree(f)) if isinstance(n, ast.Constant)}
    check_none(
        f"{file}: {name} has no row of ROWS in test_same_as_pytorch.py, nor a test beside it"
        for file, name in layer_classes()
        if name not in tested
    )


# ---- a RunnerItem with state


def items():
    """Yield (file name, class) of the items in pd_core/training that no other one is based on."""
    found = {}
    for path in (ROOT / "pd_core" / "training").glob("*.py"):
        module = import_module(f"pd_core.training.{path.stem}")
        for name, thing in vars(module).items():
            own = inspect.isclass(thing) and thing.__module__ == module.__name__
            if own and issubclass(thing, RunnerItem) and name[0] != "_":
                found[thing] = path.name
    bases = {base for thing in found for base in thing.__mro__[1:]}
    return [(file, thing) for thing, file in found.items() if thing not in bases]


def test_items_are_names_of_training():
    check_none(
        f"{file}: {thing.__name__} is not imported in pd_core/training/__init__.py, or not in its "
        "__all__"
        for file, thing in items()
        if getattr(training, thing.__name__, None) is not thing
        or thing.__name__ not in training.__all__
    )


def test_items_with_state_have_rows():
    rows = attributes([ROOT / "tests" / "states" / "items.py"], "training")
    check_none(
        f"{file}: {thing.__name__} has a state and no row of ITEMS in tests/states/items.py"
        for file, thing in items()
        if thing.state is not RunnerItem.state and thing.__name__ not in rows
    )


# ---- a layer of paddle.v2


def layer_functions():
    """Yield (file, name, type) of the functions that `@layer(type, ...)` decorates."""
    for path in python_files("pd_v2/layer"):
        for node in tree(path).body:
            for decorator in getattr(node, "decorator_list", ()):
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "layer":
                    (kind, *_) = decorator.args
                    label = next((k.value for k in decorator.keywords if k.arg == "label"), kind)
                    file = path.relative_to(ROOT)
                    yield file, node.name, ast.literal_eval(kind), ast.literal_eval(label)


def test_layers_are_exported():
    check_none(
        f"{file}: {name} is not imported in pd_v2/layer/__init__.py, or not in its __all__"
        for file, name, _, _ in layer_functions()
        if not name.startswith("_") and (name not in layer.__all__ or not hasattr(layer, name))
    )


def test_layers_have_their_type():
    check_none(
        f"{file}: the type {label!r} of {name} is not in pd_v2/layer/layer_type.py"
        for file, name, _, label in layer_functions()
        if not layer.LayerType.is_layer_type(label)
    )


def test_layers_are_rebuilt():
    check_none(
        f"{file}: the type {kind!r} of {name} has no entry of LAYERS in pd_v2/described"
        for file, name, kind, _ in layer_functions()
        if kind not in network._LAYERS
    )


def test_layers_have_rows():
    tested = attributes(python_files("tests/v2/layer"), "L", "layer")
    check_none(
        f"{file}: {name} has no row of ROWS in tests/v2/layer, nor a test there"
        for file, name, _, _ in layer_functions()
        if not name.startswith("_") and name not in tested
    )


# ---- the page itself


def additions():
    """Yield (file, line) of what the diffs of the page add."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    file = None
    for line in text.splitlines():
        if line.startswith("+++ "):
            file = line.split()[1].rstrip(",")
        elif line.startswith("```"):
            file = file if line == "```diff" else None
        elif line.startswith("+") and line.strip("+. "):
            yield file, line[1:].strip()


def test_diffs_of_the_recipes_are_in_the_tree():
    found = list(additions())
    assert len(found) > 120
    check_none(
        f"CONTRIBUTING.md: the diff has a line that is not in {file}: {line}"
        for file, line in found
        if line not in (ROOT / file).read_text(encoding="utf-8")
    )


def test_files_of_the_recipes_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    files = re.findall(r"(?:pd_core|pd_v2|tests|docs|demos)/[\w/]+\.(?:py|md)", text)
    assert len(files) > 40
    check_none(f"{file} is not there" for file in set(files) if not (ROOT / file).exists())
