"""Nodes that are recorded while values are at hand."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple
from weakref import ref

from ..graph.inference import OPSET
from ..graph.node import Block, Node, current_location, serials
from ..graph.signature import kind_of
from ..graph.size_entries import entries_of
from ..graph.variable import Inputs, OutputType, Variable

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_SMALL = 64  # elements of a constant whose values the types of a result may depend on


class Form(NamedTuple):
    """All of an operator but its inputs, shared by the nodes that apply it to equal types."""

    op_type: str
    attributes: Mapping[str, Any]
    types: Sequence[OutputType]
    keys: Sequence[tuple]  # of the types, see `type_key`
    numbered: Sequence[bool]  # of each output, whether all of its sizes are numbers
    simple: bool  # an operator with one output, whose sizes are numbers, and without bodies
    domain: str
    opset: int
    blocks: Mapping[str, Block]
    effects: tuple[Any, ...]
    visible: int
    kind: int
    name: str  # of the outputs
    stops: bool  # whether gradients end there

    def drawing(self, key: tuple[int, int, int]) -> "Form":
        """Return the form of a random draw of another identity."""
        return self._replace(attributes={"key": key})


def form(
    op_type: str,
    attributes: Mapping[str, Any],
    types: Sequence[OutputType],
    domain: str = "",
    opset: int = OPSET,
    blocks: Mapping[str, Block] = _NOTHING,
    effects: tuple = (),
    visible: int | None = None,
    kind: int | None = None,
    sizes: Sequence[Sequence | None] = (),
) -> Form:
    """Return the form of an operator; the arguments are those of Node.

    `sizes` are those that its results consist of, see `named_sizes.sizes_within`.
    """
    types = tuple(types)
    known = sizes or [None] * len(types)
    entries = [() if d is None else (tuple(d),) for d in known]
    numbered = tuple([all(isinstance(d, int) for d in dims) for dims, _ in types])
    return Form(
        op_type,
        MappingProxyType(attributes) if attributes else _NOTHING,
        types,
        tuple([(dtype.num, dims, *d) for (dims, dtype), d in zip(types, entries, strict=True)]),
        numbered,
        numbered == (True,) and not domain and not blocks,
        domain,
        opset,
        MappingProxyType(blocks) if blocks else _NOTHING,
        effects,
        len(types) if visible is None else visible,
        kind_of(op_type, domain, opset, attributes, len(types)) if kind is None else kind,
        op_type.lower(),
        op_type == "StopGradient",
    )


def type_key(x: Variable) -> tuple:
    """Return what the types of the results of operators on x depend on."""
    key = x.__dict__.get("type_key")
    if key is None:
        if x.value is not None and x.value.size <= _SMALL:
            key = x.content
        else:
            entries = entries_of(x)
            key = (x.dtype.num, x.dims) if entries is None else (x.dtype.num, x.dims, entries)
        x.__dict__["type_key"] = key
    return key


class RecordedNode(Node):
    """A node that is recorded while values are at hand, freed with the last use of its outputs.

    A node does not keep its outputs, which keep the node: a cycle would leave what a loop records
    to the garbage collector, with the arrays that hang on it. An output that nobody holds is made
    anew where it is asked for.
    """

    __slots__ = ("alive", "detached", "first", "form", "tracked")

    form: Form
    tracked: bool  # whether it depends on something that has a gradient
    detached: bool  # whether gradients end here all the same
    first: int  # the serial of the oldest operator behind it that is not computed yet
    alive: list[Any]  # references to the outputs, None for those that were not asked for yet

    def __init__(self, form: Form, inputs: Inputs, detached: bool = False) -> None:
        serial = first = next(serials)
        tracked, detached = False, detached or form.stops
        for x in inputs:
            if x is not None:
                if x.tracked:
                    tracked = True
                node: Any = x.__dict__.get("node")
                if node is not None and x.eager_value is None:
                    first = min(first, getattr(node, "first", first))
        scope, site = current_location()
        _put_form(self, form)
        _put_inputs(self, inputs)
        _put_scope(self, scope)
        _put_site(self, site)
        _put_serial(self, serial)
        _put_tracked(self, tracked and not detached)
        _put_detached(self, detached)
        _put_first(self, first)
        _put_alive(self, [None] * len(form.types))

    @classmethod
    def again(
        cls,
        form: Form,
        inputs: Inputs,
        *,
        serial: int,
        first: int,
        location: tuple[str, Any],
        tracked: bool,
        detached: bool,
    ) -> "RecordedNode":
        """Return a node that was recorded as a part of a call."""
        node = _new(cls)
        _put_form(node, form)
        _put_inputs(node, inputs)
        _put_scope(node, location[0])
        _put_site(node, location[1])
        _put_serial(node, serial)
        _put_tracked(node, tracked)
        _put_detached(node, detached)
        _put_first(node, first)
        _put_alive(node, [None] * len(form.types))
        return node

    def begin(self) -> None:
        """Note that nothing behind it waits to be computed any more."""
        _put_first(self, self.serial)

    @property
    def outputs(self) -> tuple[Variable, ...]:  # type: ignore[override]
        """The output Variables."""
        return tuple([self.output(k) for k in range(len(self.alive))])

    def output(self, k: int) -> Variable:
        """Return one output."""
        reference = self.alive[k]
        v = None if reference is None else reference()
        if v is None:
            form = self.form
            v = _new(Variable)
            attributes = v.__dict__
            attributes["dims"], attributes["dtype"] = form.types[k]
            attributes["name"], attributes["node"] = form.name, self
            attributes["type_key"] = form.keys[k]
            if self.tracked and attributes["dtype"].kind == "f":
                attributes["tracked"] = True
            self.alive[k] = ref(v)
        return v

    @property
    def template(self) -> Form:
        """The form, which patterns compare as they do the template of a RecordedCall."""
        return self.form

    @property
    def flow(self) -> bool:
        """Whether it has gradients; patterns compare it as they do the flow of a RecordedCall."""
        return self.tracked

    @property
    def types(self) -> list[OutputType]:
        """Dims and dtype of each output."""
        return list(self.form.types)

    @property
    def op_type(self) -> str:  # type: ignore[override]
        """The operator."""
        return self.form.op_type

    @property
    def attributes(self) -> Mapping[str, Any]:  # type: ignore[override]
        """The attributes by name."""
        return self.form.attributes

    @property
    def domain(self) -> str:  # type: ignore[override]
        """The domain of the operator."""
        return self.form.domain

    @property
    def opset(self) -> int:  # type: ignore[override]
        """The oldest opset of a program that holds it."""
        return self.form.opset

    @property
    def blocks(self) -> Mapping[str, Block]:  # type: ignore[override]
        """The bodies of a loop or branch."""
        return self.form.blocks

    @property
    def effects(self) -> tuple[Any, ...]:  # type: ignore[override]
        """The assignments of a training step that runs it."""
        return self.form.effects

    @property
    def visible(self) -> int:  # type: ignore[override]
        """The number of outputs that were asked for."""
        return self.form.visible

    @property
    def kind(self) -> int:  # type: ignore[override]
        """The id that nodes share whose operator, attributes and number of outputs are equal."""
        return self.form.kind


_new: Any = object.__new__
_node, _own = vars(Node), vars(RecordedNode)
_put_inputs, _put_scope = _node["inputs"].__set__, _node["scope"].__set__
_put_site, _put_serial = _node["site"].__set__, _node["serial"].__set__
_put_form, _put_alive = _own["form"].__set__, _own["alive"].__set__
_put_tracked, _put_detached = _own["tracked"].__set__, _own["detached"].__set__
_put_first = _own["first"].__set__
