"""Safe unpickling of containers, numbers, strings and arrays, which runs no code of the file.

Python's own unpickler imports and calls whatever a file names. Here each opcode has a handler in
this package, which checks lengths and numbers against the size of the file before anything is
allocated.
"""

from pd_v2.pickles.load import load, load_samples

__all__ = ["load", "load_samples"]
