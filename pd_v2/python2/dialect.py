"""Whether a program that parses as Python 3 can be nothing else."""

import ast

_ONLY_TODAY = (
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
    """Whether a syntax tree has what Python 2 would have rejected.

    That is syntax, and super() without its arguments. Everything else a Python 2 program can have.
    """
    return any(_is_only_today(node) for node in ast.walk(tree))


def _is_only_today(node):
    test = _TESTS.get(type(node))
    return isinstance(node, _ONLY_TODAY) or (test is not None and test(node))


def _call(node):
    """super(), print(x, file=f) where print was a statement, f(*a, *b)."""
    name = node.func.id if isinstance(node.func, ast.Name) else None
    stars = sum(isinstance(argument, ast.Starred) for argument in node.args)
    return stars > 1 or (name == "super" and not node.args)


def _arguments(node):
    named = [*node.posonlyargs, *node.args, *node.kwonlyargs]
    annotated = any(argument.annotation is not None for argument in named)
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
