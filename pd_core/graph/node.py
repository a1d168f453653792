"""Nodes: applications of ONNX operators, typed as they are built."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from itertools import count
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, overload

from onnx import shape_inference

from .errors import GraphError, ShapeError
from .inference import OPSET, Call, infer, opset_of
from .names import current_namespace, names
from .recording import recorder
from .signature import kind_of
from .site import Site, site_text, user_site
from .variable import Dim, Inputs, Operand, OutputType, Variable, constant, describe

serials = count()  # numbers of nodes, in the order in which they are built


class Location(NamedTuple):
    """The namespace and the line of a node."""

    scope: str
    site: Any  # a Site, which may tell more than the line


# The node that a rewrite replaces, or another location that nodes get.
_location: ContextVar[Any] = ContextVar("pd_core.location", default=None)
location_in_force = _location.get  # None where nodes get the line that builds them
_NOTHING: Mapping[str, Any] = MappingProxyType({})
# Outputs that a node always has, because its derivative reads them; a program that does not is
# compiled without them.
_OUTPUTS = {"Dropout": 2}


class _Fixed:
    """An object whose attributes are set once, by its constructor."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name!r} of a {type(self).__name__.lower()} cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name!r} of a {type(self).__name__.lower()} cannot be removed")


class Block(_Fixed):
    """The body of a Scan, Loop or If: a function of block inputs and captured values.

    Both are Variables of the body's own, so that it reads nothing else; what `captured` stands for
    is the end of the node's inputs.
    """

    __slots__ = ("block_inputs", "captured", "outputs")

    block_inputs: tuple[Variable, ...]
    captured: tuple[Variable, ...]
    outputs: tuple[Variable, ...]

    def __init__(
        self,
        block_inputs: Iterable[Variable],
        captured: Iterable[Variable],
        outputs: Iterable[Variable],
    ) -> None:
        put = object.__setattr__
        put(self, "block_inputs", tuple(block_inputs))
        put(self, "captured", tuple(captured))
        put(self, "outputs", tuple(outputs))

    @property
    def inputs(self) -> tuple[Variable, ...]:
        """Block inputs, then captured values."""
        return (*self.block_inputs, *self.captured)


class Node(_Fixed):
    """One application of one operator; nothing of it changes once it is built.

    `domain` is `""` for ONNX's own operators and `"pd"` for the few composites that a backend
    pass turns into ONNX operators when the program is compiled. `effects` are assignments that
    belong to a training step which runs this node (moving statistics). `blocks` are the bodies
    of a loop or branch by attribute name; what they capture stands at the end of `inputs`.
    `opset` is the oldest opset of a program that holds it. The first `visible` outputs are those
    that were asked for; the others are there for the gradient. `kind` is the id that equal
    operators share (`kind_of`).
    """

    __slots__ = (
        *("attributes", "blocks", "domain", "effects", "inputs", "kind", "op_type", "opset"),
        *("outputs", "scope", "serial", "site", "visible", "__weakref__"),
    )

    op_type: str
    inputs: Inputs
    attributes: Mapping[str, Any]
    domain: str
    opset: int
    blocks: Mapping[str, Block]
    effects: tuple[Any, ...]  # of update.Assignment, which is above nodes
    scope: str
    site: Site | None
    kind: int
    serial: int
    visible: int
    outputs: tuple[Variable, ...]

    def __init__(
        self,
        op_type: str,
        inputs: Inputs,
        attributes: Mapping[str, Any],
        types: Sequence[OutputType],
        *,
        domain: str = "",
        opset: int = OPSET,
        blocks: Mapping[str, Block] = _NOTHING,
        effects: tuple = (),
        visible: int | None = None,
        kind: int | None = None,
        output_names: Sequence[str] | None = None,
        output_class: type[Variable] = Variable,
        output_state: Mapping[str, Any] = _NOTHING,
    ) -> None:
        """`types` are dims and dtype of each output; names are automatic unless given.

        Outputs are of `output_class`, a subclass of Variable, and get the attributes
        `output_state`.
        """
        scope, site = current_location()
        if kind is None:
            kind = kind_of(op_type, domain, opset, attributes, len(types))
        _op_type(self, op_type)
        _inputs(self, inputs)
        _attributes(self, MappingProxyType(attributes) if attributes else _NOTHING)
        _domain(self, domain)
        _opset(self, opset)
        _blocks(self, MappingProxyType(blocks) if blocks else _NOTHING)
        _effects(self, effects)
        _scope(self, scope)
        _site(self, site)
        _kind(self, kind)
        _serial(self, next(serials))
        _visible(self, len(types) if visible is None else visible)
        if output_names is None:
            output_names = _output_names(op_type, scope, len(types))
        _outputs(
            self,
            tuple(
                [
                    output_class.of(dims, dtype, name, node=self, **output_state)
                    for (dims, dtype), name in zip(types, output_names, strict=True)
                ]
            ),
        )

    @property
    def captures(self) -> Inputs:
        """The inputs that only the bodies read."""
        count = len(next(iter(self.blocks.values())).captured) if self.blocks else 0
        return self.inputs[len(self.inputs) - count :]

    @property
    def types(self) -> list[OutputType]:
        """Dims and dtype of each output."""
        return [(y.symbolic_dims, y.dtype) for y in self.outputs]

    def __repr__(self) -> str:
        return f"{self.op_type}({', '.join(x.name if x is not None else '' for x in self.inputs)})"


