"""How the submodules get their names."""


def renamed(module, names):
    """{name of v1: the thing in `module`} for {its name there: name of v1}."""
    return {old: getattr(module, new) for new, old in names.items()}
