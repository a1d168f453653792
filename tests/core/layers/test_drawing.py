"""pd.draw: what is in the text, read back by its grammar, and what Graphviz makes of it."""

import re
import shutil
import stat

import numpy as np
import pytest

import pd_core as pd

NODE = re.compile(r"^\s*(n\d+) \[(.*)\];$", re.M)
EDGE = re.compile(r"^\s*(n\d+) -> (n\d+)(?: \[(.*)\])?;$", re.M)
LABEL = re.compile(r'label="((?:[^"\\]|\\.)*)"')


def parsed(source):
    """{id: label} of the nodes, and {(label from, label to): label of the edge}."""
    nodes = {name: LABEL.search(text)[1] for name, text in NODE.findall(source)}
    edges = {}
    for a, b, text in EDGE.findall(source):
        label = LABEL.search(text)
        edges[nodes[a], nodes[b]] = label[1].strip() if label else None
    return nodes, edges


def network():
    x = pd.Variable("image", shape=[None, 6])
    with pd.namespace("encoder"):
        h = pd.dropout(pd.fc(x, 4, act="relu"), 0.5)
    return x, pd.fc(h, 2)


def test_operators_shapes_and_parameters():
    _, y = network()
    nodes, edges = parsed(pd.draw(y).source)
    parameters = [
        *("encoder/fc_0.W\\n[6, 4]", "encoder/fc_0.B\\n[4]", "fc_0.W\\n[4, 2]", "fc_0.B\\n[2]")
    ]
    assert sorted(nodes.values()) == sorted(
        ["image\\n[?, 6]", *parameters, "MatMul", "Add", "Relu", "MatMul", "Add"]
    )
    assert edges["image\\n[?, 6]", "MatMul"] == "[?, 6]"
    assert edges["Add", "Relu"] == edges["Relu", "MatMul"] == "[?, 4]"  # no dropout in inference
    assert edges["fc_0.W\\n[4, 2]", "MatMul"] is None


def test_layers_are_boxes_in_those_of_their_namespaces():
    _, y = network()
    text = pd.draw(y).source
    outer, inner, other = (text.index(f'subgraph "cluster {n}"') for n in ("encoder", *FC))
    end = text.index("\n  }", outer)
    assert outer < inner < end < other
    assert text.count("MatMul", inner, end) == text.count("Relu", inner, end) == 1
    assert text.count("subgraph") == text.count("  }") == 3


FC = ("encoder/fc_0", "fc_0")


def test_kinds_of_variables_differ():
    x, y = network()
    text = pd.draw([y, x]).source
    fills = dict(re.findall(r'fillcolor="(#\w+)".*label="(\w+)', text))
    assert len({fills[k] for k in fills}) == len(fills) == 4  # feed, parameter, operator, target
    assert text.count("bold") == 1  # y; x is a feed


def test_types_other_than_float32_and_constants():
    n = pd.Variable("n", shape=[None, 3], dtype="int64")
    y = pd.reduce_sum(n * 2 + np.arange(12).reshape(4, 3)[:1], 1) + np.ones((5, 1), "int64")
    nodes, edges = parsed(pd.draw(y).source)
    assert "Mul\\nwith 2" in nodes.values() and "Add\\nwith [0, 1, 2]" in nodes.values()
    assert edges["constant int64 [5, 1]", "Add"] is None
    assert edges["n\\nint64 [?, 3]", "Mul\\nwith 2"] == "int64 [?, 3]"


def test_a_training_step_stores_its_parameters():
    _, y = network()
    cost = pd.reduce_mean(pd.square(y))
    step = pd.MomentumOptimizer(0.1, name="descent").minimize(cost)
    source = pd.draw([step, cost]).source
    nodes, _ = parsed(source)
    assert "ReluGrad" in nodes.values() and "ModeSwitch" in nodes.values()
    stored = {nodes[b] for _, b, text in EDGE.findall(source) if text and "dashed" in text}
    slots = {f"descent/{v.name}/velocity\\n{[*v.shape]}" for v in pd.trainable_variables()}
    assert stored == slots | {f"{v.name}\\n{[*v.shape]}" for v in pd.trainable_variables()}


def test_bodies_are_counted():
    total = pd.reduce_sum(pd.Variable("x", shape=[None]))
    last, _ = pd.while_loop(lambda a, n: a < 100.0, lambda a, n: (a * 2.0, n + 1), [total, 0])
    nodes, _ = parsed(pd.draw(last).source)
    assert any(re.search(r"Loop\\n.*body: 3 operators", text) for text in nodes.values())


def test_names_are_quoted():
    x = pd.Variable(name='a "b" \\ c', shape=[None])
    nodes, _ = parsed(pd.draw(pd.exp(x)).source)
    assert 'a \\"b\\" \\\\ c\\n[?]' in nodes.values()


def test_text_needs_nothing_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    drawing = pd.draw(network()[1], tmp_path / "a.dot")
    assert (tmp_path / "a.dot").read_text() == drawing.source
    assert drawing._repr_svg_() is None
    assert repr(drawing).startswith("Drawing(")
    with pytest.raises(pd.ExportError, match=r"draw: \.svg needs Graphviz.*\n  hint: install"):
        drawing.svg()
    with pytest.raises(pd.ExportError, match=r"draw: \.png needs Graphviz"):
        pd.draw(network()[1], tmp_path / "a.png")
    with pytest.raises(pd.ExportError, match="a has no suffix that says a format"):
        drawing.save(tmp_path / "a")


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program dot that writes its options and what it reads, or fails for .xyz."""
    path = tmp_path / "bin" / "dot"
    path.parent.mkdir()
    path.write_text(
        '#!/bin/sh\n[ "$1" = -Txyz ] && { echo "no xyz" >&2; exit 1; }\necho "$1"; cat\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(path.parent), prepend=":")


def test_graphviz_gets_the_text_and_the_format(tmp_path, program):
    drawing = pd.draw(network()[1], tmp_path / "a.pdf")
    assert (tmp_path / "a.pdf").read_text() == "-Tpdf\n" + drawing.source
    assert drawing._repr_svg_() == "-Tsvg\n" + drawing.source
    with pytest.raises(pd.ExportError, match=r"draw: Graphviz cannot write \.xyz: no xyz"):
        drawing.save(tmp_path / "a.xyz")


def test_graphviz_reads_it():
    if shutil.which("dot") is None:
        pytest.skip("there is no Graphviz here")
    _, y = network()
    step = pd.AdamOptimizer(0.1).minimize(pd.reduce_mean(pd.square(y)))
    for targets in (y, [step, y]):
        svg = pd.draw(targets)._repr_svg_()
        assert svg.rstrip().endswith("</svg>") and "encoder/fc_0.W" in svg


def test_what_is_no_graph_is_refused():
    with pytest.raises(TypeError, match=r"draw: takes Variables and Updates, not FC\(3\)\n  hint"):
        pd.draw(pd.nn.FC(3))