# A slot's own setter passes by the lock, and is several times as fast as object.__setattr__.
_slots = vars(Node)
_op_type, _inputs = _slots["op_type"].__set__, _slots["inputs"].__set__
_attributes, _blocks = _slots["attributes"].__set__, _slots["blocks"].__set__
_domain, _opset = _slots["domain"].__set__, _slots["opset"].__set__
_effects, _scope, _site = (_slots[k].__set__ for k in ("effects", "scope", "site"))
_serial, _kind = _slots["serial"].__set__, _slots["kind"].__set__
_visible, _outputs = _slots["visible"].__set__, _slots["outputs"].__set__


def _output_names(op_type: str, scope: str, count: int) -> list[str]:
    name = names().next_of_node(op_type.lower() + "_", scope)
    return [name, *(f"{name}:{k}" for k in range(1, count))]


class located_at:
    """Give what is built the line and namespace of a node that it replaces, or of another location.

    A class, since a rewrite enters it for every node: `contextmanager` takes a microsecond.
    """

    __slots__ = ("location", "token")

    def __init__(self, location: Any) -> None:
        """`location` is a Node, a Location, or anything else with a `scope` and a `site`."""
        self.location = location

    def __enter__(self) -> None:
        self.token = _location.set(self.location)

    def __exit__(self, *exc: object) -> None:
        _location.reset(self.token)


@overload
def apply(
    op_type: str,
    *inputs: Operand | None,
    outputs: Literal[1] = 1,
    known: Sequence | None = None,
    opset: int = 0,
    **attributes: Any,
) -> Variable: ...
@overload
def apply(
    op_type: str,
    *inputs: Operand | None,
    outputs: int,
    known: Sequence | None = None,
    opset: int = 0,
    **attributes: Any,
) -> tuple[Variable, ...]: ...
def apply(
    op_type: str,
    *inputs: Operand | None,
    outputs: int = 1,
    known: Any = None,
    opset: int = 0,
    **attributes: Any,
) -> Any:
    """Add one ONNX operator and return its output Variable, a tuple of them if outputs > 1.

    Inputs that are no Variables become constants; None leaves an optional input out. `known`
    gives the dims of the first output where the op function knows more than ONNX can infer; a
    list of dims gives those of the first few.
    `opset` says which version of an operator is meant that is newer than `inference.OPSET`.
    """
    recording = recorder()
    if recording is not None:
        return recording.apply(op_type, inputs, outputs, known, opset, attributes)
    call, types = typed(op_type, inputs, outputs, known, opset, attributes)
    node = Node(
        op_type,
        call.inputs,
        call.attributes,
        types,
        opset=call.opset,
        visible=outputs,
        kind=call.kind,
    )
    return node.outputs[0] if outputs == 1 else node.outputs[:outputs]


