"""Which modules are translated, and that nobody else sees what a program imports."""

import gzip
import itertools
import json
import sys

import pytest

from pd_v2.python2 import installed


def test_local_modules_are_translated(program):
    files = {
        "main.py": "import part_a\nprint part_a.half(7)",
        "part_a.py": "def half(x): return x / 2",
    }
    assert program(files) == "3\n"


def test_each_module_has_its_own_future(program):
    files = {
        "main.py": "from part_b import half\nprint half(7), 7 / 2",
        "part_b.py": "from __future__ import division\ndef half(x): return x / 2",
    }
    assert program(files) == "3.5 3\n"


def test_packages_import_their_neighbours(program):
    files = {
        "main.py": "import pack_a.one\nprint pack_a.one.name, pack_a.two.__name__",
        "pack_a/__init__.py": "",
        "pack_a/one.py": "import two, sub.deep\nfrom two import name\nprint sub.deep.__name__",
        "pack_a/two.py": "name = `2`",
        "pack_a/sub/__init__.py": "",
        "pack_a/sub/deep.py": "from .. import two",
        "two.py": "name = 'top'",
    }
    assert program(files) == "pack_a.sub.deep\n2 pack_a.two\n"


def test_absolute_import_skips_the_neighbours(program):
    files = {
        "main.py": "import pack_b.one",
        "pack_b/__init__.py": "",
        "pack_b/one.py": "from __future__ import absolute_import\nimport three; print three.x",
        "pack_b/three.py": "x = 'neighbour'",
        "three.py": "x = 'top'",
    }
    assert program(files) == "top\n"


def test_own_module_comes_before_an_old_name(program):
    files = {"main.py": "import Queue\nprint Queue.own", "Queue.py": "own = 1 / 2"}
    assert program(files) == "0\n"


def test_added_folders_are_local(program, tmp_path):
    added = tmp_path.parent / "added_folder"
    added.mkdir(exist_ok=True)
    (added / "part_c.py").write_text("print 1 / 2")
    assert (
        program({"main.py": f"import sys\nsys.path.insert(0, {str(added)!r})\nimport part_c"})
        == "0\n"
    )


def test_installed_packages_below_the_script_are_not_local(tmp_path):
    site = tmp_path / "venv" / "site-packages"
    assert installed.is_installed(str(site / "package" / "__init__.py"), "package")
    assert not installed.is_installed(str(tmp_path / "package" / "__init__.py"), "package")


def test_python3_modules_stay_python3(program):
    files = {
        "main.py": "import part_e\nprint part_e.half(7)",
        "part_e.py": "def half(x: int) -> float:\n    return x / 2\n",
    }
    assert program(files) == "3.5\n"


def test_importlib_and_dunder_import_find_local_modules(program):
    files = {
        "main.py": (
            "import importlib\n"
            "print importlib.import_module('part_f').x, __import__('part_g', fromlist=['x']).x"
        ),
        "part_f.py": "x = 1 / 2",
        "part_g.py": "x = 3 / 2",
    }
    assert program(files) == "0 1\n"


def test_nothing_is_written(program, tmp_path):
    program({"main.py": "import pack_c.one", "pack_c/__init__.py": "", "pack_c/one.py": ""})
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert names == ["main.py", "pack_c", "pack_c/__init__.py", "pack_c/one.py"]


def test_the_modules_of_others_are_untouched(program):
    source = (
        "import gzip, itertools, json, sys\n"
        "print itertools.izip([1], [2]).next(), sys.maxint > 0, json.loads('1', encoding='x')"
    )
    assert program({"main.py": source}) == "(1, 2) True 1\n"
    assert not hasattr(itertools, "izip")
    assert not hasattr(sys, "maxint")
    assert sys.modules["gzip"] is gzip
    assert "cPickle" not in sys.modules
    with pytest.raises(TypeError, match="encoding"):
        json.loads("1", encoding="x")


def test_missing_module_is_named(program):
    with pytest.raises(ModuleNotFoundError, match="No module named 'not_there'"):
        program({"main.py": "import not_there.at_all"})


def test_syntax_error_names_the_module(program, tmp_path):
    with pytest.raises(SyntaxError, match="invalid syntax") as caught:
        program({"main.py": "import part_h", "part_h.py": "print 'a'\nx = = 3\n"})
    assert caught.value.filename == str(tmp_path / "part_h.py")
    assert caught.value.lineno == 2
