"""Operators as steps: elementwise expressions, reductions, small products, views.

A step is what the writer of loops knows; composed operators such as softmax are several.
"""

from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field

import numpy as np
from onnx import NodeProto, TensorProto

from . import operators
from .operators import FLOAT, FLOATS, INTS
from .sizes import ONE, Dims, Size, Values, estimate, product, summed

SMALL = 1 << 15  # multiplications of one of a batch of products, up to which it may be in a group
_WIDE = 256  # columns of such a product
ROOM = 1 << 13  # elements of its second matrix, which may be copied to the stack
FEW = 8  # rows of a product with one matrix of any size, which takes as long as reading the matrix
_DEEP = 1 << 16  # of whose columns so many elements may be summed
_COUNTED = 1 << 24  # elements whose places are exact as float32
_TRANSPOSED = 1 << 15  # elements of a matrix that is read across its rows


class Unfit(Exception):
    """There is no code for a node in a group."""

    def __init__(self, why: str, node: NodeProto | None = None):
        super().__init__(why)
        self.node = node


@dataclass
class Map:
    """y[i] = text of inputs[i], broadcast."""

    y: str
    text: str
    inputs: list[str]
    number: Size | None = None  # what {n} in the text stands for
    axis: int | None = None  # along which {i} in the text is the place of the element
    is_plain: bool = False  # no vectors of it: it may note an error
    # the axis of the first input, whose place there is the second input; if that is beyond {n}, it
    # counts on in the third
    at: int | None = None
    owner: str = ""  # of a check, the name of the node whose index it is


@dataclass
class Reduce:
    """y = the sum, mean, maximum or minimum of x along axes."""

    y: str
    how: str
    x: str
    axes: list[int]


@dataclass
class Product:
    """y = alpha a b, of the last two axes, either transposed or not."""

    y: str
    a: str
    b: str
    transposed: tuple[bool, bool]
    alpha: float = 1.0


@dataclass
class Look:
    """y is a view of x: the same elements reshaped, transposed, broadcast, or a part of them."""

    y: str
    x: str
    how: str  # "reshape", "transpose", "expand", "part"
    axes: list[int] = field(default_factory=list)  # of a transpose; (axis,) of a part
    start: int = 0
    step: int = 1


@dataclass
class Join:
    """y = the inputs one behind the other along an axis."""

    y: str
    inputs: list[str]
    axis: int


Step = Map | Reduce | Product | Look | Join


def steps(node: NodeProto, values: Values) -> list[Step]:
    """Return a node as steps; Unfit where there is no code for it.

    Values between its steps are added to `values` under names of their own.
    """
    op, allowed = node.op_type, ("", "com.microsoft")
    names = [x for x in node.input if x]
    if node.domain not in allowed or not names or not node.output or not node.output[0]:
        raise Unfit("another domain")
    read = names[:1] if op in operators.VIEWS | operators.REDUCTIONS | {"Pow"} else names
    if any(x not in values for x in (*read, *filter(None, node.output))):
        raise Unfit("an unknown type")
    for x in (*read, *filter(None, node.output)):
        if values.kind(x) not in operators.C_TYPES:
            raise Unfit("an element type")
        if (0, ()) in values.dims(x):
            raise Unfit("no elements")
    if op in operators.ELEMENTWISE:
        return [_elementwise(node, names, values)]
    if op in operators.VIEWS:
        return _look(node, values)
    if op in operators.REDUCTIONS:
        return [_reduction(node, values)]
    if op in ("ArgMax", "ArgMin"):
        return _place_of_best(node, values)
    if op in ("MatMul", "FusedMatMul"):
        return _product(node, values)
    if op in ("GatherElements", "Gather"):
        return _gather(node, values)
    if op == "ScatterElements":
        return _scatter(node, values)
    if op in ("Shape", "Size"):
        return [_sizes(node, values)]
    if op == "Concat":
        return [_join(node, names, values)]
    if op in ("Softmax", "LogSoftmax"):
        return _softmax(node, values)
    if op == "LayerNormalization":
        return _layer_norm(node, values)
    raise Unfit("an operator")