def typed(
    op_type: str,
    inputs: Sequence[Operand | None],
    outputs: int,
    known: Any,
    opset: int,
    attributes: dict[str, Any],
    check: Callable[[Call, tuple[OutputType, ...]], Any] | None = None,
) -> tuple[Call, Any]:
    """Return an ONNX operator with Variables as inputs, and the types of its outputs.

    The arguments are those of `apply`. `check(call, types)` returns the types in the end.
    """
    variables, attributes = _arguments(inputs, attributes)
    count = outputs if op_type not in _OUTPUTS else max(outputs, _OUTPUTS[op_type])
    several = bool(known) and isinstance(known[0], (tuple, list))
    try:
        opset, kind = _version(op_type, len(variables), attributes, opset, count)
        call = Call(op_type, variables, attributes, opset, kind)
        types = infer(call, count, known if several else (known,))
        return call, types if check is None else check(call, types)
    except GraphError as error:
        raise type(error)(_explained(op_type, variables, attributes, error)) from None
    except shape_inference.InferenceError as error:
        raise ShapeError(_explained(op_type, variables, attributes, error)) from None


def composite(
    op_type: str,
    *inputs: Operand | None,
    types: Sequence[OutputType],
    domain: str = "pd",
    effects: tuple = (),
    **attributes: Any,
) -> Any:
    """Add one operator of a domain other than ONNX's, with dims and dtype of each output."""
    inputs, attributes = _arguments(inputs, attributes)
    node = new_node(op_type, inputs, attributes, types, domain=domain, effects=effects)
    return node.outputs[0] if len(types) == 1 else node.outputs


def control(
    op_type: str,
    inputs: Sequence[Operand | None],
    blocks: Mapping[str, Block],
    types: Sequence[OutputType],
    **attributes: Any,
) -> tuple[Variable, ...]:
    """Add a Scan, Loop or If, with the dims and dtype of each output given: a tuple of outputs."""
    variables, attributes = _arguments(inputs, attributes)
    return new_node(op_type, variables, attributes, types, blocks=blocks).outputs


def new_node(*args: Any, **kwargs: Any) -> Node:
    """Return a Node, of the kind that is recorded where values are at hand."""
    recording = recorder()
    return (Node if recording is None else recording.node)(*args, **kwargs)


_plain: dict[tuple, tuple[int, int]] = {}  # operators without attributes: their opset and kind


def _version(
    op_type: str, inputs: int, attributes: Mapping[str, Any], newest: int, outputs: int
) -> tuple[int, int]:
    """The opset and the kind of an operator."""
    key = (op_type, inputs, newest, outputs)
    found = None if attributes else _plain.get(key)
    if found is None:
        opset = opset_of(op_type, inputs, attributes, newest)
        found = opset, kind_of(op_type, "", opset, attributes, outputs)
        if not attributes:
            _plain[key] = found
    return found


def _arguments(
    inputs: Sequence[Operand | None], attributes: dict[str, Any]
) -> tuple[Inputs, dict[str, Any]]:
    """Variables for the inputs, and the attributes that are given."""
    inputs = tuple([x if x is None or isinstance(x, Variable) else constant(x) for x in inputs])
    if None in attributes.values():
        attributes = {k: v for k, v in attributes.items() if v is not None}
    return inputs, attributes


