"""Rewrites print statements as calls, `print()` among them: it printed an empty tuple."""

from fissix.fixer_util import Call, Name
from fissix.fixes.fix_print import FixPrint
from fissix.pgen2 import token


class FixPrintStatement(FixPrint):
    def transform(self, node, results):
        arguments = node.children[1:]
        if len(arguments) == 1 and [leaf.type for leaf in arguments[0].children] == _EMPTY:
            return Call(Name("print"), [arguments[0].clone()], prefix=node.prefix)
        return super().transform(node, results)


_EMPTY = [token.LPAR, token.RPAR]
