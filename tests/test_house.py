"""Rules of the house: who imports whom, how long a file is, what is documented."""

import ast
import inspect
from collections import Counter
from pathlib import Path

import pytest

import pd_core as pd

ROOT = Path(__file__).resolve().parent.parent
CORE = sorted((ROOT / "pd_core").rglob("*.py"))
FACE = sorted((ROOT / "pd_v2").rglob("*.py"))
LONGEST = 600

# The rooms of pd_core from the bottom up: each imports only from those before it. A new room takes
# its place here, in CONTRIBUTING's map too.
ROOMS = (
    "graph",
    "ops",
    "backend",
    "gradients",
    "importing",
    "run",
    "optimizers",
    "nn",
    "files",
    "",
)
# What the face may import: public names, and the modules that extensions are written with.
EXTENSIONS = ("pd_core", "pd_core.graph.node", "pd_core.graph.site", "pd_core.graph.update")
# Parts of the face that are plain Python: they know neither the core's graphs nor the rest of the
# face. Of the core they use how files are written, and what is said of damaged ones.
PLAIN = {
    "reader",
    "dataset",
    "image",
    "master",
    "plot",
    "pickles",
    "limits",
    "unpacking",
    "pillow",
    "recordio",
}
FILES = {"pd_core.DamagedFile", "pd_core.atomic_write"}
# Imported when it is called: some datasets come with trained parameters.
TRAINED = ("dataset", "parameters")


def where(path):
    return str(path.relative_to(ROOT))


def imports(path):
    """Dotted names of what a file imports, functions' imports included."""
    package = list(path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            for alias in node.names:
                assert alias.name != "*", f"{where(path)}:{node.lineno}: star import"
                yield f"{base}.{alias.name}"


def part(name, package):
    """`ops` of `pd_core.ops.math.add`; `` of the package itself; None of anything else."""
    if name == package:
        return ""
    if not name.startswith(package + "."):
        return None
    first = name.split(".")[1]
    path = ROOT / package / first
    return first if path.is_dir() or path.with_suffix(".py").exists() else ""


def module_of(name):
    """`pd_core.graph.node` of `pd_core.graph.node.apply`."""
    while not (ROOT / Path(*name.split("."))).with_suffix(".py").exists():
        if (ROOT / Path(*name.split("."))).is_dir():
            break
        name = name.rpartition(".")[0]
    return name


def own_part(path):
    first = path.relative_to(ROOT).parts[1]
    return "" if first == "__init__.py" else first.removesuffix(".py")


@pytest.mark.parametrize("path", CORE, ids=where)
def test_imports_of_the_core_point_down(path):
    own = own_part(path)
    assert own in ROOMS, f"{own} has no place in ROOMS"
    for name in imports(path):
        assert part(name, "pd_v2") is None, f"{name} is above"
        below = part(name, "pd_core")
        if below is not None and below != own:
            assert ROOMS.index(below) < ROOMS.index(own), f"{name} is above {own}"


@pytest.mark.parametrize("path", FACE, ids=where)
def test_the_face_uses_public_names_of_the_core(path):
    for name in imports(path):
        below = part(name, "pd_core")
        assert below is None or module_of(name) in EXTENSIONS, f"{name} is not public"
        if own_part(path) in PLAIN:
            files_only = below is None or name in FILES
            assert files_only, f"{name}: {own_part(path)} does not know the core"
            beside = part(name, "pd_v2")
            allowed = beside in PLAIN or (own_part(path), beside) == TRAINED
            assert beside is None or allowed, f"{name}: {own_part(path)} stands alone"


@pytest.mark.parametrize("path", CORE + FACE, ids=where)
def test_files_are_short_and_finished(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST
    assert path.stem not in ("utils", "helpers", "misc", "common") or "dataset" in path.parts
    assert not any(word in text for word in ("TODO", "FIXME", "XXX"))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Raise):
            assert not is_stub(node.exc), f"{where(path)}:{node.lineno}: a stub"
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
            assert getattr(node.value.func, "id", None) != "globals", f"line {node.lineno}"


def is_stub(error):
    """`raise NotImplementedError`, with nothing to say."""
    called = isinstance(error, ast.Call)
    name = getattr(error.func if called else error, "id", None)
    return name == "NotImplementedError" and not (called and error.args)


@pytest.mark.parametrize("path", [p for p in CORE if p.read_text(encoding="utf-8")], ids=where)
def test_modules_of_the_core_say_what_they_are(path):
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring
    assert docstring.splitlines()[0].endswith((".", ":")) or "\n" in docstring


def public_names():
    tree = ast.parse((ROOT / "pd_core" / "__init__.py").read_text(encoding="utf-8"))
    aliases = [a for node in tree.body if isinstance(node, ast.ImportFrom) for a in node.names]
    return [(a.asname or a.name, a.name) for a in aliases]


def test_the_core_names_each_thing_once():
    names = [public for public, _ in public_names()]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    things = Counter(id(getattr(pd, name)) for name in names)
    assert [name for name in names if things[id(getattr(pd, name))] > 1] == []
    assert not any(name.startswith("_") for name in names)


@pytest.mark.parametrize("name", [public for public, _ in public_names()])
def test_public_things_are_documented(name):
    thing = getattr(pd, name)
    assert inspect.getdoc(thing), f"{name} has no docstring"
    methods = vars(thing) if inspect.isclass(thing) else {}
    for method, value in methods.items():
        if inspect.isfunction(value) and not method.startswith("_"):
            assert inspect.getdoc(getattr(thing, method)), f"{name}.{method} has no docstring"
