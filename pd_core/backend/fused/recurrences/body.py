"""The body of a Scan as work on rows: elementwise operators on columns, products with matrices.

Row k of every value depends on row k of others alone, so that the rows of a batch are cut into
parts which run through all steps by themselves. A value is a list of pieces, side by side: what
Split and Concat do costs nothing. Operators on pieces that are equally wide, and whose operands are
known at the same time, share a loop over the columns.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onnx import NodeProto

from ....graph.variable import is_open
from ..operators import BOOL, C_TYPES, ELEMENTWISE, FLOAT, attributes, expression, literal
from ..sizes import ONE, Size, Values

_KINDS = {FLOAT, BOOL}


class Unfit(Exception):
    """There is no code for a loop."""


@dataclass(frozen=True)
class Stored:
    """Columns of a value in memory.

    `place` is "state", "step" (a value with the steps along its first axis), "rows" (the same in
    each step), "vector" (the same in each row too) or "product", `key` the name of the value.
    """

    place: str
    key: str
    offset: int
    width: int
    kind: int


@dataclass(eq=False)
class Computed:
    """Columns of an elementwise result: C, and its operands, literals among them."""

    text: str
    operands: "list[Piece | str]"
    width: int
    kind: int
    level: int
    number: int


Piece = Stored | Computed


@dataclass(eq=False)
class Product:
    """x times a matrix [depth, width]; `level` counts the products before it and this one."""

    key: str
    x: str
    pieces: list[Piece]
    matrix: str
    depth: int
    width: int
    level: int


@dataclass(frozen=True)
class _Value:
    width: int
    kind: int
    is_flat: bool = False  # [B] rather than [B, 1]


@dataclass
class Recurrence:
    """The computation of one step.

    `states` and `outputs` are lists of pieces, `matrices` are the right operands of products.
    `steps`, `rows` and `vectors` are the values from outside that pieces read, {name: (width,
    element type)}; those of `flat` are steps with one number of each row, and no axis of columns.
    """

    states: list[list[Piece]]
    outputs: list[list[Piece]]
    products: list[Product]
    widths: list[int]  # of the states
    keys: list[str]  # of the states, as pieces name them
    steps: dict[str, tuple[int, int]] = field(default_factory=dict)
    rows: dict[str, tuple[int, int]] = field(default_factory=dict)
    vectors: dict[str, tuple[int, int]] = field(default_factory=dict)
    matrices: dict[str, tuple[int, int]] = field(default_factory=dict)
    flat: set[str] = field(default_factory=set)


def recurrence(
    nodes: Sequence[NodeProto],
    states: Sequence[str],
    steps: Mapping[str, str],
    outputs: Sequence[str],
    values: Values,
    batch: Size,
) -> Recurrence:
    """Return what a step of a loop does, whose outputs are the new states and then the others.

    `steps` maps values of one step to those of all steps; others that nodes do not compute are from
    outside. `batch` is the number of rows. Unfit if there is no code for it.
    """
    return _Reader(values, batch, states, steps).read(nodes, outputs)


class _Reader:
    def __init__(self, values, batch, states, steps):
        self.known, self.batch, self.states, self.steps = values, batch, list(states), steps
        self.values: dict[str, _Value] = {}  # rows
        self.same: dict[str, str] = {}  # a value that is another one
        self.cuts: dict[str, set[int]] = defaultdict(set)
        self.pieces: dict[str, list[Piece]] = {}
        self.products: dict[str, Product] = {}
        self.matrices: dict[str, tuple[int, int]] = {}
        self.shapes: dict[str, str] = {}  # a value of sizes -> whose they are
        self.count = 0

    def read(self, nodes, outputs):
        unknown = [x for x in (*self.states, *self.steps.values()) if x not in self.known]
        if unknown:
            raise Unfit(f"{unknown[0]} is not known")
        for name in self.states:
            self.values[name] = self._rows_of(name, self.known.dims(name))
        for name, outer in self.steps.items():
            dims = self.known.dims(outer)
            if len(dims) < 2:
                raise Unfit(f"{outer} has no rows")
            self.values[name] = self._rows_of(outer, dims[1:])
        nodes = [node for node in nodes if not self._renames(node)]
        for node in nodes:
            self._measure(node)
        outputs = [self._root(y) for y in outputs]
        for y in outputs:
            if y not in self.values or self.values[y].is_flat:
                raise Unfit(f"{y} has no rows of columns")
        while sum(self._cut(node) for node in nodes):
            pass
        for node in nodes:
            self._compute(node)
        pieces = [self._pieces(y) for y in outputs]
        count = len(self.states)
        widths = [self.values[name].width for name in self.states]
        if [self.values[y].width for y in outputs[:count]] != widths:
            raise Unfit("a state changes its size")
        if any(p.kind != FLOAT for state in pieces[:count] for p in state):
            raise Unfit("a state is no float32")
        result = Recurrence(pieces[:count], pieces[count:], [], widths, self.states)
        self._needed(result, [p for each in pieces for p in each])
        return result

    # ---- what values are

    def _root(self, name):
        while name in self.same:
            name = self.same[name]
        return name

    def _rows_of(self, name, dims):
        kind = self.known.kind(name)
        if kind not in _KINDS or len(dims) not in (1, 2) or not _may_equal(dims[0], self.batch):
            raise Unfit(f"{name} is no value of rows")
        if len(dims) == 1:
            return _Value(1, kind, True)
        return _Value(_number(dims[1], name), kind)

    def _renames(self, node):
        """Whether a node only gives a value another name."""
        if node.op_type == "Identity":
            self.same[node.output[0]] = node.input[0]
        return node.op_type == "Identity"

    def _operand(self, name):
        """A value of rows, a literal, or the width and type of a vector or of rows from outside."""
        name = self._root(name)
        if name in self.values:
            if self.values[name].is_flat:
                raise Unfit(f"{name} has no columns")
            return self.values[name]
        if name not in self.known:
            raise Unfit(f"{name} is not known")
        dims, kind = self.known.dims(name), self.known.kind(name)
        while len(dims) > 1 and dims[0] == ONE:
            dims = dims[1:]
        if kind not in _KINDS or len(dims) > 2:
            if self.known.scalar(name) is not None and dims in ((), (ONE,)):
                return _Value(1, kind)  # such as the exponent of a power
            raise Unfit(f"{name} is no value of rows")
        if len(dims) == 2:
            self.values[name] = self._rows_of(name, dims)
            return self.values[name]
        return _Value(_number(dims[-1], name) if dims else 1, kind)

    def _measure(self, node):
        """Note the widths and types of what a node computes."""
        op, known = node.op_type, self.values
        if op == "MatMul" and not node.domain:
            self._measure_product(node)
        elif op == "Concat":
            sizes = [size for _, _, size in self._columns(node)]
            kinds = {self._operand(p).kind for p in node.input}
            if any(self._root(p) not in known for p in node.input) or len(kinds) > 1:
                raise Unfit(f"{node.name} joins what are no rows")
            known[node.output[0]] = _Value(sum(sizes), kinds.pop())
        elif op in ("Split", "Slice"):
            kind = self._operand(node.input[0]).kind
            known.update({y: _Value(size, kind) for y, _, size in self._columns(node)})
        elif op == "Unsqueeze":
            value = known.get(self._root(node.input[0]))
            axes = self.known.integers(node.input[1])
            if value is None or not value.is_flat or axes not in ([1], [-1]):
                raise Unfit(f"{node.name} has another axis")
            known[node.output[0]] = _Value(1, value.kind)
        elif op == "Shape" and not node.attribute and self._root(node.input[0]) in known:
            self.shapes[node.output[0]] = self._root(node.input[0])
        elif op == "Expand" and self._root(node.input[1]) in self.shapes:
            # such as the gradient of columns that nothing reads: zeros
            like = known[self.shapes[self._root(node.input[1])]]
            kind, scalar = self._kind(node.input[0]), self.known.scalar(node.input[0])
            if scalar is None or kind not in _KINDS or like.is_flat:
                raise Unfit(f"{node.name} repeats what is no number")
            known[node.output[0]] = _Value(like.width, kind)
        elif op in ELEMENTWISE and node.domain in ("", "com.microsoft"):
            self._measure_elementwise(node)
        else:
            raise Unfit(f"{node.name} is not elementwise")

    def _measure_product(self, node):
        x, matrix = map(self._root, node.input)
        if x not in self.values or matrix in self.values or matrix not in self.known:
            raise Unfit(f"{node.name} is no product of rows with a matrix")
        a, dims = self._operand(x), self.known.dims(matrix)
        if len(dims) != 2 or {a.kind, self.known.kind(matrix)} != {FLOAT}:
            raise Unfit(f"{node.name} is no product of float32 with a matrix")
        depth, width = (_number(d, matrix) for d in dims)
        if depth != a.width or not depth or not width:
            raise Unfit(f"{node.name} has no such matrix")
        self.matrices[matrix] = depth, width
        self.values[node.output[0]] = _Value(width, FLOAT)

    def _measure_elementwise(self, node):
        names = [x for x in node.input if x]
        operands = [self._operand(x) for x in names]
        kinds = [self._kind(x) if x else 0 for x in node.input]
        (y,) = node.output
        result = self.known.kind(y) if y in self.known else 0
        if result not in _KINDS:
            raise Unfit(f"{node.name} has other elements")
        scalars = [self.known.scalar(x) if x in self.known else None for x in node.input]
        if expression(node, kinds, result, scalars) is None:
            raise Unfit(f"there is no code for {node.op_type}")
        width = max((v.width for v in operands), default=0)
        if any(v.width not in (1, width) for v in operands):
            raise Unfit(f"{node.name} has operands of several widths")
        if not any(self._root(x) in self.values for x in names):
            raise Unfit(f"{node.name} has no rows")
        self.values[y] = _Value(width, result)

    def _kind(self, name):
        name = self._root(name)
        if name not in self.values and name not in self.known:
            raise Unfit(f"{name} is not known")
        return self.values[name].kind if name in self.values else self.known.kind(name)

    def _columns(self, node):
        """(part, first column, number of columns) of a Split, Slice or Concat along the columns."""
        given = attributes(node)
        x = self._root(node.input[0])
        if x not in self.values:
            raise Unfit(f"{node.name} has no rows")
        whole = self._operand(x).width
        if node.op_type == "Slice":
            parts = [self.known.integers(k) or [] for k in node.input[1:]]
            if len(parts) < 3 or any(len(p) != 1 for p in parts):
                raise Unfit(f"{node.name} is decided at run time")
            (start,), (end,), (axis,) = parts[:3]
            if axis not in (1, -1) or (len(parts) > 3 and parts[3] != [1]):
                raise Unfit(f"{node.name} is along rows")
            start, end, _ = slice(start, end).indices(whole)
            if end <= start:
                raise Unfit(f"{node.name} is empty")
            return [(node.output[0], start, end - start)]
        axis = given.get("axis", 0)
        if axis not in (1, -1):
            raise Unfit(f"{node.name} is along rows")
        if node.op_type == "Concat":
            names = [self._root(p) for p in node.input]
            sizes = [self._operand(p).width for p in names]
        else:
            names = list(node.output)
            found = self.known.integers(node.input[1]) if len(node.input) > 1 else None
            if found is None or sum(found) != whole or 0 in found:
                raise Unfit(f"{node.name} is decided at run time")
            sizes = found
        starts = [sum(sizes[:k]) for k in range(len(sizes))]
        return list(zip(names, starts, sizes, strict=True))

    # ---- pieces

    def _cut(self, node):
        """Cut the values around a node at the same columns; return whether there is a new cut."""
        op, cuts, before = node.op_type, self.cuts, self._total
        count = before()
        if op in ("MatMul", "Shape"):
            return False
        if op in ("Split", "Slice", "Concat"):
            joined = node.output[0] if op == "Concat" else self._root(node.input[0])
            width = self.values[joined].width
            for part, start, size in self._columns(node):
                cuts[joined] |= {c + start for c in cuts[part]}
                cuts[joined] |= {c for c in (start, start + size) if 0 < c < width}
                cuts[part] |= {c - start for c in cuts[joined] if start < c < start + size}
            return before() > count
        (y,) = node.output
        width = self.values[y].width
        names = [self._root(x) for x in node.input if x]
        rows = [x for x in (*names, y) if x in self.values and self.values[x].width == width]
        every = set().union(*(cuts[x] for x in rows))
        for x in rows:
            cuts[x] |= every
        return before() > count

    def _total(self):
        return sum(map(len, self.cuts.values()))

    def _widths(self, name, width):
        ends = [*sorted(self.cuts[name]), width]
        starts = [0, *ends[:-1]]
        return list(zip(starts, [e - s for s, e in zip(starts, ends, strict=True)], strict=True))

    def _pieces(self, name):
        """The pieces of a value of rows."""
        name = self._root(name)
        if name not in self.pieces:
            value = self.values[name]
            if name in self.states:
                place, key = "state", name
            elif name in self.steps:
                place, key = "step", self.steps[name]
            elif name in self.products:
                place, key = "product", name
            else:
                place, key = "rows", name
            self.pieces[name] = [
                Stored(place, key, start, size, value.kind)
                for start, size in self._widths(name, value.width)
            ]
        return self.pieces[name]

    def _compute(self, node):
        op = node.op_type
        if op == "MatMul":
            x, matrix = self._root(node.input[0]), self._root(node.input[1])
            pieces, sizes = self._pieces(x), self.matrices[matrix]
            level = 1 + max(self._level(p) for p in pieces)
            key = node.output[0]
            self.products[key] = Product(key, x, pieces, matrix, *sizes, level)
        elif op == "Concat":
            self.pieces[node.output[0]] = [p for x in node.input for p in self._pieces(x)]
        elif op in ("Split", "Slice"):
            whole = self._pieces(node.input[0])
            for part, start, size in self._columns(node):
                at, self.pieces[part] = 0, []
                for piece in whole:
                    if start <= at < start + size:
                        self.pieces[part].append(piece)
                    at += piece.width
        elif op == "Unsqueeze":
            self.pieces[node.output[0]] = self._pieces(node.input[0])
        elif op == "Expand":
            self._compute_number(node)
        elif op != "Shape":
            self._compute_elementwise(node)

    def _compute_number(self, node):
        (y,) = node.output
        value, text = self.values[y], literal(self.known.scalar(node.input[0]))
        self.pieces[y] = []
        for _, size in self._widths(y, value.width):
            self.count += 1
            self.pieces[y].append(Computed(text, [], size, value.kind, 0, self.count))

    def _compute_elementwise(self, node):
        (y,) = node.output
        value = self.values[y]
        names = [x for x in node.input if x]
        kinds = [self._kind(x) if x else 0 for x in node.input]
        scalars = [self.known.scalar(x) if x in self.known else None for x in node.input]
        text = expression(node, kinds, value.kind, scalars) or ""  # `_measure` has seen one
        self.pieces[y] = []
        for k, (start, size) in enumerate(self._widths(y, value.width)):
            operands = [self._operand_piece(x, k, start, size) for x in names]
            level = max([self._level(p) for p in operands if not isinstance(p, str)], default=0)
            self.count += 1
            self.pieces[y].append(Computed(text, operands, size, value.kind, level, self.count))

    def _operand_piece(self, name, k, start, size):
        name = self._root(name)
        if name in self.values:
            pieces = self._pieces(name)
            return pieces[0] if self.values[name].width == 1 else pieces[k]
        scalar = self.known.scalar(name)
        if scalar is not None:
            return literal(scalar)
        value = self._operand(name)
        if value.width == 1:
            return Stored("vector", name, 0, 1, value.kind)
        return Stored("vector", name, start, size, value.kind)

    def _level(self, piece):
        if isinstance(piece, Computed):
            return piece.level
        return self.products[piece.key].level if piece.place == "product" else 0

    # ---- what is needed, and when

    def _needed(self, result, pieces):
        """Fill in what is read from outside and which products are needed; move work to its use."""
        computed: set[Computed] = set()
        products: dict[str, Product] = {}
        pending = list(pieces)
        early: set[Computed] = set()  # what products need
        while pending:
            piece = pending.pop()
            if isinstance(piece, Computed):
                if piece not in computed:
                    computed.add(piece)
                    pending += [p for p in piece.operands if not isinstance(p, str)]
            elif piece.place == "product" and piece.key not in products:
                products[piece.key] = self.products[piece.key]
                pending += products[piece.key].pieces
                early.update(p for p in products[piece.key].pieces if isinstance(p, Computed))
        order = sorted(computed, key=lambda c: c.number)
        users = defaultdict(list)
        for c in order:
            for p in c.operands:
                if isinstance(p, Computed):
                    users[p].append(c)
        for c in reversed(order):
            if users[c] and c not in early:
                c.level = max(c.level, min(u.level for u in users[c]))
        result.products = sorted(products.values(), key=lambda p: p.level)
        # in the order of use: names do not decide what a source looks like
        read = [p for c in order for p in c.operands] + pieces
        read += [p for q in result.products for p in q.pieces]
        place = {"step": result.steps, "rows": result.rows, "vector": result.vectors}
        outer = {key: name for name, key in self.steps.items()}
        for p in read:
            if isinstance(p, Stored) and p.place in place:
                name = outer[p.key] if p.place == "step" else p.key
                value = self._operand(name) if p.place == "vector" else self.values[name]
                place[p.place][p.key] = value.width, p.kind
        result.flat = {key for key in result.steps if self.values[outer[key]].is_flat}
        result.matrices = {p.matrix: self.matrices[p.matrix] for p in result.products}


def _may_equal(a, b):
    """Whether sizes are equal, or may be: then a run checks it."""
    return a == b or any(len(d[1]) == 1 and not is_open(d[1][0]) for d in (a, b))


def _number(size, name):
    """A number of columns that is known."""
    if size[1] or not size[0]:
        raise Unfit(f"{name} has no columns, or a run decides how many")
    return size[0]


def c_type(kind: int) -> str:
    """Return the C type of an element type."""
    return C_TYPES[kind]
