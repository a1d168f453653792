"""Drawings of graphs, in the DOT language of Graphviz."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..graph.errors import ExportError
from ..graph.layers import layers_of
from ..graph.node import Node, ancestors
from ..graph.update import Update
from ..graph.variable import Variable, format_dims
from ..storage.atomic import atomic_write
from .graph_summary import read_in_inference

_TEXT = (".dot", ".gv")
_LONGEST = 4  # elements of a constant that is written into its operator
# Dark on white: legible on a light and on a dark page.
_HEAD = """digraph pd {
  bgcolor="#ffffff"; rankdir="TB"; ranksep=0.35; nodesep=0.3; pad=0.15; labeljust="l";
  fontname="Helvetica"; fontsize=11; fontcolor="#57606a"; color="#afb8c1"; style="rounded,filled";
  fillcolor="#f6f8fa";
  node [fontname="Helvetica", fontsize=11, fontcolor="#1f2328", color="#57606a", height=0.3];
  edge [fontname="Helvetica", fontsize=9, fontcolor="#57606a", color="#6e7781", arrowsize=0.6];"""
_OPERATOR = 'shape=box, style="rounded,filled", fillcolor="#ffffff"'
_TARGET = 'shape=box, style="rounded,filled,bold", fillcolor="#dafbe1", color="#1a7f37"'
_FEED = 'shape=ellipse, style=filled, fillcolor="#ddf4ff", color="#0969da"'
_PARAMETER = 'shape=box, style=filled, fillcolor="#fff8c5", color="#9a6700"'
_CONSTANT = 'shape=plaintext, fontcolor="#57606a"'


class Drawing:
    """A graph as text for Graphviz: `source`; notebooks show it where Graphviz is installed."""

    def __init__(self, source: str) -> None:
        self.source = source

    def __repr__(self) -> str:
        return f"Drawing({self.source.count(chr(10))} lines of DOT: .source, .save(file))"

    def _repr_svg_(self) -> str | None:
        return None if shutil.which("dot") is None else self.svg()

    def svg(self) -> str:
        """Return the picture as SVG; ExportError where Graphviz is not installed."""
        return _rendered(self.source, "svg").decode("utf-8")

    def save(self, file: str | os.PathLike) -> None:
        """Write the picture in the format of the suffix, such as `.svg`, `.png` or `.pdf`.

        `.dot` and `.gv` are the text itself, for which Graphviz is not needed. ExportError where
        it is needed and not installed, or does not know the format.
        """
        path = Path(file)
        kind = path.suffix.removeprefix(".")
        if not kind:
            raise ExportError(f"draw: {path} has no suffix that says a format, such as .svg")
        text = path.suffix in _TEXT
        data = self.source.encode() if text else _rendered(self.source, kind)
        with atomic_write(path) as f:
            f.write(data)


def draw(
    targets: Variable | Update | Sequence[Variable | Update],
    file: str | os.PathLike | None = None,
) -> Drawing:
    """Draw the graph behind targets: operators, grouped by layers, and the shapes between them.

    Feeds are blue, parameters and other stored variables yellow, targets green. Constants of a few
    numbers stand in their operators. The graph is that of inference, or of training if an Update is
    among the targets, with a dashed line from each new value to the variable that stores it. A body
    of a loop or a branch is a number of operators.

    `file` is where the picture is written, see `Drawing.save`. `draw(targets).source` is the text
    for Graphviz, and needs nothing installed.
    """
    wanted: list[Any] = list(targets) if isinstance(targets, (list, tuple)) else [targets]
    for each in wanted:
        if not isinstance(each, (Variable, Update)):
            raise TypeError(
                f"draw: takes Variables and Updates, not {each!r}\n"
                "  hint: a layer is drawn by its output, layer(pd.Variable([None, 4]))"
            )
    drawing = Drawing(_source(wanted))
    if file is not None:
        drawing.save(file)
    return drawing


def _source(wanted):
    updates = [each for each in wanted if isinstance(each, Update)]
    assignments = [a for update in updates for a in update.assignments]
    graph = _Graph(training=bool(updates))
    outputs = [graph.shown(each) for each in wanted if isinstance(each, Variable)]
    stored = [a.variable for a in assignments]
    values = [graph.shown(a.value) for a in assignments]
    order = graph.operators([*outputs, *values])
    name = _Names()
    read = [x for node in order for x in graph.read(node)]
    leaves = [x for x in [*read, *outputs, *values, *stored] if x.node is None and not _is_short(x)]
    lines = [f"  {name[x]} [{_leaf(x)}];" for x in dict.fromkeys(leaves)]
    groups: dict[tuple[str, ...], list[str]] = {}
    for node, layer in layers_of(order, {}).items():
        style = _TARGET if any(y in outputs for y in node.outputs) else _OPERATOR
        text = _quoted(_operator(node, graph.read(node)))
        place = tuple(filter(None, layer.split("/")))
        groups.setdefault(place, []).append(f"{name[node]} [{style}, label={text}];")
    lines += _clusters(groups, ())
    for node in order:
        for x in dict.fromkeys(x for x in graph.read(node) if not _is_short(x)):
            label = f" [label={_quoted(' ' + _type(x))}]" if x.node is not None or x.is_feed else ""
            lines.append(f"  {name[x.node or x]} -> {name[node]}{label};")
    for value, variable in zip(values, stored, strict=True):
        if not _is_short(value):
            line = f"{name[value.node or value]} -> {name[variable]}"
            lines.append(f'  {line} [style=dashed, color="#9a6700", constraint=false];')
    return "\n".join([_HEAD, *lines, "}\n"])


class _Graph:
    """The part of a graph to draw: in inference without switches of modes, but what they select."""

    def __init__(self, training: bool) -> None:
        self.select = None if training else read_in_inference

    def shown(self, x: Variable) -> Variable:
        while self.select and x.node is not None and x.node.op_type == "ModeSwitch":
            x = x.node.inputs[1]
        return x

    def read(self, node: Node) -> list[Variable]:
        return [self.shown(x) for x in node.inputs if x is not None]

    def operators(self, targets: Iterable[Variable]) -> list[Node]:
        order = ancestors(targets, select=self.select)
        return [n for n in order if n.op_type != "ModeSwitch" or self.select is None]


class _Names(dict):
    """The name in the drawing of each node and variable."""

    def __missing__(self, thing):
        self[thing] = f"n{len(self)}"
        return self[thing]


def _is_short(x):
    """Whether it is a constant that is written into the operators that read it."""
    return x.node is None and x.value is not None and x.value.size <= _LONGEST


def _clusters(groups, place):
    """The lines of a layer's operators and of the layers below it, in boxes."""
    pad = "  " * (len(place) + 1)
    lines = [pad + line for line in groups.get(place, [])]
    depth = len(place)
    inner = dict.fromkeys(p[: depth + 1] for p in groups if p[:depth] == place and len(p) > depth)
    for below in inner:
        name = _quoted("cluster " + "/".join(below))
        lines += [f"{pad}subgraph {name} {{", f"{pad}  label={_quoted(below[-1])};"]
        lines += [*_clusters(groups, below), f"{pad}}}"]
    return lines


def _leaf(x: Variable):
    """The attributes of a feed, a stored variable or a constant."""
    if x.value is not None:
        return f"{_CONSTANT}, label={_quoted(f'constant {_type(x)}')}"
    label = _quoted(f"{x.name}\n{_type(x)}")
    return f"{_PARAMETER if x.is_persistent else _FEED}, label={label}"


def _operator(node: Node, read: Iterable[Variable]):
    """The text of an operator: its type, short constants that it reads, sizes of bodies."""
    lines = [node.op_type]
    short = [x.value for x in read if x.value is not None and _is_short(x)]
    if short:
        lines.append("with " + ", ".join(map(_number, short)))
    for name, block in node.blocks.items():
        count = len(ancestors(block.outputs, set(block.inputs)))
        lines.append(f"{name}: {count} operators")
    return "\n".join(lines)


def _number(value):
    numbers = [f"{n:.4g}" for n in np.ravel(value)]
    return f"[{', '.join(numbers)}]" if value.ndim else numbers[0]


def _type(x: Variable):
    """Sizes, after the element type where it is not float32: `[?, 64]`, `int64 [?]`."""
    dims = format_dims(x.dims)
    return dims if x.dtype == np.float32 else f"{x.dtype} {dims}"


def _quoted(text: str):
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _rendered(source, kind):
    """What Graphviz makes of the text, in a format by its suffix."""
    program = shutil.which("dot")
    if program is None:
        raise ExportError(
            f"draw: .{kind} needs Graphviz, and its program dot is not on the PATH\n"
            "  hint: install graphviz with the package manager of your system, "
            "or write the text to a .dot file"
        )
    command = [program, f"-T{kind}"]
    done = subprocess.run(command, input=source.encode(), capture_output=True)  # noqa: S603  no shell
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise ExportError(f"draw: Graphviz cannot write .{kind}: {said}")
    return done.stdout
