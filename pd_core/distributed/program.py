"""A training step as lines of text, which are the same on ranks that take the same step."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from ..graph.node import Node, ancestors
from ..graph.setting import setting_constant
from ..graph.signature import AT_RUN_TIME
from ..graph.site import site_text
from ..graph.update import Update
from ..graph.variable import Variable
from .world import Description

Gradients = Mapping[Variable, Any]  # {parameter: its gradient, or the rows and values of one}


def described(
    updates: Sequence[Update], gradients: Gradients, options: Sequence[str], is_exact: bool
) -> Description:
    """Return the Description of a training step: what it exchanges, reads and computes.

    It has operators, their inputs and attributes, and constants, such as the learning rate; only
    the names of operators unless `is_exact`. Values of variables and feeds are not in it, nor are
    sizes of feeds that are not known before a batch comes, or names of slots.
    """
    program = _Program(is_exact)
    for text in options:
        program.add(text)
    for number, (w, g) in enumerate(gradients.items()):
        form = "rows of " if isinstance(g, tuple) else ""
        form = form if not w.is_shard else "rows of the sharded table "
        text = f"gradient {number} of {form}{w.name}: {w.dtype}{list(w.dims)}"
        program.add(text, w.site)
        program.names[w] = w.name
    program.add(f"no gradient {len(gradients)}")  # another rank may have one
    seam = seam_of(gradients)
    backward = ancestors(seam)
    feeds = dict.fromkeys(
        x for node in backward for x in node.inputs if x is not None and x.is_feed
    )
    for number, x in enumerate(feeds):
        program.add(f"feed {number}: {x.dtype}{list(x.shape)}", x.site)
        program.names[x] = f"feed {number}"
    program.add(f"no feed {len(feeds)}")
    seen = list(zip(program.lines, program.sites, strict=True))
    # the backward pass first: a difference there is what a user recognizes
    program.add_operators(backward, "the gradients")
    for number, v in enumerate(seam):
        program.names[v] = f"gradient {number}"
    values = [a.value for u in updates if u.gradients for a in u.assignments]
    program.add_operators(ancestors(values, set(seam)), "the update")
    program.add(f"new values: {program.listed(values)}")
    settings = [(text, _site(u)) for u in updates for text in u.settings]
    return Description(program.lines, program.sites, [seen, settings, program.outline(backward)])


def _site(update):
    """The line that built an update."""
    nodes = (a.value.node for a in update.assignments)
    return next((site_text(node.site) for node in nodes if node is not None and node.site), "")


def seam_of(gradients: Gradients) -> list[Variable]:
    """Return the Variables that ranks exchange, in their order."""
    return [v for g in gradients.values() for v in (g if isinstance(g, tuple) else (g,))]


class _Program:
    """Lines on a graph, and the lines of the user's program that built what they are about."""

    def __init__(self, is_exact: bool):
        self.is_exact = is_exact
        self.lines: list[str] = []
        self.sites: list[str] = []
        self.names: dict[Variable, str] = {}
        self._operators = self._states = 0

    def add(self, line: str, site: Any = None) -> None:
        """Add a line."""
        self.lines.append(line)
        self.sites.append(site_text(site) if site else "")

    def add_operators(self, order: Iterable[Node], where: str) -> None:
        """Add a line for each operator."""
        for node in order:
            number, self._operators = self._operators, self._operators + 1
            text = f"operator {number} of {where}: {node.op_type}"
            if self.is_exact:
                for name, block in node.blocks.items():
                    for k, v in enumerate(block.inputs):
                        self.names[v] = f"{name} {k} of {number}"
                    self.add_operators(ancestors(block.outputs, set(block.inputs)), where)
                    self.add(f"{name} of operator {number}: {self.listed(block.outputs)}")
                text += f"({self.listed(node.inputs)}){_attributes(node)}"
                for k, y in enumerate(node.outputs):
                    self.names[y] = f"#{number}:{k}" if k else f"#{number}"
            self.add(text, node.site)

    def outline(self, order: Iterable[Node]) -> list[tuple[str, str]]:
        """Return (operator, the user's line) of nodes in the order in which they were built."""
        outline = []
        for node in sorted(order, key=lambda node: node.serial):
            inputs = [self.listed([x]) if x is None or x.node is None else "…" for x in node.inputs]
            site = getattr(node.site, "line", node.site)  # of what it differentiates
            text = f"{node.op_type}({', '.join(inputs)}){_attributes(node)}"
            outline.append((text, site_text(site) if site else ""))
        return outline

    def listed(self, variables: Iterable[Variable | None]) -> str:
        """Return the names of Variables, and the values of constants."""
        if not self.is_exact:
            return ""
        return ", ".join(["" if v is None else self._name(v) for v in variables])

    def _name(self, v):
        name = self.names.get(v)
        if name is None:
            name = self.names[v] = self._leaf(v)
        return name

    def _leaf(self, v):
        if v.source is not None and v.eager_value is None:
            return self._name(v.source)
        if v.storage.setting is not None and v.storage.setting.is_constant:
            v = setting_constant(v)
        if v.value is not None:
            return _constant(v)
        if not v.is_persistent:
            return f"a value of {v.dtype}"
        self._states += 1
        return f"variable {self._states} of {v.dtype}{list(v.dims)}"


def _constant(v):
    """A number, or a digest of several; with the dtype unless it is float32."""
    kind = "" if v.dtype == np.float32 else f"{v.dtype} "
    shape = list(v.dims) if v.dims else ""
    if v.value.size == 1:
        return f"{kind}{shape}{v.value.reshape(())!s}"
    return f"{kind}{shape} {_digest(v.content[2])}"


def _attributes(node):
    every = [
        f"{name}={_attribute(value)}"
        for name, value in node.attributes.items()
        if (node.op_type, name) not in AT_RUN_TIME
    ]
    return f" with {', '.join(every)}" if every else ""


def _attribute(value):
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)} {_digest(value.tobytes())}"
    if hasattr(value, "SerializeToString"):
        return _digest(value.SerializeToString(deterministic=True))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_attribute, value))}]"
    return repr(value)


def _digest(data):
    return blake2b(data, digest_size=6).hexdigest()
