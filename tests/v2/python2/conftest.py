import gc
import os
import subprocess
import sys
import textwrap
import types
import warnings
from pathlib import Path

import numpy as np
import pytest

from pd_v2.python2 import import_statement
from pd_v2.python2.importer import execute, install_finder
from pd_v2.python2.shims.printing import finish_line
from pd_v2.python2.translate import parse

_ROOT = str(Path(__file__).parents[3])


@pytest.fixture
def launch(tmp_path, zygote):
    """A function that writes {path: text} and runs the first, or a command, in a process.

    The launcher runs it, which is imported `anew` if that matters, or plain Python does.
    """

    def run(files, *arguments, plain=False, anew=False, command=None, send="", **variables):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        launcher = ["-B"] if plain else ["-m", "pd_v2"]
        line = [*map(str, command or [next(iter(files))]), *arguments]
        environment = {**os.environ, "PYTHONPATH": _ROOT, "PYTHONDONTWRITEBYTECODE": ""}
        if not (plain or anew):
            return zygote(line, tmp_path, {**environment, "PYTHONHASHSEED": "0"}, send)
        return subprocess.run(
            [sys.executable, *launcher, *line],
            cwd=tmp_path,
            env={**environment, **variables},
            capture_output=True,
            text=True,
            input=send,
        )

    return run


@pytest.fixture
def python2(capsys, tmp_path, monkeypatch):
    """A function that runs a Python 2 program in an empty folder and gives what it prints."""
    monkeypatch.chdir(tmp_path)

    def run(source):
        module = types.ModuleType("snippet")
        execute(parse(textwrap.dedent(source), "snippet.py"), "snippet.py", module)
        finish_line()
        return capsys.readouterr().out

    return run


@pytest.fixture
def program(tmp_path, monkeypatch, capsys):
    """A function that runs the main module of {path: source}, and gives what it prints."""
    before = set(sys.modules)
    monkeypatch.setattr(import_statement, "_own_modules", {})
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "path_hooks", list(sys.path_hooks))
    monkeypatch.setattr(sys, "path_importer_cache", {})
    install_finder()

    def run(files):
        for path, source in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(source.encode() if isinstance(source, str) else source)
        module = types.ModuleType("main")
        module.__file__ = str(tmp_path / "main.py")
        execute(parse(files["main.py"], module.__file__), module.__file__, module)
        finish_line()
        return capsys.readouterr().out

    with np.printoptions():
        yield run
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture(autouse=True, scope="module")
def forgotten_files():
    """Files that programs leave open are not reported against the tests of the next module."""
    yield
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        gc.collect()
