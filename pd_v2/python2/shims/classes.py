"""Classes with the special methods of Python 2."""

import sys

_RENAMED = {
    "__div__": "__truediv__",
    "__idiv__": "__itruediv__",
    "__nonzero__": "__bool__",
    "__rdiv__": "__rtruediv__",
    "next": "__next__",
}
_SLICES = {
    "__delslice__": "__delitem__",
    "__getslice__": "__getitem__",
    "__setslice__": "__setitem__",
}
_RELATIONS = {
    "__eq__": lambda order: order == 0,
    "__ge__": lambda order: order >= 0,
    "__gt__": lambda order: order > 0,
    "__le__": lambda order: order <= 0,
    "__lt__": lambda order: order < 0,
    "__ne__": lambda order: order != 0,
}


def adapt_class(cls):
    """Add the special methods of Python 3 to a class."""
    own = set(vars(cls))
    for old, new in _RENAMED.items():
        if old in own and new not in own:
            setattr(cls, new, vars(cls)[old])
    for old, new in _SLICES.items():
        if old in own:
            setattr(cls, new, _sliced(vars(cls)[old], getattr(cls, new, None)))
    if "__cmp__" in own:
        for name in _RELATIONS.keys() - own:
            setattr(cls, name, _relation(name))
    if "__eq__" in own and cls.__ne__ is object.__ne__:
        cls.__ne__ = _relation("__ne__") if hasattr(cls, "__cmp__") else _unequal
    if own & {"__eq__", "__cmp__"} and "__hash__" not in own - _implicit(cls):
        cls.__hash__ = next(base.__hash__ for base in cls.__mro__[1:] if base.__hash__)
    return cls


def _sliced(of_slice, of_index):
    """Return the method of `x[key]` where `x[i:j]` has a method of its own."""

    def item(self, key, *value):
        if isinstance(key, slice) and key.step is None:
            first, last = (_from_front(self, k) for k in (key.start or 0, key.stop))
            return of_slice(self, first, sys.maxsize if last is None else last, *value)
        if of_index is None:
            raise TypeError(f"{type(self).__name__!r} object has no items")
        return of_index(self, key, *value)

    return item


def _from_front(values, place):
    return place + len(values) if place is not None and place < 0 else place


def _implicit(cls):
    """Return {"__hash__"} if Python 3 has set it to None, as it does in a class with __eq__."""
    return {"__hash__"} if cls.__hash__ is None else set()


def _unequal(self, other):
    """`a != b` of a class with `__eq__` alone, which compared identities."""
    return NotImplemented


def _relation(name):
    holds = _RELATIONS[name]

    def relation(self, other):
        return holds(self.__cmp__(other))

    return relation
