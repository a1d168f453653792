"""That kills and power cuts find writers that are not atomic, and folders without a sync."""

import os

import numpy as np
import pytest

from . import kills, power
from .plan import Plan
from .writers import Torn, Writer

SIZE = 4_000_000


def write_in_place(folder, version):
    with open(folder / "f", "wb") as file:
        for _ in range(8):
            file.write(bytes([version % 256]) * (SIZE // 8))
            file.flush()


def write_unsynced(folder, version):
    (folder / "new").write_bytes(bytes([version]) * 1000)
    os.replace(folder / "new", folder / "f")


def write_without_the_folder(folder, version):
    with open(folder / "new", "wb") as file:
        file.write(bytes([version]) * 1000)
        file.flush()
        os.fsync(file.fileno())
    os.replace(folder / "new", folder / "f")


def read(folder):
    content = np.frombuffer((folder / "f").read_bytes(), np.uint8)
    if len(content) not in (1000, SIZE) or len(set(content.tolist())) != 1:
        raise Torn("parts")
    return int(content[0])


def outcomes(monkeypatch, part, write):
    for module in (kills, power):
        monkeypatch.setattr(module, "WRITERS", {"planted": Writer(write, read)})
    (row,) = part.run(Plan())
    return row.outcomes


def test_a_kill_tears_what_is_written_in_place(monkeypatch):
    assert outcomes(monkeypatch, kills, write_in_place)["torn"]


def test_a_cut_tears_what_was_renamed_before_it_was_synced(monkeypatch):
    assert outcomes(monkeypatch, power, write_unsynced)["torn"]


def test_a_cut_loses_a_name_that_was_not_synced(monkeypatch):
    found = outcomes(monkeypatch, power, write_without_the_folder)
    assert found["lost"] and not found["torn"]


@pytest.mark.parametrize("part", [kills, power])
def test_writers_pass_the_quick_form(part):
    rows = part.run(Plan(quick=True))
    assert [row.defects for row in rows if row.defects] == []
