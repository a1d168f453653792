"""The error inside this package; `load` says of which file it is."""


class Refused(ValueError):
    """What a pickle asks for is not done."""


def require(condition, problem):
    """Raise Refused unless a condition holds."""
    if not condition:
        raise Refused(problem)
