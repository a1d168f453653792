"""Attention in a model as operators of its own: where it is, and what they are given.

Heads of queries, keys and values are read and written where they are, so that the Transposes
around them go. Kernels of tens of steps and more gain; those of fewer stay as they are.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, helper

from ..clusters import ordered, reads
from ..operators import FLOAT, attributes
from ..parts import LOOPS, PRODUCTS, Part, Source, base, header
from ..sizes import Dim, Dims, Kind, Values

DOMAIN = "pd.attention"
_FEW = 16  # queries or keys, below which small products in groups of operators take less time
_Axes = tuple[int, ...]
_HEADS_FIRST: _Axes = (0, 1, 2, 3)
_HEADS_LAST: _Axes = (0, 2, 1, 3)
_TURNED: _Axes = (0, 1, 3, 2)  # the last two axes
_BEGINNINGS = {"Softmax", "Attention", "If"}


@dataclass
class Found:
    """Counts of the operators: attentions, and their gradients."""

    forward: int = 0
    backward: int = 0


def fuse(
    model: ModelProto, kinds: Mapping[str, Kind], equal: Iterable[tuple[Dim, Dim]] = ()
) -> tuple[Source | None, Found]:
    """Replace attentions of a model, in place, by operators of the domain `pd.attention`.

    `kinds` are the types of all values, `equal` pairs of sizes that are equal at run time. Returns
    (the C source of the operators, or None if there are none, counts of them).
    """
    found, codes = Found(), _Codes()
    if not any(node.op_type in _BEGINNINGS for node in model.graph.node):
        return None, found
    matcher = _Matcher(model.graph, Values(model, kinds, equal))
    made, gone = matcher.all(codes, found)
    if not made:
        return None, found
    rest = [node for node in matcher.nodes if id(node) not in gone]
    outside = [v.name for v in model.graph.output]
    copies = [NodeProto.FromString(n.SerializeToString()) for n in [*rest, *made]]
    del model.graph.node[:]
    model.graph.node.extend(ordered(copies, outside))
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return codes.source(), found


@dataclass
class _Codes:
    """The kinds of nodes of a model; each is an operator with what it is given as constants."""

    rows: dict[str, str] = field(default_factory=dict)  # C with @ for the name -> the name

    def operator(self, given: "_Given", grad: bool) -> str:
        """Return the name of the operator."""
        return self.rows.setdefault(given.text(grad), f"Attention{len(self.rows)}")

    def source(self) -> Source:
        """Return the C of all of them."""
        here = Path(__file__).parent
        products = (here.parent / "recurrences" / "products.c").read_text(encoding="utf-8")
        code = (here / "attention.c").read_text(encoding="utf-8")
        table = [text.replace("@", name) for text, name in self.rows.items()]
        rows = ",\n  ".join(f"{name}_row" for name in self.rows.values())
        table += [f"static const Row rows[] = {{\n  {rows}}};", f'REGISTER("{DOMAIN}")', ""]
        own = header() + products
        return Source(
            (
                Part("", base()),
                Part(own + code, "\n".join(table), alone=True),
                Part(own, f"#define ATTENTION\n{code}", LOOPS),
                Part(
                    header(),
                    f"#define PRODUCTS\n#define ATTENTION_PRODUCTS\n{products}\n{code}",
                    PRODUCTS,
                ),
            )
        )


@dataclass
class _Given:
    """The arguments from which the C of an operator is made."""

    last: dict[str, bool]  # of Q, K, V, Y, DY, DQ, DK, DV
    scale: float
    has_mask: bool = False
    causal: bool = False
    keeps: bool = False
    dq_scale: float = 1.0
    dk_scale: float = 1.0

    def text(self, grad: bool) -> str:
        """Return a row of the table of operators."""
        last = ", ".join(f"[{t}] = {int(v)}" for t, v in self.last.items())
        flags = f"{int(self.has_mask)}, {int(self.causal)}, {int(self.keeps)}"
        scales = ", ".join(f"{s.hex()}f" for s in (self.scale, self.dq_scale, self.dk_scale))
        inputs = 3 + self.has_mask + 3 * grad
        results = 3 if grad else 1 + self.keeps
        kinds = ", ".join(["1"] * (inputs + results) + ["2"])
        run = "run_attention_grad" if grad else "run_attention"
        return (
            f"static const Attend @_given = {{{flags}, {{{last}}}, {scales}}};\n"
            f"static const unsigned char @_types[] = {{{kinds}}};\n"
            f'#define @_row {{"@", {inputs}, {results + 1}, @_types, {run}, &@_given}}\n'
        )


@dataclass
class _Heads:
    """A value with four axes: where it is, in which order, and by what it is multiplied."""

    name: str
    last: bool
    factor: float = 1.0


class _Unfit(Exception):
    """Nodes are no attention."""


class _Matcher:
    """The nodes of a graph, with who makes and who reads each value."""

    def __init__(self, graph: GraphProto, values: Values):
        self.nodes, self.values = list(graph.node), values
        self.makers: dict[str, NodeProto] = {}
        self.readers: dict[str, list[NodeProto | None]] = defaultdict(list)
        for node in self.nodes:
            self.makers |= {y: node for y in node.output if y}
            for x in reads(node):
                self.readers[x].append(node)
        for v in graph.output:
            self.readers[v.name].append(None)

    def all(self, codes: _Codes, found: Found) -> tuple[list[NodeProto], set[int]]:
        """Return (nodes for all attentions of the graph, the ids of those they replace)."""
        made: list[NodeProto] = []
        gone: set[int] = set()
        for node in self.nodes:
            if node.domain or node.op_type not in _BEGINNINGS:
                continue
            match = self._by_softmax if node.op_type == "Softmax" else self._by_operator
            try:
                nodes, inside = match(node, codes)
            except _Unfit:
                continue
            made += nodes
            gone |= inside
            found.forward += 1
            found.backward += len(nodes) - 1
        return made, gone

    # ---- values

    def maker(self, x: str, *ops: str) -> NodeProto:
        """The node that makes x, which is one of some operators."""
        node = self.makers.get(x)
        if node is None or node.op_type not in ops or node.domain:
            raise _Unfit(x)
        return node

    def only_reader(self, x: str) -> NodeProto | None:
        """The node that alone reads x, once; None if there is another number of them."""
        found = self.readers[x]
        return found[0] if len(found) == 1 else None

    def dims(self, x: str) -> Dims:
        """The sizes of a float value with four axes."""
        if x not in self.values or self.values.kind(x) != FLOAT or len(self.values.dims(x)) != 4:
            raise _Unfit(x)
        return self.values.dims(x)

    def heads(self, x: str, turned: bool = False) -> _Heads:
        """Return the array of which x [batch, heads, steps, width] is a view.

        In one that is `turned` the last two axes are swapped.
        """
        order = _TURNED if turned else _HEADS_FIRST
        factor, found = 1.0, None
        while True:
            if order in (_HEADS_FIRST, _HEADS_LAST) and x in self.values:
                found = _Heads(x, order == _HEADS_LAST, factor)
            node = self.makers.get(x)
            if node is None or node.domain or x not in self.values:
                break
            if node.op_type == "Transpose" and len(self.values.dims(x)) == 4:
                perm = attributes(node).get("perm", (3, 2, 1, 0))
                order, x = tuple(perm[k] for k in order), node.input[0]
            elif (times := self._factor(node)) is not None:
                factor, x = factor * times[1], times[0]
            else:
                break
        if found is None:
            raise _Unfit(x)
        self.dims(found.name)
        return found

    def _factor(self, node: NodeProto) -> tuple[str, float] | None:
        """(x, c) of a node that computes c x; None for any other."""
        if node.op_type in ("Mul", "Div") and not node.domain:
            for a, b in ((0, 1), (1, 0))[: 1 + (node.op_type == "Mul")]:
                c = self.values.scalar(node.input[b])
                x = node.input[a]
                if c is None or not 1e-30 < abs(float(c)) < 1e30:
                    continue
                same = x in self.values and node.output[0] in self.values
                if same and self.values.dims(x) == self.values.dims(node.output[0]):
                    return x, 1 / float(c) if node.op_type == "Div" else float(c)
        return None

    def result(self, x: str, turned: bool = False) -> tuple[_Heads, set[int]]:
        """Where x can be written at once, by its only readers, and the ids of those."""
        order = _TURNED if turned else _HEADS_FIRST
        # order[k]: the axis of what is written for axis k of [batch, heads, steps, width]
        found: _Heads | None = None
        gone: set[int] = set()
        inside: set[int] = set()
        factor = 1.0
        while True:
            if order in (_HEADS_FIRST, _HEADS_LAST):
                found, gone = _Heads(x, order == _HEADS_LAST, factor), set(inside)
            reader = self.only_reader(x)
            if reader is None or reader.domain:
                break
            if reader.op_type == "Transpose":
                perm = attributes(reader).get("perm", (3, 2, 1, 0))
                order = tuple(list(perm).index(k) for k in order)
            elif (times := self._factor(reader)) is not None:
                factor *= times[1]
            else:
                break
            inside.add(id(reader))
            x = reader.output[0]
        if found is None:
            raise _Unfit(x)
        self.dims(found.name)
        return found, gone

    # ---- attentions

    def _by_operator(self, node: NodeProto, codes: _Codes):
        """ONNX's operator, alone or in the branch that runs if there is something to attend to."""
        own = node
        if node.op_type == "If":
            branch = attributes(node)["then_branch"]
            if len(branch.node) != 1 or branch.node[0].op_type != "Attention":
                raise _Unfit("another branch")
            own = branch.node[0]
        given = attributes(own)
        mask = own.input[3] if len(own.input) > 3 else ""
        rest = {"scale", "is_causal"}
        if len(own.output) != 1 or any(own.input[4:]) or set(given) - rest:
            raise _Unfit("another form of attention")
        q, k, v = map(self.heads, own.input[:3])
        sizes = [self.dims(x) for x in own.input[:3]]
        self._check(sizes[0], sizes[1], sizes[2])
        causal = bool(given.get("is_causal", 0))
        if causal and (mask or sizes[0][2] != sizes[1][2]):
            raise _Unfit("another causal mask")
        width = sizes[0][3]
        if "scale" not in given and width[1]:
            raise _Unfit("a scale that is not known")
        scale = float(given.get("scale", 0)) or width[0] ** -0.5
        if mask:
            self._check_mask(mask)
        if k.factor != 1 or v.factor != 1:
            k, v = _Heads(own.input[1], False), _Heads(own.input[2], False)
        y, gone = self.result(node.output[0])
        if y.factor != 1:
            y, gone = _Heads(node.output[0], False), set()
        own_given = _Given(
            {"Q": q.last, "K": k.last, "V": v.last, "Y": y.last},
            scale * q.factor,
            bool(mask),
            causal,
        )
        inputs = [q.name, k.name, v.name, *([mask] if mask else [])]
        made = self._node(codes, own_given, False, inputs, [y.name], node.name)
        return [made], {id(node), *gone}

    def _by_softmax(self, node: NodeProto, codes: _Codes):
        """A product, perhaps with a mask, softmax, a product; and the gradients of these."""
        values, p = self.values, node.output[0]
        self.dims(p)
        if attributes(node).get("axis", -1) not in (-1, 3):
            raise _Unfit("another axis")
        x, mask = node.input[0], ""
        inside = {id(node)}
        maker = self.maker(x, "MatMul", "Add", "Mul", "Div")
        if maker.op_type == "Add":
            for a, b in ((0, 1), (1, 0)):
                s, mask = maker.input[a], maker.input[b]
                made = self.makers.get(s, node).op_type in ("MatMul", "Mul", "Div")
                if made and s in values and values.dims(s) == values.dims(x):
                    break
            else:
                raise _Unfit("a mask of larger scores")
            self._alone(x, node)
            self._check_mask(mask)
            inside.add(id(maker))
            reader, x = maker, s
            maker = self.maker(x, "MatMul", "Mul", "Div")
        else:
            reader = node
        factor = 1.0
        if maker.op_type != "MatMul":
            times = self._factor(maker)
            if times is None:
                raise _Unfit("no factor")
            self._alone(x, reader)
            inside.add(id(maker))
            reader, (x, factor) = maker, times
            maker = self.maker(x, "MatMul")
        self._alone(x, reader)
        inside.add(id(maker))
        a, bt = maker.input
        q, k = self.heads(a), self.heads(bt, turned=True)
        products = [n for n in self.readers[p] if n is not None and n.op_type == "MatMul"]
        after = next((n for n in products if n.input[0] == p), None)
        if after is None:
            raise _Unfit("weights of nothing")
        v = self.heads(after.input[1])
        if v.factor != 1:
            v = _Heads(after.input[1], False)
        sizes = self.dims(a), self.dims(bt), self.dims(after.input[1])
        self._check(sizes[0], (*sizes[1][:2], sizes[1][3], sizes[1][2]), sizes[2])
        inside.add(id(after))
        scale = q.factor * k.factor * factor
        given = _Given({"Q": q.last, "K": k.last, "V": v.last}, scale, bool(mask))
        inputs = [q.name, k.name, v.name, *([mask] if mask else [])]
        if all(n is after for n in self.readers[p]):
            y, gone = self.result(after.output[0])
            if y.factor != 1:
                y, gone = _Heads(after.output[0], False), set()
            given.last["Y"] = y.last
            made = self._node(codes, given, False, inputs, [y.name], node.name)
            return [made], inside | gone
        return self._with_gradient(codes, node, after, inside, given, inputs, (q, k, factor))

    def _with_gradient(self, codes, node, after, inside, given, inputs, forms):
        """Both operators, where weights are read by the gradients alone."""
        q, k, factor = forms
        p, y = node.output[0], after.output[0]
        others = [n for n in self.readers[p] if n is not after and n is not None]
        if None in self.readers[p] or len(others) != 2:
            raise _Unfit("weights are read elsewhere")
        ds_maker = next((n for n in others if n.op_type == "Mul"), None)
        dv_maker = next((n for n in others if n is not ds_maker), None)
        if ds_maker is None or dv_maker is None:
            raise _Unfit("no gradient")
        inside |= {id(ds_maker)}
        # dS = P (dP - sum(dY Y)), where dP = dY Vᵀ
        difference = self.maker(_other(ds_maker, p), "Sub")
        self._alone(difference.output[0], ds_maker)
        dp, total = difference.input
        dp_maker = self.maker(dp, "MatMul")
        self._alone(dp, difference)
        dy_name, vt = dp_maker.input
        v_again = self.heads(vt, turned=True)
        if v_again.name != inputs[2] or v_again.factor != 1 or v_again.last != given.last["V"]:
            raise _Unfit("other values")
        dy = self.heads(dy_name)
        if dy.factor != 1:
            raise _Unfit("a scaled gradient")
        summed = self.maker(total, "ReduceSum")
        self._alone(total, difference)
        if not self._sums_last(summed):
            raise _Unfit("another sum")
        squares = self.maker(summed.input[0], "Mul")
        self._alone(summed.input[0], summed)
        if {*squares.input} != {dy_name, y}:
            raise _Unfit("another sum")
        inside |= {id(difference), id(dp_maker), id(summed), id(squares)}
        dv, dv_nodes, dv_gone = self._dv(dv_maker, p, dy)
        ds, ds_factor = ds_maker.output[0], 1.0
        follower = self.only_reader(ds)
        if follower is not None and (times := self._factor(follower)) is not None:
            ds, ds_factor = follower.output[0], times[1]
            inside.add(id(follower))
        (dq, dq_gone), (dk, dk_gone) = self._dq_dk(ds, q, k)
        # Y is read by its gradient, too
        first = self._without(y, squares)
        yy, y_gone = (_Heads(y, False), set()) if first is None else first
        given.last["Y"], given.keeps = yy.last, True
        kept = f"{p}/rows"
        grad = _Given(
            {**given.last, "DY": dy.last, "DQ": dq.last, "DK": dk.last, "DV": dv.last},
            given.scale,
            given.has_mask,
            dq_scale=ds_factor * dq.factor * k.factor,
            # the operator multiplies by scaled queries, where the graph has those of q's factor
            dk_scale=ds_factor * dk.factor / factor / k.factor,
        )
        made = self._node(codes, given, False, inputs, [yy.name, kept], node.name)
        more = [*inputs, kept, yy.name, dy.name]
        name = ds_maker.name
        back = self._node(codes, grad, True, more, [dq.name, dk.name, dv.name], name)
        return [made, back], inside | dv_nodes | dv_gone | dq_gone | dk_gone | y_gone

    def _dv(self, node, p, dy):
        """(the result, the ids of the product's nodes, those of what is behind) of dV = Pᵀ dY."""
        gone = {id(node)}
        if node.op_type == "Transpose":
            if tuple(attributes(node).get("perm", ())) != _TURNED:
                raise _Unfit("another transposition")
            product = self.only_reader(node.output[0])
            if product is None or product.op_type != "MatMul" or product.domain:
                raise _Unfit("no product")
            if product.input[0] != node.output[0] or not self._is(product.input[1], dy, False):
                raise _Unfit("another product")
            dv, behind = self.result(product.output[0])
            gone.add(id(product))
        else:
            if node.op_type != "MatMul" or node.domain or node.input[1] != p:
                raise _Unfit("no product")
            if not self._is(node.input[0], dy, True):
                raise _Unfit("another product")
            product = node
            dv, behind = self.result(product.output[0], turned=True)
        if dv.factor != 1:  # rather the product itself, which has to be in order
            dv, behind = _Heads(product.output[0], False), set()
            if product is node:
                raise _Unfit("a scaled gradient")
        return dv, gone, behind

    def _dq_dk(self, ds, q, k):
        """The results dQ = dS K and dK = dSᵀ Q, and the ids of the nodes that make them."""
        found: dict[str, tuple[_Heads, set[int]]] = {}
        for n in self.readers[ds]:
            if n is None or n.domain:
                raise _Unfit("scores are read elsewhere")
            if n.op_type == "Transpose" and tuple(attributes(n).get("perm", ())) == _TURNED:
                product = self.only_reader(n.output[0])
                if product is None or product.op_type != "MatMul" or product.domain:
                    raise _Unfit("no product")
                if product.input[0] != n.output[0] or not self._is(product.input[1], q, False):
                    raise _Unfit("another product")
                made, gone = self.result(product.output[0])
                found["dk"] = made, gone | {id(n), id(product)}
            elif n.op_type == "MatMul" and n.input[0] == ds and self._is(n.input[1], k, False):
                made, gone = self.result(n.output[0])
                found["dq"] = made, gone | {id(n)}
            elif n.op_type == "MatMul" and n.input[1] == ds and self._is(n.input[0], q, True):
                made, gone = self.result(n.output[0], turned=True)
                found["dk"] = made, gone | {id(n)}
            else:
                raise _Unfit("scores are read elsewhere")
        if len(found) < 2 or len(self.readers[ds]) > 2:
            raise _Unfit("not both gradients")
        return found["dq"], found["dk"]

    def _without(self, y, reader):
        """Where y can be written at once if one reader is not counted; None if only there."""
        readers = self.readers[y]
        kept = [n for n in readers if n is not reader]
        if len(readers) - len(kept) != 1:
            raise _Unfit("a product with itself")
        self.readers[y] = kept
        try:
            found, gone = self.result(y)
        finally:
            self.readers[y] = readers
        return (found, gone) if found.factor == 1 else None

    def _is(self, x, like, turned):
        """Whether x, perhaps with its last axes swapped, is a view of the same value."""
        found = self.heads(x, turned)
        return (found.name, found.last, found.factor) == (like.name, like.last, like.factor)

    def _sums_last(self, node):
        given = attributes(node)
        axes = self.values.integers(node.input[1]) if len(node.input) > 1 else None
        return axes in ([3], [-1]) and given.get("keepdims", 1) == 1

    def _alone(self, x, reader):
        if self.only_reader(x) is not reader:
            raise _Unfit(f"{x} is read elsewhere")

    def _check(self, q, k, v):
        """The sizes [batch, heads, steps, width] fit, and are worth it."""
        if q[:2] != k[:2] or q[:2] != v[:2] or q[3] != k[3] or k[2] != v[2]:
            raise _Unfit("sizes")
        for steps in (q[2], k[2]):
            if not steps[1] and steps[0] < _FEW:
                raise _Unfit("few steps")

    def _check_mask(self, mask):
        values = self.values
        if mask not in values or values.kind(mask) != FLOAT or len(values.dims(mask)) > 4:
            raise _Unfit("another mask")

    def _node(self, codes, given, grad, inputs, outputs, name):
        return helper.make_node(
            codes.operator(given, grad),
            inputs,
            [*outputs, f"{outputs[0]}/scratch"],
            name=name,
            domain=DOMAIN,
        )


def _other(node, x):
    """The input of a node with two that is not x."""
    if node.input[0] == node.input[1]:
        raise _Unfit("a square")
    return node.input[1] if node.input[0] == x else node.input[0]


__all__ = ["DOMAIN", "Found", "fuse"]
