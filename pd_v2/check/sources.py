"""Programs below some paths, as syntax trees."""

import ast
import json
import os
import re
import stat
import warnings
from dataclasses import dataclass
from importlib.util import decode_source

from ..python2 import translate
from ..python2.syntax import modernize

MAX_BYTES = 4 << 20
_ENDS = (".py", ".ipynb")
# A line of a notebook that is a command of the notebook itself: `%matplotlib inline`, `x = !ls`.
_COMMAND = re.compile(r"^(\s*)(?:\w+\s*=\s*)?[%!?].*")


@dataclass(frozen=True)
class Program:
    """A program that was parsed; `cells` has (cell, line) for each line of a notebook."""

    path: str
    tree: ast.Module
    cells: tuple[tuple[int, int], ...] = ()

    def place(self, node):
        """The location of a node: `train.py:12`, or `train.ipynb, cell 3:2`."""
        if not self.cells:
            return f"{self.path}:{node.lineno}"
        cell, line = self.cells[node.lineno - 1]
        return f"{self.path}, cell {cell}:{line}"


@dataclass(frozen=True)
class Unread:
    """A file that could not be read or parsed, and why."""

    path: str
    reason: str


def programs(paths):
    """A Program or an Unread for each file, in the order of the paths; a file comes once."""
    seen = set()
    for path in paths:
        for file in _files(path):
            real = os.path.realpath(file)
            if real not in seen:
                seen.add(real)
                yield _program(file)


def _files(path):
    """The programs below a folder; any other path itself."""
    if not os.path.isdir(path):
        yield path
        return
    folders = set()  # a link may lead back up
    for folder, inner, names in os.walk(path, followlinks=True):
        folders.add(os.path.realpath(folder))
        inner[:] = [name for name in sorted(inner) if _is_new(os.path.join(folder, name), folders)]
        yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(_ENDS))


def _is_new(folder, known):
    name = os.path.basename(folder)
    installed = os.path.exists(os.path.join(folder, "pyvenv.cfg"))
    skipped = name.startswith(".") or name == "__pycache__" or installed
    return not skipped and os.path.realpath(folder) not in known


def _program(path):
    try:
        return _parsed(path, _content(path))
    except SyntaxError as error:
        line = f"line {error.lineno}: " if error.lineno else ""
        return Unread(path, f"{line}{error.msg}")
    except OSError as error:
        return Unread(path, error.strerror or str(error))
    except (ValueError, RecursionError, MemoryError) as error:
        return Unread(path, str(error) or type(error).__name__)


def _content(path):
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is no regular file")
    if status.st_size > MAX_BYTES:
        raise ValueError(f"it has {status.st_size} bytes, more than {MAX_BYTES}")
    with open(path, "rb") as file:
        return file.read()


def _parsed(path, content):
    if path.endswith(".ipynb"):
        text, cells = _notebook(content)
        return Program(path, _tree(text, path), cells)
    if b"\0" in content:
        raise ValueError("it has null bytes")
    try:
        text = decode_source(content)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not in the encoding that it declares: {error}") from None
    return Program(path, _tree(text, path))


def _tree(text, path):
    """The syntax tree. Names mean the same in both Pythons, so what parses as it is stays so."""
    with warnings.catch_warnings(action="ignore"):
        try:
            return ast.parse(text, path)
        except SyntaxError:
            pass
        try:
            return ast.parse(modernize(text, path), path)
        except SyntaxError:
            translate(text, path)  # its error is that of the parser which came further
            raise


def _notebook(content):
    """The code cells of a notebook below one another, and (cell, line) for each line."""
    lines, cells = [], []
    for number, cell in enumerate(_cells(json.loads(content)), 1):
        source = cell.get("source", "")
        source = source if isinstance(source, str) else "".join(source)
        if cell.get("cell_type") != "code" or source.lstrip().startswith("%%"):
            continue
        for line_number, line in enumerate(_dedented(source.splitlines()), 1):
            lines.append(_COMMAND.sub(r"\1pass", line))
            cells.append((number, line_number))
    return "\n".join([*lines, ""]), (*cells, cells[-1] if cells else (1, 1))


def _cells(notebook):
    """The cells, which older notebooks keep in worksheets, with other words."""
    try:
        sheets = notebook.get("worksheets", [notebook])
        cells = [cell for sheet in sheets for cell in sheet["cells"]]
        return [{"source": cell.get("input", ""), **cell} for cell in cells]
    except (AttributeError, KeyError, TypeError):
        raise ValueError("it is no notebook") from None


def _dedented(lines):
    """The lines without the indentation of the first, as a notebook runs them."""
    first = next((line for line in lines if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip())]
    return [line.removeprefix(indent) for line in lines]
