"""Built-in functions that returned lists."""

import builtins
import functools
import itertools

from pd_v2.python2.shims.text import Binary, as_bytes, like, printed


def map_list(function, *sequences):
    """`map(...)`: returns a list; shorter sequences are padded with None."""
    if function is str:
        function = printed
    if len(sequences) == 1:
        return list(sequences[0]) if function is None else list(builtins.map(function, *sequences))
    rows = itertools.zip_longest(*sequences)
    return list(rows) if function is None else [function(*row) for row in rows]


def filter_list(function, sequence):
    """`filter(...)`: returns a string or a tuple for a string or a tuple, else a list."""
    kept = [item for item in sequence if (item if function is None else function(item))]
    if isinstance(sequence, str):
        return like("".join(kept), sequence)
    if isinstance(sequence, Binary):
        return Binary(b"".join(map(as_bytes, kept)))
    return tuple(kept) if isinstance(sequence, tuple) else kept


def zip_list(*sequences):
    return list(builtins.zip(*sequences, strict=False))


@functools.wraps(builtins.range, assigned=("__doc__",))
def range_list(*bounds):
    return list(builtins.range(*bounds))
