"""The tables of docs/layers.md: every layer is there, with its arguments and shapes."""

import inspect
import re
from pathlib import Path

import pytest

import pd_core as pd
from pd_core import nn

PAGE = Path(__file__).resolve().parents[3] / "docs" / "layers.md"
ROW = re.compile(r"^\| `((\w+)\(.*?\))` \| (.*?) \|(?: (.*) \|)?$", re.M)
TABLES = PAGE.read_text("utf-8").partition("## All layers")[2]
ROWS = {name: (call, shapes, owned) for call, name, shapes, owned in ROW.findall(TABLES)}
WITHOUT_ROWS = {"Layer", "Module"}  # they have sections

CONVOLUTIONS = ("Conv", "ConvTranspose")
# Arguments, and what the letters of the table are then; the others keep their meaning.
STACKED = {"hidden": 5, "num_layers": 2, "bidirectional": True}
ARGUMENTS = {  # and the sizes that they say
    "FC": ({"size": 5}, {"size": 5}),
    "Embedding": ({"words": 9, "width": 5}, {"width": 5}),
    "GroupNorm": ({"groups": 2}, {}),
    "Lambda": ({"function": pd.relu}, {}),
    "StochasticDepth": ({"rate": 0.1}, {}),
    "Unfold": ({"kernel": 2}, {"C K": 16}),
    "Fold": ({"size": (3, 4), "kernel": 2}, {"C K": 16, "P": 6, "*size": (3, 4)}),
    "GLU": ({}, {"half": 2}),
    "MultiHeadAttention": ({"width": 6, "heads": 2}, {"width": 6}),
    "TransformerEncoderLayer": ({"width": 6, "heads": 2, "hidden": 7}, {"width": 6}),
    "TransformerDecoderLayer": ({"width": 6, "heads": 2, "hidden": 7}, {"width": 6}),
    **{
        f"{kind}{n}d": ({"filters": 5, "kernel": 3}, {"filters": 5})
        for kind in CONVOLUTIONS
        for n in (1, 2, 3)
    },
    **{f"{kind}Pool{n}d": ({"kernel": 2}, {}) for kind in ("Max", "Avg") for n in (1, 2, 3)},
    **{f"Adaptive{kind}Pool2d": ({"size": (3, 2)}, {"*size": (3, 2)}) for kind in ("Max", "Avg")},
    **{kind: (STACKED, {"D H": 10, "L D": 4, "H": 5}) for kind in ("RNN", "LSTM", "GRU")},
}
SIZES = {"N": 2, "B": 2, "C": 4, "T": 3, "S": 5, "n": 7, "m": 8, "F": 3, "...": (2, 4)}
SPATIAL = {"L": 6, "H": 8, "W": 9, "D": 10}


def layers():
    named = {name: getattr(nn, name) for name in nn.__all__}
    return {k: v for k, v in named.items() if issubclass(v, nn.Layer) and k not in WITHOUT_ROWS}


def test_every_layer_has_a_row():
    assert layers().keys() == ROWS.keys()


@pytest.mark.parametrize("name", ROWS)
def test_arguments_are_those_of_the_layer(name):
    parameters = list(inspect.signature(getattr(nn, name).__init__).parameters.values())[1:]
    bare = [p.replace(annotation=p.empty) for p in parameters if p.name != "name"]
    assert ROWS[name][0] == f"{name}{inspect.Signature(bare)}".replace("'", '"')


def sizes(text, letters):
    """The sizes of `[N, filters, H']`: numbers, None for those that have a stroke."""
    out = []
    for part in filter(None, text.split(", ")):
        size = None if part.endswith("'") else letters[part]
        out += size if isinstance(size, tuple) else [size]
    return out


def shapes_of(text):
    return re.findall(r"(int )?\[(.*?)\]", text)


@pytest.mark.parametrize("name", [k for k, (_, shapes, _) in ROWS.items() if "→" in shapes])
def test_shapes_and_parameters_are_those_of_the_layer(name):
    arguments, own = ARGUMENTS.get(name, ({}, {}))
    letters = SPATIAL | SIZES | own
    before, after = ROWS[name][1].split(" → ")
    alternatives = (
        before.split(" or ") if name.startswith("BatchNorm") else [before.split(" or ")[0]]
    )
    for inputs in alternatives:
        given = [
            pd.Variable(sizes(text, letters), dtype="int64" if is_int else "float32")
            for is_int, text in shapes_of(inputs)
        ]
        if "labels" in inputs:
            given[1] = pd.Variable(given[0].shape[:-1], dtype="int64")
        if name == "Flatten":
            letters["n"] = 8
        layer = getattr(nn, name)(**arguments)
        output = layer.infer_shape(*given)
        own = [key for key, _ in layer.named_parameters() + layer.named_buffers()]
        assert {re.split(r"_l\d|\.", key)[0] for key in own} <= {*re.findall(r"\w+", ROWS[name][2])}
        wanted = [given[0].shape] if after == "the same" else []
        wanted = wanted or [sizes(text, letters) for _, text in shapes_of(after)]
        for got, want in zip(flat(output), wanted, strict=False):
            assert len(got) == len(want)
            assert all(b is None or a == b for a, b in zip(got, want, strict=True))


def flat(shapes):
    """The shapes of an output: of one, or of (outputs, state), or of (outputs, (h, c))."""
    if all(d is None or isinstance(d, int) for d in shapes):
        return [shapes]
    return [shape for part in shapes for shape in flat(part)]
