"""The variables of list comprehensions, which Python 2 assigned in the scope around them.

`[f(x) for x in xs]` becomes `[f(x) for _py2_x in xs if [x := _py2_x]]` where x is read outside of
the comprehension. In another kind of comprehension that has the variable, and in the sequence that
a comprehension goes over, Python has no such assignment: there the variable stays inside. Those in
the body of a class are loops (`class_bodies`).
"""

import ast

_SCOPES = (ast.Module, ast.FunctionDef, ast.Lambda)
_LOOPS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_PREFIX = "_py2_"


def assign_variables(tree):
    """Let list comprehensions of a module assign the variables that are read outside of them."""
    _in_scope(tree)


def _in_scope(scope):
    """Rewrite the comprehensions of a scope, and those of the scopes in it."""
    loops, scopes = [], []
    _collect(list(ast.iter_child_nodes(scope)), loops, scopes, frozenset(), not _is_class(scope))
    read = _read(scope)
    for loop in loops:
        names = _targets(loop)
        if names & read:
            _rewrite(loop, names & read)
    for inner in scopes:
        _in_scope(inner)


def _is_class(scope):
    return isinstance(scope, ast.ClassDef)


def _collect(nodes, loops, scopes, bound, is_free):
    """Find the list comprehensions that may assign, and the scopes in them.

    `bound` are the variables of the loops around; `is_free` says whether an assignment is possible.
    """
    for node in nodes:
        if isinstance(node, (*_SCOPES, ast.ClassDef)):
            scopes.append(node)
            outside = [*getattr(node, "decorator_list", ()), *getattr(node, "bases", ())]
            arguments = getattr(node, "args", None)
            outside += [] if arguments is None else [*arguments.defaults, *arguments.kw_defaults]
            _collect([n for n in outside if n], loops, scopes, bound, is_free)
        elif isinstance(node, _LOOPS):
            names = _targets(node)
            assigns = isinstance(node, ast.ListComp) and is_free and not names & bound
            assigns = assigns and all(_is_plain(g.target) for g in node.generators)
            if assigns:
                loops.append(node)
            inner = bound | (frozenset() if assigns else names)
            _collect([g.iter for g in node.generators], loops, scopes, bound, False)
            parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            parts += [test for g in node.generators for test in g.ifs]
            _collect(parts, loops, scopes, inner, is_free)
        else:
            _collect(list(ast.iter_child_nodes(node)), loops, scopes, bound, is_free)


def _read(node, bound=frozenset()):
    """Return the names that a tree reads, or shares, and that no comprehension around there has."""
    if isinstance(node, ast.Global):
        return {*node.names}
    if isinstance(node, ast.Name):
        is_read = isinstance(node.ctx, ast.Load | ast.Del) and node.id not in bound
        return {node.id} if is_read else set()
    found = set()
    if isinstance(node, _LOOPS):
        first, inner = node.generators[0].iter, bound | _targets(node)
        found |= _read(first, bound)
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.comprehension):
                others = [*part.ifs, *([] if part.iter is first else [part.iter])]
                found |= set().union(*(_read(other, inner) for other in others))
            else:
                found |= _read(part, inner)
        return found
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        found |= {node.target.id} - bound
    return found.union(*(_read(part, bound) for part in ast.iter_child_nodes(node)))


def _targets(loop):
    """Return the names of the variables of a comprehension."""
    targets = [generator.target for generator in loop.generators]
    return frozenset(n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))


def _is_plain(target):
    """Return whether a target consists of names only."""
    return all(isinstance(n, ast.Name | ast.Tuple | ast.List | ast.Store) for n in ast.walk(target))


def _rewrite(loop, names):
    for generator in loop.generators:
        assigned = [n for n in ast.walk(generator.target) if isinstance(n, ast.Name)]
        assigned = [n for n in assigned if n.id in names]
        if not assigned:
            continue
        values = [
            ast.NamedExpr(ast.Name(n.id, ast.Store()), ast.Name(_PREFIX + n.id, ast.Load()))
            for n in assigned
        ]
        test = ast.copy_location(ast.List(values, ast.Load()), loop)
        generator.ifs.insert(0, ast.fix_missing_locations(test))
        for name in assigned:
            name.id = _PREFIX + name.id
