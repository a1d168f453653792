"""Python 2 semantics for a syntax tree that parses as Python 3.

Where an expression has another result in Python 3, it is replaced by the call of a function of
pd_v2.python2.shims, whose name starts with _py2_. Every node keeps its location in the source.
"""

import ast
import copy

from pd_v2.python2 import class_bodies, comprehensions, unqualified
from pd_v2.python2.fixers.target_names import target_of_name
from pd_v2.python2.shims.attributes import ASSIGNED, ATTRIBUTES

_COMPARISONS = {ast.Lt: "less", ast.LtE: "at_most", ast.Gt: "more", ast.GtE: "at_least"}

_CONVERSIONS = {"float", "int", "long", "str", "type"}

# Special methods that Python 3 does not call, or treats otherwise.
_OLD_METHODS = {
    *("__cmp__", "__delslice__", "__div__", "__eq__", "__getslice__", "__idiv__", "__nonzero__"),
    *("__rdiv__", "__setslice__", "next"),
}

# Built-in functions that print nothing, of what programs usually give them.
_QUIET = {
    *("abs", "bool", "chr", "dict", "float", "hex", "int", "len", "list", "max", "min", "ord"),
    *("range", "repr", "round", "sorted", "str", "sum", "tuple", "type", "unicode", "xrange"),
    "zip",
}

# In Python 3 a keyword of the class statement.
_METACLASS = "__metaclass__"


def future_features(tree):
    """Return the names that a module imports from __future__."""
    return {
        alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == "__future__"
        for alias in node.names
    }


def convert_semantics(tree):
    """Rewrite the tree of a Python 2 module as that of an equivalent Python 3 module."""
    class_bodies.unroll(tree)
    comprehensions.assign_variables(tree)
    errors = {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)}
    has_metaclass = any(_assigns(statement, _METACLASS) for statement in tree.body)
    transformer = _Transformer(future_features(tree), errors, has_metaclass)
    tree = transformer.visit(tree)
    unqualified.keep_assignments(tree)
    return ast.fix_missing_locations(tree)


