"""The same hashes of strings in every process that `python -m pd_v2` or `pd-v2` starts.

A set of words had the same order in every process of Python 2, so programs number words by it, in
train.py and again in infer.py. PYTHONHASHSEED, if it is set, is left as it is.
"""

import os
import sys
from pathlib import PurePath

from .search_path import is_module_command

_VARIABLE = "PYTHONHASHSEED"


def _is_command():
    name = PurePath(sys.argv[0] if sys.argv else "").name
    return name == "pd-v2" or is_module_command()


# before other modules are imported, as this Python starts again; Windows would start a second one
if os.name == "posix" and _VARIABLE not in os.environ and _is_command():
    os.environ[_VARIABLE] = "0"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  itself
