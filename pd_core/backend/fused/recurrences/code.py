"""C of a recurrence: all of its steps on a part of the rows, and the operator around it."""

from collections import defaultdict

from ..operators import BOOL, FLOAT
from .body import Computed, Piece, Product, Recurrence, Stored, c_type

_ALIGNED = 16  # floats, to a multiple of which rows of working memory are rounded
# Rows of a part, at least, and parts, at most: sizes decide, so that any machine has the same ones.
# Fewer rows leave registers of a tile unused: 8 take 1.4 times as long for each as 16.
_ROWS, _PARTS = 12, 64
_ALONE = 1 << 17  # multiplications of all steps, below which other threads are not worth waking


def code(recurrence: Recurrence, backward: dict[str, bool], out_backward: list[bool]) -> str:
    """Return the operator's C, with "@" for its name.

    Its inputs are the initial states, then the keys of `steps`, `rows`, `vectors` and `matrices` of
    the recurrence. `backward` says of each value with steps whether the loop begins at its end,
    `out_backward` the same of each output with steps.
    """
    return _Writer(recurrence, backward, out_backward).text()


def inputs(recurrence: Recurrence) -> list[str]:
    """Return the values that the operator reads after the initial states."""
    r = recurrence
    return [*r.steps, *r.rows, *r.vectors, *r.matrices]