class _Transformer(ast.NodeTransformer):
    def __init__(self, features, errors, has_metaclass):
        self.true_division = "division" in features
        self.prints_by_statement = "print_function" not in features
        self.errors = errors  # names that `except` binds
        self.has_metaclass = has_metaclass  # of the module's classes without bases

    def visit_Expr(self, node):
        """Split `print a, f()`, which printed a before it called f."""
        parts = None
        if self.prints_by_statement and _is_call_of(node.value, "print"):
            parts = _print_one_by_one(node.value)
        return [self.generic_visit(part) for part in parts or [node]]

    def visit_Subscript(self, node):
        """Rewrite `e[0]` of an error as that of its arguments."""
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = self._parts_of_error(node.value)
        return node

    def visit_Assign(self, node):
        """Rewrite `a, b = e` of an error as that of its arguments."""
        self.generic_visit(node)
        if any(isinstance(target, ast.Tuple | ast.List) for target in node.targets):
            node.value = self._parts_of_error(node.value)
        return node

    def visit_For(self, node):
        """Rewrite `for part in e` of an error as that of its arguments."""
        self.generic_visit(node)
        node.iter = self._parts_of_error(node.iter)
        return node

    def visit_comprehension(self, node):
        """Rewrite `[part for part in e]` of an error as that of its arguments."""
        self.generic_visit(node)
        node.iter = self._parts_of_error(node.iter)
        return node

    def _parts_of_error(self, node):
        is_error = isinstance(node, ast.Name) and node.id in self.errors
        return _call(node, "parts", node) if is_error else node

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if isinstance(node.op, ast.Mod) and _may_be_template(node):
            return _call(node, "fill", node.left, node.right)
        if self.true_division or not isinstance(node.op, ast.Div):
            return node
        if _is_float(node.left) or _is_float(node.right):
            return node
        return _call(node, "divide", node.left, node.right)

    def visit_AugAssign(self, node):
        """Rewrite `x[i] /= y`, so that x and i are evaluated once."""
        self.generic_visit(node)
        if self.true_division or not isinstance(node.op, ast.Div) or _is_float(node.value):
            return node
        target, statements = _evaluated_once(node.target)
        quotient = _call(node, "divide_in_place", _as_load(target), node.value)
        return [*statements, _assignment(target, quotient, node)]

    def visit_Compare(self, node):
        """Split a chained comparison, unless this would evaluate an operand twice."""
        self.generic_visit(node)
        *inner, _ = node.comparators
        if not all(isinstance(operand, ast.Name | ast.Constant) for operand in inner):
            return node
        operands = [node.left, *node.comparators]
        comparisons = [
            _comparison(node, left, operator, right)
            for left, operator, right in zip(operands, node.ops, operands[1:], strict=False)
        ]
        if len(comparisons) == 1:
            return comparisons[0]
        return _at(node, ast.BoolOp(ast.And(), comparisons))

    def visit_Call(self, node):
        self.generic_visit(node)
        plain = len(node.args) == 1 and not node.keywords
        named = isinstance(node.func, ast.Name) and node.func.id in _CONVERSIONS
        if not plain or not named or isinstance(node.args[0], ast.Starred):
            return node
        return _call(node, "convert", node.func, *node.args)

    def visit_Attribute(self, node):
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Store):
            node.attr = ASSIGNED.get(node.attr, node.attr)
        if node.attr not in ATTRIBUTES or not isinstance(node.ctx, ast.Load):
            return node
        return _call(node, "attribute", node.value, ast.Constant(node.attr))

    def visit_Constant(self, node):
        return _call(node, "bytes", node) if isinstance(node.value, bytes) else node

    def visit_FunctionDef(self, node):
        """Unpack the tuple parameters of `def f((a, b)):` after the docstring.

        A StopIteration that a generator does not catch ends it.
        """
        is_generator = any(isinstance(n, ast.Yield) for n in _own_nodes(node))
        self.generic_visit(node)
        start = 0 if ast.get_docstring(node, clean=False) is None else 1
        if is_generator and len(node.body) > start:
            stop = ast.ExceptHandler(ast.Name("StopIteration", ast.Load()), None, [ast.Return()])
            body = _at(node.body[start], ast.Try(node.body[start:], [stop], [], []))
            node.body[start:] = [body]
        node.body[start:start] = [
            _assignment(target, ast.Name(arg.arg, ast.Load()), node.body[0])
            for arg in node.args.args
            if (target := target_of_name(arg.arg)) is not None
        ]
        return node

    def visit_GeneratorExp(self, node):
        """Let a StopIteration of `it.next()` end `(it.next() for _ in xs)`."""
        stops = any(_may_stop(part) for part in ast.walk(node))
        self.generic_visit(node)
        return _call(node, "ending", node) if stops else node

    def visit_Lambda(self, node):
        """Rewrite `lambda (a, b): c` as `lambda pair: [c for a, b in [pair]][0]`."""
        self.generic_visit(node)
        for arg in reversed(node.args.args):
            target = target_of_name(arg.arg)
            if target is not None:
                node.body = _unpacking(node.body, target, arg.arg)
        return node

    def visit_ExceptHandler(self, node):
        """Keep the name of an error bound after the handler."""
        self.generic_visit(node)
        if node.name is not None:
            target = target_of_name(node.name) or ast.Name(node.name, ast.Store())
            node.name = "_py2_error"
            value = ast.Name(node.name, ast.Load())
            if isinstance(target, ast.Tuple | ast.List):
                value = ast.Attribute(value, "args", ast.Load())
            node.body.insert(0, _assignment(target, value, node))
        return node

    def visit_ClassDef(self, node):
        self.generic_visit(node)
        methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
        if methods & _OLD_METHODS:
            node.decorator_list.append(_at(node, ast.Name("_py2_class", ast.Load())))
        node.keywords += [
            _at(node, ast.keyword("metaclass", part.value))
            for part in node.body
            if isinstance(part, ast.Assign) and _assigns(part, _METACLASS)
        ]
        if self.has_metaclass and not node.bases and not node.keywords:
            module_metaclass = ast.Name(_METACLASS, ast.Load())
            node.keywords = [_at(node, ast.keyword("metaclass", module_metaclass))]
        node.body = [part for part in node.body if not _assigns(part, _METACLASS)] or [
            _at(node, ast.Pass())
        ]
        return node


