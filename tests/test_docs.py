"""The Python examples of README and docs run, each page as one program."""

import doctest
import importlib
import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest

import pd_core as pd
from pd_core import ops
from pd_core.gradients import __main__ as operator_table

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
REFERENCE = sorted((ROOT / "docs" / "api").glob("*.md"))
DOCUMENTED = re.compile(r"^```{auto\w+} (\S+)\n.*?^```\n\n```pycon\n(.*?)^```", re.M | re.S)
PROGRAMS, SESSIONS = 158, 525  # no fewer: examples in another form than these would not run
OF_PYTORCH = re.compile(r"^```py\n(.*?)^```", re.M | re.S)


def program(page, *examples):
    """The examples of a page, each at its own line; all in Python, or those that are given."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * (text.count("\n") + 1)
    for found in examples or EXAMPLE.finditer(text):
        start = text.count("\n", 0, found.start(1))
        for k, line in enumerate(found.group(1).splitlines()):
            lines[start + k] = line
    return "\n".join(lines)


def run(page, *examples):
    """Run the examples of a page; return the names that they define."""
    names = {"__name__": "example"}
    exec(compile(program(page, *examples), str(page), "exec"), names)
    return names


NOTEBOOK = ROOT / "docs" / "first_hour.ipynb"
LIBRARIES = ROOT / "docs" / "libraries.md"  # whose sections are programs that need packages
RUN = [p for p in PAGES if p.stem not in (NOTEBOOK.stem, LIBRARIES.stem) and program(p).strip()]


@pytest.mark.parametrize("page", RUN, ids=lambda p: p.name)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rules = dict(operator_table.gradient_rules)
    try:
        with pd.fresh():
            run(page)
    finally:  # an example may add a rule
        operator_table.gradient_rules.clear()
        operator_table.gradient_rules.update(rules)


def sections(page):
    """{title: its examples} of a page."""
    text, found = page.read_text(encoding="utf-8"), {}
    for example in EXAMPLE.finditer(text):
        title = re.findall(r"^## (.*)", text[: example.start()], re.M)[-1]
        found.setdefault(title, []).append(example)
    return found


@pytest.mark.parametrize("title", sections(LIBRARIES))
def test_sections_on_libraries_run(title, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_ALBUMENTATIONS_UPDATE", "1")  # it asks the network when it is imported
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    examples = sections(LIBRARIES)[title]
    for package in re.findall(r"^(?:import|from) (\w+)", program(LIBRARIES, *examples), re.M):
        pytest.importorskip(package)
    with pd.fresh():
        run(LIBRARIES, *examples)


def test_the_notebook_runs(tmp_path, monkeypatch):
    """Cell after cell, with the names of those before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PD_DATASET_HOME", str(ROOT / "demos" / "data"))
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    names = {"__name__": "notebook"}
    with pd.fresh():
        for cell in cells:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    assert names["answer"]["digits"] == names["found"][:8].tolist()  # of the server


