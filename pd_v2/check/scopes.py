"""What the names of a program are bound to: dotted names of paddle, or anything else."""

import ast
from dataclasses import dataclass, field

ROOTS = ("paddle", "py_paddle")

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_ALIASES = (ast.Name, ast.Attribute, ast.Call)


@dataclass
class Scope:
    """The names that a module, a function or a class binds.

    `imports` has the dotted names of paddle that a name was imported as, `aliases` the expressions
    that were assigned to it, `others` the names that are bound in any other way.
    """

    parent: "Scope | None" = None
    is_class: bool = False
    imports: dict = field(default_factory=dict)
    aliases: dict = field(default_factory=dict)
    others: set = field(default_factory=set)
    stars: list = field(default_factory=list)
    elsewhere: set = field(default_factory=set)  # names that belong to the module: `global`

    @property
    def module(self):
        return self if self.parent is None else self.parent.module

    def binds(self, name):
        """Whether this scope itself binds a name."""
        return name in self.imports or name in self.aliases or name in self.others

    def owner(self, name):
        """The scope that a name belongs to where it is used here, None if nothing binds it."""
        scope = self.module if name in self.elsewhere else self
        while scope is not None and (
            not scope.binds(name) or (scope.is_class and scope is not self)
        ):
            scope = scope.parent
        return scope

    def candidates(self, node, seen=()):
        """The dotted names that an expression may be, none if it may be anything else.

        What a call gives is written with `()`: `paddle.v2.trainer.SGD()`.
        """
        if isinstance(node, ast.Attribute):
            return [f"{base}.{node.attr}" for base in self.candidates(node.value, seen)]
        if isinstance(node, ast.Call):
            return [f"{function}()" for function in self.candidates(node.func, seen)]
        return self._named(node.id, seen) if isinstance(node, ast.Name) else []

    def _named(self, name, seen):
        scope = self.owner(name)
        if scope is None or (id(scope), name) in seen:
            return []
        if name in scope.imports:
            return scope.imports[name]
        if name in scope.others:
            return []
        seen = (*seen, (id(scope), name))
        found = [scope.candidates(value, seen) for value in scope.aliases[name]]
        return [dotted for each in found for dotted in each] if all(found) else []


def scope_of(node, parent=None):
    """The Scope that a module, function or class opens, with the names that its body binds."""
    scope = Scope(parent, isinstance(node, ast.ClassDef))
    if isinstance(node, _FUNCTIONS):
        arguments = node.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        named += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
        scope.others.update(argument.arg for argument in named)
    body = node.body if isinstance(node.body, list) else [node.body]
    inside = list(_own(body))
    for each in inside:
        if isinstance(each, ast.Global):
            scope.elsewhere.update(each.names)
    aliased = {id(target) for each in inside if _is_alias(each) for target in each.targets}
    for each in inside:
        if id(each) not in aliased:
            _bind(scope, each)
    return scope


def _own(nodes):
    """The nodes below some, but for what is inside of functions and classes there."""
    for node in nodes:
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield from _own(ast.iter_child_nodes(node))


def _bind(scope, node):
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.split(".")[0]
            _bind_import(scope, alias.asname or top, alias.name if alias.asname else top)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            _bind_member(scope, node, alias)
    elif _is_alias(node):
        for target in node.targets:
            _owner(scope, target.id).aliases.setdefault(target.id, []).append(node.value)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        _owner(scope, node.name).others.add(node.name)
    elif isinstance(node, ast.ExceptHandler) and node.name:
        scope.others.add(node.name)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        _owner(scope, node.id).others.add(node.id)


def _is_alias(node):
    """Whether an assignment gives names to something that may be of paddle."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, _ALIASES):
        return False
    return all(isinstance(target, ast.Name) for target in node.targets)


def _owner(scope, name):
    return scope.module if name in scope.elsewhere else scope


def _bind_member(scope, node, alias):
    base = "" if node.level else node.module or ""
    if alias.name == "*":
        scope.module.stars.append(base)
    else:
        _bind_import(scope, alias.asname or alias.name, f"{base}.{alias.name}")


def _bind_import(scope, name, dotted):
    owner = _owner(scope, name)
    if dotted.split(".")[0] in ROOTS:
        owner.imports.setdefault(name, []).append(dotted)
    else:
        owner.others.add(name)
