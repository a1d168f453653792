"""Wherever sys.path finds a module, it is translated unless it is installed."""

import json
import os
import sys
import zipfile

import pytest

from pd_v2.python2 import installed

_HALF = "half = 1 / 2"
_PRINT_HALVES = "for m in ({0}):\n    print __import__(m, fromlist=['half']).half,"


def test_folders_of_the_environment(program, tmp_path, monkeypatch):
    other = tmp_path / "other_folder"
    other.mkdir()
    (other / "part_d.py").write_text(_HALF)
    monkeypatch.setattr(sys, "path", [*sys.path, str(other)])
    assert program({"main.py": "import part_d\nprint part_d.half"}) == "0\n"


def test_a_folder_beside_that_of_the_script(program):
    files = {
        "main.py": (
            "import os, sys\n"
            "sys.path.insert(0, os.path.join(os.path.dirname(__file__), 'demo', '..', 'lib_a'))\n"
            "from tools_a import *\n"
            "def late():\n    import tools_b\n    return tools_b.half(7)\n"
            "print half(5), late()"
        ),
        "demo/other.py": "",
        "lib_a/tools_a.py": "from tools_b import half",
        "lib_a/tools_b.py": "import tools_a\ndef half(x): return x / 2",
    }
    assert program(files) == "2 3\n"


@pytest.mark.parametrize("name", ["queue", "secrets", "tqdm"])
def test_own_module_comes_before_one_that_others_have_imported(program, name):
    others = __import__(name)
    files = {
        "main.py": f"import {name}\nfrom part_l import x\nprint {name}.own, x is {name}",
        f"{name}.py": "own = 1 / 2",
        "part_l.py": f"import {name} as x",
    }
    assert program(files) == "0 True\n"
    assert sys.modules[name] is others


def test_own_module_that_fails_can_be_imported_again(program):
    source = (
        "for i in range(2):\n    try:\n        import queue\n"
        "    except ZeroDivisionError, e:\n        print e"
    )
    files = {"main.py": source, "queue.py": "1 / 0"}
    assert program(files) == "integer division or modulo by zero\n" * 2


def test_encodings_and_ends_of_lines(program):
    files = {
        "main.py": "import part_bom, part_crlf, part_latin\nprint part_latin.x",
        "part_bom.py": b"\xef\xbb\xbfprint 1 / 2\r\n",
        "part_crlf.py": b"if 3 / 2 == 1:\r\n\tprint '''a\r\nb'''\r\n",
        "part_latin.py": b"# -*- coding: latin-1 -*-\nx = len(u'\xe9')\n",
    }
    assert program(files) == "0\na\nb\n1\n"


def test_a_module_that_was_just_written_is_found(program):
    source = (
        "import os\npath = os.path.join(os.path.dirname(__file__), 'part_m.py')\n"
        "try:\n    import part_m\nexcept ImportError:\n    print 'missing'\n"
        "f = open(path, 'w'); f.write('x = 7 / 2'); f.close()\n"
        "import part_m\nprint part_m.x\n"
        "f = open(path, 'w'); f.write('x = 9 / 2'); f.close()\n"
        "print reload(part_m).x"
    )
    assert program({"main.py": source}) == "missing\n3\n4\n"


