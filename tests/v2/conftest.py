"""What every test of the v2 face starts from: nothing built, default settings."""

import pytest

from pd_v2 import build, settings


@pytest.fixture(autouse=True)
def fresh_build(monkeypatch):
    """Layer names count from 0, the stream of initial values begins at seed 1."""
    monkeypatch.setattr(settings, "_process", settings._Process())
    with build.fresh():
        yield
