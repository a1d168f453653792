"""Pickles as data: containers, numbers, strings and arrays are built, and nothing is run.

Python's own unpickler imports and calls whatever a file names. Here each opcode is carried out by
a few lines of this package, on lengths and numbers that are checked against the file's size before
anything is allocated.
"""

from pd_v2.pickles.load import load, load_samples

__all__ = ["load", "load_samples"]