def test_relative_folders_are_those_of_the_moment(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = (
        "import os, sys\nsys.path.insert(0, 'parts')\nfor f in 'one', 'two':\n"
        "    os.chdir(os.path.join(os.path.dirname(__file__), f))\n"
        "    sys.modules.pop('part_w', None)\n    import part_w\n    print part_w.x"
    )
    files = {"main.py": source, "one/parts/part_w.py": "x = `1`", "two/parts/part_w.py": "x = `2`"}
    assert program(files) == "1\n2\n"


@pytest.mark.parametrize("name", ["pip", "pytest"])
def test_commands_are_installed(name, tmp_path):
    assert installed.is_command(os.path.join(os.path.dirname(sys.executable), name))
    assert not installed.is_command(str(tmp_path / name))


def test_installed_packages_below_the_script(tmp_path):
    site = tmp_path / "venv" / "site-packages"
    assert installed.is_installed(str(site / "package" / "__init__.py"), "package")
    assert not installed.is_installed(str(tmp_path / "package" / "__init__.py"), "package")


def test_the_standard_library_and_this_package_are_installed():
    modules = [json, sys.modules["pd_v2"], sys.modules["pd_core"], pytest]
    assert all(installed.is_installed(module.__file__, module.__name__) for module in modules)


@pytest.mark.parametrize(
    ("metadata", "listed"),
    [
        ("a-1.0.dist-info/RECORD", "dist_a/__init__.py,sha256=x,1\ndist_a/b.py,,\ndist_c.py,,\n"),
        ("a.egg-info/installed-files.txt", "../dist_a/__init__.py\n../dist_a/b.py\n../dist_c.py\n"),
    ],
)
def test_what_a_distribution_beside_it_lists_is_installed(program, metadata, listed):
    """`pip install --target` leaves such a folder."""
    files = {
        "main.py": _PRINT_HALVES.format("'dist_a', 'dist_a.b', 'dist_c', 'part_n'"),
        "dist_a/__init__.py": _HALF,
        "dist_a/b.py": _HALF,
        "dist_c.py": _HALF,
        "part_n.py": _HALF,
        metadata: listed,
    }
    assert program(files) == "0.5 0.5 0.5 0\n"


_EDITABLE_IN_PROJECT = {
    "edit-1.0.dist-info/top_level.txt": "edit_a\n",
    "edit-1.0.dist-info/RECORD": "",
}
_EDITABLE_BY_PATH = {
    "edit-1.0.dist-info/RECORD": "edit.pth,,\n",
    "edit.pth": "{project}/src\n",
}


@pytest.mark.parametrize(
    ("files", "is_editable", "expected"),
    [
        (_EDITABLE_IN_PROJECT, True, "0.5 0.5 0 0\n"),
        (_EDITABLE_IN_PROJECT, False, "0 0 0 0\n"),
        (_EDITABLE_BY_PATH, True, "0.5 0.5 0 0\n"),
        ({**_EDITABLE_BY_PATH, "edit.pth": "{project}/other\n"}, True, "0 0 0 0\n"),
        ({"edit.egg-link": "{project}/src\n../"}, False, "0.5 0.5 0 0\n"),
    ],
)
def test_editable_installs(program, tmp_path, monkeypatch, files, is_editable, expected):
    project = tmp_path / "project"
    site = tmp_path.parent / f"{tmp_path.name}_site" / "site-packages"
    origin = {"url": project.as_uri(), "dir_info": {"editable": is_editable}}
    for path, text in {"edit-1.0.dist-info/direct_url.json": "", **files}.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text.replace("{project}", str(project)))
    (site / "edit-1.0.dist-info/direct_url.json").write_text(json.dumps(origin))
    added = [str(project / "src"), str(project / "demo"), str(site)]
    monkeypatch.setattr(sys, "path", [*sys.path, *added])
    program_files = {
        "main.py": _PRINT_HALVES.format("'edit_a', 'edit_a.b', 'part_o', 'part_p'"),
        "project/src/edit_a/__init__.py": _HALF,
        "project/src/edit_a/b.py": _HALF,
        "project/src/edit.egg-info/top_level.txt": "edit_a\n",
        "project/demo/part_o.py": _HALF,
        "project/other/empty.txt": "",
        "part_p.py": _HALF,
    }
    assert program(program_files) == expected


def test_packages_without_init_in_several_folders(program):
    files = {
        "main.py": (
            "import os, sys\nfor f in 'one', 'two':\n"
            "    sys.path.append(os.path.join(os.path.dirname(__file__), f))\n"
            "import spaced.a, spaced.b\nprint spaced.a.x, spaced.b.x"
        ),
        "one/spaced/a.py": "x = 1 / 2",
        "two/spaced/b.py": "import a\nx = 3 / 2 + a.x",
    }
    assert program(files) == "0 1\n"


_OF_ZIP = """\
import sys
sys.path.append('code.zip')
import zip_a, zip_b, pkgutil, traceback, zipimport
print zip_a.y, len(zip_a.x), zip_b.z, pkgutil.get_data('zip_b', 'data.txt')
print sorted(name for _, name, _ in pkgutil.iter_modules(['code.zip']))
print zipimport.zipimporter('code.zip').load_module('zip_a').y
try:
    import zip_c.inner
except IndexError:
    print traceback.format_exc()
"""


