"""What Python 2 programs find in place of what is gone or has changed, by subject.

The modules imported here add their overrides to the views of modules.
"""

from pd_v2.python2.shims import (
    archives,
    binary_modules,
    doctests,
    finders,
    packages,
    pickles,
    processes,
    standard_modules,
)

__all__ = [
    *("archives", "binary_modules", "doctests", "finders", "packages", "pickles", "processes"),
    "standard_modules",
]
