"""Calls of ops that are recorded as one: the nodes behind them are made where somebody asks."""

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any
from weakref import ref

from ..graph.node import serials
from ..graph.variable import Variable
from .recorded_node import RecordedNode

if TYPE_CHECKING:  # it is above
    from .templates import Template


class RecordedCall:
    """A call of an op whose nodes are those of a template, in the place of these nodes.

    A program that is known for such calls runs without them: a call is one object, and a few
    numbers in the key of the program, whatever its op adds. Whoever reads `node` of a result gets
    nodes, which `nodes` makes once.

    The attributes are those of a RecordedNode; `alive` are references to the results alone. The
    bits of `flow` tell of which inputs it has gradients. `draws` are the identities of the random
    draws of its template.
    """

    __slots__ = (
        *("alive", "detached", "draws", "first", "flow", "inputs", "scope", "serial", "site"),
        *("_nodes", "template"),
    )

    def __init__(
        self,
        template: "Template",
        inputs: tuple[Variable, ...],
        detached: bool,
        location: tuple[str, Any],
    ) -> None:
        self.template, self.inputs, self.detached = template, inputs, detached
        self.scope, self.site = location
        count = template.count
        serial = next(serials) if count == 1 else next(islice(serials, count - 1, None))
        first, flow = serial - count + 1, 0
        for x in inputs:
            attributes = x.__dict__
            if "node" in attributes:
                node: Any = attributes["node"]
                if node is not None and node.first < first and x.eager_value is None:
                    first = node.first
        if not detached:
            bit = 1
            for x in inputs:
                if x.tracked:
                    flow += bit
                bit += bit
        self.serial, self.first, self.flow = serial, first, flow
        self.alive: list[Any] = []
        self.draws: Sequence[tuple[int, int, int]] = ()
        self._nodes: Sequence[RecordedNode] | None = None

    def result(self, output: Any) -> Variable:
        """Return a result of the op that is no argument; each is made here, once."""
        v = _new(RecordedVariable)
        attributes = v.__dict__
        attributes |= output.attributes
        attributes["node"] = self
        if self.flow & output.flow:
            attributes["tracked"] = True
        self.alive.append(ref(v))
        return v

    @property
    def is_made(self) -> bool:
        """Whether somebody has asked for its nodes."""
        return self._nodes is not None

    def begin(self) -> None:
        """Note that nothing behind it waits to be computed any more."""
        self.first = self.serial

    @property
    def tracked(self) -> bool:
        """Whether it depends on something that has a gradient."""
        return self.flow & self.template.flow != 0

    @property
    def gradient_inputs(self) -> list[Variable]:
        """The inputs that gradients of results flow to."""
        flow = self.flow & self.template.flow
        return [x for k, x in enumerate(self.inputs) if flow >> k & 1]

    @property
    def nodes(self) -> Sequence[RecordedNode]:
        """The nodes that the op would have added; the results are theirs from then on."""
        if self._nodes is None:
            self._nodes = self._made()
        return self._nodes

    def _made(self) -> list[RecordedNode]:
        template, nodes = self.template, []
        values: list[Variable] = [*template.constants, *self.inputs]
        results = dict(zip(template.places, self.alive, strict=True))
        serial, draws = self.serial - len(template.nodes), iter(self.draws)
        scopes = template.scopes or [self.scope] * len(template.nodes)
        for (form, inputs, outputs), flow, scope in zip(
            template.nodes, template.flows, scopes, strict=True
        ):
            serial += 1
            if form.op_type == "Uniform":
                form = form.drawing(next(draws))
            node = RecordedNode.again(
                form,
                tuple([None if k is None else values[k] for k in inputs]),
                serial=serial,
                first=min(self.first, serial),
                location=(scope, self.site),
                tracked=self.flow & flow != 0,
                detached=self.detached or form.stops,
            )
            nodes.append(node)
            for k in outputs:
                reference = results.get(len(values))
                v = None if reference is None else reference()
                if v is None or v.__dict__["node"] is not self:
                    # one that is computed, and ends there, is a leaf to others alone
                    values.append(node.output(k))
                    continue
                values.append(v)
                node.alive[k] = reference
                if type(v) is RecordedVariable:
                    v.__dict__["node"] = node
                    v.__class__ = Variable  # type: ignore[assignment]
        return nodes


class RecordedVariable(Variable):
    """The result of a RecordedCall, until somebody asks for its node."""

    @property
    def node(self) -> Any:
        """The node that computes it; None once it is computed."""
        node = self.__dict__["node"]
        if type(node) is RecordedCall:
            _ = node.nodes
            node = self.__dict__["node"]
        return node

    @property
    def is_recorded(self) -> bool:
        """Whether it was computed while values were at hand, inside `pd.guard()`."""
        return self.__dict__["node"] is not None

    def is_output_of(self, op_type: str) -> bool:
        """Return whether an operator of this type computes it."""
        call = self.__dict__["node"]
        if type(call) is not RecordedCall:
            return super().is_output_of(op_type)
        k = [reference() is self for reference in call.alive].index(True)
        return call.template.outputs[k].op_type == op_type


_new = object.__new__
