"""Summaries: the layers of a network as a table."""

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ..graph.nested import mapped
from ..graph.variable import Shape, Variable, static

if TYPE_CHECKING:
    from .layer import Layer

_HEADER = ("layer", "class", "output shape", "parameters")


def summary(layer: "Layer", *inputs: Shape | Variable) -> str:
    """Return a table of a layer and all below it, for inputs of these shapes; see `infer_shape`.

    Every parameter counts at its own layer, a shared one at the first. The output shape is that of
    the last call; `-` where a layer is not called, everywhere without inputs.
    """
    named = [("", layer), *layer.named_sublayers()]
    shapes: dict[Layer, Any] = {}

    def note(called, _, output):
        shapes[called] = mapped(attrgetter("shape"), output)

    handles = [each.register_forward_hook(note) for _, each in named if inputs]
    try:
        if inputs:
            shapes[layer] = layer.infer_shape(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    sizes = {name: math.prod(static(v.dims)) for name, v in layer.named_parameters()}
    own = dict.fromkeys((name for name, _ in named), 0)
    for name, size in sizes.items():
        owner = name.rpartition(".")[0]
        while owner not in own:  # in a list of a layer
            owner = owner.rpartition(".")[0]
        own[owner] += size
    rows = [
        (name or "(all)", type(each).__name__, _text(shapes.get(each, "-")), f"{own[name]:,}")
        for name, each in named
    ]
    trainable = sum(sizes[name] for name, v in layer.named_parameters() if v.trainable)
    total = sum(sizes.values())
    return "\n".join(
        [
            *table([_HEADER, *rows]),
            f"parameters: {total:,}, trainable {trainable:,}, not trainable {total - trainable:,}",
        ]
    )


def _text(shapes):
    """Shapes as the table shows them: `(?, 4, 6, 6)`."""
    if isinstance(shapes, dict):
        return "{" + ", ".join(f"{key}: {_text(value)}" for key, value in shapes.items()) + "}"
    if isinstance(shapes, list):
        return f"[{', '.join(map(_text, shapes))}]"
    if isinstance(shapes, tuple):
        comma = "," if len(shapes) == 1 else ""
        return f"({', '.join(map(_text, shapes))}{comma})"
    return "?" if shapes is None else str(shapes)


def table(rows: Sequence[Sequence[str]], numbers: int = 1) -> list[str]:
    """Return lines with the columns aligned, the last `numbers` to the right, and two rules."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    first = len(widths) - numbers
    lines = []
    for row in rows:
        cells = [
            text.rjust(width) if k >= first else text.ljust(width)
            for k, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells))
    rule = "-" * len(lines[0])
    return [lines[0], rule, *lines[1:], rule]