class _Writer:
    def __init__(self, recurrence, backward, out_backward):
        self.r, self.backward, self.out_backward = recurrence, backward, out_backward
        self.number = {key: k + len(recurrence.states) for k, key in enumerate(inputs(recurrence))}
        self.memory: list[tuple[str, str]] = []  # (C name, C of its width) of working memory
        self.products = {p.key: k for k, p in enumerate(recurrence.products)}
        self.last = max([p.level for p in recurrence.products], default=0)
        self.stores: dict[Piece, list[tuple[str, str]]] = defaultdict(list)  # (base, offset)
        self.copies: list[tuple[int, Stored, str, str]] = []  # level, what, base, offset
        self.bases: dict[str, tuple[str, str]] = {}  # of rows: C type, C of the first row's address
        self.temporary: dict[Computed, str] = {}
        self.direct: dict[str, int] = {}  # products whose results are a new state, and its number

    # ---- the plan

    def plan(self):
        r = self.r
        for k, (pieces, width) in enumerate(zip(r.states, r.widths, strict=True)):
            whole = _whole(pieces)
            if (
                whole is not None
                and whole.place == "product"
                and whole.key not in self.direct
                and r.products[self.products[whole.key]].width == width
            ):
                self.direct[whole.key] = k
            else:
                self._store(pieces, f"z{k}", self.last)
            self._working(f"s{k}", f"WHOLE({width})", two=f"z{k}")
        for k, product in enumerate(r.products):
            if product.key not in self.direct:
                self._working(f"p{k}", f"WHOLE({product.width})")
            if self._operand(product) is None:
                self._working(f"q{k}", str(_round(product.depth)))
                self._store(product.pieces, f"q{k}", product.level - 1)
        for k, pieces in enumerate(r.outputs):
            self._store(pieces, f"y{k}", self.last)

    def _working(self, name, width, two=""):
        for each in (name, two) if two else (name,):
            self.memory.append((each, width))
            self.bases[each] = "float", f"{each} + r * {width}"

    def _store(self, pieces, base, level):
        """Let pieces be stored side by side, those that are in memory already by a copy."""
        for piece, start in zip(pieces, _starts(pieces), strict=True):
            if isinstance(piece, Computed):
                self.stores[piece].append((base, str(start)))
            else:
                self.copies.append((level, piece, base, str(start)))

    def _operand(self, product: Product):
        """(C of the address, C of the width) of a product's left operand if it is in memory."""
        whole = _whole(product.pieces)
        if whole is None or whole.place not in ("state", "step", "rows"):
            return None
        if whole.place == "state":
            k = self.r.keys.index(whole.key)
            width, found = self.r.widths[k], (f"s{k}", f"WHOLE({self.r.widths[k]})")
        else:
            width = (self.r.steps if whole.place == "step" else self.r.rows)[whole.key][0]
            found = self._outer(whole).replace("+ r", "+ 0"), str(width)
        return found if width == product.depth else None

    def _outer(self, p):
        """C of the address of row r of a value from outside, in step t or, backward, u."""
        k = self.number[p.key]
        if p.place == "vector":
            return f"a->x{k}"
        width = (self.r.steps if p.place == "step" else self.r.rows)[p.key][0]
        if p.place == "rows":
            return f"a->x{k} + (lo + r) * {width}"
        return f"a->x{k} + ({'u' if self.backward[p.key] else 't'} * B + lo + r) * {width}"

    def _base(self, p):
        """The name of the memory of a piece that is stored, whose rows are given by `bases`."""
        if p.place == "state":
            return f"s{self.r.keys.index(p.key)}"
        if p.place == "product":
            k = self.products[p.key]
            return f"z{self.direct[p.key]}" if p.key in self.direct else f"p{k}"
        name = f"i{self.number[p.key]}"
        self.bases[name] = c_type(p.kind), self._outer(p)
        return name

    # ---- the loops

    def loops(self):
        """The loops over columns: (level, width) -> what is computed and copied there."""
        computed, pending = set(), list(self.stores)
        while pending:
            piece = pending.pop()
            if isinstance(piece, Computed) and piece not in computed:
                computed.add(piece)
                pending += [p for p in piece.operands if not isinstance(p, str)]
        found: defaultdict[tuple[int, int], tuple[list, list]] = defaultdict(lambda: ([], []))
        for c in sorted(computed, key=lambda c: c.number):
            found[c.level, c.width][0].append(c)
            for p in c.operands:
                if isinstance(p, Computed) and (p.level, p.width) != (c.level, c.width):
                    self._keep(p)
        for level, piece, base, offset in self.copies:
            found[level, piece.width][1].append((piece, base, offset))
        return found

    def _keep(self, p):
        if p not in self.temporary:
            name = f"b{len(self.temporary)}"
            self.temporary[p] = name
            self._working(name, str(_round(p.width)))
            kind = c_type(p.kind)
            if p.kind == BOOL:
                self.bases[name] = kind, f"(uint8_t *)({self.bases[name][1]})"
            self.stores[p].append((name, "0"))

    def loop(self, width, computed, copies):
        """C of one loop over the columns of all rows."""
        head, lines = {}, []
        names: dict[Piece, str] = {}

        def address(base, const):
            kind, first = self.bases[base]
            name = f"r_{base}"
            head[name] = f"{'const ' if const else ''}{kind} *restrict {name} = {first};"
            return name

        def value(p):
            if isinstance(p, str):
                return p
            if p not in names:
                names[p] = f"v{len(names)}"
                if isinstance(p, Computed):
                    base, offset = self.temporary[p], 0
                else:
                    base, offset = self._base(p), p.offset
                name = address(base, True)
                read = f"const {c_type(p.kind)} {names[p]} = {name}"
                if p.width == 1:
                    head[names[p]] = f"{read}[{offset}];"
                else:
                    lines.append(f"{read}[{offset} + j];" if offset else f"{read}[j];")
            return names[p]

        def store(base, offset, name):
            place = "j" if offset == "0" else f"{offset} + j"
            lines.append(f"{address(base, False)}[{place}] = {name};")

        for c in computed:
            text = c.text.format(*[value(p) for p in c.operands])
            names[c] = f"v{len(names)}"
            lines.append(f"const {c_type(c.kind)} {names[c]} = {text};")
            for base, offset in self.stores.get(c, ()):
                store(base, offset, names[c])
        for piece, base, offset in copies:
            store(base, offset, value(piece))
        rows = [
            "    for (int64_t r = 0; r < n; r++) {",
            *(f"      {line}" for line in head.values()),
        ]
        if width > 1:
            rows += ["#pragma omp simd", f"      for (int64_t j = 0; j < {width}; j++) {{"]
        else:
            rows += ["      { const int64_t j = 0;"]
        rows += [f"        {line}" for line in lines]
        return [*rows, "      }", "    }"]

    def body(self):
        found, lines = self.loops(), []
        for level in range(self.last + 1):
            lines += [
                line
                for k, p in enumerate(self.r.products)
                if p.level == level
                for line in self._multiply(k, p)
            ]
            for width in sorted(w for at, w in found if at == level):
                lines += self.loop(width, *found[level, width])
        return lines

    def _multiply(self, k, p):
        x, width = self._operand(p) or (f"q{k}", str(_round(p.depth)))
        y = f"z{self.direct[p.key]}" if p.key in self.direct else f"p{k}"
        m = self.number[p.matrix]
        return [
            f"    multiply(n, {x}, {width}, a->m{m}, {p.depth}, {p.width}, {y}, WHOLE({p.width}));"
        ]

    # ---- the operator

    def text(self):
        r = self.r
        self.plan()
        for k, pieces in enumerate(r.outputs):
            kind, width = c_type(pieces[0].kind), sum(p.width for p in pieces)
            t = "u" if self.out_backward[k] else "t"
            self.bases[f"y{k}"] = kind, f"a->y{k} + ({t} * B + lo + r) * {width}"
        body = self.body()
        total = " + ".join(f"{width}" for _, width in self.memory) or "0"
        lines = [self._struct(), "static void @_part(void *p, size_t part) {"]
        lines += [
            "  const struct @ *restrict a = p;",
            "  const int64_t T = a->T, B = a->B, lo = (int64_t)part * a->step;",
            "  const int64_t n = B - lo < a->step ? B - lo : a->step;",
            "  float *w = (float *)(a->memory + part * a->each);",
        ]
        for name, width in self.memory:
            lines.append(f"  float *{name} = w; w += a->step * ({width});")
        for k, width in enumerate(r.widths):
            to = f"s{k}, WHOLE({width})"
            lines.append(f"  copy_rows({to}, a->x{k} + lo * {width}, {width}, {width}, n);")
        lines.append("  for (int64_t t = 0; t < T; t++) {")
        if any("u *" in line for line in body):
            lines.append("    const int64_t u = T - 1 - t;")
        lines += body
        for k in range(len(r.widths)):
            lines.append(f"    {{ float *const old = s{k}; s{k} = z{k}; z{k} = old; }}")
        lines.append("  }")
        for k, width in enumerate(r.widths):
            lines.append(
                f"  copy_rows(a->f{k} + lo * {width}, {width}, s{k}, WHOLE({width}), {width}, n);"
            )
        lines += ["}", *self._run(total)]
        return "\n".join(lines) + "\n"

    def _struct(self):
        r = self.r
        fields = [f"const float *x{k};" for k in range(len(r.states))]
        for values in (r.steps, r.rows, r.vectors):
            fields += [
                f"const {c_type(kind)} *x{self.number[x]};" for x, (_, kind) in values.items()
            ]
        fields += [f"const float *x{self.number[x]}; float *m{self.number[x]};" for x in r.matrices]
        fields += [f"float *f{k};" for k in range(len(r.states))]
        fields += [f"{c_type(pieces[0].kind)} *y{k};" for k, pieces in enumerate(r.outputs)]
        return (
            "struct @ {\n  int64_t T, B, step;\n  size_t each;\n  char *memory;\n  "
            + "\n  ".join(fields)
            + "\n};"
        )

    def _run(self, total):
        r = self.r
        lines = ["__attribute__((weak)) Status *@_run(void *state, Context *context) {"]
        lines += ["  struct @ s, *a = &s;", "  (void)state;", "  a->T = a->B = -1;"]
        lines += [f"  int64_t n{w} = {w};" for w in sorted(set(self._fixed()))]
        checks: list[tuple[int, tuple[str, ...]]]
        checks = [(k, ("&a->B", f"&n{w}")) for k, w in enumerate(r.widths)]
        for x, (w, _) in r.steps.items():
            columns = () if x in r.flat else (f"&n{w}",)
            checks.append((self.number[x], ("&a->T", "&a->B", *columns)))
        checks += [(self.number[x], ("&a->B", f"&n{w}")) for x, (w, _) in r.rows.items()]
        checks += [(self.number[x], (f"&n{d}", f"&n{w}")) for x, (d, w) in r.matrices.items()]
        for k, where in checks:
            each = ", ".join(where)
            lines.append(f"  TRY(expect(context, {k}, {len(where)}, (int64_t *[]){{{each}}}));")
        for x, (w, _) in r.vectors.items():
            lines.append(f"  TRY(expect_count(context, {self.number[x]}, {w}));")
        for k in range(len(r.states) + len(self.number)):
            lines.append(f"  TRY(input(context, {k}, (const void **)&a->x{k}));")
        count = len(r.states)
        for k, w in enumerate(r.widths):
            dims = f"(int64_t[]){{a->B, {w}}}, 2"
            lines.append(f"  TRY(output(context, {k}, {dims}, (void **)&a->f{k}));")
        for k, pieces in enumerate(r.outputs):
            dims = f"(int64_t[]){{a->T, a->B, {sum(p.width for p in pieces)}}}, 3"
            lines.append(f"  TRY(output(context, {count + k}, {dims}, (void **)&a->y{k}));")
        work = sum(p.depth * p.width for p in r.products) or sum(r.widths) * 8
        lines += [
            "  if (!a->B) return 0;",
            "  int64_t wanted = 1; /* a power of two, which most numbers of cores divide evenly */",
            f"  if ((double)a->T * (double)a->B * {work} >= {_ALONE})",
            f"    while (wanted < {_PARTS} && wanted * {2 * _ROWS} <= a->B) wanted *= 2;",
            "  a->step = (a->B + wanted - 1) / wanted;",
            "  const size_t parts = (size_t)((a->B + a->step - 1) / a->step);",
            f"  a->each = 4 * (size_t)a->step * ({total});",
            "  size_t bytes = parts * a->each;",
        ]
        for x, (d, w) in r.matrices.items():
            k = self.number[x]
            lines.append(f"  const size_t at{k} = bytes; bytes += 4 * (size_t){d} * WHOLE({w});")
        lines += ["  void *memory;", "  TRY(reserve(bytes, &memory, &a->memory));"]
        for x, (d, w) in r.matrices.items():
            k = self.number[x]
            lines.append(f"  a->m{k} = (float *)(a->memory + at{k});")
            lines.append(f"  if (a->T) pack(a->m{k}, a->x{k}, {d}, {w}, 0, {w});")
        lines += [
            "  Status *status = parallel(context, @_part, parts, a);",
            "  free(memory);",
            "  return status;",
            "}",
        ]
        return lines

    def _fixed(self):
        r = self.r
        yield from r.widths
        for values in (r.steps, r.rows):
            yield from (w for w, _ in values.values())
        for d, w in r.matrices.values():
            yield from (d, w)

    def types(self):
        """ONNX's numbers of the element types of inputs and outputs."""
        r = self.r
        kinds = [FLOAT] * len(r.states)
        for values in (r.steps, r.rows, r.vectors):
            kinds += [kind for _, kind in values.values()]
        kinds += [FLOAT] * len(r.matrices) + [FLOAT] * len(r.states)
        return kinds + [pieces[0].kind for pieces in r.outputs]


def types(recurrence: Recurrence) -> list[int]:
    """Return ONNX's numbers of the element types of the operator's inputs, then of its outputs."""
    return _Writer(recurrence, {}, []).types()


def _whole(pieces):
    """The first piece of a value whose first columns the pieces are, in order; None otherwise."""
    first = pieces[0]
    for piece, start in zip(pieces, _starts(pieces), strict=True):
        if not isinstance(piece, Stored) or piece.offset != start:
            return None
        if (piece.place, piece.key) != (first.place, first.key):
            return None
    return first


def _starts(pieces):
    starts = [0]
    for p in pieces[:-1]:
        starts.append(starts[-1] + p.width)
    return starts


def _round(width):
    return -(-width // _ALIGNED) * _ALIGNED
