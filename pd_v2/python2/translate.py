"""A program of 2017 as a syntax tree of today."""

import ast
import warnings
from dataclasses import dataclass

from pd_v2.python2 import meaning, syntax
from pd_v2.python2.dialect import is_python3


@dataclass(frozen=True)
class Program:
    """What to run: the tree, and how its names and imports are to be understood."""

    tree: ast.Module
    is_python2: bool
    has_print_function: bool = True
    has_absolute_imports: bool = True


def parse(source, filename):
    """The Program of a source text: Python 2, unless it is clearly Python 3.

    Lines keep their numbers. SyntaxError, with a place in the source, if it is neither.
    """
    today, error_today = _parsed(source, filename)
    if today is not None and is_python3(today):
        return Program(today, is_python2=False)
    try:
        text = syntax.modernize(source, filename)
    except SyntaxError as error:
        if today is not None:
            return Program(today, is_python2=False)
        raise _later(error_today, error) from None
    tree, error = _parsed(text, filename)
    if tree is None:
        raise _of_source(error, source) from None
    _widen_changed_lines(tree, source, text)
    features = meaning.future_features(tree)
    return Program(
        meaning.give_meaning(tree),
        True,
        "print_function" in features,
        "absolute_import" in features,
    )


def translate(source, filename="<string>"):
    """The source of a program as it is run: Python 3, which a Python 3 program stays."""
    program = parse(source, filename)
    return ast.unparse(program.tree) + "\n" if program.is_python2 else source


def compile_program(program, filename):
    """The code of a Program. It has the features of its own __future__ imports only."""
    with _without_warnings():
        return compile(program.tree, filename, "exec", dont_inherit=True)


def _parsed(text, filename):
    """(tree, None) or (None, the SyntaxError)."""
    with _without_warnings():
        try:
            return compile(text, filename, "exec", ast.PyCF_ONLY_AST, dont_inherit=True), None
        except SyntaxError as error:
            return None, error


def _without_warnings():
    """Today's warnings about yesterday's habits, such as '\\d' and `is 0`, help nobody."""
    return warnings.catch_warnings(action="ignore")


def _later(first, second):
    """Of the errors of two parsers the one that is further down: it got past the other's."""
    return first if _place(first) >= _place(second) else second


def _place(error):
    return (error.lineno or 0, error.offset or 0)


def _of_source(error, source):
    """The error with the line as its author wrote it."""
    lines = source.splitlines()
    if error.lineno and error.lineno <= len(lines) and error.text is not None:
        error.text = lines[error.lineno - 1] + "\n"
    return error


def _widen_changed_lines(tree, source, text):
    """Let nodes on rewritten lines span whole lines: the columns there are not those of the source.

    A traceback marks the columns of an error only where they are less than the line.
    """
    before, after = source.split("\n"), text.split("\n")
    changed = {n for n, (a, b) in enumerate(zip(before, after, strict=False), 1) if a != b}
    for node in ast.walk(tree):
        if changed & {getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)}:
            first, last = before[node.lineno - 1], before[node.end_lineno - 1]
            node.col_offset = len(first) - len(first.lstrip())
            node.end_col_offset = len(last.encode())
