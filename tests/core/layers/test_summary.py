"""Module.summary: the table of layers."""

import numpy as np
import pytest

import pd_core as pd


class Block(pd.nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv = pd.nn.Conv2d(4, kernel=3, padding=1)
        self.norm = pd.nn.BatchNorm2d()

    def forward(self, x):
        return pd.relu(self.norm(self.conv(x)))


class Tower(pd.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = pd.nn.LayerList([Block(), Block()])
        self.head, self.unused = pd.nn.FC(1000), pd.nn.FC(3)
        self.tied = self.blocks[0]

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return {"logits": self.head(pd.flatten(x)), "planes": [x]}


def cells(table):
    return [line.split("  ") for line in table.splitlines()]


def test_every_layer_has_a_row():
    m = Tower()
    table = m.summary((None, 2, 5, 5))
    rows = {row[0].strip(): [c.strip() for c in row if c.strip()][1:] for row in cells(table)}
    assert rows["(all)"] == ["Tower", "{logits: (?, 1000), planes: [(?, 4, 5, 5)]}", "0"]
    assert rows["blocks.0"] == ["Block", "(?, 4, 5, 5)", "0"]
    assert rows["blocks.0.conv"] == ["Conv2d", "(?, 4, 5, 5)", str(2 * 4 * 9 + 4)]
    assert rows["blocks.1.conv"] == ["Conv2d", "(?, 4, 5, 5)", str(4 * 4 * 9 + 4)]
    assert rows["head"] == ["FC", "(?, 1000)", "101,000"]
    assert rows["unused"] == ["FC", "-", "0"]
    assert "tied" not in rows  # the same layer as blocks.0
    total = sum(int(np.prod(v.shape)) for v in m.parameters())
    assert f"parameters: {total:,}, trainable {total:,}, not trainable 0" in table
    assert pd.stats()["evaluations"] == 0
    assert len({len(line) for line in table.splitlines()[:-1]}) == 1


def test_frozen_parameters_are_not_trainable():
    m = Tower()
    m.compile([(None, 2, 5, 5)])
    m.blocks.freeze()
    assert "trainable 101,000, not trainable 240" in m.summary()


def test_what_is_compiled_is_the_default():
    m = Tower()
    with pytest.raises(pd.NotInitialized, match="summary"):
        m.summary()
    m.compile([(7, 2, 5, 5)])
    assert "(7, 1000)" in m.summary() and "(?, 1000)" in m.summary((None, 2, 5, 5))
    hooks = []
    m.head.register_forward_hook(lambda *call: hooks.append(call))
    m.summary()
    assert len(hooks) == 1  # and those of the summary are gone


def test_each_layer_has_a_summary():
    table = pd.nn.FC(3).summary((None, 4)).splitlines()
    assert table[2].split() == ["(all)", "FC", "(?,", "3)", "15"]
    ids = pd.Variable([None, 5], dtype="int64")
    assert "(?, 5, 4)" in pd.nn.Embedding(10, 4).summary(ids)
    assert pd.nn.Dropout(0.5).summary((None, 4)).splitlines()[2].split()[-1] == "0"


def test_a_summary_without_shapes():
    tower = pd.nn.Sequential(pd.nn.FC(3), pd.nn.Tanh(), pd.nn.FC(2))
    hint = r"summary: Sequential has no parameters yet\n  hint: give the shapes of its inputs"
    with pytest.raises(pd.NotInitialized, match=hint):
        tower.summary()
    tower(pd.Variable([None, 4]))
    rows = [line.split() for line in tower.summary().splitlines()[2:6]]
    assert rows == [
        *(["(all)", "Sequential", "-", "0"], ["0", "FC", "-", "15"]),
        *(["1", "Tanh", "-", "0"], ["2", "FC", "-", "8"]),
    ]
    with pytest.raises(TypeError, match=r"takes Variables, not FC\(3\)\n  hint: a layer has"):
        pd.summary(pd.nn.FC(3))