def merged(found: list[Step], wanted: Container[str], values: Values) -> list[Step]:
    """Return steps with sums of sums as one: of the rows of a matrix, and then of its columns.

    A sum divided by the number of its elements is a mean here, and means of means are one, too.
    """
    makers = {step.y: step for step in found}
    readers = Counter(x for step in found for x in read_by(step))
    result = []
    for step in found:
        if isinstance(step, Reduce) and step.how in ("sum", "mean"):
            inner, how = makers.get(step.x), "sum"
            count: Size | None = None
            while isinstance(inner, Look | Map) and readers[inner.y] == 1 and inner.y not in wanted:
                if isinstance(inner, Map):
                    if inner.text != "{0} / {1}" or how == "mean":
                        break
                    divisor = values.scalar(inner.inputs[1])
                    if divisor is None or inner.inputs[1] in makers:
                        break
                    how, count = "mean", (int(divisor), ())
                    inner = makers.get(inner.inputs[0])
                elif inner.how == "reshape":
                    inner = makers.get(inner.x)
                else:
                    break
            if isinstance(inner, Reduce) and inner.how == "sum" and (step.how == "sum" or count):
                result += _sum_of_all(step, inner, count, readers, wanted, values, makers)
                continue
        result.append(step)
    return result


def _sum_of_all(step, inner, count, readers, wanted, values, makers):
    """The steps of a sum of a sum, or mean, as one; the step as it is if that cannot be."""
    rank = len(inner.axes)
    x, last = inner.x, values.dims(step.x)
    lead = values.dims(x)[:rank]
    if count is not None and product(*lead) != count:
        return [step]
    if readers[inner.y] != 1 or inner.y in wanted or inner.axes != list(range(rank)):
        return [step]
    if product(*values.dims(x)) != product(*lead, *last):
        return [step]
    while isinstance(view := makers.get(x), Look) and view.how == "reshape":
        x = view.x
    name, y = f"{step.y}/all", step.y
    values.add(name, values.kind(x), (*lead, *last))
    axes = [*range(rank), *(rank + k for k in step.axes)]
    if step.how == "sum" and count is not None:  # of means
        y = f"{step.y}/total"
        values.add(y, values.kind(step.y), values.dims(step.y))
    whole = Reduce(y, step.how, name, axes)
    makers[y] = whole
    view = Look(name, x, "reshape")
    if y == step.y:
        return [view, whole]
    number = np.float32(count[0]) if values.kind(y) == FLOAT else np.float64(count[0])
    return [view, whole, Map(step.y, f"{{0}} / {operators.literal(number)}", [y])]


def picked(found: list[Step], wanted: Container[str], values: Values) -> list[Step]:
    """Return steps with rows picked from two values, in place of from one behind the other."""
    makers = {step.y: step for step in found}
    result: list[Step] = []
    copies: dict[str, str] = {}
    for step in found:
        if isinstance(step, Map) and step.at == 0 and step.text == "{0}":
            join = makers.get(step.inputs[0])
            dims = values.dims(step.inputs[0])
            if isinstance(join, Join) and (join.axis, len(join.inputs)) == (0, 2):
                x, more = join.inputs
                if product(*dims[1:]) != ONE and join.y not in wanted:
                    if more not in copies:
                        copies[more] = f"{more}/rows"
                        values.add(copies[more], values.kind(more), values.dims(more))
                        result.append(Map(copies[more], "{0}", [more]))
                    inputs = [x, step.inputs[1], copies[more]]
                    result.append(Map(step.y, "{0}", inputs, values.dims(x)[0], at=0))
                    continue
        result.append(step)
    return result


