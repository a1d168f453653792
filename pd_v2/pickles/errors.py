"""The error inside this package; `load` says of which file it is."""


class Refused(ValueError):
    """A pickle uses something that is not allowed."""


def require(condition, problem):
    """Raise Refused unless a condition holds."""
    if not condition:
        raise Refused(problem)
