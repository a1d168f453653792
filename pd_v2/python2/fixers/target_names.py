"""What Python 2 assigned to where Python 3 takes a plain name: `except E, (a, b)`, `def f((a, b))`.

The target travels inside of a name through the source text, so that no line has to be added; the
assignment is made where the name is met again, in the syntax tree.
"""

import ast

_PREFIX = "_py2_target_"


def name_of_target(node):
    """A name for a target given as a fissix node: itself where it is a name."""
    text = str(node).strip()
    return text if text.isidentifier() else _PREFIX + text.encode().hex()


def target_of_name(name):
    """The target as an expression to be assigned to, or None for an ordinary name."""
    if not name.startswith(_PREFIX):
        return None
    text = bytes.fromhex(name.removeprefix(_PREFIX)).decode()
    return ast.parse(f"{text} = 0").body[0].targets[0]
