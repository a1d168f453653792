"""The name that the command line was called by."""

import sys
from pathlib import PurePath

_COMMAND, _MODULE = "pd-v2", "python -m pd_v2"


def program_name(*subcommand):
    """Return `pd-v2`, or `python -m pd_v2` if Python was called so, with a subcommand."""
    file = PurePath(sys.argv[0] if sys.argv else "").name
    called = file.removesuffix(".exe").removesuffix("-script.py")
    return " ".join([_COMMAND if called == _COMMAND else _MODULE, *subcommand])


def print_error(message, *subcommand):
    """Print one line about a mistake in a command to stderr."""
    print(f"{program_name(*subcommand)}: {message}", file=sys.stderr)
