"""What Python 2 assigned to where Python 3 takes a plain name: `except E, (a, b)`, `def f((a, b))`.

The target travels inside of a name through the source text, so that no line has to be added; the
assignment is made where the name is met again, in the syntax tree.
"""

import ast

from fissix.fixer_util import Name

_PREFIX = "_py2_target_"


def name_of_target(node, prefix):
    """A fissix name for a target given as a node, spread over as many lines."""
    text = str(node).strip()
    name = text if text.isidentifier() else _PREFIX + text.encode().hex()
    return Name(name, prefix=prefix + "\\\n" * text.count("\n"))


def target_of_name(name):
    """The target as an expression to be assigned to, or None for an ordinary name."""
    if not name.startswith(_PREFIX):
        return None
    text = bytes.fromhex(name.removeprefix(_PREFIX)).decode()
    return ast.parse(f"{text} = 0").body[0].targets[0]
