"""Files that functions of a program are given, such as the `dumper` of `dataset.common.split`.

Here they are binary. A Python 2 program has files of its own, which take any string, and which
`pd_v2.python2` puts around them.
"""

import types

_state = types.SimpleNamespace(wrap=None)


def wrap_by(function):
    """From now on files are given as `function(file, mode)`; with None as they are."""
    _state.wrap = function


def file_of(file, mode):
    """Return a binary file as the program has files; the mode is "r" or "w"."""
    return file if _state.wrap is None else _state.wrap(file, mode)
