"""Assignment targets where Python 3 takes a plain name: `except E, (a, b)`, `def f((a, b))`.

The target is encoded in a name in the source text, so that no line has to be added. The assignment
is added to the syntax tree, where the name is decoded again.
"""

import ast

from fissix.fixer_util import Name

_PREFIX = "_py2_target_"


def name_of_target(node, prefix):
    """Encode a target, given as a node, in a fissix name that has as many lines."""
    text = str(node).strip()
    name = text if text.isidentifier() else _PREFIX + text.encode().hex()
    return Name(name, prefix=prefix + "\\\n" * text.count("\n"))


def target_of_name(name):
    """Decode the target in a name to a syntax tree; None for an ordinary name."""
    if not name.startswith(_PREFIX):
        return None
    text = bytes.fromhex(name.removeprefix(_PREFIX)).decode()
    return ast.parse(f"{text} = 0").body[0].targets[0]
