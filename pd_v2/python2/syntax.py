"""Python 2 syntax written as Python 3: the same lines, under the same numbers.

What the program means is left to pd_v2.python2.meaning; here it only has to parse.
"""

import functools
import re

from fissix.pgen2 import token
from fissix.pgen2.parse import ParseError
from fissix.pgen2.tokenize import TokenError
from fissix.refactor import RefactoringTool

_OURS = ("except_target", "byte_strings", "tuple_parameters")
_THEIRS = ("exec", "ne", "numliterals", "paren", "print", "raise", "repr", "throw")


@functools.cache
def _tool():
    ours = [f"pd_v2.python2.fixers.fix_{name}" for name in _OURS]
    return RefactoringTool(ours + [f"fissix.fixes.fix_{name}" for name in _THEIRS])


def modernize(source, filename):
    """The lines of a Python 2 program as Python 3. SyntaxError if it is no Python 2."""
    try:
        tree = _tool().refactor_string(source + "\n", filename)
    except (ParseError, TokenError, IndentationError) as error:
        raise _syntax_error(error, source, filename) from None
    return _without_tabs(tree)


def _syntax_error(error, source, filename):
    """What Python 2 would have reported."""
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
    """The text of the tree. Python 2 took a tab as 8 columns, Python 3 wants tabs or spaces."""
    inside = set()
    for leaf in tree.leaves():
        if leaf.type == token.STRING:
            inside.update(range(leaf.lineno + 1, leaf.lineno + leaf.value.count("\n") + 1))
    lines = str(tree).split("\n")
    for number, line in enumerate(lines, 1):
        if number not in inside:
            lines[number - 1] = re.sub(r"^[ \t]+", lambda tabs: tabs[0].expandtabs(8), line)
    return "\n".join(lines)
