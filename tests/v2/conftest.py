"""What every test of the v2 face starts from: nothing built, default settings."""

import pytest

from pd_v2 import build, settings


@pytest.fixture(autouse=True)
def fresh_build(monkeypatch):
    """Layer names count from 0, the stream of initial values begins at seed 1."""
    monkeypatch.setattr(settings, "_process", settings._Process())
    with build.fresh():
        yield


def pytest_generate_tests(metafunc):
    """A check of layers runs for every row of its class's table."""
    if "row" in metafunc.fixturenames and metafunc.cls is not None:
        rows = metafunc.cls.rows
        if metafunc.function.__name__ == "test_gradient":
            rows = [r for r in rows if not r.name.startswith("dropout")]  # its mask is random
        metafunc.parametrize("row", rows, ids=lambda r: r.name)
