"""The rooms of pd_core: what each imports, and the map of them in CONTRIBUTING.md.

`python -m tests.rooms` brings the column of imports up to date.
"""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORE = sorted((ROOT / "pd_core").rglob("*.py"))
MAP = ROOT / "CONTRIBUTING.md"
ROW = re.compile(r"^\| `pd_core/(\w+)/` \| (.*) \| (.*) \|$", re.MULTILINE)

# From the bottom up: each imports only from those before it. A new room takes its place here, and
# a row in the map.
ROOMS = (
    "version",
    "graph",
    "storage",
    "ops",
    "backend",
    "gradients",
    "run",
    "optimizers",
    "dynamic",
    "onnx",
    "distributed",
    "layers",
    "interchange",
    "training",
    # what users see of them
    "nn",
    "tuning",
    "sklearn",
    "commands",
    "__main__",
    "",
)


@cache
def nodes(path):
    """The nodes of a file, less what only type checkers read."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING":
            node.body = []
    return list(ast.walk(tree))


def imports(path):
    """Dotted names of what a file imports, functions' imports included."""
    return (name for _, name in bindings(path))


def bindings(path):
    """The imports of a file: the name that each binds, and its dotted name."""
    package = list(path.relative_to(ROOT).parent.parts)
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((a.asname or a.name.partition(".")[0], a.name) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            for alias in node.names:
                assert alias.name != "*", f"{path}:{node.lineno}: star import"
                yield alias.asname or alias.name, f"{base}.{alias.name}"


def part(name, package):
    """`ops` of `pd_core.ops.math.add`; `` of the package itself; None of anything else."""
    if name == package:
        return ""
    if not name.startswith(package + "."):
        return None
    first = name.split(".")[1]
    path = ROOT / package / first
    return first if path.is_dir() or path.with_suffix(".py").exists() else ""


def rooms_below(room):
    """The rooms that a room imports from, from the bottom up."""
    below = {
        part(name, "pd_core")
        for path in CORE
        if path.relative_to(ROOT).parts[1] == room
        for name in imports(path)
    }
    return [r for r in ROOMS if r in below and r not in ("", "version", room)]


def updated(text):
    """The map with the imports that there are."""

    def row(match):
        room, what, _ = match.groups()
        below = ", ".join(f"`{r}`" for r in rooms_below(room)) or "nothing else"
        return f"| `pd_core/{room}/` | {what} | {below} |"

    return ROW.sub(row, text)


if __name__ == "__main__":
    MAP.write_text(updated(MAP.read_text(encoding="utf-8")), encoding="utf-8")
