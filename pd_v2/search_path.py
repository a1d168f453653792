"""Protection of the imports of this package from files beside a script, such as a queue.py.

`python -m pd_v2` puts the current folder first on sys.path, and imports this package before it
knows the script.
"""

import os
import sys


def is_module_command():
    """Return whether the package is being imported for `python -m pd_v2`."""
    if sys.argv[:1] != ["-m"]:
        return False
    name = sys.orig_argv[len(sys.orig_argv) - len(sys.argv)]
    if name.startswith("-"):  # -mpd_v2, -Impd_v2
        name = name.partition("m")[2]
    return name in ("pd_v2", "pd_v2.__main__")  # not my_pd_v2, which may import this package


if is_module_command() and not sys.flags.safe_path:
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
