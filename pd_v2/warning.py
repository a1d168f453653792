"""Warnings that are attributed to the line of the program that uses this package."""

import sys
import warnings
from os.path import dirname, join

_ROOT = dirname(dirname(__file__))
_PACKAGES = join(_ROOT, "pd_v2", ""), join(_ROOT, "pd_core", "")


def warn(message):
    """Issue a UserWarning, or the given Warning, at the innermost line outside of our packages."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGES):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
