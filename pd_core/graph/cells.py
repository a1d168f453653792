"""Cells of notebooks: which run of a cell a name was given in."""

import sys
from typing import Any


def cell_run() -> Any:
    """Return what tells this run of a cell from others; None outside of IPython."""
    ipython = sys.modules.get("IPython")
    get_ipython = getattr(ipython, "get_ipython", None)
    shell = None if get_ipython is None else get_ipython()
    return None if shell is None else getattr(shell, "execution_count", None)
