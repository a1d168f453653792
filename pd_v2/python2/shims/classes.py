"""Classes with the special methods of Python 2."""

_RENAMED = {
    "__div__": "__truediv__",
    "__idiv__": "__itruediv__",
    "__nonzero__": "__bool__",
    "__rdiv__": "__rtruediv__",
    "next": "__next__",
}
_RELATIONS = {
    "__eq__": lambda order: order == 0,
    "__ge__": lambda order: order >= 0,
    "__gt__": lambda order: order > 0,
    "__le__": lambda order: order <= 0,
    "__lt__": lambda order: order < 0,
}


def adapt_class(cls):
    """Add the special methods of Python 3 to a class."""
    own = set(vars(cls))
    for old, new in _RENAMED.items():
        if old in own and new not in own:
            setattr(cls, new, vars(cls)[old])
    if "__cmp__" in own:
        for name in _RELATIONS.keys() - own:
            setattr(cls, name, _relation(name))
    if own & {"__eq__", "__cmp__"} and "__hash__" not in own - _implicit(cls):
        cls.__hash__ = next(base.__hash__ for base in cls.__mro__[1:] if base.__hash__)
    return cls


def _implicit(cls):
    """Return {"__hash__"} if Python 3 has set it to None, as it does in a class with __eq__."""
    return {"__hash__"} if cls.__hash__ is None else set()


def _relation(name):
    holds = _RELATIONS[name]

    def relation(self, other):
        return holds(self.__cmp__(other))

    return relation
