"""List comprehensions in the body of a class, which Python 2 evaluated in its scope.

There `xs = [i * n for i in r]` reads n of the class and assigns i, which Python 3's does not. So
the comprehension becomes a loop before its statement. One that a condition may leave out, or that
is inside of another expression with a scope, stays.
"""

import ast

# Expressions that evaluate a part later, several times, or not at all.
_STAYS = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_STATEMENTS = (ast.Assign, ast.AugAssign, ast.Expr, ast.For, ast.If)


def unroll(tree):
    """Rewrite the list comprehensions in the bodies of a module's classes as loops."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            node.body = _unrolled(node.body)


def _unrolled(statements):
    result = []
    for statement in statements:
        loops = _Loops()
        if isinstance(statement, _STATEMENTS):
            loops.take(statement)
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            for field in ("body", "orelse", "finalbody"):
                if inner := getattr(statement, field, None):
                    setattr(statement, field, _unrolled(inner))
        result += [*loops.statements, statement, *loops.deletions]
    return result


class _Loops(ast.NodeTransformer):
    """Takes the comprehensions out of an expression, in the order of their evaluation."""

    def __init__(self):
        self.statements = []  # that fill the lists
        self.deletions = []

    def take(self, statement):
        """Take them out of the expression that a statement evaluates first."""
        field = {ast.For: "iter", ast.If: "test"}.get(type(statement), "value")
        setattr(statement, field, self.visit(getattr(statement, field)))

    def visit(self, node):
        return node if isinstance(node, _STAYS) else super().visit(node)

    def visit_ListComp(self, node):
        name = f"_py2_list_{node.lineno}_{node.col_offset}"
        append = ast.Attribute(ast.Name(name, ast.Load()), "append", ast.Load())
        body = [ast.Expr(ast.Call(append, [node.elt], []))]
        for generator in reversed(node.generators):
            for test in reversed(generator.ifs):
                body = [ast.If(test, body, [])]
            body = [ast.For(generator.target, generator.iter, body, [])]
        start = ast.Assign([ast.Name(name, ast.Store())], ast.List([], ast.Load()))
        deletion = ast.Delete([ast.Name(name, ast.Del())])
        for part in (start, *body, deletion):
            ast.fix_missing_locations(ast.copy_location(part, node))
        self.statements += [start, *_unrolled(body)]
        self.deletions.append(deletion)
        return ast.copy_location(ast.Name(name, ast.Load()), node)