def test_zip_files(program, tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as archive:
        archive.writestr("zip_a.py", b"# coding: latin-1\nx = u'\xe9'; y = 7 / 2")
        archive.writestr("zip_b/__init__.py", "from part import *\nprint __file__")
        archive.writestr("zip_b/part.py", "z = `9 / 2`")
        archive.writestr("zip_b/data.txt", "data")
        archive.writestr("zip_c/__init__.py", "")
        archive.writestr("zip_c/inner.py", "w = 3 / 2\nraise IndexError(w)")
    monkeypatch.chdir(tmp_path)
    place, *lines = program({"main.py": _OF_ZIP}).splitlines()
    folder = tmp_path / "code.zip"
    assert place == str(folder / "zip_b" / "__init__.py")
    assert lines[:3] == ["3 1 4 data", "['zip_a', 'zip_b', 'zip_c']", "3"]
    assert f'  File "{folder / "zip_c" / "inner.py"}", line 2, in <module>' in lines
    assert "    raise IndexError(w)" in lines
    assert not any("pd_v2" in line for line in lines)


def test_finders_of_pkgutil_load(program):
    files = {
        "main.py": (
            "import pkgutil, plugins_a\n"
            "for finder, name, _ in pkgutil.iter_modules(plugins_a.__path__, 'plugins_a.'):\n"
            "    print finder.find_module(name).load_module(name).half,\n"
            "print finder.find_module('plugins_a.z'), pkgutil.find_loader('plugins_a.z')"
        ),
        "plugins_a/__init__.py": "",
        "plugins_a/x.py": _HALF,
        "plugins_a/y.py": _HALF,
    }
    assert program(files) == "0 0 None None\n"


def test_runpy(program):
    files = {
        "main.py": (
            "import runpy, os\nf = os.path.dirname(__file__)\n"
            "print runpy.run_path(os.path.join(f, 'part_q.py'), run_name='q')['v']\n"
            "print runpy.run_module('package_r.one', run_name='__main__')['v']\n"
            "print runpy.run_path(os.path.join(f, 'package_r'))['v']"
        ),
        "part_q.py": "v = (1 / 2, __name__, __spec__, __package__)",
        "package_r/__init__.py": "",
        "package_r/one.py": "import two\nv = (two.x, __name__, __package__)",
        "package_r/two.py": "x = `3 / 2`",
        "package_r/__main__.py": "v = (5 / 2, __name__)",
    }
    expected = "(0, 'q', None, None)\n('1', '__main__', 'package_r')\n(2, '<run_path>')\n"
    assert program(files) == expected


def test_loaders_of_importlib(program):
    files = {
        "main.py": (
            "import importlib.machinery, importlib.util, os\n"
            "path = os.path.join(os.path.dirname(__file__), 'part_s.py')\n"
            "spec = importlib.util.spec_from_file_location('s', path)\n"
            "module = importlib.util.module_from_spec(spec)\n"
            "spec.loader.exec_module(module)\n"
            "print module.half, importlib.machinery.SourceFileLoader('t', path).load_module().half"
        ),
        "part_s.py": _HALF,
    }
    assert program(files) == "0 0\n"


def test_modules_that_a_program_makes_are_neighbours(program):
    files = {
        "main.py": "import package_t.one",
        "package_t/__init__.py": (
            "import imp, sys\nmade = imp.new_module('package_t.made')\nmade.x = 3\n"
            "sys.modules['package_t.made'] = made"
        ),
        "package_t/one.py": "import made\nfrom made import x\nprint made.__name__, x",
    }
    assert program(files) == "package_t.made 3\n"


_IMP = """\
import imp, os
folder = os.path.dirname(__file__)
for name in 'part_u', 'package_v':
    file, path, description = imp.find_module(name, [folder])
    module = imp.load_module('loaded_' + name, file, path, description)
    print module.half, module.__name__, description
    print imp.load_module(module.__name__, file, path, description) is module
    file and file.close()
package = imp.load_package('package_v', os.path.join(folder, 'package_v'))
import package_v.inner
print package_v is package, package_v.inner.half, imp.reload(package_v) is package
"""


def test_imp_loads(program):
    files = {
        "main.py": _IMP,
        "part_u.py": _HALF,
        "package_v/__init__.py": "import inner\nfrom inner import *",
        "package_v/inner.py": _HALF,
    }
    assert program(files).splitlines() == [
        "0 loaded_part_u ('.py', 'U', 1)",
        "True",
        "0 loaded_package_v ('', '', 5)",
        "True",
        "True 0 True",
    ]
