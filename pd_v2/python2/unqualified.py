"""`exec code` and `from m import *` in a function, which assigned the function's variables.

Python 3 takes no such import, and its exec cannot assign. So a function with one of them keeps what
they assigned in a dict, from which its variables are set afterwards; a name that the function does
not assign itself is looked up there first.
"""

import ast

_ASSIGNED = "_py2_assigned"


def keep_assignments(tree):
    """Rewrite the functions of a module that have an exec without namespaces or an import of *."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            own = _Body(node)
            if own.executes:
                own.rewrite()


class _Body(ast.NodeTransformer):
    """The statements of one function, without those of functions and classes in it."""

    def __init__(self, function):
        self.function = function
        self.executes, stored, shared = False, set(), set()
        waiting = list(function.body)
        while waiting:
            node = waiting.pop()
            self.executes |= _is_unqualified(node)
            if isinstance(node, ast.Global):
                shared.update(node.names)
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                stored.add(node.id)
            elif isinstance(node, ast.alias) and node.name != "*":
                stored.add((node.asname or node.name).partition(".")[0])
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                stored.add(node.name)
            elif not isinstance(node, ast.Lambda):
                waiting.extend(ast.iter_child_nodes(node))
        stored.update(part.arg for part in ast.walk(function.args) if isinstance(part, ast.arg))
        self.variables = sorted(name for name in stored - shared if not name.startswith("_py2_"))
        self.fixed = {*self.variables, *shared}

    def rewrite(self):
        function = self.function
        start = 0 if ast.get_docstring(function, clean=False) is None else 1
        body = [self.visit(statement) for statement in function.body[start:]]
        flat = [s for part in body for s in (part if isinstance(part, list) else [part])]
        function.body[start:] = [*_statements(f"{_ASSIGNED} = {{}}", function), *flat]

    def visit_FunctionDef(self, node):
        return node

    visit_Lambda = visit_ClassDef = visit_FunctionDef

    def visit_Expr(self, node):
        if not _is_unqualified(node):
            return self.generic_visit(node)
        return self._executed(self.visit(node.value.args[0]), node)

    def visit_ImportFrom(self, node):
        return self._executed(ast.Constant(ast.unparse(node)), node) if _is_star(node) else node

    def visit_Name(self, node):
        is_read = isinstance(node.ctx, ast.Load)
        if not is_read or node.id in self.fixed or node.id.startswith("_py2_"):
            return node
        source = f"{_ASSIGNED}[{node.id!r}] if {node.id!r} in {_ASSIGNED} else {node.id}"
        return _statements(source, node)[0].value

    def _executed(self, code, location):
        """Return the statements that execute code, and assign what it assigned."""
        lines = [
            f"{_ASSIGNED} = {{**{_ASSIGNED}, **locals()}}",
            f"exec(0, globals(), {_ASSIGNED})",
            *(
                f"if {name!r} in {_ASSIGNED}: {name} = {_ASSIGNED}[{name!r}]"
                for name in self.variables
            ),
        ]
        statements = _statements("\n".join(lines), location)
        statements[1].value.args[0] = code
        return statements


def _is_star(node):
    return isinstance(node, ast.ImportFrom) and node.names[0].name == "*"


def _is_unqualified(node):
    call = node.value if isinstance(node, ast.Expr) else None
    is_exec = isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    is_exec = is_exec and call.func.id == "exec" and len(call.args) == 1
    return _is_star(node) or (is_exec and not isinstance(call.args[0], ast.Tuple))


def _statements(source, location):
    """Return the statements of a source text at a source location."""
    statements = ast.parse(source).body
    for statement in statements:
        for node in ast.walk(statement):
            ast.copy_location(node, location)
    return statements
