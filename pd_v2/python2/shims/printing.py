"""The print statement: a trailing comma leaves the space to whoever prints next."""

import builtins
import sys

from pd_v2.python2.shims.text import printed


def print_statement(*values, end="\n", file=None):
    """`print >>file, values`, where end=" " says that a comma came last."""
    file = sys.stdout if file is None else file
    space = bool(getattr(file, "softspace", 0))
    line = ""
    for text in builtins.map(printed, values):
        line += " " + text if space else text
        # Text that ends in white space is followed by no further space; a plain space is.
        space = not text[-1:].isspace() or text[-1:] == " "
    file.write(line if end == " " else line + "\n")
    _set_softspace(file, space and end == " ")


def finish_line():
    """At its end, the program's last print gets the newline that a comma held back."""
    if getattr(sys.stdout, "softspace", 0):
        sys.stdout.write("\n")
        _set_softspace(sys.stdout, False)


def forget_space():
    """Leave no space to whoever prints next."""
    _set_softspace(sys.stdout, False)


def _set_softspace(file, wanted):
    try:
        file.softspace = int(wanted)
    except AttributeError:
        return  # as before: a file without the attribute has no such spaces
