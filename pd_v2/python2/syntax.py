"""Conversion of Python 2 syntax to Python 3, with the same line numbers.

The result has to parse only; the semantics are left to pd_v2.python2.semantics.
"""

import functools
import re

from fissix.pgen2 import token
from fissix.pgen2.parse import ParseError
from fissix.pgen2.tokenize import TokenError
from fissix.refactor import RefactoringTool

_OWN_FIXERS = (
    *("except_target", "byte_strings", "new_keywords", "numbers", "print_statement"),
    *("raise_parts", "tuple_parameters"),
)
_FISSIX_FIXERS = ("exec", "ne", "paren", "repr")


@functools.cache
def _tool():
    own = [f"pd_v2.python2.fixers.fix_{name}" for name in _OWN_FIXERS]
    return RefactoringTool(own + [f"fissix.fixes.fix_{name}" for name in _FISSIX_FIXERS])


def modernize(source, filename):
    """Convert the source of a Python 2 program; SyntaxError if it is not Python 2."""
    try:
        tree = _tool().refactor_string(source + "\n", filename)
    except (ParseError, TokenError, IndentationError) as error:
        raise _syntax_error(error, source, filename) from None
    return _without_tabs(tree)


def _syntax_error(error, source, filename):
    """Return the error that Python 2 would have reported."""
    if isinstance(error, IndentationError):
        message, (_, line, column, _) = error.args
        kind = IndentationError
    elif isinstance(error, TokenError):
        kind, message, (line, column) = SyntaxError, *error.args
    else:
        kind, message, (line, column) = SyntaxError, "invalid syntax", error.context[1]
    lines = source.splitlines()
    line = min(line, len(lines)) or 1
    text = lines[line - 1] if lines else ""
    return kind(message, (filename, line, column + 1, text + "\n"))


def _without_tabs(tree):
    """Return the text of a tree, indented by spaces: Python 3 rejects a mix of tabs and spaces."""
    string_lines = set()  # continuation lines of strings
    for leaf in tree.leaves():
        if leaf.type == token.STRING:
            string_lines.update(range(leaf.lineno + 1, leaf.lineno + leaf.value.count("\n") + 1))
    lines = str(tree).split("\n")
    for number, line in enumerate(lines, 1):
        if number not in string_lines:
            lines[number - 1] = re.sub(r"^[ \t]+", lambda tabs: tabs[0].expandtabs(8), line)
    return "\n".join(lines)
