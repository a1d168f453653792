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
