"""The nested loops of C for one loop over a shape, with its reductions."""

from collections.abc import Sequence
from dataclasses import dataclass

from onnx import TensorProto

from .arguments import Arguments
from .loops import Body, Loop, Statement
from .operators import C_TYPES, DOUBLE, literal
from .sizes import ONE, ZERO, Dims, Size, product
from .steps import Unfit
from .views import View

_START = {"sum": "0", "mean": "0", "pick": "-0.0", "max": "-INFINITY", "min": "INFINITY"}
_SUMS = ("sum", "mean", "pick")
_AHEAD = 64  # elements by which their places are looked at before they are read
_CACHED = 1 << 15  # elements of a value that a cache has anyway
_SLOW = ("f_", "exp", "log", "tanh", "erf", "sqrt", "/")  # about as long as eight sums


@dataclass
class Access:
    """A memory access of a loop: a view's buffer, type, offset, and strides along axes.

    `outer` are its strides along the axes of the rows, if the loop is one of several in rows.
    """

    buffer: str
    kind: int
    offset: tuple[Size, ...]
    along: list[Size]
    outer: tuple[Size, ...] = ()


@dataclass
class Partial:
    """A reduction over rows: each part of them has an array of its own, in a buffer.

    It has so many elements, each of which `count` are reduced to.
    """

    y: str
    how: str
    elements: Size
    count: Size
    buffer: str


class Row:
    """The place of row i along the axes that loops share, of these sizes.

    `lines` give names to its places along some of them.
    """

    def __init__(self, extents: Dims, given: Arguments):
        self.extents, self.given = extents, given
        self.lines: list[str] = []

    def terms(self, outer: Sequence[Size]) -> list[str]:
        """Return strides along the axes times the places along them, as terms of a sum."""
        runs: list[tuple[int, int, Size]] = []  # neighbours that are as good as one axis
        for k, s in enumerate(outer):
            if runs and runs[-1][2] == product(s, self.extents[k]):
                runs[-1] = runs[-1][0], k + 1, s
            else:
                runs.append((k, k + 1, s))
        return [term(self.place(a, b), s, self.given)[0] for a, b, s in runs if s != ZERO]

    def place(self, first: int, end: int) -> str:
        """Return the name of the place along some of the axes."""
        if (first, end) == (0, len(self.extents)):
            return "i"
        name, text = f"i{first}_{end}", "i"
        if end < len(self.extents):
            text = f"i / ({self.given.number(product(*self.extents[end:]))})"
        if first:
            text += f" % ({self.given.number(product(*self.extents[first:end]))})"
        line = f"const int64_t {name} = {text};"
        if line not in self.lines:
            self.lines.append(line)
        return name


