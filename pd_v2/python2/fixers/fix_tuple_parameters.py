"""`def f(a, (b, c)):` and `lambda (b, c):` with a name in place of each tuple."""

from fissix.fixer_base import BaseFix
from fissix.fixer_util import Name

from pd_v2.python2.fixers.target_names import name_of_target


class FixTupleParameters(BaseFix):
    BM_compatible = True
    PATTERN = "tuple=tfpdef< '(' any ')' > | tuple=vfpdef< '(' any ')' >"

    def transform(self, node, results):
        if node.parent is not None and node.parent.type in (self.syms.tfpdef, self.syms.vfpdef):
            return  # inside of a tuple that is replaced as a whole
        node.replace(Name(_name(node), prefix=node.prefix))


def _name(node):
    """(x), with no comma, is x and no tuple."""
    inner = node
    while len(inner.children) == 3 and str(inner.children[0]).strip() == "(":
        inner = inner.children[1]
    return name_of_target(inner if str(inner).strip().isidentifier() else node)
