"""The structure of a program: all of a graph that its compiled form depends on, and no names.

Two graphs of one structure are one program: operators, attributes, wiring, element types, what is
known of sizes, constants, which edges are fed, and the side of mode switches. Which variables take
part, how sizes are called and which streams of random numbers are drawn from differs from graph to
graph; it is what `Structure` lists, in the order of first appearance.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from ..backend.base import Seam
from ..graph.node import Block, Node, ancestors
from ..graph.setting import setting_constant
from ..graph.variable import Dim, Inputs, Variable, is_open
from ..ops.mode import SEGMENTS

FED, STATE, _FREE, _CONSTANT, _BODY = range(-5, 0)  # what a leaf is; operators are >= 0


class Key(tuple):
    """A tuple that is hashed once: a key has thousands of parts, and is looked up several times."""

    def __hash__(self) -> int:
        known = self.__dict__
        if "hash" not in known:
            known["hash"] = super().__hash__()
        found: int = known["hash"]
        return found


class Structure:
    """A graph as a hashable `key`, and the parts of it that have names.

    `leaves` are the fed and persistent variables, `sizes` the names of symbolic sizes and `draws`
    the keys of random draws. `reads` are the reads of persistent variables inside `pd.guard()`,
    with what was read; such a read is the same as the variable itself. `constants` are what stands
    for the Variables of Settings that have not changed.
    """

    has_marks = False  # whether it is of a graph that is yet to be differentiated

    def __init__(
        self,
        fetches: Sequence[Variable],
        updates: Sequence[tuple[Variable, Variable]],
        seam: Seam,
        fed: Iterable[Variable],
        training: bool,
    ):
        self._begin(set(fed), training)
        self._key.append(seam.divisions)
        targets = [*fetches, *(new for _, new in updates), *seam]
        self._add(ancestors(targets, self._fed, self._selected))
        self._finish(fetches, updates, seam)

    def _begin(self, fed: set[Variable], training: bool) -> None:
        # The walk costs about a microsecond per node, in every evaluation of a new graph: lists
        # where a generator would cost more than what it yields, and one table per kind of number.
        self._fed, self._side = fed, 0 if training else 1
        self._numbers: dict[Variable, int] = {}
        self._constants: dict[tuple, int] = {}
        self._dims: dict[tuple, tuple] = {}
        self._count = 0
        self._key: list[Any] = [training]
        self._sizes: dict[str, int] = {}
        self._draws: dict[Any, int] = {}
        self.has_blocks = False
        self.leaves: list[Variable] = []
        self.reads: dict[Variable, Variable] = {}
        self.constants: dict[Variable, Variable] = {}

    def _finish(
        self,
        fetches: Sequence[Variable],
        updates: Sequence[tuple[Variable, Variable]],
        seam: Iterable[Variable],
    ) -> None:
        self._key.append(tuple([self._number(v) for v in fetches]))
        self._key.append(tuple([(self._number(v), self._number(new)) for v, new in updates]))
        self._key.append(tuple([self._number(v) for v in seam]))
        self.key = Key(self._key)
        self.sizes, self.draws = list(self._sizes), list(self._draws)
        del self._key, self._fed

    def _add(self, order: Iterable[Node]) -> None:
        numbers, key, fed = self._numbers, self._key, self._fed
        for node in order:
            inputs = self._selected(node)
            key.append(node.kind)
            key.append(
                tuple([-1 if x is None else numbers.get(x) or self._number(x) for x in inputs])
            )
            if node.blocks and (self.has_marks or node.op_type not in SEGMENTS):
                for name, block in node.blocks.items():
                    self._add_block(name, block)
            elif node.op_type == "Uniform":
                key.append(self._draws.setdefault(node.attributes["key"], len(self._draws)))
            for y in node.outputs:
                self._count += 1
                if y not in fed:
                    numbers[y] = self._count
                key.append(self._dims.get(y.dims) or self._sized(y.dims))
                if node.domain:
                    key.append(y.dtype.num)

    def _selected(self, node: Node) -> Inputs:
        """The inputs that count: one side of a mode switch, the results of a form or segment."""
        if node.op_type == "ModeSwitch":
            return (node.inputs[self._side],)
        if node.op_type == "OnnxForm" or (node.op_type in SEGMENTS and not self.has_marks):
            return node.inputs[: len(node.outputs)]
        return node.inputs

    def _add_block(self, name: str, block: Block) -> None:
        self.has_blocks = True
        self._key.append((name, len(block.block_inputs), len(block.captured)))
        for v in block.inputs:
            self._count += 1
            self._numbers[v] = self._count
            self._key.append((_BODY, v.dtype.num, self._dims.get(v.dims) or self._sized(v.dims)))
        self._add(ancestors(block.outputs, set(block.inputs), self._selected))
        self._key.append(tuple([self._number(v) for v in block.outputs]))

    def with_slots(self) -> tuple[tuple, list[int]]:
        """Return the key with slots for the sizes above 1, and these sizes.

        It is that of all graphs whose sizes are equal, 0 and 1 in the same places.
        """
        slots: dict[int, Any] = {}

        def slot(d: Dim) -> Any:
            return slots.setdefault(d, (len(slots),)) if isinstance(d, int) and d > 1 else d

        # types are in the key as they are in the table, and no inputs of nodes are
        types = {id(sized): tuple(map(slot, sized)) for sized in self._dims.values() if sized}
        key = [types.get(id(part), part) for part in self.key]
        for k, part in enumerate(key):
            if type(part) is tuple and len(part) == 3 and id(part[2]) in types:
                key[k] = *part[:2], types[id(part[2])]
        return Key(key), list(slots)

    def _sized(self, dims: tuple[Dim, ...]) -> tuple:
        """Sizes with places for names: the same for any names in the same places."""
        sized: list[Any] = []
        for d in dims:
            if isinstance(d, str):
                sized.append((self._sizes.setdefault(d, len(self._sizes)), is_open(d)))
            else:
                sized.append(d)
        self._dims[dims] = tuple(sized)
        return self._dims[dims]

    def _number(self, v: Variable) -> int:
        """The number of a variable; what has none yet is a leaf."""
        number = self._numbers.get(v)
        if number is None:
            if v.source is not None and v.eager_value is None:
                self.reads[v] = v.source
                number = self._numbers[v] = self._number(v.source)
                return number
            is_constant = v.value is not None and v not in self._fed
            number = self._constant(v) if is_constant else self._leaf(v)
            self._numbers[v] = number
        return number

    def _leaf(self, v: Variable) -> int:
        if v.storage.setting is not None and v.storage.setting.is_constant and v not in self._fed:
            self.constants[v] = setting_constant(v)
            return self._constant(self.constants[v])
        self._count += 1
        self.leaves.append(v)
        is_fed = v.eager_value is not None or v in self._fed
        kind = FED if is_fed else STATE if v.is_persistent else _FREE
        self._key.append((kind, v.dtype.num, self._dims.get(v.dims) or self._sized(v.dims)))
        return self._count

    def _constant(self, v: Variable) -> int:
        """Equal constants are one."""
        number = self._constants.get(v.content)
        if number is None:
            self._count += 1
            number = self._constants[v.content] = self._count
            self._key.append((_CONSTANT, *v.content))
        return number
