"""Names of v1 for objects of `paddle` that have another name there."""


def lookup(module, names):
    """Return the `__getattr__` of a module whose names are {name of v1: name in `module`}."""

    def find(name):
        if name not in names:
            raise AttributeError(f"there is no {name!r} of v1 in {module.__name__}")
        return getattr(module, names[name])

    return find
