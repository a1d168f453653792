"""Replaces each tuple in `def f(a, (b, c)):` and `lambda (b, c):` by a name."""

from fissix.fixer_base import BaseFix

from pd_v2.python2.fixers.target_names import name_of_target


class FixTupleParameters(BaseFix):
    BM_compatible = True
    PATTERN = "tuple=tfpdef< '(' any ')' > | tuple=vfpdef< '(' any ')' >"

    def transform(self, node, results):
        syms = self.syms
        if node.parent.type in (syms.tfpdef, syms.tfplist, syms.vfpdef, syms.vfplist):
            return  # nested in a tuple that is replaced as a whole
        node.replace(name_of_target(_without_parentheses(node), node.prefix))


def _without_parentheses(node):
    """Return x for (x), which is not a tuple without a comma."""
    inner = node
    while len(inner.children) == 3 and str(inner.children[0]).strip() == "(":
        inner = inner.children[1]
    return inner if str(inner).strip().isidentifier() else node