def with_dims(x: Variable, dims: Iterable[Dim]) -> Variable:
    """Return a Variable with other names of sizes, as a result that depends on it.

    For one that others may hold: gradients with respect to it flow on, and end where it says so.
    """
    dims = tuple(dims)
    return x if x.dims == dims else apply("Identity", x, known=dims)


def refined(x: Variable, dims: Iterable[Dim]) -> Variable:
    """Return the same value with other names of sizes, as the output of a node of its own.

    x was just built and nobody else holds it, unlike that of `with_dims`: the node stands in the
    place of its own, and no gradient with respect to x itself passes.
    """
    dims = tuple(dims)
    if x.dims == dims:
        return x
    if x.node is None:  # a constant that was computed from sizes which are known
        return with_dims(x, dims)
    index = x.node.outputs.index(x)
    types = [(dims if k == index else y.dims, y.dtype) for k, y in enumerate(x.node.outputs)]
    return rebuilt(x.node, types=types).outputs[index]


def retyped(outputs: Sequence[Variable], dims: Iterable[Iterable[Dim]]) -> list:
    """Return the first outputs of a node with other dims, as outputs of a node of its own."""
    node, dims = outputs[0].node, [tuple(d) for d in dims]
    if dims == [y.dims for y in outputs]:
        return list(outputs)
    types = [(d, y.dtype) for d, y in zip(dims, outputs, strict=True)] + node.types[len(dims) :]
    return list(rebuilt(node, types=types).outputs[: len(dims)])


def rebuilt(
    node: Node,
    inputs: Inputs | None = None,
    blocks: Mapping[str, Block] | None = None,
    types: Sequence[OutputType] | None = None,
) -> Node:
    """Return the same operator, with its line and names, on other inputs, bodies or types."""
    if recorder() is None and type(node) is Node:
        return _copied(node, inputs, blocks, types)
    with located_at(node):
        return new_node(
            node.op_type,
            node.inputs if inputs is None else inputs,
            node.attributes,
            node.types if types is None else types,
            domain=node.domain,
            opset=node.opset,
            blocks=node.blocks if blocks is None else blocks,
            visible=node.visible,
            output_names=[y.name for y in node.outputs],
        )


def repeated(node: Node, inputs: Inputs, types: Sequence[OutputType]) -> Node:
    """Return the same operator once more, on other inputs, with names of its own.

    It is built where that was, in the same namespace, while nothing is recorded.
    """
    new = _copied(node, inputs, None, types)
    names = _output_names(node.op_type, node.scope, len(types))
    for y, name in zip(new.outputs, names, strict=True):
        y.name = name
    return new


def _copied(
    node: Node,
    inputs: Inputs | None,
    blocks: Mapping[str, Block] | None,
    types: Sequence[OutputType] | None,
) -> Node:
    """`rebuilt` as a copy of what stays: most nodes of a program are rebuilt, more than once."""
    new = Node.__new__(Node)
    _op_type(new, node.op_type)
    _inputs(new, node.inputs if inputs is None else inputs)
    _attributes(new, node.attributes)
    _domain(new, node.domain)
    _opset(new, node.opset)
    _blocks(new, node.blocks if blocks is None else MappingProxyType(blocks))
    _effects(new, ())
    _scope(new, node.scope)
    _site(new, node.site)
    _kind(new, node.kind)
    _serial(new, next(serials))
    _visible(new, node.visible)
    types = node.types if types is None else types
    _outputs(
        new,
        tuple(
            [
                Variable.of(dims, dtype, y.name, node=new)
                for y, (dims, dtype) in zip(node.outputs, types, strict=True)
            ]
        ),
    )
    return new


def latest_serial() -> int:
    """A number that every node built from here on exceeds."""
    return next(serials)


def current_location() -> tuple[str, Site | None]:
    """Return the namespace and the line of a node that is built now."""
    location = _location.get()
    if location is not None:
        return location.scope, location.site
    recording = recorder()
    known = None if recording is None else recording.site
    return current_namespace(), known or user_site()