def late(found: list[Step], wanted: Container[str]) -> list[Step]:
    """Return steps in an order in which elementwise ones come just before the first reader.

    Then they are in its loop, and not in one of what came first, with their results in memory.
    """
    makers = {step.y: step for step in found}
    waits: dict[str, int] = {}  # how many loops come before that of a value
    for step in found:
        own = isinstance(step, Reduce | Product | Join) or (isinstance(step, Map) and step.is_plain)
        waits[step.y] = own + max((waits.get(x, 0) for x in read_by(step)), default=0)
    result: list[Step] = []
    done: set[str] = set()
    for step in found:
        if isinstance(step, Map | Look) and step.y not in wanted:
            continue
        stack = [step]
        while stack:
            top = stack[-1]
            missing = [makers[x] for x in read_by(top) if x in makers and x not in done]
            if missing and top.y not in done:
                stack += sorted(missing, key=lambda before: waits[before.y])
                continue
            stack.pop()
            if top.y not in done:
                done.add(top.y)
                result.append(top)
    return result


def read_by(step: Step) -> list[str]:
    """Return the values that a step reads."""
    if isinstance(step, Map | Join):
        return step.inputs
    return [step.a, step.b] if isinstance(step, Product) else [step.x]


def broadcast(x: Dims, y: Dims) -> bool:
    """Return whether a value of sizes x is known to be broadcast to sizes y."""
    lack = len(y) - len(x)
    return lack >= 0 and all(a in (b, ONE) for a, b in zip(x, y[lack:], strict=True))


def _elementwise(node, names, values):
    y = node.output[0]
    kinds = [values.kind(x) if x else 0 for x in node.input]
    scalars = [values.scalar(x) for x in node.input]
    text = operators.expression(node, kinds, values.kind(y), scalars)
    if text is None:
        raise Unfit("element types")
    if not all(broadcast(values.dims(x), values.dims(y)) for x in names):
        raise Unfit("sizes that may differ")
    read = names[:1] if node.op_type == "Pow" else names
    return Map(y, text, read)


def _look(node, values):
    op, x, y = node.op_type, node.input[0], node.output[0]
    before, after, given = values.dims(x), values.dims(y), operators.attributes(node)
    if op in operators.RESHAPES:
        if product(*before) != product(*after):
            raise Unfit("another number of elements")
        return [Look(y, x, "reshape")]
    if op == "Transpose":
        rank = len(before)
        axes = [int(k) for k in given.get("perm", reversed(range(rank)))]
        if axes and axes[-1] != rank - 1 and estimate(product(*before)) > _TRANSPOSED:
            raise Unfit("a large matrix")
        return [Look(y, x, "transpose", axes)]
    if op == "Expand":
        if not broadcast(before, after):
            raise Unfit("sizes that may differ")
        return [Look(y, x, "expand")]
    if op == "Split":
        axis, start, result = given.get("axis", 0) % len(before), 0, []
        for part in node.output:
            number, unknown = values.dims(part)[axis] if part else (0, ("?",))
            if unknown:
                raise Unfit("parts of unknown sizes")
            result.append(Look(part, x, "part", [axis], start))
            start += number
        return result
    return _slice(node, before, after, values)


def _slice(node, before, after, values):
    parameters = [values.integers(x) for x in node.input[1:]]
    if len(parameters) < 2 or any(p is None or len(p) != 1 for p in parameters):
        raise Unfit("a slice of several axes, or of unknown bounds")
    starts = parameters[0]
    axis = parameters[2][0] % len(before) if len(parameters) > 2 else 0
    step = parameters[3][0] if len(parameters) > 3 else 1
    (number, unknown), start = before[axis], starts[0]
    if unknown or after[axis][1] or step < 1:
        raise Unfit("a slice of an unknown size")
    start = min(max(start + number if start < 0 else start, 0), number)
    if start + (after[axis][0] - 1) * step >= number:
        raise Unfit("a slice beyond the end")
    return [Look(node.output[0], node.input[0], "part", [axis], start, step)]


