"""The bindings of names in a program: to dotted names of paddle, or to anything else."""

import ast
from dataclasses import dataclass, field

ROOTS = ("paddle", "py_paddle")

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_ALIASES = (ast.Name, ast.Attribute, ast.Call)


@dataclass
class Scope:
    """The names that a module, a function or a class binds.

    `imports` maps a name to the dotted names of paddle that it is imported from, `aliases` to the
    expressions that are assigned to it; `others` are names that are bound in any other way.
    """

    parent: "Scope | None" = None
    is_class: bool = False
    imports: dict = field(default_factory=dict)
    aliases: dict = field(default_factory=dict)
    others: set = field(default_factory=set)
    stars: list = field(default_factory=list)
    global_names: set = field(default_factory=set)  # of `global` statements

    @property
    def module(self):
        return self if self.parent is None else self.parent.module

    def binds(self, name):
        """Return whether this scope itself binds a name."""
        return name in self.imports or name in self.aliases or name in self.others

    def owner(self, name):
        """Return the scope that binds a name which is used here, or None."""
        scope = self.module if name in self.global_names else self
        while scope is not None and (
            not scope.binds(name) or (scope.is_class and scope is not self)
        ):
            scope = scope.parent
        return scope

    def candidates(self, node, seen=()):
        """Return the dotted names that an expression may be; none if it may be anything else.

        The result of a call is written with `()`: `paddle.v2.trainer.SGD()`.
        """
        if isinstance(node, ast.Attribute):
            return [f"{base}.{node.attr}" for base in self.candidates(node.value, seen)]
        if isinstance(node, ast.Call):
            return [f"{function}()" for function in self.candidates(node.func, seen)]
        return self._candidates_of_name(node.id, seen) if isinstance(node, ast.Name) else []

    def _candidates_of_name(self, name, seen):
        scope = self.owner(name)
        if scope is None or (id(scope), name) in seen:
            return []
        if name in scope.imports:
            return scope.imports[name]
        if name in scope.others:
            return []
        seen = (*seen, (id(scope), name))
        candidates = [scope.candidates(value, seen) for value in scope.aliases[name]]
        return [dotted for each in candidates for dotted in each] if all(candidates) else []


def scope_of(node, parent=None):
    """Return the Scope of a module, function or class, with the names that its body binds."""
    scope = Scope(parent, isinstance(node, ast.ClassDef))
    if isinstance(node, _FUNCTIONS):
        arguments = node.args
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        parameters += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
        scope.others.update(parameter.arg for parameter in parameters)
    body = node.body if isinstance(node.body, list) else [node.body]
    nodes = list(_walk_scope(body))
    for node in nodes:
        if isinstance(node, ast.Global):
            scope.global_names.update(node.names)
    aliased = {id(target) for node in nodes if _is_alias(node) for target in node.targets}
    for node in nodes:
        if id(node) not in aliased:
            _bind(scope, node)
    return scope


def _walk_scope(nodes):
    """Walk syntax trees, without the inside of functions and classes."""
    for node in nodes:
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield from _walk_scope(ast.iter_child_nodes(node))


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
    """Return whether an assignment binds plain names to an expression that may be of paddle."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, _ALIASES):
        return False
    return all(isinstance(target, ast.Name) for target in node.targets)


def _owner(scope, name):
    return scope.module if name in scope.global_names else scope


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
