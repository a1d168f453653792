import gc
import textwrap
import types
import warnings

import pytest

from pd_v2.python2.importer import execute
from pd_v2.python2.shims.printing import finish_line
from pd_v2.python2.translate import parse


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


@pytest.fixture(autouse=True, scope="module")
def forgotten_files():
    """Files that programs leave open are not reported against the tests of the next module."""
    yield
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        gc.collect()
