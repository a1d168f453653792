"""`python -m pd_core.gradients` prints docs/ops.md: op functions, and the verdict on operators."""

import inspect

from onnx import defs

from .. import ops
from ..graph.inference import CEILING, OPSET
from .expression import expressions
from .registry import gradient_rules, reasons, zeros


def page() -> str:
    """The page, as Markdown."""
    lines = [
        "# Op functions and derivatives",
        "",
        "Made by `python -m pd_core.gradients`; a test keeps it fresh.",
        "",
        "## Functions",
        "",
        "| `pd.` | what it gives |",
        "|---|---|",
        *(f"| `{name}` | {_first_line(function)} |" for name, function in functions(public=True)),
        "",
        "Gradients are made of these, too. They are no names of `pd`, but of its module `ops`:",
        "",
        "| `ops.` | what it gives |",
        "|---|---|",
        *(f"| `{name}` | {_first_line(function)} |" for name, function in functions(public=False)),
        "",
        "## Derivatives",
        "",
        "The verdicts are keyed by ONNX operator, whoever built the graph. An operator that opset",
        f"{OPSET} does not have yet raises the opset of its program, up to {CEILING}.",
        "`python -m tests.core.gradients.node_suite` measures them on ONNX's own node tests.",
        "",
        "| operator | derivative |",
        "|---|---|",
        *(f"| {name} | {verdict(name)} |" for name in operators()),
        "",
    ]
    return "\n".join(lines)


def functions(public):
    """(name, function) of the op functions that are names of `pd`, or of the others, by name."""
    found = vars(ops).items()
    own = ((n, f) for n, f in found if inspect.isfunction(f))
    own = ((n, f) for n, f in own if f.__module__.startswith(ops.__name__))
    return sorted((n, f) for n, f in own if (n not in ops.COMPOSITES) == public)


def operators():
    """The names of ONNX's operators, by name, without those that another replaced."""
    schemas = defs.get_all_schemas()
    return sorted({s.name for s in schemas if s.domain == "" and not s.deprecated})


def verdict(op_type) -> str:
    """What the registry says of an operator."""
    if op_type in gradient_rules:
        return "rule" if op_type not in expressions else "rule, of what it computes"
    if op_type in zeros:
        return "zero"
    return f"none: {reasons[op_type]}"


def _first_line(function):
    line = inspect.getdoc(function).splitlines()[0]
    return line.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
