"""Rewrites `raise E, value, traceback` and `generator.throw(E, value, traceback)`.

Both become a call, on as many lines, since only at run time it is known whether the value is an
argument of E, a tuple of them, or the error itself.
"""

from fissix.fixer_base import BaseFix
from fissix.fixer_util import Name, is_tuple
from fissix.pgen2 import token
from fissix.pytree import Leaf, Node


class FixRaiseParts(BaseFix):
    BM_compatible = False
    PATTERN = """
    raise_stmt< 'raise' any any* >
    | power< any+ trailer< '.' 'throw' > trailer< '(' parts=arglist< any ',' any any* > ')' > >
    """

    def transform(self, node, results):
        if "parts" in results:
            parts = results["parts"]
            parts.replace(self._call([part.clone() for part in parts.children], ""))
        elif len(node.children) > 2 or is_tuple(node.children[1]):
            parts = [part.clone() for part in node.children[1:]]
            call = self._call(parts, " ")
            node.children[2:] = []
            node.children[1].replace(call)

    def _call(self, parts, prefix):
        """Return the call of the function that gives the error."""
        arguments = Node(self.syms.arglist, parts) if len(parts) > 1 else parts[0]
        brackets = [Leaf(token.LPAR, "("), arguments, Leaf(token.RPAR, ")")]
        function = Name("_py2_raised", prefix=prefix)
        return Node(self.syms.power, [function, Node(self.syms.trailer, brackets)])
