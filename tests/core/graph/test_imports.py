"""Modules that are imported when another package is."""

import importlib
import sys

import pytest

from pd_core.graph.imports import import_with


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Two modules: one that somebody imports, and one that then follows."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    (tmp_path / "leading_one.py").write_text("value = 1\n")
    (tmp_path / "following_one.py").write_text("import leading_one\nvalue = leading_one.value\n")
    yield tmp_path
    for name in ("leading_one", "following_one"):
        sys.modules.pop(name, None)


def test_it_follows(packages):
    before = list(sys.meta_path)
    import_with("leading_one", "following_one")
    importlib.util.find_spec("leading_one")
    assert "following_one" not in sys.modules
    module = importlib.import_module("leading_one")
    assert sys.modules["following_one"].value == 1
    assert module.__loader__ is module.__spec__.loader
    assert type(module.__loader__).__module__ != "pd_core.graph.imports"
    assert sys.meta_path == before


def test_it_follows_at_once(packages):
    importlib.import_module("leading_one")
    import_with("leading_one", "following_one")
    assert sys.modules["following_one"].value == 1


def test_a_package_that_has_changed_is_imported(packages):
    (packages / "following_one.py").write_text("from leading_one import other\n")
    import_with("leading_one", "following_one")
    with pytest.warns(RuntimeWarning, match="another version than following_one is for"):
        assert importlib.import_module("leading_one").value == 1


def test_a_package_that_is_absent(packages):
    import_with("absent_one", "following_one")
    with pytest.raises(ModuleNotFoundError, match="absent_one"):
        importlib.import_module("absent_one")
    assert importlib.util.find_spec("absent_one") is None
