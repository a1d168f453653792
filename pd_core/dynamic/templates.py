"""Templates: the nodes that a call of an op adds, to add them again without running the op.

What an op adds depends on the types of its Variables and on its other arguments alone. Ops that
read anything else (parameters that they create, random draws in bodies of loops) have no template.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, cast

import numpy as np

from ..graph.node import Block, ancestors, current_location
from ..graph.variable import Variable, is_open
from ..ops.mode import SEGMENTS, mode
from ..run.structure import Key, Structure
from .recorded_call import RecordedCall
from .recorded_node import Form, RecordedNode, type_key

_PLAIN = {int, float, bool, str, type(None), type, np.dtype}
_LARGEST = 64  # elements of a constant

_templates: dict[tuple, "Template | None"] = {}
known = _templates.get  # the template of a key, None without one or if it was not looked for yet
_MOST = 1 << 12


class Output:
    """A result of calls: the operator, the attributes of its Variable, and the mask of its flow."""

    __slots__ = ("attributes", "flow", "op_type")

    def __init__(self, form: Form, k: int, flow: int) -> None:
        dims, dtype = form.types[k]
        self.op_type, self.flow = form.op_type, flow
        self.attributes = {
            "dims": dims,
            "dtype": dtype,
            "name": form.name,
            "type_key": form.keys[k],
        }


class Template:
    """Nodes as (form, indices of inputs, outputs that are read), and the result of the op.

    The indices are those of a list of the constants, the Variables of the call, and the outputs
    that are read, in this order. `flows` are masks of the Variables whose gradients each node has,
    and `flow` those of any result. `outputs` are the results that the nodes compute, and `places`
    their indices.

    `scopes` are the namespaces of the nodes; None where they are that of the call.

    `draws` are the prefixes of the names of its random draws, each of which a call draws anew.
    `draw_scopes` are their namespaces, with whether a call of that layer begins there; None where
    they are that of the call.

    `effects` are (index, index of a value): the persistent variable of that index among those of
    the call takes the value once the call is computed. `is_one` is whether its result is one
    Variable that it computes.

    `count` is the number of nodes. `kind` is the number of templates that differ at most in the
    names of sizes, which `sizes` are in the order of their first appearance; it is below 0, where
    operators have none.
    """

    __slots__ = (
        *("constants", "flow", "flows", "kind", "nodes", "outputs", "places", "result", "sizes"),
        *(
            "count",
            "draw_scopes",
            "draws",
            "effects",
            "has_blocks",
            "is_one",
            "is_single",
            "scopes",
        ),
    )

    def __init__(
        self,
        constants: list[Variable],
        count: int,
        nodes: list[tuple[Form, tuple[int | None, ...], tuple[int, ...]]],
        result: Any,
        draws: Sequence[str] = (),
        effects: Sequence[tuple[int, int]] = (),
    ) -> None:
        """`count` is the number of Variables of a call."""
        self.draws, self.effects = draws, tuple(effects)
        self.constants, self.nodes, self.result = constants, nodes, result
        self.count = len(nodes)
        self.has_blocks = any(form.blocks for form, *_ in nodes)
        given = len(constants) + count
        masks = [*[0] * len(constants), *[1 << k for k in range(count)]]
        self.flows: list[int] = []
        computed: list[Output] = []
        for form, inputs, outputs in nodes:
            flow = 0
            for k in inputs:
                flow |= 0 if k is None or form.stops else masks[k]
            self.flows.append(flow)
            for k in outputs:
                masks.append(flow if form.types[k][1].kind == "f" else 0)
                computed.append(Output(form, k, masks[-1]))
        changed = {k for _, k in effects}
        self.places = sorted({*changed, *[k for k in _numbers(result) if k >= given]})
        for k in changed:  # what a variable takes has no gradient
            computed[k - given].flow = 0
        self.outputs = [computed[k - given] for k in self.places]
        self.flow = 0
        for output in self.outputs:
            self.flow |= output.flow
        last = given + sum(len(outputs) for *_, outputs in nodes) - 1
        self.is_single = self.places == [last] == [result]
        self.is_one = self.is_single or (bool(effects) and type(result) is int and result >= given)
        self.scopes: list[str] | None = None
        self.draw_scopes: list[tuple[str, bool]] | None = None
        self.kind, self.sizes = self._signature(count)

    def _signature(self, count: int) -> tuple[int, tuple[str, ...]]:
        sizes: dict[str, int] = {}
        key: list[Any] = [count, *[c.content for c in self.constants]]
        for form, inputs, outputs in self.nodes:
            key += form.kind, inputs, outputs
            if form.blocks:
                bodies = _Bodies(form.blocks)
                key += bodies.key, *[sizes.setdefault(d, len(sizes)) for d in bodies.names]
            for dims, dtype in form.types:
                key.append(dtype.num)
                key += [
                    (sizes.setdefault(d, len(sizes)), is_open(d)) if isinstance(d, str) else d
                    for d in dims
                ]
        key += _hashable(self.result), self.effects
        if len(_kinds) >= 4 * _MOST:
            _kinds.clear()
        return _kinds.setdefault(tuple(key), next(_next_kind)), tuple(sizes)

    def replay(
        self,
        variables: tuple[Variable, ...],
        detached: bool,
        location: tuple[str, Any] | None = None,
    ) -> tuple[Any, RecordedCall, Sequence[Variable]]:
        """Record a call on other Variables: the result of the op, the call, and its new values.

        These are those of `effects`, in this order. `location` is its namespace and line, by
        default those in force.
        """
        call = RecordedCall(self, variables, detached, location or current_location())
        if self.is_single:
            return call.result(self.outputs[0]), call, ()
        results = [call.result(output) for output in self.outputs]
        values: dict[int, Variable] = dict(enumerate([*self.constants, *variables]))
        values.update(zip(self.places, results, strict=True))
        return _restored(self.result, values), call, [values[k] for _, k in self.effects]


Replayed = tuple[Template, Sequence[Variable], Any]  # with its Variables and the result


def joined(
    calls: Sequence[Replayed], scopes: Sequence[str], own: str
) -> tuple[Template, list[Variable]]:
    """Return one template for calls whose results are one Variable each, and its Variables.

    Its result is that of the last call; calls have `scopes` as their namespaces, those of ops of
    the layer itself its `own`, and others are each a call of a layer. No call reads a
    persistent variable that one before it changes.
    """
    constants = [c for template, _, _ in calls for c in template.constants]
    results = [result for *_, result in calls]
    given = [v for _, variables, _ in calls for v in variables]
    inputs = [v for v in dict.fromkeys(given) if all(v is not r for r in results)]
    indices: dict[Variable, int] = {v: len(constants) + k for k, v in enumerate(inputs)}
    nodes, count, first = [], len(constants) + len(inputs), 0
    at = {v: k for k, v in enumerate(inputs)}
    effects: list[tuple[int, int]] = []
    for template, variables, result in calls:
        values = [*range(first, first + len(template.constants)), *[indices[v] for v in variables]]
        first += len(template.constants)
        for form, reads, outputs in template.nodes:
            nodes.append((form, tuple([None if k is None else values[k] for k in reads]), outputs))
            values += range(count, count + len(outputs))
            count += len(outputs)
        indices[result] = values[template.result]
        effects += [(at[variables[i]], values[k]) for i, k in template.effects]
    draws = [prefix for template, _, _ in calls for prefix in template.draws]
    whole = Template(constants, len(inputs), nodes, indices[results[-1]], draws, effects)
    if draws:
        whole.draw_scopes = _draw_scopes([t for t, _, _ in calls], scopes, own)
    pairs = zip(scopes, calls, strict=True)
    whole.scopes = [s for scope, (t, _, _) in pairs for s in t.scopes or [scope] * t.count]
    return whole, inputs


def _draw_scopes(
    templates: Sequence[Template], scopes: Sequence[str], own: str
) -> list[tuple[str, bool]]:
    """The namespaces of the draws of calls, with whether a call of that layer begins there."""
    found: list[tuple[str, bool]] = []
    begun = False
    for template, scope in zip(templates, scopes, strict=True):
        if template.draw_scopes is not None:
            found += template.draw_scopes
        elif template.draws:
            found += [(scope, k == 0) for k in range(len(template.draws))]
            if scope == own and begun:
                found[-len(template.draws)] = scope, False
            begun = begun or scope == own
    return found


_kinds: dict[tuple, int] = {}
_next_kind = count(-16, -1)  # below the kinds of leaves


def key_of(
    function: Callable, args: Sequence, kwargs: Mapping[str, Any]
) -> tuple[tuple | None, list[Variable]]:
    """Return what decides the nodes that a call adds, None if more does, and its Variables."""
    if len(args) == 1 and not kwargs:
        a = args[0]
        if isinstance(a, Variable) and a.value is None:
            kind = a.__dict__.get("type_key") or type_key(a)
            return (function, mode(), kind, a.literal), [a]
    key: list[Any] = [function, mode()]
    variables: list[Variable] = []
    if kwargs:
        key += kwargs
        args = [*args, *kwargs.values()]
    return (tuple(key) if _add(args, key, variables) else None), variables


def _add(args: Sequence, key: list[Any], variables: list[Variable]) -> bool:
    """Append what arguments contribute to a key; return False if one of them cannot be in one."""
    for a in args:
        kind = type(a)
        if kind in _PLAIN:
            key += kind, a if a else repr(a)  # -0.0 is not 0.0
        elif isinstance(a, Variable):
            if a.value is not None and a.value.size > _LARGEST:
                return False
            key += a.__dict__.get("type_key") or type_key(a), a.literal
            for k, b in enumerate(variables):  # x * x is not x * y
                if b is a:
                    key.append(k)
            variables.append(a)
        elif kind in (list, tuple):
            key += kind, len(a)
            if not _add(a, key, variables):
                return False
        else:
            return False
    return True


def find(key: tuple) -> "Template | None":
    """Return the template of a key, None without one; KeyError if it was not looked for yet."""
    return _templates[key]


def keep(key: tuple, template: "Template | None") -> None:
    """Keep the template of a key for `find`, or that it has none."""
    if len(_templates) >= _MOST:
        _templates.clear()
    _templates[key] = template


def without_bodies(
    nodes: Sequence[RecordedNode], targets: Iterable[Variable], stop: Iterable[Variable]
) -> list[RecordedNode]:
    """Return those nodes that targets need behind others, without what is in bodies of loops."""
    needed = set(ancestors(list(targets), set(stop)))
    return [node for node in nodes if node in needed]


def read_besides(
    nodes: Sequence[RecordedNode], variables: Sequence[Variable], changed: Sequence[Variable]
) -> list[Variable] | None:
    """Return the Variables of a call with the persistent ones that it reads or changes besides.

    Those are of a layer, which computes some of its parameters. Without what the call has computed
    itself; None if there are none.
    """
    own = {y for node in nodes for y in node.outputs}
    given = [v for v in variables if v not in own]
    sources = [x.source for node in nodes for x in node.inputs if x is not None]
    read = [v for v in dict.fromkeys([*sources, *changed]) if v is not None and v.is_persistent]
    besides = [v for v in read if v not in given]
    return [*given, *besides] if besides else None


def make(
    key: tuple,
    variables: Sequence[Variable],
    nodes: list[RecordedNode],
    result: Any,
    draws: Sequence[str] = (),
    effects: Sequence[tuple[int, Variable]] = (),
) -> Template | None:
    """Return the template of a call that has added nodes, None if there is none.

    `draws` are the prefixes of the names of its random draws. `effects` are (index, new value) of
    those of its persistent variables that change.
    """
    if any(node.form.effects or not are_fixed(node.form.blocks.values()) for node in nodes):
        return None
    if len(drawn(nodes)) != len(draws):  # one that is not of a named draw
        return None
    made = {y for node in nodes for y in node.outputs}
    read = [x for node in nodes for x in node.inputs if x is not None]
    constants = [x for x in dict.fromkeys(read) if x.value is not None and x not in variables]
    indices = {x: k for k, x in enumerate([*constants, *variables])}
    if any(x not in indices and x not in made for x in read):
        return None
    large = any(cast(np.ndarray, x.value).size > _LARGEST for x in constants)
    if large or not _is_made_of(result, {*made, *indices}):
        return None
    own, changed = _variables(result), [value for _, value in effects]
    if any(value not in made or value in own for value in changed):
        return None
    needed = {*read, *own, *changed}
    steps, count = [], len(constants) + len(variables)  # a Variable may be there twice
    for node in nodes:
        inputs = tuple([None if x is None else indices[x] for x in node.inputs])
        outputs = tuple([k for k, y in enumerate(node.outputs) if y in needed])
        for k in outputs:
            indices[node.outputs[k]] = count
            count += 1
        steps.append((node.form, inputs, outputs))
    if not steps:
        return None
    changes = [(k, indices[value]) for k, value in effects]
    stored = _stored(result, indices)
    return Template(constants, len(variables), steps, stored, tuple(draws), changes)


def drawn(nodes: Sequence[RecordedNode]) -> list[tuple[int, int, int]]:
    """Return the identities of the random draws of nodes, in order."""
    return [node.attributes["key"] for node in nodes if node.op_type == "Uniform"]


def are_fixed(blocks: Iterable[Block]) -> bool:
    """Whether bodies of loops and branches are the same in each call: they draw no numbers."""
    for block in blocks:
        for node in ancestors(block.outputs, set(block.inputs)):
            if node.op_type == "Uniform" or node.effects or not are_fixed(node.blocks.values()):
                return False
    return True


_shared: dict[tuple, Form] = {}  # forms with bodies, by all that tells them apart


def shared_form(new: Form) -> Form:
    """Return the form of a segment that was the first like it, by which patterns know it."""
    if new.op_type not in SEGMENTS or not new.blocks:
        return new
    bodies = _Bodies(new.blocks)
    key = (new.kind, tuple(new.types), bodies.key, tuple(bodies.names))
    if len(_shared) >= _MOST:
        _shared.clear()
    return _shared.setdefault(key, new)


class _Bodies(Structure):
    """The key of the bodies of an operator, with the names of sizes in `names`."""

    has_marks = True

    def __init__(self, blocks: Mapping[str, Block]) -> None:
        self._begin(set(), False)
        for name, block in blocks.items():
            self._add_block(name, block)
        self.key, self.names = Key(self._key), list(self._sizes)


def _is_made_of(result: Any, variables: Container[Variable]) -> bool:
    if isinstance(result, Variable):
        return result in variables
    if type(result) in (list, tuple):
        return all(_is_made_of(r, variables) for r in result)
    return False


def _variables(result: Any) -> list[Variable]:
    if isinstance(result, Variable):
        return [result]
    return [v for r in result for v in _variables(r)]


def _stored(result: Any, indices: Mapping[Variable, int]) -> Any:
    if isinstance(result, Variable):
        return indices[result]
    return type(result)([_stored(r, indices) for r in result])


def _numbers(result: Any) -> list[int]:
    if type(result) is int:
        return [result]
    return [k for r in result for k in _numbers(r)]


def _hashable(result: Any) -> Any:
    if type(result) is int:
        return result
    return type(result).__name__, *map(_hashable, result)


def _restored(result: Any, values: Mapping[int, Variable]) -> Any:
    if type(result) is int:
        return values[result]
    return type(result)([_restored(r, values) for r in result])
