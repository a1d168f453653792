"""The programs in files and folders, parsed to syntax trees."""

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
_SUFFIXES = (".py", ".ipynb")
# Commands of a notebook: `%matplotlib inline`, `x = !ls`.
_COMMAND = re.compile(r"^(\s*)(?:\w+\s*=\s*)?[%!?].*")


@dataclass(frozen=True)
class Program:
    """A parsed program; `cells` has (cell, line) for each line of a notebook."""

    path: str
    tree: ast.Module
    cells: tuple[tuple[int, int], ...] = ()

    def place(self, node):
        """Return the location of a node: `train.py:12`, or `train.ipynb, cell 3:2`."""
        if not self.cells:
            return f"{self.path}:{node.lineno}"
        cell, line = self.cells[node.lineno - 1]
        return f"{self.path}, cell {cell}:{line}"


@dataclass(frozen=True)
class Unread:
    """A file that could not be read or parsed, and the reason."""

    path: str
    reason: str


def programs(paths):
    """Yield a Program or an Unread for each file, in the order of the paths, without duplicates."""
    seen = set()
    for path in paths:
        for file in _files(path):
            real = os.path.realpath(file)
            if real not in seen:
                seen.add(real)
                yield _program(file)


def _files(path):
    """Yield the paths of the programs in a folder; any other path itself."""
    if not os.path.isdir(path):
        yield path
        return
    folders = set()  # a link may lead back up
    for folder, inner, names in os.walk(path, followlinks=True):
        folders.add(os.path.realpath(folder))
        inner[:] = [name for name in sorted(inner) if _is_new(os.path.join(folder, name), folders)]
        matching = (name for name in sorted(names) if name.endswith(_SUFFIXES))
        yield from (os.path.join(folder, name) for name in matching)


def _is_new(folder, visited):
    name = os.path.basename(folder)
    installed = os.path.exists(os.path.join(folder, "pyvenv.cfg"))
    skipped = name.startswith(".") or name == "__pycache__" or installed
    return not skipped and os.path.realpath(folder) not in visited


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
    """Parse as Python 3, else as Python 2; the scopes of names are the same in both."""
    with warnings.catch_warnings(action="ignore"):
        try:
            return ast.parse(text, path)
        except SyntaxError:
            pass
        try:
            return ast.parse(modernize(text, path), path)
        except SyntaxError:
            translate(text, path)  # raises the error of the parser that got further
            raise


def _notebook(content):
    """Return the concatenated code cells of a notebook, and (cell, line) for each line."""
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
    """Return the cells; older notebooks have them in worksheets, with the key "input"."""
    try:
        sheets = notebook.get("worksheets", [notebook])
        cells = [cell for sheet in sheets for cell in sheet["cells"]]
        return [{"source": cell.get("input", ""), **cell} for cell in cells]
    except (AttributeError, KeyError, TypeError):
        raise ValueError("it is no notebook") from None


def _dedented(lines):
    """Remove the indentation of the first line, as a notebook does."""
    first = next((line for line in lines if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip())]
    return [line.removeprefix(indent) for line in lines]
