"""Translation of a program of 2017 to a Python 3 syntax tree."""

import ast
import warnings
from dataclasses import dataclass

from pd_v2.python2 import semantics, syntax
from pd_v2.python2.dialect import is_python3


@dataclass(frozen=True)
class Program:
    """A parsed program: its tree, and the dialect of its names and imports."""

    tree: ast.Module
    is_python2: bool
    has_print_function: bool = True
    has_absolute_imports: bool = True


def parse(source, filename):
    """Parse source text to a Program: Python 2, unless it is clearly Python 3.

    Line numbers are preserved. SyntaxError, with the location in the source, if it is neither.
    """
    python3, python3_error = _parse(source, filename)
    if python3 is not None and is_python3(python3):
        return Program(python3, is_python2=False)
    try:
        text = syntax.modernize(source, filename)
    except SyntaxError as error:
        if python3 is not None:
            return Program(python3, is_python2=False)
        raise _later(python3_error, error) from None
    tree, error = _parse(text, filename)
    if tree is None:
        raise _with_source_line(error, source) from None
    _widen_changed_lines(tree, source, text)
    features = semantics.future_features(tree)
    return Program(
        semantics.convert_semantics(tree),
        True,
        "print_function" in features,
        "absolute_import" in features,
    )


def translate(source, filename="<string>"):
    """Translate the source of a program to Python 3; a Python 3 program is returned unchanged."""
    program = parse(source, filename)
    return ast.unparse(program.tree) + "\n" if program.is_python2 else source


def compile_program(program, filename):
    """Compile a Program, with the features of its own __future__ imports only."""
    with _without_warnings():
        return compile(program.tree, filename, "exec", dont_inherit=True)


def _parse(text, filename):
    """Return (tree, None) or (None, the SyntaxError)."""
    with _without_warnings():
        try:
            return compile(text, filename, "exec", ast.PyCF_ONLY_AST, dont_inherit=True), None
        except SyntaxError as error:
            return None, error


def _without_warnings():
    """Suppress warnings about the source, such as of '\\d' and `is 0`, which 2017 did not issue."""
    return warnings.catch_warnings(action="ignore")


def _later(first, second):
    """Return the error of the parser that got further in the source."""
    return first if _location(first) >= _location(second) else second


def _location(error):
    return (error.lineno or 0, error.offset or 0)


def _with_source_line(error, source):
    """Replace the line in an error by the original one."""
    lines = source.splitlines()
    if error.lineno and error.lineno <= len(lines) and error.text is not None:
        error.text = lines[error.lineno - 1] + "\n"
    return error


def _widen_changed_lines(tree, source, text):
    """Let nodes on rewritten lines span whole lines, as their columns are not those of the source.

    A traceback does not mark the columns of an error that spans the line.
    """
    before, after = source.split("\n"), text.split("\n")
    changed = {n for n, (a, b) in enumerate(zip(before, after, strict=False), 1) if a != b}
    for node in ast.walk(tree):
        if changed & {getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)}:
            first, last = before[node.lineno - 1], before[node.end_lineno - 1]
            node.col_offset = len(first) - len(first.lstrip())
            node.end_col_offset = len(last.encode())
