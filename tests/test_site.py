"""The documentation as a site: it builds without a warning, and the reference is rendered."""

import html
import re
import shutil
import subprocess
import sys

import pytest

from .rooms import ROOT
from .thinned import EVERY

pytest.importorskip("myst_parser")
pytest.importorskip("furo")
inventory = pytest.importorskip("sphinx.util.inventory")

REFERENCE = sorted((ROOT / "docs" / "api").glob("*.md"))
DIRECTIVE = re.compile(r"^```\{auto\w+\} (\S+)", re.M)
LINK = re.compile(r"<a .*?</a>")
PARAMETER = re.compile(
    r'<span class="n"><span class="pre">\w+</span></span><span class="p">(.*?)</em>'
)
TYPE = re.compile(r'<span class="pre">([A-Z]\w*[a-z]\w*)</span>')
OF_PYTHON = {
    *("Any", "Callable", "False", "Iterable", "Iterator", "Literal", "Mapping", "None", "Path"),
    *("Self", "Sequence", "TextIO", "True", "ModelProto", "NodeProto"),
}


# Two thirds of the time of a site go to the theme's trees of links and to pages of source code.
PLAIN = (
    *("-D", "smartquotes=0"),
    *("-D", "html_theme=basic"),
    *("-D", "extensions=myst_parser,sphinx.ext.autodoc,sphinx.ext.napoleon,reference"),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site; a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "CHANGELOG.md", folder)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "docs", "site"]
    command += [] if EVERY else PLAIN
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "site"


def text(page):
    """The text of a page, without tags."""
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


def test_the_inventory_has_every_documented_name(site):
    written = {name for page in REFERENCE for name in DIRECTIVE.findall(page.read_text("utf-8"))}
    file = inventory.InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    listed = {name for kind, names in file.data.items() if kind[:3] == "py:" for name in names}
    assert sorted(written - listed) == []
    assert len(written) > 500 and len(listed) > 1000


def test_names_have_signatures(site):
    pages = [(site / "api" / f"{page.stem}.html") for page in REFERENCE]
    signatures = sum(page.read_text("utf-8").count('class="sig sig-object py"') for page in pages)
    assert signatures > 1000
    for page in pages:
        shown = text(page)
        assert "import pd_core as pd" in shown
        raw = [
            word for word in ("{auto", ".. py:", ".. auto", ":members:", ":param") if word in shown
        ]
        assert raw == [], page.name


def test_signatures_are_those_of_the_source(site):
    """With the names of types instead of the unions that they stand for, and short names."""
    shown = " ".join(text(site / "api" / "math.html").split())
    assert "pd.add(a: Operand, b: Operand) → Variable" in shown
    assert "floating[Any]" not in shown and "_NestedSequence" not in shown


def test_settings_of_optimizers_are_shown(site):
    """By name and type, inherited ones too; and the methods that all optimizers have."""
    shown = " ".join(text(site / "api" / "optimizers.html").split())
    shown = shown.replace("( ", "(").replace(", )", ")")
    own = "learning_rate: LearningRate = 0.001, beta1: float = 0.9, beta2: float = 0.999"
    of_all = "clip: Clip | None = None, groups: Groups = (), accumulate: int = 1"
    assert f"pd.AdamOptimizer({own}, epsilon: float = 1e-08, *, name: str" in shown
    assert shown.count(of_all) >= 14 and "_SettableGroups" not in shown
    assert "minimize(cost: Variable | Sequence[Variable]" in shown


def test_types_in_signatures_are_explained(site):
    """Each is a type of Python, a class with a link, or in the table of types."""
    table = (ROOT / "docs" / "api" / "types.md").read_text("utf-8")
    explained = {
        n for row in re.findall(r"^\| (`.*?) \|", table, re.M) for n in re.findall(r"\w+", row)
    }
    used = set()
    for page in REFERENCE:
        shown = (site / "api" / f"{page.stem}.html").read_text("utf-8")
        used |= {n for types in PARAMETER.findall(LINK.sub("", shown)) for n in TYPE.findall(types)}
    assert {"Operand", "Sequence"} < used
    assert sorted(used - explained - OF_PYTHON) == []


def test_docstrings_keep_their_formulas(site):
    losses = text(site / "api" / "losses.html")
    assert "Absolute error |x - target|, elementwise." in losses
    optimizers = (site / "api" / "optimizers.html").read_text("utf-8")
    assert "+ epsilon)" in "".join(re.findall(r"<pre>(.*?)</pre>", optimizers, re.S))


def test_the_search_knows_the_names(site):
    index = (site / "searchindex.js").read_text("utf-8")
    assert "softmax_cross_entropy" in index and "FC" in index
