"""House rules: the layers of imports, the length of files, what is documented, where tests are."""

import ast
import inspect
import re
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import pd_core as pd
from pd_core import ops

from .rooms import CORE, MAP, ROOMS, ROOT, ROW, bindings, imports, nodes, part, updated

FACE = sorted((ROOT / "pd_v2").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
LONGEST = 600
LONGEST_NAME = 60

# The packages and top modules of pd_v2 from the bottom up.
ORDER = (
    # settings, descriptions of data, tools
    *(
        "warning",
        "program_name",
        "files",
        "search_path",
        "hash_seed",
        "settings",
        "rand_r",
        "event",
        "deprecated_keywords",
    ),
    *("activation", "pooling", "data_type", "arguments", "as_paddle", "plot"),
    # files and readers
    *("pickles", "recordio", "master", "online", "reader", "minibatch"),
    "image",
    # batches
    *("feeds", "data_feeder", "training", "py_paddle", "formats", "not_finite", "job"),
    # layers
    *("unfit", "build", "config_base", "attr", "topology", "evaluator", "layer", "networks", "op"),
    # training
    *("optimizer", "parameters", "runner", "trainer", "dataset"),
    # networks from files, inference
    *("described", "inference"),
    # programs of 2017
    *("trainer_config_helpers", "python2", "check", "export", "report", "restart", "__main__", ""),
)
# What the face may import: public names, and the modules that extensions are written with.
EXTENSIONS = (
    *("pd_core", "pd_core.graph.node", "pd_core.graph.site", "pd_core.graph.update"),
    "pd_core.distributed.heartbeat",  # which the launcher of a job reads
    *("pd_core.commands", "pd_core.graph.roles", "pd_core.graph.errors"),
    *("pd_core.graph.handlers", "pd_core.graph.names"),
    "pd_core.graph.rewrite",  # with which a network is rebuilt on other values
    *("pd_core.graph.whole", "pd_core.storage.partial"),
    *("pd_core.training", "pd_core.training.checkpoint", "pd_core.training.evaluate"),
    *("pd_core.training.generators", "pd_core.training.positions", "pd_core.training.ranks"),
    "pd_core.training.precision",
    "pd_core.training.stacking",
    # with which tables are spread over ranks
    *("pd_core.distributed.alone", "pd_core.distributed.empty", "pd_core.distributed.lookups"),
    *("pd_core.distributed.table_draws", "pd_core.distributed.table_files"),
    *("pd_core.run.states", "pd_core.run.undo"),  # with which states are checked and taken back
    "pd_core.ops.mode",  # with which a generator is built for inference alone
)
# Parts of the face that are plain Python: they know neither the core's graphs nor the rest of the
# face. Of the core they use how files are written, what is said of damaged ones, and how positions
# of readers are described.
PLAIN = {
    "reader",
    "dataset",
    "image",
    "master",
    "program_name",
    "online",
    "plot",
    "pickles",
    "files",
    "recordio",
}
FILES = {
    *("pd_core.DamagedFile", "pd_core.atomic_write"),
    *("pd_core.storage.partial.partial_path", "pd_core.storage.partial.stem"),
}
POSITIONS = ("pd_core.training.generators", "pd_core.training.positions")
# Imported when it is called: some datasets come with trained parameters.
TRAINED = ("dataset", "parameters")
# Exceptions, each with its reason. None is to be added, and one that is gone leaves the table.
GLOBALS = {}
PRIVATE = {
    "pd_v2.python2.shims.doctests: doctest._load_testfile": "the standard module has no other",
    "pd_v2.python2.shims.doctests: doctest._normalize_module": "the standard module has no other",
}
# Folders of tests without a package, and packages without tests of their own.
NOT_MIRRORED = {
    "tests/v2/data": "configurations that 2017's own builder made, for tests of several packages",
    "pd_v2/py_paddle": "names only, tested with those of trainer_config_helpers",
}


def where(path):
    return str(path.relative_to(ROOT))


def module_of(name):
    """`pd_core.graph.node` of `pd_core.graph.node.apply`."""
    while not (ROOT / Path(*name.split("."))).with_suffix(".py").exists():
        if (ROOT / Path(*name.split("."))).is_dir():
            break
        name = name.rpartition(".")[0]
    return name


def own_module(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def own_part(path):
    first = path.relative_to(ROOT).parts[1]
    return "" if first == "__init__.py" else first.removesuffix(".py")


def test_imports_of_the_core_point_down():
    for path in CORE:
        own = own_part(path)
        assert own in ROOMS, f"{own} has no place in ROOMS"
        for name in imports(path):
            assert part(name, "pd_v2") is None, f"{where(path)}: {name} is above"
            below = part(name, "pd_core")
            is_below = below in (None, own) or ROOMS.index(below) < ROOMS.index(own)
            assert is_below, f"{where(path)}: {name} is above {own}"


def test_the_map_has_the_imports_that_there_are():
    """`python -m tests.rooms` writes them."""
    text = MAP.read_text(encoding="utf-8")
    mapped = {room for room, _, _ in ROW.findall(text)}
    assert mapped == {room for room in ROOMS if (ROOT / "pd_core" / room).is_dir() and room}
    assert updated(text).splitlines() == text.splitlines()


def place(module):
    """The index in ORDER of a module of pd_v2, or of its package."""
    name = module.removeprefix("pd_v2").removeprefix(".")
    while name not in ORDER:
        assert name, f"{module} has no place in ORDER"
        name = name.rpartition(".")[0]
    return ORDER.index(name)


def test_imports_of_the_face_point_down():
    for path in FACE:
        own = own_module(path)
        below = {module_of(n) for n in imports(path) if part(n, "pd_v2") is not None} - {own}
        assert [module for module in below if place(module) > place(own)] == [], own


@pytest.mark.parametrize("paths", [CORE, FACE], ids=["pd_core", "pd_v2"])
def test_no_modules_import_each_other_in_a_circle(paths):
    known = {own_module(path) for path in paths}
    graph = {
        own_module(path): {module_of(name) for name in imports(path) if name.startswith("pd_")}
        & known - {own_module(path)}
        for path in paths
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def check_exceptions(entries, table):
    """Check that the exceptions are those of a table, no more and no fewer."""
    entries = set(entries)
    assert sorted(entries - set(table)) == [], "new exceptions"
    assert sorted(set(table) - entries) == [], "exceptions that are gone: clear the table"


def test_globals_are_not_called_for():
    """The names of a module are written in it, for readers and for tools."""
    calls = (
        own_module(path)
        for path in CORE + FACE
        for node in nodes(path)
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "globals"
    )
    check_exceptions(calls, GLOBALS)


def is_private(name):
    return name.startswith("_") and not name.endswith("__")


def is_self(node):
    return ast.unparse(node) in ("self", "cls", "super()")


def private_uses(path):
    """Private names of other modules of ours that a file imports or reaches as attributes."""
    own = {node.name for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    stored = [node for node in nodes(path) if isinstance(getattr(node, "ctx", None), ast.Store)]
    own |= {node.id for node in stored if isinstance(node, ast.Name)}
    own |= {n.attr for n in stored if isinstance(n, ast.Attribute) and is_self(n.value)}
    ours, others = set(), set()
    for bound, name in bindings(path):
        is_ours = name.startswith("pd_")
        (ours if is_ours else others).add(bound)
        if is_ours and any(map(is_private, name.split("."))):
            yield name
    for node in nodes(path):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            text = ast.unparse(node)
            root = text.partition(".")[0]
            if root in ours or not (root in others or is_self(node.value) or node.attr in own):
                yield text


def test_private_names_stay_in_their_modules():
    uses = (f"{own_module(path)}: {use}" for path in CORE + FACE for use in private_uses(path))
    check_exceptions(uses, PRIVATE)


def packages(path):
    """The names of the folders in a folder; leftovers with compiled files only do not count."""
    files = (p.relative_to(path).parts for p in path.rglob("*") if p.is_file())
    return {parts[0] for parts in files if len(parts) > 1 and "__pycache__" not in parts}


@pytest.mark.parametrize(("tests", "package"), [("core", "pd_core"), ("v2", "pd_v2")])
def test_the_tests_mirror_the_packages(tests, package):
    folders, mirrored = (packages(ROOT / "tests" / tests), packages(ROOT / package))
    differences = [f"tests/{tests}/{name}" for name in folders - mirrored]
    differences += [f"{package}/{name}" for name in mirrored - folders]
    prefixes = (f"tests/{tests}/", f"{package}/")
    check_exceptions(differences, [k for k in NOT_MIRRORED if k.startswith(prefixes)])


def test_tests_outside_the_packages_are_few():
    """Those of v2 that are in no folder test its top modules."""
    top = {path.stem for path in (ROOT / "tests").glob("test_*.py")}
    assert top == {
        "test_benchmarks",
        "test_cookbook",
        "test_demo_pictures",
        "test_demos",
        "test_docs",
        "test_docstrings",
        "test_house",
        "test_install",
        "test_on_device",
        "test_pictures",
        "test_recipes",
        "test_safety",
        "test_site",
        "test_skips",
        "test_tiny",
    }
    assert list((ROOT / "tests" / "core").glob("test_*.py")) == []


def test_names_of_tests_are_short():
    text = "\n".join(path.read_text(encoding="utf-8") for path in TESTS)
    names = re.findall(r"^ *def (test_\w+)", text, re.M)
    assert len(names) > 3000 and [n for n in names if len(n) > LONGEST_NAME] == []


def test_the_face_uses_public_names_of_the_core():
    for path, name in ((file, name) for file in FACE for name in imports(file)):
        below = part(name, "pd_core")
        assert below is None or module_of(name) in EXTENSIONS, f"{path}: {name} is not public"
        if own_part(path) in PLAIN:
            plain = below is None or name in FILES or module_of(name) in POSITIONS
            assert plain, f"{path}: {name}: {own_part(path)} does not know the core"
            beside = part(name, "pd_v2")
            allowed = beside in PLAIN or (own_part(path), beside) == TRAINED
            assert beside is None or allowed, f"{path}: {name}: {own_part(path)} stands alone"


def test_files_are_short_and_finished():
    for path in CORE + FACE:
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= LONGEST, where(path)
        assert path.stem not in ("utils", "helpers", "misc", "common") or "dataset" in path.parts
        assert not any(word in text for word in ("TODO", "FIXME", "XXX")), where(path)
        for node in nodes(path):
            if isinstance(node, ast.Raise):
                assert not is_stub(node.exc), f"{where(path)}:{node.lineno}: a stub"


def is_stub(error):
    """`raise NotImplementedError`, with nothing to say."""
    called = isinstance(error, ast.Call)
    name = getattr(error.func if called else error, "id", None)
    return name == "NotImplementedError" and not (called and error.args)


def test_modules_of_the_core_say_what_they_are():
    for path in (p for p in CORE if p.stat().st_size):
        docstring = ast.get_docstring(nodes(path)[0])
        assert docstring, where(path)
        assert docstring.splitlines()[0].endswith((".", ":")) or "\n" in docstring, where(path)


def public_names():
    tree = ast.parse((ROOT / "pd_core" / "__init__.py").read_text(encoding="utf-8"))
    aliases = [a for node in tree.body if isinstance(node, ast.ImportFrom) for a in node.names]
    return [(a.asname or a.name, a.name) for a in aliases]


def test_the_core_names_each_thing_once():
    names = [public for public, _ in public_names()]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    things = Counter(id(getattr(pd, name)) for name in names)
    assert [name for name in names if things[id(getattr(pd, name))] > 1] == []
    # what the module itself calls, and its version
    assert [name for name in names if name.startswith("_")] == [
        "_TYPE_CHECKING",
        "_place_names",
        "__version__",
    ]


def test_public_things_are_documented():
    things = {name: getattr(pd, name) for name, _ in public_names()}
    for name, thing in [*things.items()]:
        methods = vars(thing) if inspect.isclass(thing) else {}
        for method, value in methods.items():
            if inspect.isfunction(value) and not method.startswith("_"):
                things[f"{name}.{method}"] = getattr(thing, method)
    assert len(things) > 500
    assert [name for name, thing in things.items() if not inspect.getdoc(thing)] == []


def public_functions(tree):
    """The public functions of a module, and the methods of its public classes."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not is_private(node.name):
            if isinstance(node, ast.FunctionDef):
                yield node
            else:
                yield from public_functions(node)


def is_typed(function):
    """Whether every parameter and the result are annotated; an __init__ returns nothing."""
    a = function.args
    parameters = [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]
    typed = [p.annotation is not None for p in parameters if p and p.arg not in ("self", "cls")]
    constructs = function.name == "__init__" and bool(typed)
    return all(typed) and (constructs or function.returns is not None)


def test_public_functions_of_the_core_are_annotated():
    entries = []
    for path in CORE:
        tree = nodes(path)[0]
        entries += [f"{where(path)}: {f.name}" for f in public_functions(tree) if not is_typed(f)]
    assert entries == []


OPS = [name for name, value in vars(ops).items() if name[0] != "_" and inspect.isfunction(value)]
# They call functions of the user, whose errors would begin with the name of the op around them.
TAKE_FUNCTIONS = {"cond", "for_loop", "scan", "scan_bounded", "unroll", "vmap", "while_loop"}
ARRAYS = {"prior_boxes"}  # no op: it returns an array


def test_ops_say_their_own_name():
    """They are decorated with @op."""
    names = {*OPS} - TAKE_FUNCTIONS - ARRAYS
    assert len(names) > 200
    assert [name for name in names if not hasattr(getattr(ops, name), "__wrapped__")] == []