def _axes(node, rank, values):
    """The axes of a reduction; None for an input that is not known."""
    given = operators.attributes(node)
    axes = given.get("axes")
    if axes is None and len(node.input) > 1 and node.input[1]:
        axes = values.integers(node.input[1])
        if axes is None:
            return None
    if not axes:
        return [] if given.get("noop_with_empty_axes") else list(range(rank))
    return sorted({int(k) % rank for k in axes}) if rank else []


def _reduction(node, values):
    x, y = node.input[0], node.output[0]
    how = node.op_type.removeprefix("Reduce").lower()
    axes = _axes(node, len(values.dims(x)), values)
    if axes is None or values.kind(x) not in FLOATS or values.kind(y) != values.kind(x):
        raise Unfit("axes or element types")
    if not axes:
        return Map(y, "{0}", [x])
    return Reduce(y, how, x, axes)


def _place_of_best(node, values):
    """The place of the first, or last, largest or smallest element along an axis; of a NaN first.

    It is worked out as float32, which is exact for so few elements.
    """
    x, y = node.input[0], node.output[0]
    given, dims = operators.attributes(node), values.dims(x)
    axis = given.get("axis", 0) % max(len(dims), 1)
    if not dims or values.kind(x) != FLOAT or dims[axis][1] or dims[axis][0] > _COUNTED:
        raise Unfit("element types, or many elements")
    row = (*dims[:axis], ONE, *dims[axis + 1 :])
    best, first = (_between(values, y, what, x, row) for what in ("best", "first"))
    places = _between(values, y, "places", x)
    is_last = given.get("select_last_index", 0)
    beyond = "-INFINITY" if is_last else "INFINITY"
    text = f"({{0}} == {{1}} || {{0}} != {{0}} ? (float){{i}} : {beyond})"
    found = [
        Reduce(best, "max" if node.op_type == "ArgMax" else "min", x, [axis]),
        Map(places, text, [x, best], axis=axis),
        Reduce(first, "max" if is_last else "min", places, [axis]),
    ]
    whole = _between(values, y, "whole", y, row)
    return [*found, Map(whole, "(int64_t){0}", [first]), Look(y, whole, "reshape")]


def _product(node, values):
    a, b, y = node.input[0], node.input[1], node.output[0]
    given = operators.attributes(node)
    turned = bool(given.get("transA", 0)), bool(given.get("transB", 0))
    more = given.get("transBatchA", 0) or given.get("transBatchB", 0)
    da, db, dy = values.dims(a), values.dims(b), values.dims(y)
    # a sum, in the form of a product
    plain = node.op_type == "MatMul"
    is_row = len(da) == 1 or (len(da) == 2 == len(db) and da[0] == ONE)
    if plain and is_row and len(db) > 1 and _is_one(a, values):
        return [Reduce(y, "sum", b, [len(db) - 2])]
    if plain and len(db) == 1 and len(da) > 1 and _is_one(b, values):
        return [Reduce(y, "sum", a, [len(da) - 1])]
    if more or min(len(da), len(db)) < 2 or {values.kind(x) for x in (a, b, y)} != {FLOAT}:
        raise Unfit("a product of vectors, or of other element types")
    n, m, k = dy[-1], dy[-2], da[-2 if turned[0] else -1]
    alpha = float(given.get("alpha", 1.0))
    if not broadcast(da[:-2], dy[:-2]) or not broadcast(db[:-2], dy[:-2]):
        raise Unfit("sizes that may differ")
    if any(s[1] for s in (n, m, k)):
        raise Unfit("a product of unknown sizes")
    if n[0] * m[0] * k[0] > SMALL or n[0] > _WIDE or n[0] * k[0] > ROOM:
        return _few_rows(Product(y, a, b, turned, alpha), k[0], values)
    if k == ONE and turned == (False, False) and alpha == 1.0:
        return [Map(y, "{0} * {1}", [a, b])]
    return [Product(y, a, b, turned, alpha)]


