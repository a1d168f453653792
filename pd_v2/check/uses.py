"""The uses of names of paddle in a program, with the keywords of calls."""

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
    """A use of a dotted name of paddle, or of one of several candidates, at a node of the program.

    `keywords` is None for a use of the name itself, or has the keywords of a call.
    """

    names: tuple[str, ...]
    node: ast.AST
    keywords: tuple[str, ...] | None = None


@dataclass
class _Collector:
    """Visitor of a program with nested scopes."""

    exports: object
    uses: list = field(default_factory=list)

    def program(self, tree):
        scope = scope_of(tree)
        self._star_imports = scope.stars
        self._visit_all(tree.body, scope)

    def _visit_all(self, nodes, scope):
        for node in nodes:
            self._visit(node, scope)

    def _visit(self, node, scope):
        if isinstance(node, _SCOPES):
            self._visit_scope(node, scope)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._visit_import(node)
        elif isinstance(node, ast.Call):
            self._visit_call(node, scope)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            self._visit_name(node, scope)
        else:
            self._visit_all(ast.iter_child_nodes(node), scope)

    def _visit_scope(self, node, scope):
        inner = scope_of(node, scope)
        body = node.body if isinstance(node.body, list) else [node.body]
        in_body = {id(child) for child in body}
        for child in ast.iter_child_nodes(node):
            self._visit(child, inner if id(child) in in_body else scope)

    def _visit_import(self, node):
        base = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        if isinstance(node, ast.ImportFrom) and (node.level or not node.module):
            return
        for alias in node.names:
            dotted = base.removesuffix(".") if alias.name == "*" else base + alias.name
            if dotted.split(".")[0] in ROOTS:
                self.uses.append(Use((dotted,), node))

    def _visit_call(self, node, scope):
        self._visit(node.func, scope)
        names = self._candidates(node.func, scope)
        keywords = tuple(keyword.arg for keyword in node.keywords if keyword.arg)
        if names and keywords:
            self.uses.append(Use(tuple(names), node, keywords))
        self._visit_all([*node.args, *(keyword.value for keyword in node.keywords)], scope)

    def _visit_name(self, node, scope):
        names = self._candidates(node, scope)
        if isinstance(node.ctx, ast.Load) and names and not any("()" in name for name in names):
            self.uses.append(Use(tuple(names), node))
        elif isinstance(node, ast.Attribute):
            self._visit(node.value, scope)

    def _candidates(self, node, scope):
        """Return the candidates of the scope, or those of star imports for an unbound name."""
        base = node
        while isinstance(base, ast.Attribute):
            base = base.value
        if isinstance(base, ast.Name) and scope.owner(base.id) is None:
            return self._from_star(ast.unparse(node), base.id)
        return scope.candidates(node)

    def _from_star(self, text, name):
        stars = self._star_imports
        paddle = [module for module in stars if module.split(".")[0] in ROOTS]
        exporting = [module for module in paddle if name in self.exports(module)]
        if exporting:
            return [f"{exporting[-1]}.{text}"]
        is_ambiguous = len(paddle) < len(stars) or name in _BUILTINS
        return [] if is_ambiguous else [f"{module}.{text}" for module in paddle]


def uses_of(tree, exports):
    """Return the Uses of a program, in the order of its text.

    `exports(module)` returns the names that `from module import *` binds.
    """
    collector = _Collector(exports)
    collector.program(tree)
    return sorted(collector.uses, key=lambda use: (use.node.lineno, use.node.col_offset))