def _at(location, node):
    """Give a node the source location of another one."""
    return ast.fix_missing_locations(ast.copy_location(node, location))


def _own_nodes(function):
    """Yield the nodes in the body of a function, without those of functions in it."""
    waiting = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))


def _may_stop(node):
    is_method = isinstance(node, ast.Attribute) and node.attr == "next"
    return is_method or (isinstance(node, ast.Name) and node.id in ("next", "StopIteration"))


def _is_call_of(node, name):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _print_one_by_one(call):
    """Return a print statement as one for each of its values; None if one does as well."""
    if not any(map(_may_print, call.args[1:])):
        return None
    statements, options = [], {keyword.arg: keyword for keyword in call.keywords}
    if "file" in options and not isinstance(options["file"].value, ast.Name | ast.Attribute):
        target = ast.Name("_py2_file", ast.Store())
        statements.append(_assignment(target, options["file"].value, call))
        options["file"].value = _at(call, _as_load(target))
    comma = _at(call, ast.keyword("end", ast.Constant(" ")))
    to = [options["file"]] if "file" in options else []
    for value in call.args[:-1]:
        part = ast.Call(copy.copy(call.func), [value], [*map(copy.deepcopy, to), comma])
        statements.append(_at(call, ast.Expr(part)))
    last = ast.Call(call.func, call.args[-1:], call.keywords)
    return [*statements, _at(call, ast.Expr(last))]


def _may_print(node):
    """Return whether the evaluation of a printed value may print, or change another one."""
    return any(
        isinstance(part, ast.Yield)
        or (isinstance(part, ast.Call) and not any(_is_call_of(part, name) for name in _QUIET))
        for part in ast.walk(node)
    )


def _comparison(location, left, operator, right):
    name = _COMPARISONS.get(type(operator))
    if isinstance(operator, ast.In | ast.NotIn) and _is_text(right):
        left = _call(location, "text", left)  # the left operand may be a Binary
    if name is None:
        return _at(location, ast.Compare(left, [operator], [right]))
    return _call(location, "compare", ast.Constant(name), left, right)


def _call(location, name, *arguments):
    function = ast.Name(f"_py2_{name}", ast.Load())
    return _at(location, ast.Call(function, list(arguments), []))


def _assignment(target, value, location):
    return _at(location, ast.Assign([target], value))


def _evaluated_once(target):
    """Return a target whose parts are local names, and the statements that assign these."""
    statements = []

    def keep(name, value):
        statements.append(_assignment(ast.Name(name, ast.Store()), value, target))
        return _at(target, ast.Name(name, ast.Load()))

    if isinstance(target, ast.Attribute):
        target.value = keep("_py2_object", target.value)
    elif isinstance(target, ast.Subscript):
        target.value = keep("_py2_object", target.value)
        if not any(isinstance(part, ast.Slice) for part in ast.walk(target.slice)):
            target.slice = keep("_py2_index", target.slice)
    return target, statements


def _as_load(target):
    """Return a target as an expression that reads it."""
    expression = copy.copy(target)
    expression.ctx = ast.Load()
    return expression


def _unpacking(body, target, name):
    """Return the expression `[body for target in [name]][0]`."""
    values = ast.List([ast.Name(name, ast.Load())], ast.Load())
    bodies = ast.ListComp(body, [ast.comprehension(target, values, [], 0)])
    return _at(body, ast.Subscript(bodies, ast.Constant(0), ast.Load()))


def _assigns(statement, name):
    return isinstance(statement, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == name for target in statement.targets
    )


def _is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _may_be_template(node):
    """Return whether `a % b` may format b otherwise than Python 3 does."""
    plain = isinstance(node.right, ast.Constant) and type(node.right.value) is int
    return _is_text(node.left) or not (plain or isinstance(node.left, ast.Constant))


def _is_float(node):
    """Return whether a node is a float literal, so that a division by it does not floor."""
    return isinstance(node, ast.Constant) and type(node.value) is float
