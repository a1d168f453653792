"""Groups of operators as custom operators in C."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from onnx import NodeProto

from . import plans
from .arguments import ERRORS
from .functions import Function, function
from .in_place import safe
from .loops import Body
from .operators import BYTES, C_TYPES
from .parts import Source, named, source
from .plans import Plan
from .segments import Segment, pattern, segments
from .sizes import ONE, ZERO, Dims, Size, Values, product, strides
from .steps import Look, Map, Step, Unfit

DOMAIN = "pd.fused"
_TOGETHER = 1024  # buffers of calls that run at once, whose addresses are on the stack
_BYTE = 2  # ONNX's number for uint8, of scratch memory
_ANY = 0  # of values of all types, that an operator waits for
NO_STATES: Mapping[str, str] = MappingProxyType({})


@dataclass
class Library:
    """The source of a program's operators: equal functions and equal groups are there once."""

    functions: dict[str, str] = field(default_factory=dict)  # text -> name
    groups: dict[str, str] = field(default_factory=dict)
    combined: set[str] = field(default_factory=set)  # functions of kernels.c

    def function(self, text: str) -> str:
        """Return the name of a function for its text with @ for the name: that in all libraries."""
        return self.functions.setdefault(text, named("f", text))

    def group(self, text: str) -> str:
        """Return the name of a group for its text with @ for the name."""
        return self.groups.setdefault(text, f"Group{len(self.groups)}")

    def add(self, other: "Library") -> str:
        """Add what another one has; return the name that its last group has here."""
        for text in other.functions:
            self.function(text)
        self.combined |= other.combined
        return [self.group(text) for text in other.groups][-1]

    def kept(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return what `put_back` takes."""
        return dict(self.functions), dict(self.groups)

    def put_back(self, kept: tuple[dict[str, str], dict[str, str]]) -> None:
        """Forget what was added since."""
        self.functions, self.groups = map(dict, kept)

    def source(self) -> Source:
        """Return the whole C source."""
        functions = [text.replace("@", name) for text, name in self.functions.items()]
        combined = sorted(self.combined)
        functions += [f"DEFINE_{name}\n" for name in combined]
        rows = ",\n  ".join(f"{name}_row" for name in self.groups.values())
        table = [f"Rounds {name};" for name in self.functions.values()]
        table += [f"Combine {name};" for name in combined]
        table += [text.replace("@", name) for text, name in self.groups.items()]
        table += [f"static const Row rows[] = {{\n  {rows}}};", f'REGISTER("{DOMAIN}")', ""]
        return source("\n".join(table), functions)


CHECKED = " ?"  # begins, in the name of a group, those of operators whose indices it checks


@dataclass
class Made:
    """A group as an operator: its name, the values that it reads, and those that it writes.

    `scratch` tells that one more output is memory of its own. `checks` are the checked indices, in
    the order in which errors number them. The outputs `written` may have the memory of their
    states; then one or more values that it waits for are its last inputs.
    """

    name: str
    inputs: list[str]
    outputs: list[str]
    has_scratch: bool
    checks: list[str]
    written: list[str] = field(default_factory=list)

    def node(self, name: str, results: Iterable[str], found: Iterable[Step]) -> NodeProto:
        """Return the node of a group of these steps."""
        outputs = list(results)
        outputs += [f"{outputs[0]}/scratch"] if self.has_scratch else []
        inputs = [*self.inputs, self.inputs[0]] if self.written else self.inputs
        owners = {step.y: step.owner for step in found if isinstance(step, Map)}
        name = CHECKED.join([name, *(owners[y] for y in self.checks)])
        return NodeProto(name=name, op_type=self.name, domain=DOMAIN, input=inputs, output=outputs)


@dataclass
class Iteration:
    """A loop around a group.

    `inputs` are the values outside that the loop gives to what the group reads: those that `moved`
    names are the steps' slices, the others the first states. `states` are the new states by the
    old ones. `outputs` are the values outside by those that the group makes, with the sizes of a
    step; those that are `moved` have all steps. `moved` tells whether the last step comes first.
    """

    count: Size
    inputs: dict[str, str]
    states: dict[str, str]
    moved: dict[str, bool]
    outputs: dict[str, tuple[str, Dims]]


def make(
    found: Sequence[Step],
    wanted: Iterable[str],
    values: Values,
    library: Library,
    sources: Mapping[str, str],
    loop: Iteration | None = None,
    states: Mapping[str, str] = NO_STATES,
) -> Made:
    """Return steps as an operator of a library; Unfit if a size is not known from its inputs.

    `sources` are values of the model's inputs by the names of sizes that they have: of those the
    operator reads the shape if its own inputs do not tell a size. With a loop the steps are run as
    often as it says. New values of `states` are written so that they may have the same memory,
    where that is possible.
    """
    body = Body(_readable(found, set(wanted), values), wanted, values)
    if not body.inputs:
        raise Unfit("nothing is read")
    return _Operator(body, library, sources, loop, states).made()


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
    def __init__(
        self,
        body: Body,
        library: Library,
        sources: Mapping[str, str],
        loop: Iteration | None,
        states: Mapping[str, str],
    ):
        self.sources, self.loop = sources, loop
        self.body, self.values, self.library = body, body.values, library
        self.plan = Plan()
        self.outputs = [y for y in body.stored if y in body.wanted]
        self.users: dict[str, set[int]] = {}  # of buffers, the loops that read or write them
        for each in body.loops:
            for s in each.statements:
                for view in (s.written, *(read[0] for read in s.reads if read is not None)):
                    self.users.setdefault(view.buffer, set()).add(id(each))
        self.segments = segments(body.loops)
        asked = {y: x for y, x in states.items() if y in self.outputs}
        self.states = safe(self.segments, asked, self.values)  # by what is written over them
        body.shared = {*self.states, *self.states.values()}
        self.calls = [self._function(s) for s in self.segments]

    def made(self) -> Made:
        body, values, plan = self.body, self.values, self.plan
        rows = {b for call in self.calls for b in call.given.rows}
        kept = [b for b in body.stored if b not in self.outputs and b not in rows]
        self._complete(kept)
        buffers = [*body.inputs, *self.outputs]
        place = {b: k for k, b in enumerate(buffers)}
        used = [b for call in self.calls for b in call.given.buffers]
        checks = list(dict.fromkeys(b for b in used if b.startswith(ERRORS)))
        place |= {b: plans.ERRORS + k for k, b in enumerate(checks)}
        self._sizes()
        calls = [plan.rounds(call.rounds, call.work, call.block) for call in self.calls]
        for b in kept:
            place[b] = plan.place(product(*values.dims(b)), BYTES[values.kind(b)])
        for k, call in zip(calls, self.calls, strict=True):
            for name, own in call.given.scratches.items():
                place[name] = plan.place(own.elements, BYTES[own.kind], k)
        states = self._states(place)
        for k, y in enumerate(self.outputs):
            plan.output(k, self._dims(y))
        has_scratch = plan.places > 0
        if has_scratch:
            plan.memory(len(self.outputs))
        if self.loop is not None:
            moved = [
                (place[x], product(*values.dims(x)), BYTES[values.kind(x)], is_backward)
                for x, is_backward in self.loop.moved.items()
                if x in place
            ]
            plan.repeat(self.loop.count, moved, states)
        for alike in self._batches(set(buffers)):
            self._call([(calls[k], self.calls[k]) for k in alike], place)
        functions = ", ".join(f"(Any *){name}" for name in plan.functions)
        counts = f"{len(body.inputs)}, {len(buffers)}, {plan.counts()}, {len(checks)}"
        waits = bool(self.states)
        kinds = [values.kind(b) for b in buffers] + [_BYTE] * has_scratch
        kinds[len(body.inputs) : len(body.inputs)] = [_ANY] * waits
        shape = f"{len(body.inputs) + waits}, {len(self.outputs) + has_scratch}, @_types"
        text = f"static const int64_t @_plan[] = {{{plan.end()}}};\n"
        text += f"static Any *const @_functions[] = {{{functions}}};\n"
        text += f'static const Group @ = {{"@", @_plan, @_functions, {counts}}};\n'
        text += f"static const unsigned char @_types[] = {{{', '.join(map(str, kinds))}}};\n"
        text += f'#define @_row {{"@", {shape}, run_group, &@, {int(waits)}}}\n'
        given = {} if self.loop is None else self.loop.inputs
        inputs = [given.get(x, x) for x in body.inputs]
        name, noted = self.library.group(text), [b.removeprefix(ERRORS) for b in checks]
        return Made(name, inputs, self.outputs, has_scratch, noted, list(self.states))

    # loops

    def _dims(self, x: str) -> Dims:
        """The sizes of an input or output, of all steps of a loop if it has them."""
        if self.loop is None:
            return self.values.dims(x)
        dims = self.loop.outputs[x][1] if x in self.loop.outputs else self.values.dims(x)
        return (self.loop.count, *dims) if x in self.loop.moved else dims

    def _states(self, place: dict[str, int]) -> list[tuple[int, int, int, Size, int]]:
        """(old, new, other memory for it, elements, bytes of each) of the states of a loop."""
        found = []
        for old, new in () if self.loop is None else self.loop.states.items():
            elements, size = product(*self.values.dims(new)), BYTES[self.values.kind(new)]
            found.append((place[old], place[new], self.plan.place(elements, size), elements, size))
        return found

    # sizes

    def _complete(self, kept: list[str]) -> None:
        """Add inputs that tell sizes which no other input does."""
        needed: list[Size] = [d for b in (*self.outputs, *kept) for d in self.values.dims(b)]
        for call in self.calls:
            needed += [*call.given.sizes, call.rounds, *(s for _, s in call.work)]
            needed += [own.elements for own in call.given.scratches.values()]
            needed += [s for each in call.partials for s in (each.elements, each.count)]
        if self.loop is not None:  # states that the group does not read are copied at least
            asked = [*self.loop.states, *(x for x in self.loop.inputs if x in self.loop.moved)]
            self.body.inputs += [x for x in asked if x not in self.body.inputs]
            needed.append(self.loop.count)
        known = {d for x in self.body.inputs for d in self._dims(x)}
        for name in dict.fromkeys(name for s in needed for name in s[1]):
            if (1, (name,)) not in known:
                if name not in self.sources:
                    raise Unfit(f"size {name}")
                self.body.inputs.append(self.sources[name])
                known.update(self.values.dims(self.sources[name]))

    def _sizes(self) -> None:
        """Read the sizes of the inputs, and check them."""
        inputs = [(k, self._dims(x)) for k, x in enumerate(self.body.inputs)]
        first: list[tuple[int, Dims]] = []
        rest: list[tuple[int, Dims]] = []
        known: set[str] = set()
        for k, dims in inputs:  # those that give names of sizes come first
            fresh = {d[1][0] for d in dims if d[0] == 1 and len(d[1]) == 1} - known
            (first if fresh else rest).append((k, dims))
            known |= fresh
        for k, dims in [*first, *rest]:
            self.plan.shape(k, dims)

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

    def _batches(self, outside: set[str]) -> list[list[int]]:
        """The calls; together those that the threads may run at once.

        They have no memory of their own, and none of them reads or writes what another one writes.
        """
        found: list[list[int]] = []
        places = 0
        used: set[str] = set()
        written: set[str] = set()
        for k, (call, segment) in enumerate(zip(self.calls, self.segments, strict=True)):
            own = set(call.given.buffers)
            makes = {s.written.buffer for loop, _ in segment.loops for s in loop.statements} & own
            own, makes = ({self.states.get(b, b) for b in names} for names in (own, makes))
            is_plain = own <= outside and not call.given.scratches and not call.partials
            apart = own.isdisjoint(written) and makes.isdisjoint(used)
            places += len(call.given.buffers)
            if found and is_plain and apart and used and places < _TOGETHER:
                found[-1].append(k)
            else:
                found.append([k])
                used, written, places = set(), set(), len(call.given.buffers)
            if is_plain:
                used |= own
                written |= makes
        return found

    def _call(self, alike: list[tuple[int, Function]], place: dict[str, int]) -> None:
        rows = []
        for k, call in alike:
            name = self.library.function(call.text)
            rows.append((name, k, [place[b] for b in call.given.buffers], call.given.sizes))
        self.plan.call(rows)
        for k, call in alike:
            for each in call.partials:
                combine = f"combine_{each.how}_{self.values.kind(each.y)}"
                self.library.combined.add(combine)
                y, parts = place[each.y], place[each.buffer]
                self.plan.combine(combine, y, parts, each.elements, k, each.count)


__all__ = ["C_TYPES", "DOMAIN", "Library", "Made", "make"]
