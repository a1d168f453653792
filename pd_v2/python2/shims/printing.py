"""The print statement: after a trailing comma the next one writes a space first."""

import builtins
import sys

from pd_v2.python2.shims.text import printed


def print_statement(*values, end="\n", file=None):
    """`print >>file, values`; end=" " stands for a trailing comma."""
    file = sys.stdout if file is None else file
    space = bool(getattr(file, "softspace", 0))
    line = ""
    for text in builtins.map(printed, values):
        line += " " + text if space else text
        # no space follows text that ends in white space, other than a plain space
        space = not text[-1:].isspace() or text[-1:] == " "
    file.write(line if end == " " else line + "\n")
    _set_softspace(file, space and end == " ")


def finish_line():
    """At the end of a program, write the newline that a trailing comma has suppressed."""
    if getattr(sys.stdout, "softspace", 0):
        sys.stdout.write("\n")
        _set_softspace(sys.stdout, False)


def forget_space():
    """Let the next print statement write no space first."""
    _set_softspace(sys.stdout, False)


def _set_softspace(file, value):
    try:
        file.softspace = int(value)
    except AttributeError:
        return  # as in Python 2: no spaces in files that cannot store the attribute