class Nest:
    """The text of a loop.

    Without axes it is alone, and its first level runs from lo to hi. With some it is the part of
    row i of those axes. `levels` are the nested loops, as (size, variable); `head` are lines that
    come before all rows.
    """

    def __init__(self, body: Body, loop: Loop, axes: tuple[int, ...], row: Row, given: Arguments):
        self.body, self.loop, self.axes, self.row, self.given = body, loop, axes, row, given
        self.head: list[str] = []
        self.partials: list[Partial] = []
        self.cost = 0.0
        self.is_plain = False  # no vectors
        self._read: dict[tuple[int, int], Access] = {}  # by statement and input
        self._placed: dict[int, Access] = {}  # places along an axis, by statement
        self._written: dict[int, Access] = {}  # by statement
        self._find()
        all_ = (*self._read.values(), *self._written.values(), *self._placed.values())
        every = list({id(a): a for a in all_}.values())
        self.levels = self._merged(every)
        names = ["i" if not axes and not k else f"j{k}" for k in range(len(self.levels))]
        self.names = names
        self._pre: list[list[str]] = [[] for _ in range(len(names) + 1)]  # before a level's loop
        self._post: list[list[str]] = [[] for _ in range(len(names) + 1)]  # after it
        self._inner: list[str] = []
        self._clauses: list[str] = []
        self._elements = {id(a): self._element(a) for a in every if a.buffer}
        self._statements()

    @property
    def rounds(self) -> Size:
        """The size of the first level."""
        return self.levels[0] if self.levels else ONE

    def lines(self) -> list[str]:
        """Return the text."""
        if not self.levels:
            return [*self._pre[0], *self._inner, *self._post[0]]
        found, pad, last = [], "", len(self.levels) - 1
        for k, (level, name) in enumerate(zip(self.levels, self.names, strict=True)):
            found += [pad + line for line in self._pre[k]]
            low = "0"
            if not self.axes and not k:
                low, high = "lo", "hi"
            else:
                high = self.given.count(level) if k == last else self.given.number(level)
            if k == last and not self.is_plain:
                found.append("#pragma omp simd" + "".join(self._clauses))
            found.append(f"{pad}for (int64_t {name} = {low}; {name} < {high}; {name}++) {{")
            pad += "  "
        found += [pad + line for line in self._inner]
        for k in reversed(range(len(self.levels))):
            pad = pad[2:]
            found.append(pad + "}")
            found += [pad + line for line in self._post[k]]
        return found

    # accesses and levels

    def _find(self) -> None:
        """Find what the statements read and write; equal accesses are one."""
        seen: dict[tuple, Access] = {}
        for k, statement in enumerate(self.loop.statements):
            for j, read in enumerate(statement.reads):
                if read is not None:
                    if read not in seen:
                        seen[read] = self._access(*read)
                    self._read[k, j] = seen[read]
            if statement.place:
                self._placed[k] = self._access(View("", (), ()), statement.place)
            if statement.how != "map" or statement.written.buffer in self.body.stored:
                self._written[k] = self._access(statement.written, statement.along)

    def _access(self, view: View, strides: tuple[Size, ...]) -> Access:
        along = [s for k, s in enumerate(strides) if k not in self.axes]
        outer = tuple([strides[k] for k in self.axes])
        if view.buffer in self.given.rows:
            outer = ()
        kind = self.body.values.kind(view.buffer) if view.buffer else TensorProto.INT64
        return Access(view.buffer, kind, view.offset, along, outer)

    def _merged(self, accesses: list[Access]) -> list[Size]:
        """The axes as levels, of which neighbours are one where all strides allow it."""
        dims = [d for k, d in enumerate(self.loop.dims) if k not in self.axes]
        levels: list[Size] = []
        merged: list[list[Size]] = [[] for _ in accesses]
        for k, d in enumerate(dims):
            pairs = list(zip(merged, accesses, strict=True))
            if levels and all(m[-1] == product(a.along[k], d) for m, a in pairs):
                levels[-1] = product(levels[-1], d)
                for m, a in pairs:
                    m[-1] = a.along[k]
            else:
                levels.append(d)
                for m, a in pairs:
                    m.append(a.along[k])
        for m, a in zip(merged, accesses, strict=True):
            a.along = m
        if not levels and not self.axes:
            levels.append(ONE)
            for a in accesses:
                a.along = [ZERO]
        return levels

    def _place(self, access: Access, to: int) -> str:
        """The address of an access at the beginning of the loop of a level."""
        text = self.given.buffer(access.buffer, access.kind)
        terms = [self.given.number(offset) for offset in access.offset]
        terms += self.row.terms(access.outer)
        for name, s in zip(self.names[:to], access.along[:to], strict=True):
            terms += term(name, s, self.given)
        return " + ".join([text, *terms])

    def _element(self, access: Access) -> str:
        """An element in the innermost loop, through a pointer that is set before it."""
        last = max(len(self.levels) - 1, 0)
        if any(
            self._written.get(k) is access and s.how != "map"
            for k, s in enumerate(self.loop.statements)
        ):
            return ""  # it is written after a loop
        name = self.given.fresh("a")
        is_read = any(a is access for a in self._read.values())
        c_type = ("const " if is_read else "") + C_TYPES[access.kind]
        restrict = "" if access.buffer in self.body.shared else "restrict "
        self._pre[last].append(f"{c_type} *{restrict}{name} = {self._place(access, last)};")
        at = term(self.names[last], access.along[last], self.given) if self.levels else []
        return f"{name}[{at[0] if at else 0}]"

    # statements

    def _statements(self) -> None:
        registers: dict[str, str] = {}
        loaded: dict[int, str] = {}
        far: dict[str, Access] = {}  # the places of single elements, by the names of their numbers
        for k, statement in enumerate(self.loop.statements):
            terms = []
            for j, x in enumerate(statement.inputs):
                value = self.body.literal(x)
                access = self._read.get((k, j))
                if value is not None and not (statement.at is not None and j != 1):
                    terms.append(literal(value))
                elif access is None:
                    terms.append(registers[self.body.root(x)])
                elif statement.at is not None and j != 1:
                    terms.append("")  # its place is told by the next input
                else:
                    if id(access) not in loaded:
                        loaded[id(access)] = self._let(access.kind, self._elements[id(access)])
                    terms.append(loaded[id(access)])
            place = self._index(self._placed[k]) if k in self._placed else "0"
            if statement.at is not None:
                self._fetch(k, far.get(terms[1]), statement)
                terms[0] = self._far(k, terms[1], statement)
            number = None if statement.number is None else self.given.number(statement.number)
            bad = self.given.errors(statement.y) if statement.is_plain else ""
            self.is_plain |= statement.is_plain
            text = statement.text.format(*terms, n=number, i=place, bad=bad)
            self.cost += 8 if any(s in text for s in _SLOW) else 1
            if statement.how != "map":
                self._reduce(statement, text, self._written[k], k)
                continue
            registers[statement.y] = self._let(self.body.values.kind(statement.y), text)
            if statement.is_plain and statement.number is not None and (k, 0) in self._read:
                rows, unknown = statement.number
                if unknown or rows > _CACHED:
                    far[registers[statement.y]] = self._read[k, 0]
            if k in self._written:
                element = self._elements[id(self._written[k])]
                self._inner.append(f"{element} = {registers[statement.y]};")

    def _index(self, access: Access) -> str:
        """The place along an axis; 32 bits, as wide as a float."""
        terms = self.row.terms(access.outer)
        for name, s in zip(self.names, access.along, strict=True):
            terms += term(name, s, self.given)
        return f"(int32_t)({' + '.join(terms) or 0})"

    def _fetch(self, k: int, place: Access | None, statement: Statement) -> None:
        """Let the memory fetch an element that is read some rounds later.

        The processor has a few of them on their way by itself. A place that is out of range is
        harmless here.
        """
        if place is None or not self.levels or place.along[-1] == ZERO or statement.at is None:
            return
        last = len(self.levels) - 1
        name, alone = self.names[last], not self.axes and not last
        end = "hi" if alone else self.given.number(self.levels[last])
        later = f"({name} + {_AHEAD} < {end} ? {name} + {_AHEAD} : {name})"
        at = term(later, place.along[last], self.given)[0]
        pointer = self._elements[id(place)].partition("[")[0]
        stride, own = self.given.number(statement.at), self._elements[id(self._read[k, 0])]
        size = f"sizeof({own})"
        self._inner.append(
            f"__builtin_prefetch((void *)((uintptr_t)&{own} + "
            f"(uintptr_t){pointer}[{at}] * {stride} * {size}));"
        )

    def _far(self, k: int, index: str, statement: Statement) -> str:
        """An element of a statement's first input whose place along an axis is the second one."""
        assert statement.at is not None
        stride = self.given.number(statement.at)
        own, place = self._read[k, 0], self._read.get((k, 1))
        element = self._elements[id(own)]
        if place is None or not self.levels or place.along[-1] != ZERO:
            if statement.number is not None:
                raise Unfit("places in two values within a row")
            return f"{element[:-1]} + {index} * {stride}]"
        # the same place in the whole innermost loop: found before it
        name, last = self.given.fresh("g"), len(self.levels) - 1
        pointer, _, rest = element.partition("[")
        index = self._elements[id(place)]
        row = f"{pointer} + {index} * {stride}"
        if statement.number is not None:
            n, more = self.given.number(statement.number), self._elements[id(self._read[k, 2])]
            beyond, _, same = more.partition("[")
            if same != rest:
                raise Unfit("places in two values of other strides")
            row = f"{index} < {n} ? {row} : {beyond} + ({index} - {n}) * {stride}"
        self._pre[last].append(f"const {C_TYPES[own.kind]} *restrict {name} = {row};")
        return f"{name}[{rest}"

    def _let(self, kind: int, text: str) -> str:
        """The name of a value in the innermost loop."""
        name = self.given.fresh("v")
        self._inner.append(f"const {C_TYPES[kind]} {name} = {text};")
        return name

    # reductions

    def _reduce(self, statement: Statement, text: str, access: Access, k: int) -> None:
        """Reduce a value: the innermost levels to a register, others in an array."""
        how, kind = statement.how, access.kind
        wide = DOUBLE if how in _SUMS else kind
        count = len(self.levels)
        reduced = [s == ZERO for s in access.along]
        first = count
        while first and reduced[first - 1]:
            first -= 1
        alone = not self.axes
        over_rows = reduced[0] if alone else statement.along[self.axes[0]] == ZERO
        if not count and not over_rows:
            self._inner.append(f"*({self._place(access, 0)}) = {text};")
            return
        folded = [s for s, r in zip(self.levels, reduced, strict=True) if r]
        total = product(*folded, *(self.row.extents if over_rows and not alone else ()))
        value = text
        if first < count:
            value = self._register(how, wide, text, first)
        after = self._post[first] if first < count else self._inner
        if not over_rows and not any(reduced[:first]):
            value = self._ended(how, value, total)
            after.append(f"*({self._place(access, first)}) = ({C_TYPES[kind]})({value});")
            return
        outer = 1 if alone else 0  # levels outside of the array
        elements = [s for s, r in zip(self.levels[outer:], reduced[outer:], strict=True) if not r]
        buffer = f"{statement.y}/{'parts' if over_rows else 'row'}"
        self.given.scratch(buffer, product(*elements), wide)
        base, at = self.given.fresh("s"), self.given.fresh("k")
        room = self.given.number(product(*elements))
        begin = [
            f"{C_TYPES[wide]} *const {base} = {self.given.buffer(buffer, wide)} + part * {room};",
            f"for (int64_t {at} = 0; {at} < {room}; {at}++) {base}[{at}] = {_START[how]};",
        ]
        terms, step = [], ONE
        for q in reversed([q for q, r in enumerate(reduced) if not r and q >= outer]):
            terms += term(self.names[q], step, self.given)
            step = product(step, self.levels[q])
        cell = f"{base}[{' + '.join(terms) or 0}]"
        after.append(_folded(how, cell, value))
        if over_rows:
            self.head += begin
            self.partials.append(Partial(statement.y, how, product(*elements), total, buffer))
            return
        self._pre[outer][:0] = begin
        self._row_ends(access, reduced, outer, self._ended(how, cell, total))

    def _register(self, how: str, wide: int, text: str, level: int) -> str:
        """Reduce to a register in the levels from one on; return what it holds after them."""
        name = self.given.fresh("r")
        self._pre[level].append(f"{C_TYPES[wide]} {name} = {_START[how]};")
        if how in _SUMS:
            self._clauses.append(f" reduction(+ : {name})")
            self._inner.append(f"{name} += {text};")
            return name
        value, unordered = self.given.fresh("v"), self.given.fresh("q")
        self._pre[level].append(f"int {unordered} = 0;")
        self._clauses.append(f" reduction({how} : {name}) reduction(| : {unordered})")
        sign = ">" if how == "max" else "<"
        self._inner += [
            f"const {C_TYPES[wide]} {value} = {text};",
            f"{name} = {value} {sign} {name} ? {value} : {name};",
            f"{unordered} |= {value} != {value};",
        ]
        return f"({unordered} ? NAN : {name})"

    def _ended(self, how: str, value: str, count: Size) -> str:
        if how != "mean":
            return value
        number = self.given.number(count)
        return f"{value} / (double)({number} ? {number} : 1)"

    def _row_ends(self, access: Access, reduced: list[bool], outer: int, value: str) -> None:
        """Write what the levels of a row, those from `outer` on, were reduced to."""
        lines, pad = [], ""
        for k, (name, level) in enumerate(zip(self.names, self.levels, strict=True)):
            if k >= outer and not reduced[k]:
                high = self.given.number(level)
                lines.append(f"{pad}for (int64_t {name} = 0; {name} < {high}; {name}++)")
                pad += "  "
        place = self._place(access, len(self.levels))
        lines.append(f"{pad}*({place}) = ({C_TYPES[access.kind]})({value});")
        self._post[outer] += lines


def term(name: str, stride: Size, given: Arguments) -> list[str]:
    """Return an index times its stride, as terms of a sum."""
    if stride == ZERO:
        return []
    return [name if stride == ONE else f"{name} * {given.number(stride)}"]


def _folded(how: str, cell: str, value: str) -> str:
    """The line that adds a value to a cell, or keeps the larger or smaller one; NaN stays."""
    if how in _SUMS:
        return f"{cell} += {value};"
    sign = ">" if how == "max" else "<"
    return f"{cell} = {value} {sign} {cell} || {value} != {value} ? {value} : {cell};"
