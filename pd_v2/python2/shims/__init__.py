"""Replacements for features of Python 2 that Python 3 lacks or has changed, by subject.

The modules imported here register their overrides for the views of modules.
"""

from pd_v2.python2.shims import (
    archives,
    binary_modules,
    doctests,
    finders,
    ordering,
    patterns,
    pickles,
    processes,
    standard_modules,
    third_party,
)

__all__ = [
    *("archives", "binary_modules", "doctests", "finders", "ordering", "patterns", "pickles"),
    *("processes", "standard_modules", "third_party"),
]