def _few_rows(step, depth, values):
    """A product of few rows with a large matrix, which is not divided between batches."""
    da, db, dy = (values.dims(x) for x in (step.a, step.b, step.y))
    rows, names = product(*dy[:-1])
    if names or rows > FEW or any(d != ONE for d in db[:-2]) or depth > _DEEP or dy[-1] == ONE:
        raise Unfit("a large product")
    if all(d == ONE for d in dy[:-2]):
        return [step]
    if step.transposed[0]:
        raise Unfit("a batch of columns")
    a = _between(values, step.y, "rows", step.a, ((rows, ()), da[-1]))
    y = _between(values, step.y, "product", step.y, ((rows, ()), dy[-1]))
    b = _between(values, step.y, "matrix", step.b, db[-2:])
    return [
        Look(a, step.a, "reshape"),
        Look(b, step.b, "reshape"),
        Product(y, a, b, step.transposed, step.alpha),
        Look(step.y, y, "reshape"),
    ]


def _is_one(x, values):
    value = values.scalar(x)
    return value is not None and values.kind(x) == FLOAT and float(value) == 1.0


def _join(node, names, values):
    y = node.output[0]
    axis = operators.attributes(node)["axis"] % len(values.dims(y))
    if summed([values.dims(x)[axis] for x in names]) != values.dims(y)[axis]:
        raise Unfit("parts of unknown sizes")
    if {values.kind(x) for x in names} != {values.kind(y)}:
        raise Unfit("element types")
    return Look(y, names[0], "reshape") if len(names) == 1 else Join(y, names, axis)


def _places(node, x, index, axis, values):
    """(name, step) of indices along an axis that are checked, and counted from the beginning."""
    if values.kind(index) not in INTS or values.kind(x) != FLOAT:
        raise Unfit("element types")
    name = f"{node.output[0]}/places"
    values.add(name, TensorProto.INT64, values.dims(index))
    text = "in_range({0}, {n}, {bad})"
    check = Map(name, text, [index], values.dims(x)[axis], is_plain=True, owner=node.name)
    return name, check


def _gather(node, values):
    """A gather along an axis: one of each row by a comparison, others by their place."""
    (x, index), y = node.input[:2], node.output[0]
    dims, own, result = values.dims(x), values.dims(index), values.dims(y)
    axis = operators.attributes(node).get("axis", 0) % max(len(dims), 1)
    name, places = _places(node, x, index, axis, values)
    if node.op_type == "GatherElements":
        if own[axis] == ONE and [*dims[:axis], *dims[axis + 1 :]] == [
            *own[:axis],
            *own[axis + 1 :],
        ]:
            chosen = _between(values, y, "chosen", x)
            text = "({i} == (int32_t){1} ? {0} : -0.0f)"
            pick = Map(chosen, text, [x, name], axis=axis)
            return [places, pick, Reduce(y, "pick", chosen, [axis])]
        if len(dims) > 1:
            raise Unfit("indices of several axes")
        return [places, Map(y, "{0}", [x, name], at=0)]
    if axis or result != (*own, *dims[1:]):
        raise Unfit("indices of another axis")
    rows = f"{name}/rows"
    values.add(rows, TensorProto.INT64, (*own, *[ONE] * (len(dims) - 1)))
    return [places, Look(rows, name, "reshape"), Map(y, "{0}", [x, rows], at=0)]


