"""Environment variables that switch something on or off for a whole process."""

import os


def is_on(variable: str, default: bool = False) -> bool:
    """Return whether an environment variable is set, to anything but 0 or nothing.

    Args:
        variable: its name, such as PD_FUSE.
        default: what holds where there is no such variable.

    Returns:
        Whether it is on.
    """
    value = os.environ.get(variable)
    return default if value is None else value not in ("", "0")
