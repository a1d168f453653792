"""Where a program uses names of paddle, and which keywords it gives to them."""

import ast
import builtins
from dataclasses import dataclass, field

from .scopes import ROOTS, scope_of

_PYTHON2 = {
    *("apply", "basestring", "buffer", "cmp", "coerce", "execfile", "file", "intern", "long"),
    *("raw_input", "reduce", "reload", "unichr", "unicode", "xrange"),
}
_BUILTINS = {*dir(builtins), *_PYTHON2, "__file__", "__path__"}
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True)
class Use:
    """A dotted name of paddle, or what it may be of several, at a node of the program.

    `keywords` is None where the name itself is meant, not a call with keywords.
    """

    names: tuple[str, ...]
    node: ast.AST
    keywords: tuple[str, ...] | None = None


@dataclass
class _Collector:
    """Walks over a program, a scope inside the other."""

    exports: object
    uses: list = field(default_factory=list)

    def program(self, tree):
        scope = scope_of(tree)
        self._imports_everything = scope.stars
        self._visit_all(tree.body, scope)

    def _visit_all(self, nodes, scope):
        for node in nodes:
            self._visit(node, scope)

    def _visit(self, node, scope):
        if isinstance(node, _SCOPES):
            self._visit_scope(node, scope)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._imported(node)
        elif isinstance(node, ast.Call):
            self._called(node, scope)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            self._named(node, scope)
        else:
            self._visit_all(ast.iter_child_nodes(node), scope)

    def _visit_scope(self, node, scope):
        inner = scope_of(node, scope)
        body = node.body if isinstance(node.body, list) else [node.body]
        inside = {id(each) for each in body}
        for child in ast.iter_child_nodes(node):
            self._visit(child, inner if id(child) in inside else scope)

    def _imported(self, node):
        base = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        if isinstance(node, ast.ImportFrom) and (node.level or not node.module):
            return
        for alias in node.names:
            dotted = base.removesuffix(".") if alias.name == "*" else base + alias.name
            if dotted.split(".")[0] in ROOTS:
                self.uses.append(Use((dotted,), node))

    def _called(self, node, scope):
        self._visit(node.func, scope)
        names = self._candidates(node.func, scope)
        keywords = tuple(keyword.arg for keyword in node.keywords if keyword.arg)
        if names and keywords:
            self.uses.append(Use(tuple(names), node, keywords))
        self._visit_all([*node.args, *(keyword.value for keyword in node.keywords)], scope)

    def _named(self, node, scope):
        names = self._candidates(node, scope)
        if isinstance(node.ctx, ast.Load) and names and not any("()" in name for name in names):
            self.uses.append(Use(tuple(names), node))
        elif isinstance(node, ast.Attribute):
            self._visit(node.value, scope)

    def _candidates(self, node, scope):
        """Those of the scope, else what `*` imports of paddle may have given."""
        first = node
        while isinstance(first, ast.Attribute):
            first = first.value
        if isinstance(first, ast.Name) and scope.owner(first.id) is None:
            return self._from_star(ast.unparse(node), first.id)
        return scope.candidates(node)

    def _from_star(self, text, name):
        stars = self._imports_everything
        ours = [module for module in stars if module.split(".")[0] in ROOTS]
        giving = [module for module in ours if name in self.exports(module)]
        if giving:
            return [f"{giving[-1]}.{text}"]
        unclear = len(ours) < len(stars) or name in _BUILTINS
        return [] if unclear else [f"{module}.{text}" for module in ours]


def uses_of(tree, exports):
    """The Uses of a program, in the order of its text.

    `exports(module)` are the names that `from module import *` gives.
    """
    collector = _Collector(exports)
    collector.program(tree)
    return sorted(collector.uses, key=lambda use: (use.node.lineno, use.node.col_offset))
