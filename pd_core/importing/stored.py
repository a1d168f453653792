"""The stored tensors of a file: parameters where they are weights, else constants."""

from fnmatch import fnmatchcase

import numpy as np
from onnx import NodeProto, helper, numpy_helper

from ..backend.evaluator import evaluator
from ..graph.errors import DamagedModel, ModelError
from ..graph.inference import OPSET
from ..graph.variable import Variable
from . import patterns
from .loading import STANDARD
from .versions import stored
from .weights import decisions

_WIDEST = 60  # columns of a table


class StoredTensors:
    """`values` are Variables by the names that nodes read, `parameters` those that can be trained,
    by name; `decisions` says of each tensor of floats what it is taken for.

    A weight that is stored as integers is a parameter, with its float values, if it is trained
    from the start; else it stays as it is.
    """

    def __init__(self, graph, functions, folder, trainable, frozen):
        if len({t.name for t in graph.initializer}) < len(graph.initializer):
            raise DamagedModel("two stored tensors have the same name")
        self.values = {t.name: stored(t, folder) for t in graph.initializer}
        self.parameters = {}
        asked, kept = _listed(trainable), ("*",) if trainable is False else _listed(frozen)
        copies = self._copies(graph)
        integers = {} if trainable is False else self._from_integers(graph)
        floats = {n: v.value for n, v in self.values.items() if v.dtype.kind == "f"}
        floats |= {y: self.values[x].value for y, x in copies.items()}
        floats |= {y: array for y, (_, array) in integers.items()}
        self.decisions = decisions(graph, functions, floats)
        self._name(integers)
        self._check(asked, lambda d: not d.statistic)
        self._check(() if trainable is False else kept, lambda d: True)
        for key, decision in self.decisions.items():
            trained = decision.trained and not _matches(kept, decision.name)
            trained = trained or _matches(asked, decision.name)
            if decision.statistic or trained or (decision.trained and key not in integers):
                self._make(key, floats[key], trained and not decision.statistic)
            elif key in copies:
                self.values[key] = self.values[copies[key]]

    @property
    def statistics(self):
        """The running statistics."""
        return frozenset(self.values[k] for k, d in self.decisions.items() if d.statistic)

    def _make(self, key, array, trained):
        decision = self.decisions[key]
        name = decision.name
        v = Variable(name, data=array, dtype=array.dtype, trainable=trained)
        self.values[key] = self.parameters[name] = v

    def _copies(self, graph):
        """{name: the stored tensor that it copies}: exporters store equal tensors once, and so
        give what is equal by chance, initial values, to several layers.
        """
        return {
            node.output[0]: node.input[0]
            for node in graph.node
            if node.op_type == "Identity" and node.output and self._is_initial(node.input[0])
        }

    def _is_initial(self, name):
        v = self.values.get(name)
        known = v is not None and v.dtype.kind == "f" and v.value.size > 1
        return known and patterns.uniform(v.value)

    def _from_integers(self, graph):
        """{name: (the stored integers, the floats that they are read as)}."""
        found = {}
        for node in graph.node:
            if not self._reads_integers(node):
                continue
            array = _computed(node, [self.values[n].value for n in node.input if n])
            if array is not None and array.size > 1:
                found[node.output[0]] = node.input[0], array
        return found

    def _reads_integers(self, node):
        if node.op_type not in ("DequantizeLinear", "Cast") or node.domain not in STANDARD:
            return False
        known = node.input and all(not n or n in self.values for n in node.input)
        return bool(known) and self.values[node.input[0]].dtype.kind != "f"

    def _name(self, integers):
        """A weight stored as integers has their name, unless they are read in several ways."""
        taken = [x for x, _ in integers.values()]
        for y, (x, _) in integers.items():
            if taken.count(x) == 1:
                self.decisions[y].name = x

    # ---- what the user asks for

    def freeze(self, patterns):
        """Train the parameters that match no more."""
        for v in self._chosen("freeze", patterns):
            v.trainable = False

    def unfreeze(self, patterns):
        """Train the parameters that match, but for statistics."""
        for v in self._chosen("unfreeze", patterns):
            v.trainable = True

    def _chosen(self, who, patterns):
        weights = {
            d.name: self.parameters[d.name]
            for d in self.decisions.values()
            if d.name in self.parameters and not d.statistic
        }
        for pattern in patterns:
            if not any(_matches((pattern,), name) for name in weights):
                raise ModelError(self._why_not(who, pattern))
        wanted = patterns or ("*",)
        return [v for name, v in weights.items() if _matches(wanted, name)]

    def _why_not(self, who, pattern):
        for d in self.decisions.values():
            if _matches((pattern,), d.name):
                hint = f"\n  hint: import_onnx(..., trainable=[{d.name!r}]) makes it one"
                why = f"{d.name!r} is no parameter but {d.use}, {d.why}"
                return f"{who}: {why}{'' if d.statistic else hint}"
        return f"{who}: no parameter matches {pattern!r}"

    def _check(self, wanted, fits):
        names = [d.name for d in self.decisions.values() if fits(d)]
        for pattern in wanted:
            if not any(_matches((pattern,), name) for name in names):
                raise ModelError(f"{pattern!r} matches no stored tensor that could be trained")

    # ---- the table

    def summary(self):
        """The table of `ImportedModel.summary`."""
        rows = [self._row(d) for d in self.decisions.values() if self._is_shown(d)]
        head = ("name", "shape", "dtype", "use", "trained")
        widths = [min(_WIDEST, max(len(r[k]) for r in (head, *rows))) for k in range(len(head))]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in (head, *rows)]
        return "\n".join([*lines, *self._totals()])

    def _is_shown(self, d):
        return np.prod(d.shape) > 1 or d.name in self.parameters

    def _row(self, d):
        trained = d.name in self.parameters and self.parameters[d.name].trainable
        frozen = d.name in self.parameters and not d.statistic
        state = "yes" if trained else "no: frozen" if frozen else f"no: {d.why}"
        return d.name, str(list(d.shape)), d.dtype, d.use, state

    def _totals(self):
        every = list(self.parameters.values())
        trained = [v for v in every if v.trainable]
        constants = {id(v): v for v in self.values.values() if v.value is not None}
        numbers = sum(v.value.size == 1 for v in constants.values())
        yield f"trained: {_total(trained)}"
        yield f"not trained: {_total([v for v in every if not v.trainable])}"
        yield f"constants: {_total(constants.values())}, of which {numbers} are single numbers"


def _total(variables):
    elements = sum(int(np.prod(v.dims)) for v in variables)
    return f"{len(variables)} tensors, {elements:,} elements"


def _computed(node, arrays):
    """The floats of a DequantizeLinear or Cast of integers, or None."""
    copy = NodeProto()
    copy.CopyFrom(node)
    tensors = [
        numpy_helper.from_array(array, name)
        for name, array in zip(filter(None, node.input), arrays, strict=True)
    ]
    wanted = [helper.make_value_info(node.output[0], helper.make_tensor_type_proto(0, None))]
    graph = helper.make_graph([copy], "floats", [], wanted, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    try:
        (found,) = evaluator(model).run(None, {})
    except Exception:  # what the evaluator cannot do is left to the runtime
        return None
    return np.asarray(found) if np.asarray(found).dtype.kind == "f" else None


def _listed(given):
    """Patterns: one, a list of them, or a bool."""
    if isinstance(given, bool):
        return ()
    return (given,) if isinstance(given, str) else tuple(given)


def _matches(wanted, name):
    return any(name == p or fnmatchcase(name, p) for p in wanted)