def test_the_notebook_is_the_page(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    notebook = importlib.import_module("notebook")
    written = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = [(c["cell_type"] == "code", "".join(c["source"])) for c in written["cells"]]
    page = notebook.cells(notebook.PAGE.read_text(encoding="utf-8"))
    assert cells == page, "make it again: python docs/notebook.py"
    outputs = [c["outputs"] for c in written["cells"] if c["cell_type"] == "code"]
    printed = ["".join(output[0]["text"]) if output else "" for output in outputs]
    assert notebook.notebook(page, printed) == written
    assert sum(map(bool, printed)) > 8


def test_examples_compute_what_pytorch_does(tmp_path, monkeypatch):
    """The numbers of the same name are equal, in docs/from_pytorch.md."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "from_pytorch.md"
    text = page.read_text(encoding="utf-8")
    theirs = run(page, EXAMPLE.search(text), *OF_PYTORCH.finditer(text))
    with pd.fresh():
        ours = run(page)
    numbers = [k for k in theirs if isinstance(theirs[k], (float, np.ndarray))]
    numbers += [k for k in theirs if isinstance(theirs[k], list)]
    assert {"losses", "accuracy", "tuned_bias", "both_losses", "penalty", "second"} < {*numbers}
    for name in numbers:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_table_of_operators_is_fresh():
    page = (ROOT / "docs" / "ops.md").read_text(encoding="utf-8")
    assert page == operator_table.page(), "make it again: python -m pd_core.gradients > docs/ops.md"


def named_in(page):
    """What a page writes as a name of `pd`: in its tables of `pd.`, as `pd.name` anywhere else."""
    text = page.read_text(encoding="utf-8")
    for table in re.findall(r"^\| `pd\.` .*\n\|[-|]+\n((?:\|.*\n)+)", text, re.M):
        yield from re.findall(r"^\| `(\w+)`", table, re.M)
    yield from re.findall(r"(?<![\w.\"`])pd\.(\w+)", text)
    yield from re.findall(r"`pd\.(\w+)", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_names_of_pd_exist(page):
    # the first three are of the metadata of an exported step; `pd.sklearn` needs another package
    entries = {"state", "schema", "digest", "sklearn"}
    missing = {name for name in {*named_in(page)} - entries if not hasattr(pd, name)}
    assert not missing, f"{page.name} has names that pd lacks: {sorted(missing)}"


def test_every_op_function_is_named():
    rows = set(named_in(ROOT / "docs" / "ops.md"))
    assert {"einsum", "gather_nd", "scatter", "round", "max_pool"} <= rows
    inner = {name for name, _ in operator_table.functions(public=False)}
    functions = {name for name, thing in vars(ops).items() if inspect.isfunction(thing)}
    missing = functions - rows - inner
    assert not missing, "they are not in docs/ops.md: python -m pd_core.gradients > docs/ops.md"


def test_few_concepts_and_one_word_for_each():
    page = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    nouns = re.findall(r"^\| \*\*(\w+)", page, re.M)
    assert nouns == ["Variable", "op", "namespace", "eval", "Optimizer"]
    public = {name for name, thing in vars(pd).items() if not inspect.ismodule(thing)}
    assert not public & {"cmd", "name_scope", "run", "execute", "Executor", "tensor"}


# ---- the reference


def reference(page):
    """{name: its examples} of a page of the reference."""
    return dict(DOCUMENTED.findall(page.read_text(encoding="utf-8")))


class CloseNumbers(doctest.OutputChecker):
    """Accepts numbers that differ in their last digits, as they do between processors."""

    NUMBER = re.compile(r"-?\d+\.\d*(?:e[-+]?\d+)?")

    def check_output(self, want, got, optionflags):
        numbers, others = ([float(n) for n in self.NUMBER.findall(t)] for t in (want, got))
        if len(numbers) == len(others) and np.allclose(numbers, others, rtol=1e-4, atol=1e-6):
            want, got = (self.NUMBER.sub("#", t) for t in (want, got))
            want, got = (re.sub(r"#\s*", "#", t) for t in (want, got))  # arrays are aligned
        return super().check_output(want, got, optionflags)


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.name)
def test_examples_of_the_reference(page, tmp_path, monkeypatch):
    """Each name has its own names and session."""
    if page.stem == "sklearn":
        pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(CloseNumbers(), optionflags=doctest.NORMALIZE_WHITESPACE)
    for name, text in reference(page).items():
        names = {"np": np, "pd": pd}
        test = doctest.DocTestParser().get_doctest(text, names, name, str(page), 0)
        assert test.examples, f"{name} has no example"
        with pd.fresh():
            runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


def test_the_reference_has_every_public_name():
    modules = {name for name in pd.__all__ if inspect.ismodule(getattr(pd, name))}
    names = {f"pd_core.{name}" for name in set(pd.__all__) - modules if name != "__version__"}
    for module in sorted(modules - {"layer"}):  # whose names are those of pd.nn in lower case
        things = getattr(pd, module)
        public = getattr(things, "__all__", None) or own_names(things)
        names |= {f"pd_core.{module}.{name}" for name in public if name != "METRICS"}
    estimators = (ROOT / "pd_core" / "sklearn.py").read_text(encoding="utf-8")
    listed = estimators.partition("__all__ = ")[2]
    names |= {f"pd_core.sklearn.{name}" for name in re.findall(r'"(\w+)"', listed)}
    documented = [name for page in REFERENCE for name in reference(page)]
    assert (set(documented) - names, names - set(documented)) == (set(), set())
    assert len(documented) == len(set(documented))


def own_names(module):
    """The classes and functions that a module without `__all__` defines."""
    return [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", "") == module.__name__
    ]


def test_no_example_is_overlooked():
    """An example that is written in another form than the others would not run."""
    pages = [page.read_text(encoding="utf-8") for page in PAGES]
    programs = sum(len(EXAMPLE.findall(text)) for text in pages)
    assert programs == sum(text.count("```python\n") for text in pages) >= PROGRAMS
    references = [page.read_text(encoding="utf-8") for page in REFERENCE]
    sessions = sum(len(DOCUMENTED.findall(text)) for text in references)
    assert sessions == sum(text.count("```pycon\n") for text in references) >= SESSIONS
    assert sessions == sum(text.count("```{auto") for text in references)


def test_the_site_has_every_page():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {p.relative_to(ROOT / "docs").with_suffix("") for p in (ROOT / "docs").rglob("*.md")}
    listed = set(map(Path, re.findall(r"^[\w/]+$", index, re.M)))
    assert listed == pages - {Path("index"), Path("package")}
