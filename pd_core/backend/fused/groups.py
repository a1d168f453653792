"""Groups of operators as custom operators in C."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from onnx import NodeProto

from .arguments import ERRORS
from .functions import Function, function
from .loops import Body
from .operators import BYTES, C_TYPES
from .segments import Segment, pattern, segments
from .sizes import ONE, ZERO, Dims, Size, Values, product, strides
from .steps import Look, Map, Step, Unfit

DOMAIN = "pd.fused"
_TABLE = 1024  # buffers of the loops of a table, whose addresses are on the stack
_BYTE = 2  # ONNX's number for uint8, of scratch memory


@dataclass
class Library:
    """The source of a program's operators: equal functions and equal groups are there once."""

    functions: dict[str, str] = field(default_factory=dict)  # text -> name
    groups: dict[str, str] = field(default_factory=dict)

    def name(self, texts: dict[str, str], text: str, letter: str) -> str:
        """Return the name of a text with @ for it."""
        return texts.setdefault(text, f"{letter}{len(texts)}")

    def kept(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return what `put_back` takes."""
        return dict(self.functions), dict(self.groups)

    def put_back(self, kept: tuple[dict[str, str], dict[str, str]]) -> None:
        """Forget what was added since."""
        self.functions, self.groups = map(dict, kept)

    def source(self, prelude: str) -> str:
        """Return the whole C source."""
        texts = [
            (text, name) for all_ in (self.functions, self.groups) for text, name in all_.items()
        ]
        rows = [f"{name}_row" for name in self.groups.values()]
        table = "static Op ops[] = {" + ", ".join(rows) + "};"
        parts = [prelude, *(text.replace("@", name) for text, name in texts), table]
        return "\n".join([*parts, f'REGISTER("{DOMAIN}")', ""])


@dataclass
class Made:
    """A group as an operator: its name, the values that it reads, and those that it writes.

    `scratch` tells that one more output is memory of its own.
    """

    name: str
    inputs: list[str]
    outputs: list[str]
    has_scratch: bool

    def node(self, name: str, results: Iterable[str]) -> NodeProto:
        """Return the node."""
        outputs = list(results)
        outputs += [f"{outputs[0]}/scratch"] if self.has_scratch else []
        return NodeProto(
            name=name, op_type=self.name, domain=DOMAIN, input=self.inputs, output=outputs
        )


def make(
    found: Sequence[Step],
    wanted: Iterable[str],
    values: Values,
    library: Library,
    sources: Mapping[str, str],
) -> Made:
    """Return steps as an operator of a library; Unfit if a size is not known from its inputs.

    `sources` are values of the model's inputs by the names of sizes that they have: of those the
    operator reads the shape if its own inputs do not tell a size.
    """
    body = Body(_readable(found, set(wanted), values), wanted, values)
    if not body.inputs:
        raise Unfit("nothing is read")
    return _Operator(body, library, sources).made()


def _readable(found, wanted, values):
    """The steps with a copy for each view that others read."""
    result: list[Step] = []
    for step in found:
        if isinstance(step, Look) and step.y in wanted:
            name = f"{step.y}/view"
            values.add(name, values.kind(step.y), values.dims(step.y))
            result.append(Look(name, step.x, step.how, step.axes, step.start, step.step))
            result.append(Map(step.y, "{0}", [name]))
        else:
            result.append(step)
    return result


class _Operator:
    def __init__(self, body: Body, library: Library, sources: Mapping[str, str]):
        self.sources = sources
        self.body, self.values, self.library = body, body.values, library
        self.names: dict[str, str] = {}  # of sizes
        self.tables: list[str] = []
        self.outputs = [y for y in body.stored if y in body.wanted]
        self.users: dict[str, set[int]] = {}  # of buffers, the loops that read or write them
        for loop in body.loops:
            for s in loop.statements:
                for view in (s.written, *(read[0] for read in s.reads if read is not None)):
                    self.users.setdefault(view.buffer, set()).add(id(loop))
        self.segments = segments(body.loops)
        self.calls = [self._function(s) for s in self.segments]

    def made(self) -> Made:
        body, values = self.body, self.values
        rows = {b for call in self.calls for b in call.given.rows}
        kept = [b for b in body.stored if b not in self.outputs and b not in rows]
        self._complete(kept)
        buffers = [*body.inputs, *self.outputs]
        place = {b: f"b[{k}]" for k, b in enumerate(buffers)} | {ERRORS: "&bad"}
        checks = any(ERRORS in call.given.buffers for call in self.calls)
        sizes = self._sizes()
        scratch = [(b, self._bytes(b)) for b in kept]
        lines, rounds = [], []
        batches = self._batches(set(buffers))
        single = {alike[0] for alike in batches if len(alike) == 1}
        for k, call in enumerate(self.calls):
            rounds += self._rounds(k, call) if k in single else []
            for name, own in call.given.scratches.items():
                text = f"{self._size(own.elements)} * {BYTES[own.kind]} * q{k}"
                scratch.append((name, text))
        offsets = ["int64_t total = 0;"] if scratch else []
        for j, (name, text) in enumerate(scratch):
            offsets.append(f"const int64_t o{j} = total; total += ALIGNED({text});")
            place[name] = f"(char *)b[{len(buffers)}] + o{j}"
        tables: list[str] = []
        for alike in batches:
            if len(alike) > 1:
                lines.append(self._table(alike, buffers, tables))
                continue
            (k,) = alike
            lines += self._call(k, self.calls[k], place)
            if ERRORS in self.calls[k].given.buffers:
                lines.append('if (bad) return failure("@: an index is out of range");')
        head = [
            f"void *b[{len(buffers) + 1}];",
            "int64_t d[16];",
            "size_t r;",
            "(void)d, (void)r;",
            *(["int32_t bad = 0;"] if checks else []),
            f"for (size_t k = 0; k < {len(body.inputs)}; k++)",
            "  TRY(input(c, k, (const void **)&b[k]));",
            *sizes,
            *rounds,
            *offsets,
        ]
        fixed = []
        for k, y in enumerate(self.outputs):
            rank = len(values.dims(y))
            if all(not names for _, names in values.dims(y)):
                fixed += [k, rank, *(n for n, _ in values.dims(y))]
                continue
            dims = ", ".join(self._size(s) for s in values.dims(y)) or "0"
            head.append(
                f"TRY(output(c, {k}, (int64_t[]){{{dims}}}, {rank}, &b[{len(body.inputs) + k}]));"
            )
        if fixed:
            tables.append(_array("int64_t", "@_outputs", [*fixed, -1]))
            head.append(f"TRY(fixed_outputs(c, @_outputs, b + {len(body.inputs)}));")
        tables += self.tables
        if scratch:
            k = len(self.outputs)
            head.append(f"TRY(output(c, {k}, (int64_t[]){{total}}, 1, &b[{len(buffers)}]));")
        text = "".join(f"{table}\n" for table in tables)
        text += "__attribute__((cold)) static Status *@(void *none, Context *c) {\n  (void)none;\n"
        text += "".join(f"  {line}\n" for line in [*head, *lines, "return 0;"]) + "}\n"
        kinds = [values.kind(b) for b in buffers] + [_BYTE] * bool(scratch)
        outputs = len(self.outputs) + bool(scratch)
        text += f"static const unsigned char @_types[] = {{{', '.join(map(str, kinds))}}};\n"
        text += f'#define @_row OPERATOR("@", {len(body.inputs)}, {outputs}, @_types, 0, 0, @)\n'
        name = self.library.name(self.library.groups, text, "Group")
        return Made(name, body.inputs, self.outputs, bool(scratch))

    # sizes

    def _size(self, s: Size) -> str:
        """A size in C, of the names that are read from the inputs."""
        for name in s[1]:
            if name not in self.names:
                raise Unfit(f"size {name}")
        factors = [str(s[0])] if s[0] != 1 or not s[1] else []
        return " * ".join([*factors, *(self.names[name] for name in s[1])])

    def _complete(self, kept: list[str]) -> None:
        """Add inputs that tell sizes which no other input does."""
        needed: list[Size] = [d for b in (*self.outputs, *kept) for d in self.values.dims(b)]
        for call in self.calls:
            needed += [*call.given.sizes, call.rounds, *(s for _, s in call.work)]
            needed += [own.elements for own in call.given.scratches.values()]
            needed += [s for each in call.partials for s in (each.elements, each.count)]
        known = {d for x in self.body.inputs for d in self.values.dims(x)}
        for name in dict.fromkeys(name for s in needed for name in s[1]):
            if (1, (name,)) not in known:
                if name not in self.sources:
                    raise Unfit(f"size {name}")
                self.body.inputs.append(self.sources[name])
                known.update(self.values.dims(self.sources[name]))

    def _bytes(self, b: str) -> str:
        return f"{self._size(product(*self.values.dims(b)))} * {BYTES[self.values.kind(b)]}"

    def _sizes(self) -> list[str]:
        """The lines that read the sizes of the inputs, and check them."""
        inputs = [(k, self.values.dims(x)) for k, x in enumerate(self.body.inputs)]
        first: list[tuple[int, Dims]] = []
        rest: list[tuple[int, Dims]] = []
        lines: list[str] = []
        known: set[str] = set()
        for k, dims in inputs:  # those that give names of sizes come first
            fresh = {d[1][0] for d in dims if d[0] == 1 and len(d[1]) == 1} - known
            (first if fresh else rest).append((k, dims))
            known |= fresh
        fixed = []
        for k, dims in [*first, *rest]:
            if all(not names for _, names in dims):
                fixed += [k, len(dims), *(n for n, _ in dims)]
                continue
            lines.append(f"TRY(shape(c, {k}, d, 16, &r));")
            tests = [f"r != {len(dims)}"]
            for axis, d in enumerate(dims):
                if d[0] == 1 and len(d[1]) == 1 and d[1][0] not in self.names:
                    self.names[d[1][0]] = name = f"m{len(self.names)}"
                    lines.append(f"const int64_t {name} = r > {axis} ? d[{axis}] : 0;")
                else:
                    tests.append(f"d[{axis}] != {self._size(d)}")
            lines.append(f'if ({" || ".join(tests)}) return wrong_sizes("@", {k});')
        if fixed:
            self.tables.append(_array("int64_t", "@_inputs", [*fixed, -1]))
            lines.append('TRY(fixed_sizes(c, "@", @_inputs));')
        return lines

    # segments

    def _function(self, segment: Segment) -> Function:
        return function(self.body, segment, self._rows(segment))

    def _rows(self, segment: Segment) -> dict[str, Size]:
        """The buffers that only the rows of a segment use, each its own row."""
        if not segment.extents:
            return {}
        extents = segment.extents
        found: dict[str, bool] = {}
        inside = {id(loop) for loop, _ in segment.loops}
        for loop, shared in segment.loops:
            for s in loop.statements:
                for view, along in [*filter(None, s.reads), (s.written, s.along)]:
                    b = view.buffer
                    if b in self.body.made and b in self.body.stored:
                        offset, own, _ = pattern(view, along, loop, shared)
                        dims = self.values.dims(b)
                        axes = [k for k, d in enumerate(dims) if d != ONE][: len(extents)]
                        leads = tuple([dims[k] for k in axes]) == extents and not offset
                        leads = leads and own == tuple([strides(dims)[k] for k in axes])
                        found[b] = found.get(b, True) and leads and ZERO not in own
        for b in list(found):
            if not self.users[b] <= inside:
                del found[b]
        rows = {}
        for b, is_row in found.items():
            if is_row and b not in self.body.wanted:
                dims = self.values.dims(b)
                last = [k for k, d in enumerate(dims) if d != ONE][len(extents) - 1]
                rows[b] = strides(dims)[last]
        return rows

    def _rounds(self, k: int, call: Function) -> list[str]:
        work = " + ".join(
            f"{cost / 4:g} * {self._size(s).replace(' * ', ' * (double)')}" for cost, s in call.work
        )
        return [
            f"const int64_t c{k} = {self._size(call.rounds)};",
            f"const int64_t t{k} = step_of(c{k}, {work}, {call.block});",
            f"const int64_t q{k} = parts_of(c{k}, t{k});",
        ]

    def _batches(self, outside: set[str]) -> list[list[int]]:
        """The calls; together those that a table may list.

        Their sizes are fixed, they have no memory of their own, and none of them reads or writes
        what another one writes.
        """
        found: list[list[int]] = []
        places = 0
        used: set[str] = set()
        written: set[str] = set()
        for k, (call, segment) in enumerate(zip(self.calls, self.segments, strict=True)):
            own = set(call.given.buffers)
            makes = {s.written.buffer for loop, _ in segment.loops for s in loop.statements} & own
            sizes = [*call.given.sizes, call.rounds, *(s for _, s in call.work)]
            is_plain = not any(names for _, names in sizes) and own <= outside
            is_plain = is_plain and not call.given.scratches and not call.partials
            apart = own.isdisjoint(written) and makes.isdisjoint(used)
            places += len(call.given.buffers)
            if found and is_plain and apart and used and places < _TABLE:
                found[-1].append(k)
            else:
                found.append([k])
                used, written, places = set(), set(), len(call.given.buffers)
            if is_plain:
                used |= own
                written |= makes
        return found

    def _table(self, alike: list[int], buffers: list[str], tables: list[str]) -> str:
        """The line that runs calls from a table, which is added to the others."""
        rows: list[str] = []
        places: list[int] = []
        numbers: list[int] = []
        for k in alike:
            call = self.calls[k]
            name = self.library.name(self.library.functions, call.text, "f")
            work = sum(cost / 4 * s[0] for cost, s in call.work)
            count = call.rounds[0]
            rows.append(
                f"{{{name}, {count}, {call.block}, {work:g}, {len(places)}, {len(numbers)}}}"
            )
            places += [buffers.index(b) for b in call.given.buffers]
            numbers += [s[0] for s in call.given.sizes]
        n = len(tables)
        tables.append(_array("Row", f"@_rows{n}", rows))
        tables.append(_array("uint16_t", f"@_places{n}", places))
        tables.append(_array("int64_t", f"@_numbers{n}", numbers or [0]))
        given = f"@_rows{n}, {len(rows)}, @_places{n}, {len(places)}, @_numbers{n}, b"
        return f"TRY(spread_rows(c, {given}));"

    def _call(self, k: int, call: Function, place: dict[str, str]) -> list[str]:
        name = self.library.name(self.library.functions, call.text, "f")
        buffers = ", ".join(place[b] for b in call.given.buffers) or "0"
        sizes = ", ".join(self._size(s) for s in call.given.sizes) or "0"
        lines = [
            "{",
            f"  void *const p[] = {{{buffers}}};",
            f"  const int64_t n[] = {{{sizes}}};",
            f"  TRY(spread(c, {name}, p, n, c{k}, t{k}));",
            "}",
        ]
        for each in call.partials:
            kind = self.values.kind(each.y)
            arguments = [f"(void *)({place[b]})" for b in (each.y, each.buffer)]
            arguments.append(self._size(each.elements))
            arguments += [f"q{k}", self._size(each.count)]
            lines.append(f"combine_{each.how}_{kind}({', '.join(arguments)});")
        return lines


def _array(c_type: str, name: str, items: Sequence[object]) -> str:
    """The declaration of a constant array."""
    return f"static const {c_type} {name}[] = {{{', '.join(map(str, items))}}};"


__all__ = ["C_TYPES", "DOMAIN", "Library", "Made", "make"]