def _explained(
    op_type: str, inputs: Inputs, attributes: Mapping[str, Any], error: Exception
) -> str:
    """The house form of an error: what is wrong, where the user wrote it, the inputs."""
    why = str(error).removeprefix("[ShapeInferenceError] ").removeprefix("[TypeInferenceError] ")
    why, _, hint = why.partition("\n")
    lines = [why, f"  node   {op_type}, built at {site_text(user_site())}"]
    lines += [f"  input  {x.name}: {describe(x)}" for x in inputs if x is not None]
    if attributes:
        lines.append(f"  with   {', '.join(f'{k}={v}' for k, v in attributes.items())}")
    return "\n".join(lines + ([hint] if hint else []))


class known_orders:
    """A region in which `ancestors` of the same targets are looked for once.

    Whoever compiles a program asks for those of the same targets several times between two passes.
    The last few are known: what they hold would be freed otherwise. Nothing is computed meanwhile
    that was recorded.
    """

    __slots__ = ("token",)

    def __enter__(self) -> None:
        self.token = _orders.set({})

    def __exit__(self, *exc: object) -> None:
        _orders.reset(self.token)


# by the ids of targets: these, and the nodes behind them
_orders: ContextVar[dict[tuple, tuple[list[Variable], list[Node]]] | None] = ContextVar(
    "pd_core.orders", default=None
)
_MOST_ORDERS = 3


def ancestors(
    targets: Iterable[Variable],
    stop: Container[Variable] = (),
    select: Callable[[Node], Inputs] | None = None,
) -> list[Node]:
    """Nodes behind the targets, each after the nodes it needs; nothing behind `stop`.

    `select(node)` may name the inputs of a node that count; all of them otherwise.
    """
    targets = list(targets)
    if stop or select is not None:
        return _chosen_ancestors(targets, stop, select)
    orders = _orders.get()
    if orders is None:
        return _all_ancestors(targets)
    key = tuple(map(id, targets))
    found = orders.get(key)
    if found is None:
        if len(orders) >= _MOST_ORDERS:
            del orders[next(iter(orders))]
        found = orders[key] = targets, _all_ancestors(targets)
    return list(found[1])


def all_nodes(targets: Iterable[Variable]) -> Iterator[Node]:
    """Yield the nodes behind targets, bodies included."""
    for node in ancestors(targets):
        yield node
        for block in node.blocks.values():
            yield from all_nodes(block.outputs)


def _all_ancestors(targets: Sequence[Variable]) -> list[Node]:
    """All nodes behind the targets: most of what passes ask for, so without a call for each."""
    order: list[Node] = []
    seen: set[Node | None] = {None}
    # a None says that all inputs of the node below it are in order
    stack: list[Any] = [v.node for v in reversed(targets) if v.node is not None]
    put, pop, add, done = stack.append, stack.pop, seen.add, order.append
    while stack:
        node = pop()
        if node is None:
            done(pop())
        elif node not in seen:
            add(node)
            put(node)
            put(None)
            for x in reversed(node.inputs):
                if x is not None:
                    before = x.node
                    if before not in seen:
                        put(before)
    return order


def _chosen_ancestors(
    targets: Sequence[Variable],
    stop: Container[Variable],
    select: Callable[[Node], Inputs] | None,
) -> list[Node]:
    """The same with those inputs that count, up to `stop`."""
    order: list[Node] = []
    seen: set[Node | None] = {None}
    stack: list[Any] = [v.node for v in reversed(targets) if v.node is not None and v not in stop]
    while stack:
        node = stack.pop()
        if node is None:
            order.append(stack.pop())
        elif node not in seen:
            seen.add(node)
            stack += (node, None)
            for x in reversed(node.inputs if select is None else select(node)):
                if x is not None:
                    before = x.node
                    if before not in seen and x not in stop:
                        stack.append(before)
    return order
