"""Python 2's total order: None, then numbers, then the rest by type name."""

import builtins
import functools
import operator

_OPERATORS = {
    "less": operator.lt,
    "at_most": operator.le,
    "more": operator.gt,
    "at_least": operator.ge,
}
_PLAIN = (type(None), int, float, str, bytes, list, tuple, dict, set)


def compare(name, a, b):
    """`a < b` and so on, also for types that Python 3 does not order."""
    relation = _OPERATORS[name]
    try:
        return relation(a, b)
    except TypeError:
        if not (isinstance(a, _PLAIN) and isinstance(b, _PLAIN)):
            raise
    return relation(three_way(a, b), 0)


def three_way(a, b):
    """`cmp(a, b)`: -1, 0 or 1."""
    method = getattr(type(a), "__cmp__", None)
    if method is not None:
        return method(a, b)
    try:
        return int(a > b) - int(a < b)
    except TypeError:
        return _cmp_unordered(a, b)


def _cmp_unordered(a, b):
    if type(a) is type(b) and isinstance(a, list | tuple):
        differences = (three_way(x, y) for x, y in zip(a, b, strict=False) if x != y)
        return next(differences, three_way(len(a), len(b)))
    if type(a) is type(b) is dict:
        return three_way(len(a), len(b)) or three_way(sorted_any(a.items()), sorted_any(b.items()))
    if type(a) is type(b):
        return three_way(id(a), id(b))
    return three_way(_rank(a), _rank(b))


def _rank(value):
    if value is None:
        return (0, "")
    if isinstance(value, int | float):
        return (1, "")
    # a string of any type is a str
    return (2, "str" if isinstance(value, str | bytes) else type(value).__name__)


def sorted_any(values, cmp=None, key=None, reverse=False):
    """`sorted(...)`, which also takes a comparison function."""
    values = list(values)
    sort(values, cmp, key, reverse)
    return values


def sort(values, cmp=None, key=None, reverse=False):
    """`list.sort(...)`, which also takes a comparison function."""
    if cmp is not None:
        values.sort(key=_key_of(cmp, key), reverse=reverse)
        return
    before = values[:]
    try:
        values.sort(key=key, reverse=reverse)
    except TypeError:
        values[:] = before  # a failed sort leaves a partial order
        values.sort(key=_key_of(three_way, key), reverse=reverse)


def _key_of(cmp, key):
    by_cmp = functools.cmp_to_key(cmp)
    return by_cmp if key is None else lambda value: by_cmp(key(value))


def _extreme(builtin):
    def extreme(*values, key=None):
        candidates = values if len(values) > 1 else list(*values)
        try:
            return builtin(candidates, key=key)
        except TypeError:
            return builtin(candidates, key=_key_of(three_way, key))

    return extreme


max_any = _extreme(builtins.max)
min_any = _extreme(builtins.min)
