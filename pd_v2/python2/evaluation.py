"""exec, eval, execfile, input and compile for Python 2 source."""

import ast
import builtins
import sys

from pd_v2.python2.sources import read_source
from pd_v2.python2.translate import compile_program, parse


def compile_source(source, filename, mode="exec", flags=0, dont_inherit=False):
    """`compile(...)` of Python 2 source, or of a syntax tree, which is not translated."""
    if not isinstance(source, str | bytes):
        return builtins.compile(source, filename, mode, flags, dont_inherit)
    if mode == "eval":
        return _compile_expression(str(source), filename)
    return compile_program(parse(str(source), filename), filename)


def execute(code, names=None, local_names=None):
    """`exec code in names, local_names`."""
    frame = sys._getframe(1)
    names, local_names = _scope(frame, names, local_names)
    is_source = isinstance(code, str | bytes)
    builtins.exec(compile_source(code, "<string>") if is_source else code, names, local_names)


def evaluate(expression, names=None, local_names=None):
    """`eval(...)`"""
    frame = sys._getframe(1)
    names, local_names = _scope(frame, names, local_names)
    is_source = isinstance(expression, str | bytes)
    code = _compile_expression(str(expression), "<string>") if is_source else expression
    return builtins.eval(code, names, local_names)


def evaluate_input(prompt=""):
    """`input()`, which evaluated its input."""
    frame = sys._getframe(1)
    code = _compile_expression(builtins.input(prompt), "<string>")
    return builtins.eval(code, *_scope(frame, None, None))


def execute_file(path, names=None, local_names=None):
    """`execfile(...)`"""
    frame = sys._getframe(1)
    names, local_names = _scope(frame, names, local_names)
    program = parse(read_source(path), path)
    builtins.exec(compile_program(program, path), names, local_names)


def _compile_expression(text, filename):
    program = parse(text.strip(), filename)
    if len(program.tree.body) != 1 or not isinstance(program.tree.body[0], ast.Expr):
        raise SyntaxError("invalid syntax", (filename, 1, 1, text))
    return builtins.compile(ast.Expression(program.tree.body[0].value), filename, "eval")


def _scope(frame, names, local_names):
    """Return the namespaces, by default the caller's, with the caller's built-in names."""
    if names is None:
        names, local_names = frame.f_globals, frame.f_locals
    names.setdefault("__builtins__", frame.f_builtins)
    return names, names if local_names is None else local_names
