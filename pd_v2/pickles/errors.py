"""The error inside this package; `load` adds the name of the file."""


class Refused(ValueError):
    """Raised for a pickle that uses something that is not allowed."""


def require(condition, problem):
    """Raise Refused unless a condition holds."""
    if not condition:
        raise Refused(problem)
