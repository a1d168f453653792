"""The two distributions that this tree makes, and what is said about installing them."""

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from email.parser import Parser
from pathlib import Path

import pytest

from .rooms import CORE, ROOT, imports

IMPORT = "import sys; sys.path.insert(0, '.ci'); import distribution; "
PACKED = [
    *("setup.cfg", "pyproject.toml", "LICENSE", ".ci/distribution.py"),
    *("docs/package.md", "pd_core/__init__.py", "pd_core/version.py"),
]
FOLDERS = [ROOT / name for name in ("docs", "pd_core", "pd_v2", "demos", "tests")]
TEXTS = [
    *(p for p in ROOT.iterdir() if p.suffix in (".md", ".cfg", ".toml")),
    *(p for folder in FOLDERS for p in folder.rglob("*")),
    *(ROOT / ".ci").iterdir(),
]
# `pip install` and its arguments, to the end of the code or of the sentence
INSTALLATION = re.compile(r"pip3? install ([^`\n#,;)]+)")
OURS = re.compile(r"['\"]?(pd([-_]\w+)*)(\[[\w,]+\])?['\"]?$")


@pytest.fixture
def tree(tmp_path):
    """A copy of what a distribution is made from, with little of the packages."""
    for name in PACKED:
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "tree" / name)
    return tmp_path / "tree"


def build(tree, call):
    """Call a hook of the backend, as pip does: in a process of its own."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"{IMPORT}distribution.{call}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tree,
    )


def metadata(tree, settings=None):
    out = Path(tempfile.mkdtemp(dir=tree.parent))
    done = build(tree, f"prepare_metadata_for_build_wheel({str(out)!r}, {settings})")
    assert done.returncode == 0, done.stderr
    [info] = out.glob("*.dist-info")
    text = (info / "METADATA").read_text(encoding="utf-8")
    return Parser().parsestr(text)


def required(distribution):
    return {line for line in distribution.get_all("Requires-Dist") if "extra ==" not in line}


def names(requirements):
    return sorted(re.match(r"[\w-]+", line).group() for line in requirements)


def test_the_runtime_is_chosen_by_the_distribution(tree):
    default, small = metadata(tree), metadata(tree, {"runtime": "cpu"})
    assert (default["Name"], small["Name"]) == ("pd-onnx", "pd-onnx-cpu")
    of_both = required(default) & required(small)
    assert names(required(default) - of_both) == ["onnxruntime", "onnxruntime-gpu"]
    [runtime] = required(small) - of_both
    assert re.fullmatch(r"onnxruntime>=[\d.]+", runtime)
    for field in ("Version", "Requires-Python", "Provides-Extra", "Summary"):
        assert small.get_all(field) == default.get_all(field)
    extras = [set(d.get_all("Requires-Dist")) - required(d) for d in (default, small)]
    assert extras[0] == extras[1] and not any("onnxruntime" in line for line in extras[0])


def test_the_environment_chooses_unless_a_setting_does(tree, monkeypatch):
    monkeypatch.setenv("PD_RUNTIME", "cpu")
    assert metadata(tree)["Name"] == "pd-onnx-cpu"
    assert metadata(tree, {"runtime": "cuda"})["Name"] == "pd-onnx"


def test_an_unknown_runtime_is_an_error(tree):
    done = build(tree, "prepare_metadata_for_build_wheel('.', {'runtime': 'gpu'})")
    assert done.returncode == 1
    assert done.stderr == "pd-onnx: the runtime 'gpu' is none of cuda, cpu\n"


def test_a_source_archive_keeps_its_runtime(tree, tmp_path):
    done = build(tree, "build_sdist('..', {'runtime': 'cpu'})")
    assert done.returncode == 0, done.stderr
    [archive] = tmp_path.glob("pd_onnx_cpu-*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path / "unpacked", filter="data")
    [unpacked] = (tmp_path / "unpacked").iterdir()
    assert metadata(unpacked)["Name"] == "pd-onnx-cpu"


def test_an_environment_keeps_its_runtime(tree, tmp_path):
    """`pip install '.[plot]'` after the small runtime was chosen."""
    (tmp_path / "pd_onnx_cpu-0.2.0.dist-info").mkdir()
    installed = f"import sysconfig; sysconfig.get_path = lambda name: {str(tmp_path)!r}\n"
    name = "print(distribution.runtime({}))"
    command = [sys.executable, "-c", installed + IMPORT + name]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tree)
    assert done.stdout == "cpu\n"


def test_editable_installations_have_the_choice(tree, tmp_path):
    done = build(tree, "build_editable('..', {'runtime': 'cpu'})")
    assert done.returncode == 0, done.stderr
    assert [p.name[:12] for p in tmp_path.glob("*.whl")] == ["pd_onnx_cpu-"]


def test_an_old_python_is_named(tree):
    old = "import sys; sys.version_info, sys.version = (3, 10, 13), '3.10.13 (main)'\n"
    command = [sys.executable, "-c", f"{old}{IMPORT}distribution.build_wheel('.')"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tree)
    assert done.returncode == 1
    assert done.stderr == "pd-onnx needs Python 3.11 or later, and this is 3.10.13\n"


def strangers(text):
    """Distributions of other people that a text tells to install under our names."""
    for arguments in INSTALLATION.findall(text):
        for word in arguments.split():
            found = OURS.match(word)
            if found and found[1] not in ("pd-onnx", "pd-onnx-cpu"):
                yield word
    yield from re.findall(r"(?<![\w.])pd\[(?:plot|text|cluster|docs|test|peers)\b.*?\]", text)


def test_nobody_is_sent_to_other_packages():
    """`pd` is a package of somebody else."""
    assert [*strangers("pip install 'pd[text]' or pip install pd, pip install -e pd_core")] == [
        *("'pd[text]'", "pd", "pd_core", "pd[text]")
    ]
    assert [*strangers("pip install 'pd-onnx[text]' numpy, pip install '.[text]'")] == []
    found = {}
    for path in TEXTS:
        if path.is_file() and path.suffix in (".md", ".py", ".txt", ".cfg", "") and path != HERE:
            found[path.name] = [*strangers(path.read_text(encoding="utf-8", errors="ignore"))]
    assert {name: words for name, words in found.items() if words} == {}


HERE = Path(__file__).resolve()


def test_only_the_backend_imports_the_runtime():
    """It says before the first import that no telemetry is sent, and what to do without one."""
    importing = {path for path in CORE for name in imports(path) if name.startswith("onnxruntime")}
    assert importing and {path.relative_to(ROOT).parts[1] for path in importing} == {"backend"}
