"""The recorder: what ops get while values are at hand."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..graph.arrays import as_array, native
from ..graph.errors import NotComputed
from ..graph.names import current_namespace, open_prefixes
from ..graph.nested import variables_in
from ..graph.node import Node, location_in_force, typed, with_dims
from ..graph.owned import Owned
from ..graph.recording import as_number, record_with, recorder
from ..graph.site import Site, user_site
from ..graph.variable import Inputs, Variable, constant
from ..ops.mode import mode, stop_gradient
from ..ops.random import recorded_name
from ..run.exchange import draw_seed
from ..run.session import Session
from .learning import Learning, Watched, drawn_by, may_replay
from .named_sizes import checked_types, leaf_type, sizes_within, with_hash
from .placeholder import Placeholder
from .recorded_call import RecordedCall, RecordedVariable
from .recorded_node import Form, RecordedNode, form, type_key
from .repeats import find_repeat, note_repeat
from .seen import changing, earlier_numbers, numbers
from .state import State, state_of
from .templates import Template, drawn, find, key_of, known, shared_form
from .update import minimize, minimize_again

_MAY_HOLD_ARRAYS = {np.ndarray, list, tuple, Placeholder}
_CONSTANTS = 4  # values of a number that are constants; with more at one line it becomes a leaf
_WAITING = 1024  # operators that are recorded while one without gradients waits


_forms: dict[tuple | None, Form] = {}  # by operator and types of inputs
_LIMIT = 1 << 14
_DOUBLE, _SINGLE = np.dtype(np.float64).num, np.dtype(np.float32)
_new = object.__new__


def _literal_type(array: np.ndarray, site: Site | None) -> Mapping[str, Any] | None:
    """The attributes of the leaf of an array at a line; None for one that is not of numbers."""
    dtype = array.dtype
    if dtype.kind not in "fiub":
        return None
    if dtype.num == _DOUBLE:
        dtype = _SINGLE
    elif not dtype.isnative:
        dtype = native(dtype)
    return leaf_type(site, array.shape, dtype)


def _literal(array: np.ndarray, found: Mapping[str, Any]) -> Variable:
    """The leaf of an array of numbers, which is copied, with attributes that were found."""
    leaf = _new(Variable)
    attributes = leaf.__dict__
    attributes |= found
    dtype, attributes["literal"] = found["dtype"], True
    attributes["eager_value"] = array.copy() if array.dtype is dtype else as_array(array, dtype)
    if array.dtype.num == _DOUBLE:
        attributes["exact"] = array  # for the op whose argument it is, beside float64
    return leaf


def _called(function: Callable, args: Sequence, kwargs: dict) -> Any:
    return function(*args, **kwargs)


class Recorder:
    """Records for one session: leaves for arrays, and persistent state as of this line."""

    # Defaults; a policy makes one for every observation.
    inside, ended, line = False, False, None
    site: Site | None = None
    outer: "Recorder | None" = None  # what recorded before
    # what the running call of a layer adds: replayed calls, and None for all else
    watched: "Watched | None" = None
    learning: Learning | None = None  # what the running op adds, where that is asked for

    def __init__(
        self,
        state: State,
        gradients: bool = True,
        immediate: bool = False,
        follows: bool = False,
    ) -> None:
        """`follows` is whether it goes on in the session by which `reset` replaces its own."""
        self.state, self.gradients, self.immediate = state, gradients, immediate
        self.follows = follows

    def start(self) -> "Recorder":
        """Record from here on, inside of what records now."""
        self.outer = cast(Recorder | None, recorder())
        record_with(self)
        return self

    def end(self) -> None:
        """Stop recording; blocks of generators may end in any order."""
        self.ended = True
        current = recorder()
        while current is not None and current.ended:
            current = current.outer
        record_with(current)

    def go_on(self, old: Session, new: Session) -> None:
        """Record in a new session from here on, if it has recorded in this old one."""
        if self.follows and self.state is state_of(old):
            self.state = state_of(new)

    def within(self, session: Session) -> "Recorder | None":
        """Record in another session from here on; None if it is the one of this recorder."""
        if session is self.state.session:
            return None
        return Recorder(state_of(session), self.gradients, self.immediate).start()

    # ---- operands

    def arguments(self, args: tuple, kwargs: dict) -> tuple[Sequence, dict]:
        """Return the arguments of an op with leaves in the place of arrays."""
        if len(args) == 1 and type(args[0]) is np.ndarray:  # an observation
            args = (self._array(args[0], self.site or user_site(2)),)
            return args, {k: self._argument(a) for k, a in kwargs.items()} if kwargs else kwargs
        for a in args:
            if type(a) in _MAY_HOLD_ARRAYS:
                site = self.site
                self.site = site or user_site(2)
                try:
                    args = tuple([self._argument(a) for a in args])
                finally:
                    self.site = site
                break
        if kwargs:
            kwargs = {k: self._argument(a) for k, a in kwargs.items()}
        return args, kwargs

    def call(self, function: Callable, args: Sequence, kwargs: dict) -> Any:
        """Call an op, or add the nodes that it has added for equal arguments."""
        key, variables = key_of(function, args, kwargs)
        if self.site in changing:
            return function(*args, **kwargs)
        if key is None:
            owned = any(type(a) is Owned for a in (*args, *kwargs.values()))
            return (self._learn if owned else _called)(function, args, kwargs)
        try:
            template = find(key)
        except KeyError:
            return self._learn(function, args, kwargs)
        if template is None or not may_replay(template, variables):
            return function(*args, **kwargs)
        return self._replayed(template, variables)

    def again(self, function: Callable, args: tuple, site: Site | None) -> Variable | None:
        """Return the result of an op, as of an equal call before.

        None if there was no such call, or if this one needs more than to be recorded. Most ops of
        a step go this way, past what `call` and those before it do for lists and errors. The key is
        that of `templates.key_of`.
        """
        site = site or self.line or user_site(2)
        if location_in_force() is not None or (changing and site in changing):
            return None
        key: list[Any] = [function, mode()]
        inputs: list[Any] = []
        types = None  # of arrays, by their places
        for a in args:
            kind = type(a)
            if kind is RecordedVariable:
                key += a.__dict__["type_key"], False
            elif kind is float or kind is int:
                key += kind, a if a else repr(a)
                continue
            elif kind is np.ndarray:
                found = _literal_type(a, site)
                if found is None:
                    return None
                types = types or {}
                types[len(inputs)] = found
                key += found["type_key"], True
                inputs.append(a)
                continue
            elif kind is Variable and a.initial is None and a.value is None:
                key += a.__dict__.get("type_key") or type_key(a), a.literal
            else:
                return None
            for k, b in enumerate(inputs):
                if b is a:
                    key.append(k)
            inputs.append(a)
        template = known(tuple(key))
        if template is None or not template.is_single:
            return None
        if types:
            for k, found in types.items():
                inputs[k] = _literal(inputs[k], found)
        namespace, variables = open_prefixes()[-1], tuple(inputs)
        call = RecordedCall(template, variables, not self.gradients, (namespace, site))
        result = call.result(template.outputs[0])
        if call.serial - call.first > _WAITING:
            return None
        if template.draws:
            call.draws = self._drawn(template.draws)
        if self.watched is not None:
            self.watched.append((template, variables, result, namespace))
        return result

    def _drawn(self, prefixes: Sequence[str]) -> list[tuple[int, int, int]]:
        """The identities of new random draws."""
        namespace = current_namespace()
        return [self._drawn_in(namespace, prefix) for prefix in prefixes]

    def _drawn_again(self, template: Template, own: str) -> list[tuple[int, int, int]]:
        """The same for a call of a layer of a namespace, and of layers below it."""
        scopes = template.draw_scopes
        if scopes is None:
            scopes = [(own, k == 0) for k in range(len(template.draws))]
        draws = []
        for prefix, (namespace, begins) in zip(template.draws, scopes, strict=True):
            if begins:
                self.begin(namespace)
            draws.append(self._drawn_in(namespace, prefix))
        return draws

    def _drawn_in(self, namespace: str, prefix: str) -> tuple[int, int, int]:
        name = recorded_name(namespace, prefix, self.number_of_draw(namespace, prefix))
        return self.draw(crc32(name.encode()))

    def _replayed(
        self,
        template: Template,
        variables: Sequence[Variable],
        draws: Sequence[tuple[int, int, int]] | None = None,
    ) -> Any:
        read = self.state.read
        inputs = tuple([v if v.initial is None else read(v) for v in variables])
        result, call, values = template.replay(inputs, not self.gradients)
        if values:
            self._assign_effects(template, call, variables, values)
        if template.draws:
            call.draws = self._drawn(template.draws) if draws is None else draws
        if call.serial - call.first > _WAITING:
            self._bound(call)
        if self.watched is not None:
            self.watched.append((template, variables, result, current_namespace()))
        return result

    def _learn(self, function: Callable, args: Sequence, kwargs: dict) -> Any:
        """Call an op, and keep its template: with parameters that it has built in their place."""
        watched, self.watched, learning = self.watched, None, Learning()
        self.learning = learning
        try:
            result = function(*args, **kwargs)
        finally:
            self.watched, self.learning = watched, None
        if self.site not in changing and learning.may_be_kept(self.gradients):
            of = function, args, kwargs, result
            found = learning.template(self.state, *of, in_layer=watched is not None)
            if found is not None:
                # a call like those after it: with other nodes a graph would be another one
                return self._replayed(*found, drawn(learning.added))
        if watched is not None:
            watched.append(None)
        return result

    def _assign_effects(
        self,
        template: Template,
        call: RecordedCall,
        variables: Sequence[Variable | None],
        values: Sequence[Variable],
    ) -> None:
        """Note the new values that the persistent variables of a call take with it."""
        changes: Any = zip([variables[i] for i, _ in template.effects], values, strict=True)
        self._assign(call, list(changes))

    # ---- layers

    def watch(self, is_ours: bool) -> Watched | None:
        """Watch what the call of a layer of pd_core adds; return what was watched before."""
        watched, self.watched = self.watched, Watched() if is_ours else None
        return watched

    def learned(self, layer: Any, inputs: Sequence, output: Any, watched: Watched | None) -> Any:
        """Return the output of a layer, for which the calls of its ops became one if they may.

        `watched` is what was watched before the call.
        """
        calls, self.watched = self.watched, None
        found = None if len(inputs) != 1 else note_repeat(layer, calls, inputs[0], output)
        assigned = [] if calls is None else calls.assigned
        if found is not None and len(cast(list, calls)) > 1:
            draws = drawn_by(cast(Any, calls)) if found[0].draws else []
            if draws is not None and self.state.take_back(assigned):
                template, variables = found
                self.watched = Watched()
                output = self._replayed(template, variables, draws)
                assigned, self.watched = self.watched.assigned, None
            else:
                found = None
        if watched is not None:
            own = None if found is None else (*found, output, vars(layer)["_prefix"])
            watched.append(own)
            watched.assigned += assigned
        return output

    def repeat(self, layer: Any, inputs: Sequence) -> Variable | None:
        """Return the output of a layer as of an equal call before, None if there was none.

        The layer has not changed since, so that only the types of inputs decide what it adds.
        """
        if self.inside or self.immediate or len(inputs) != 1:
            return None
        x, site = inputs[0], self.line or user_site(3)
        if type(x) is np.ndarray:
            x = self._array(x, site)
        found = find_repeat(layer, x)
        if found is None or (changing and site in changing):
            return None
        template, wiring = found
        if template.effects and not may_replay(template, wiring):
            return None
        prefix = layer.__dict__["_prefix"]
        variables = self.state.inputs(wiring, x)
        result, call, values = template.replay(variables, not self.gradients, (prefix, site))
        if values:
            self._assign_effects(template, call, wiring, values)
        if template.draws:
            call.draws = self._drawn_again(template, prefix)
        if call.serial - call.first > _WAITING:
            self._bound(call)
        if self.watched is not None:
            given = [x if v is None else v for v in wiring]
            self.watched.append((template, given, result, prefix))
        return result

    def _bound(self, node: RecordedNode | RecordedCall) -> None:
        """Compute what a node without gradients reads, if something behind it waits for long.

        Nothing else would end the chain of a running sum, with all that hangs on it.
        """
        if node.serial - node.first > _WAITING and not node.tracked:
            waiting = [x for x in node.inputs if x is not None and x.is_recorded]
            with suppress(NotComputed):  # what reads a feed slot waits for an evaluation
                self.state.force([x for x in waiting if x.eager_value is None])
            node.begin()

    def _argument(self, a: Any) -> Any:
        if type(a) is np.ndarray:
            return self._array(a, self.site or user_site())
        if type(a) is Placeholder:
            return a.filled(self)
        if type(a) in (list, tuple) and any(type(b) in (np.ndarray, Placeholder) for b in a):
            return type(a)([self._argument(b) for b in a])
        return a

    def _array(self, array: np.ndarray, site: Site | None) -> Variable:
        """The leaf of an array among the arguments of an op at a line."""
        found = _literal_type(array, site)
        if found is not None:
            return _literal(array, found)
        leaf = self.leaf(array)
        leaf.__dict__["literal"] = True
        return leaf

    def leaf(self, value: ArrayLike, dtype: DTypeLike | None = None, copy: bool = True) -> Variable:
        """Return a Variable with a value of its own.

        The size of its first axis has a name in programs, and so have those that differ from call
        to call at this line: programs are for any size of these.
        """
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
        if dtype is None and array.dtype.num == _DOUBLE:
            dtype = _SINGLE
        elif dtype is None and not array.dtype.isnative:
            dtype = native(array.dtype)
        if array.dtype.kind not in "fiub" or type(value) is np.ma.MaskedArray:
            array = as_array(value, dtype)
        elif dtype is not None and array.dtype != dtype:
            array = as_array(array, dtype)
        elif copy or not array.flags.c_contiguous:
            array = np.array(array, order="C")
        leaf = Variable.__new__(Variable)
        attributes = leaf.__dict__
        attributes |= leaf_type(self.site or user_site(), array.shape, array.dtype)
        attributes["eager_value"] = array
        return leaf

    def operand(self, x: Variable | None) -> Variable | None:
        """Return the value at this line of a persistent variable; any other as it is."""
        if x is None or x.initial is None:
            return x.filled(self) if type(x) is Placeholder else x
        return self.state.read(x)

    def changing(self, x: Variable) -> Variable:
        """Return a constant, or a leaf where a recorded line changes it from call to call."""
        frame = sys._getframe(3)  # of the op, which may take several
        # each layer has numbers of its own, which one line calls together
        key = self.site or user_site(), current_namespace(), frame.f_code, frame.f_lineno
        values = numbers.get(key)
        if values is None:
            if len(numbers) >= _LIMIT:
                numbers.clear()
            values = numbers[key] = earlier_numbers(key)
        if x.content in values:
            return x
        if len(values) < _CONSTANTS:
            values[x.content] = None
            return x
        changing.add(key[0])
        return Variable.of(x.dims, x.dtype, "number", eager_value=x.value, literal=True)

    # ---- sizes

    def except_first(self, args: Sequence, kwargs: dict) -> tuple[list, dict]:
        """Return the arguments with their sizes as numbers, but those of the first axes."""
        return self._specialised(args, kwargs, 1)

    def specialised(self, args: Sequence, kwargs: dict) -> tuple[list, dict]:
        """Return the arguments with all of their sizes as numbers."""
        return self._specialised(args, kwargs, 0)

    def _specialised(self, args: Sequence, kwargs: dict, first: int) -> tuple[list, dict]:
        def known(a: Any) -> Any:
            if isinstance(a, Variable):
                return self._known(a, first)
            if type(a) in (list, tuple):
                return type(a)([known(b) for b in a])
            return a

        return [known(a) for a in args], {k: known(a) for k, a in kwargs.items()}

    def _known(self, x: Variable, first: int) -> Variable:
        """x with its sizes from axis `first` on as numbers."""
        sizes = [as_number(d) for d in x.dims]
        if None in sizes and x.has_value:
            sizes = list(x.shape)
        dims = x.dims[:first] + tuple(
            [d if n is None else n for d, n in zip(x.dims, sizes, strict=True)][first:]
        )
        if dims == x.dims:
            return x
        if x.node is not None:
            return with_dims(x, dims)
        # its gradients are those of x
        source = x if x.source is None else x.source
        attributes = {"eager_value": x.eager_value, "tracked": x.tracked, "literal": x.literal}
        return Variable.of(dims, x.dtype, x.name, source=source, **attributes)

    # ---- nodes

    def apply(
        self,
        op_type: str,
        inputs: tuple,
        outputs: int,
        known: Any,
        opset: int,
        attributes: dict[str, Any],
    ) -> Any:
        """Add an ONNX operator, as `graph.node.apply` does; equal operators share their form."""
        operands: list[Variable | None] = []
        key: list[Any] = [op_type, outputs, opset]
        for x in inputs:
            if x is None:
                operands.append(x)
                key.append(x)
                continue
            if not isinstance(x, Variable):
                x = constant(x)
            if x.initial is not None:
                x = self.state.read(x)
            elif type(x) is Placeholder:
                x = x.filled(self)
            operands.append(x)
            key.append(x.__dict__.get("type_key") or type_key(x))
        if attributes:
            for name, value in attributes.items():
                key += name, type(value), tuple(value) if type(value) is list else value
        if known is not None:
            key.append(with_hash(known))
        full: tuple | None = tuple(key)
        try:
            shared = _forms.get(full)
        except TypeError:  # an attribute that has no hash
            shared = full = None
        if shared is None:
            shared = self._form(op_type, operands, outputs, known, opset, attributes, full)
        node = self._add(shared, tuple(operands))
        return node.output(0) if outputs == 1 else node.outputs[:outputs]

    def _form(
        self,
        op_type: str,
        inputs: Sequence[Variable | None],
        outputs: int,
        known: Any,
        opset: int,
        attributes: dict[str, Any],
        key: tuple | None,
    ) -> Form:
        call, types = typed(op_type, inputs, outputs, known, opset, attributes, checked_types)
        new = form(
            op_type,
            call.attributes,
            types,
            "",
            call.opset,
            visible=outputs,
            kind=call.kind,
            sizes=sizes_within(call, types),
        )
        # sizes without a number have another name in every node
        numbered = all(type(d) is not str for dims, _ in types for d in dims)
        if key is not None and numbered:
            if len(_forms) >= _LIMIT:
                _forms.clear()
            _forms[key] = new
        return new

    def _add(self, form: Form, inputs: Inputs) -> RecordedNode:
        node = RecordedNode(form, inputs, not self.gradients)
        if self.learning is not None:
            self.learning.added.append(node)
        if self.watched is not None:
            self.watched.append(None)
        self._bound(node)
        return node

    def node(self, op_type: str, inputs: tuple, *args: Any, **kwargs: Any) -> Node:
        """Return a recorded node, which reads persistent state as of this line."""
        for name in ("output_names", "output_class", "output_state"):
            kwargs.pop(name, None)
        inputs = tuple([self.operand(x) for x in inputs])
        return self._add(shared_form(form(op_type, *args, **kwargs)), inputs)

    def compute(self, result: Any) -> None:
        """Compute what an op returned, unless it is in the body of a loop."""
        waiting = [v for v in variables_in(result) if v.is_recorded and v.eager_value is None]
        if waiting:
            with suppress(NotComputed):  # states and slices of a loop have no values here
                self.state.force(waiting)

    def begin(self, namespace: str) -> None:
        """Number the draws of a namespace from 0 again: a layer of this name is called."""
        calls = self.state.calls
        calls[namespace] = calls.get(namespace, 0) + 1

    def number_of_draw(self, namespace: str, prefix: str) -> int:
        """Return the number of the next draw of this prefix in the running call of a layer.

        Outside of layers nothing numbers them: they are one stream.
        """
        if self.learning is not None:
            self.learning.named.append(prefix)
        call = self.state.calls.get(namespace)
        if call is None:
            return 0
        last, number = self.state.numbered.get((namespace, prefix), (0, 0))
        number = number + 1 if last == call else 0
        self.state.numbered[namespace, prefix] = call, number
        return number

    def draw(self, stream: int) -> tuple[int, int, int]:
        """Return (stream, offset in it, seed) of the next random draw."""
        session = self.state.session
        with session.lock:  # two threads never take the same
            place = session.draws[stream]
            session.draws[stream] = place + 1
        return stream, place, draw_seed(session.seed)

    def store(self, variable: Variable, value: Variable) -> None:
        """Store a value in a persistent variable."""
        self.state.session.set(variable, value.numpy() if value.value is None else value.value)

    def assign_with(self, x: Variable, effects: Sequence[tuple[Variable, Variable]]) -> None:
        """Note the values that persistent variables take once a Variable is computed."""
        for v, value in effects:
            if value.tracked or value.__dict__.get("node") is None:
                value = stop_gradient(value)  # of its own, since it becomes a read of v
            self._assign(x.__dict__.get("node") or value.node, [(v, value)])

    def _assign(self, node: Any, effects: Sequence[tuple[Variable, Variable]]) -> None:
        assigned = self.state.assign(node, effects)
        if self.learning is not None:
            self.learning.assigned += assigned
        elif self.watched is not None:
            self.watched.assigned += assigned

    def minimize_again(self, optimizer: Any, cost: Any) -> bool:
        """Take a step of an optimizer if it is like one before, and return whether it is."""
        return minimize_again(self.state, optimizer, cost)

    def minimize(self, optimizer: Any, costs: list, var_list: Any, retain_graph: bool) -> None:
        """Take a step of an optimizer."""
        minimize(self.state, optimizer, costs, var_list, retain_graph)
