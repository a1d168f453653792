"""Detection of programs that are Python 3, and not Python 2."""

import ast

_PYTHON3_NODES = (
    ast.AnnAssign,
    ast.AsyncFor,
    ast.AsyncFunctionDef,
    ast.AsyncWith,
    ast.Await,
    ast.JoinedStr,
    ast.MatMult,
    ast.Match,
    ast.NamedExpr,
    ast.Nonlocal,
    ast.TryStar,
    ast.YieldFrom,
)


def is_python3(tree):
    """Return whether a syntax tree has something that Python 2 would have rejected.

    That is new syntax, super() without arguments, or the built-in open() with an encoding.
    """
    nodes = list(ast.walk(tree))
    opens_encoded = any(_opens_encoded(node) for node in nodes)
    imports_open = any(isinstance(n, ast.alias) and "open" in (n.name, n.asname) for n in nodes)
    return any(map(_is_python3_node, nodes)) or (opens_encoded and not imports_open)


def _is_python3_node(node):
    test = _TESTS.get(type(node))
    return isinstance(node, _PYTHON3_NODES) or (test is not None and test(node))


def _opens_encoded(node):
    is_open = isinstance(node, ast.Call) and _called_name(node) == "open"
    return is_open and any(keyword.arg in ("encoding", "newline") for keyword in node.keywords)


def _called_name(call):
    return call.func.id if isinstance(call.func, ast.Name) else None


def _call(node):
    """Return whether a call is super() or f(*a, *b)."""
    stars = sum(isinstance(argument, ast.Starred) for argument in node.args)
    return stars > 1 or (_called_name(node) == "super" and not node.args)


def _arguments(node):
    arguments = [*node.posonlyargs, *node.args, *node.kwonlyargs]
    annotated = any(argument.annotation is not None for argument in arguments)
    return bool(annotated or node.kwonlyargs or node.posonlyargs)


_TESTS = {
    ast.arguments: _arguments,
    ast.Assign: lambda node: any(_unpacks_rest(target) for target in node.targets),
    ast.Call: _call,
    ast.ClassDef: lambda node: bool(node.keywords),
    ast.Dict: lambda node: None in node.keys,
    ast.For: lambda node: _unpacks_rest(node.target),
    ast.FunctionDef: lambda node: node.returns is not None,
    ast.List: lambda node: _has_star(node),
    ast.Raise: lambda node: node.cause is not None,
    ast.Set: lambda node: _has_star(node),
    ast.Tuple: lambda node: _has_star(node),
}


def _has_star(node):
    return any(isinstance(item, ast.Starred) for item in node.elts)


def _unpacks_rest(target):
    return isinstance(target, ast.Tuple | ast.List) and _has_star(target)