def _scatter(node, values):
    """A value with another one, or more, in each row."""
    (x, index, more), y = node.input[:3], node.output[0]
    given = operators.attributes(node)
    dims, own, axis = values.dims(x), values.dims(index), given.get("axis", 0) % len(values.dims(x))
    same = [*dims[:axis], *dims[axis + 1 :]] == [*own[:axis], *own[axis + 1 :]]
    if own[axis] != ONE or not same or values.dims(more) != own or values.kind(more) != FLOAT:
        raise Unfit("several indices in a row")
    texts = {b"none": "{2}", b"add": "{0} + {2}"}
    text = texts.get(given.get("reduction", b"none"))
    if text is None:
        raise Unfit("another reduction")
    name, places = _places(node, x, index, axis, values)
    return [
        places,
        Map(y, f"({{i}} == (int32_t){{1}} ? {text} : {{0}})", [x, name, more], axis=axis),
    ]


def _sizes(node, values):
    """The shape of a value with one axis, or the number of elements, as an integer."""
    x, y = node.input[0], node.output[0]
    dims = values.dims(x)
    if node.op_type == "Shape" and (len(dims) != 1 or len(node.attribute)):
        raise Unfit("a shape of several axes")
    return Map(y, "{n}", [], product(*dims))


def _between(values: Values, y: str, what: str, like: str, dims: Dims | None = None) -> str:
    """The name of a value between the steps of a node."""
    name = f"{y}/{what}"
    values.add(name, values.kind(like), values.dims(like) if dims is None else dims)
    return name


def _softmax(node, values):
    x, y = node.input[0], node.output[0]
    dims = values.dims(x)
    axis = operators.attributes(node).get("axis", -1) % max(len(dims), 1)
    if values.kind(x) != FLOAT or not dims:
        raise Unfit("element types")
    row: tuple[Size, ...] = (*dims[:axis], ONE, *dims[axis + 1 :])
    top, total = (_between(values, y, what, x, row) for what in ("top", "total"))
    low, power = (_between(values, y, what, x) for what in ("low", "power"))
    found: list[Step] = [Reduce(top, "max", x, [axis]), Map(low, "{0} - {1}", [x, top])]
    found += [Map(power, "f_exp({0})", [low]), Reduce(total, "sum", power, [axis])]
    if node.op_type == "Softmax":
        return [*found, Map(y, "{0} / {1}", [power, total])]
    logarithm = _between(values, y, "logarithm", x, row)
    return [*found, Map(logarithm, "f_log({0})", [total]), Map(y, "{0} - {1}", [low, logarithm])]


def _layer_norm(node, values):
    x, y = node.input[0], node.output[0]
    dims, given = values.dims(x), operators.attributes(node)
    axis = given.get("axis", -1) % len(dims)
    if any(values.kind(v) != FLOAT for v in (*node.input, *filter(None, node.output))):
        raise Unfit("element types")
    axes = list(range(axis, len(dims)))
    row = (*dims[:axis], *[ONE] * len(axes))
    outputs = [*node.output, "", ""]
    mean = outputs[1] or _between(values, y, "mean", x, row)
    inverse = outputs[2] or _between(values, y, "inverse", x, row)
    low, square, normal = (_between(values, y, w, x) for w in ("low", "square", "normal"))
    variance = _between(values, y, "variance", x, row)
    epsilon = operators.literal(np.float32(given.get("epsilon", 1e-5)))
    scaled = [x for x in node.input[1:] if x]
    text = "{0} * {1} + {2}" if len(scaled) > 1 else "{0} * {1}"
    return [
        Reduce(mean, "mean", x, axes),
        Map(low, "{0} - {1}", [x, mean]),
        Map(square, "{0} * {0}", [low]),
        Reduce(variance, "mean", square, axes),
        Map(inverse, f"1 / sqrtf({{0}} + {epsilon})", [variance]),
        Map(normal, "{0} * {1}", [low, inverse]),
        Map(y, text, [normal, *scaled]),
    ]


def is_cheap(node: NodeProto) -> bool:
    """Return whether a node alone is no reason for a group: the runtime is as fast."""
    return node.op_type in operators.VIEWS | {"MatMul", "FusedMatMul", "Concat", "Shape", "Size"}
