"""The stored tensors of a file: parameters where they are weights, else constants."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from math import ceil
from typing import Any

import numpy as np
from onnx import FunctionProto, GraphProto

from ...graph.errors import DamagedModel, ModelError
from ...graph.node import apply
from ...graph.variable import Variable
from . import patterns
from .evaluation import evaluate, one_node_model
from .functions import Key
from .loading import STANDARD
from .text import is_text, stored_text
from .versions import attribute_value, bits, stored
from .weights import decisions

_WIDEST = 60  # columns of a table
_INTEGER_OPERATORS = {"ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"}


class StoredTensors:
    """The stored tensors of a graph as Variables.

    `values` are the Variables by the names that nodes read, `parameters` those that can be trained,
    by name, `decisions` the Decision on each float tensor, `texts` the tensors of text.

    A weight that is stored as integers is a parameter, with its float values, if it is trained
    from the start; else it stays as it is: `integers` has functions that compute the floats of
    these, by the names that nodes read.
    """

    def __init__(
        self,
        graph: GraphProto,
        functions: dict[Key, FunctionProto],
        folder: str | None,
        trainable: bool | str | Sequence[str],
        frozen: str | Sequence[str],
        opset: int,
    ):
        self.integer_operators = sorted({n.op_type for n in graph.node} & _INTEGER_OPERATORS)
        if len({t.name for t in graph.initializer}) < len(graph.initializer):
            raise DamagedModel("two stored tensors have the same name")
        self.values = {t.name: stored(t, folder) for t in graph.initializer if not is_text(t)}
        self.texts = {t.name: stored_text(t) for t in graph.initializer if is_text(t)}
        self.parameters: dict[str, Variable] = {}
        self.integers: dict[str, Callable[[], Variable]] = {}
        asked, kept = _as_patterns(trainable), _as_patterns(frozen)
        kept = ("*",) if trainable is False else kept
        copies = self._copies(graph)
        integers = self._dequantized(graph, opset)
        floats: dict[str, Any] = {n: v.value for n, v in self.values.items() if v.dtype.kind == "f"}
        floats |= {y: self.values[x].value for y, x in copies.items()}
        floats |= {y: array for y, (_, array, _) in integers.items()}
        self.decisions = decisions(graph, functions, floats)
        self._name_after_integers(integers)
        self._check_patterns(asked, lambda d: not d.statistic)
        self._check_patterns(() if trainable is False else kept, lambda d: True)
        for key, decision in self.decisions.items():
            trained = decision.trained and not _matches(kept, decision.name)
            trained = trained or _matches(asked, decision.name)
            if decision.statistic or trained or (decision.trained and key not in integers):
                self._add_parameter(key, floats[key], trained and not decision.statistic)
                if key in integers:
                    parameter = self.values[key]
                    parameter.storage = replace(parameter.storage, integers=integers[key][2])
            elif decision.trained:
                self.integers[key] = integers[key][2]
            elif key in copies:
                self.values[key] = self.values[copies[key]]

    @property
    def statistics(self) -> frozenset[Variable]:
        """The running statistics."""
        return frozenset(self.values[k] for k, d in self.decisions.items() if d.statistic)

    def weight(self, key: str) -> Variable:
        """Return a stored tensor by the name that nodes read, the floats of one of integers."""
        if key not in self.integers:
            return self.values[key]
        floats = self.integers[key]()
        floats.name = self.decisions[key].name
        return floats

    def _add_parameter(self, key, array, trained):
        decision = self.decisions[key]
        name = decision.name
        v = Variable(name, data=array, dtype=array.dtype, trainable=trained)
        self.values[key] = self.parameters[name] = v

    def _copies(self, graph):
        """Return {name of a copy: name of the stored tensor}, for initial values.

        Exporters store equal tensors once, so that several layers share initial values that are
        equal by chance; each copy may be trained on its own.
        """
        return {
            node.output[0]: node.input[0]
            for node in graph.node
            if node.op_type == "Identity" and node.output and self._is_initial(node.input[0])
        }

    def _is_initial(self, name):
        v: Any = self.values.get(name)
        several = v is not None and v.dtype.kind == "f" and v.value.size > 1
        return several and patterns.uniform(v.value)

    def _dequantized(self, graph, opset):
        """Return {name: (name of the stored integers, their float values, what builds these)}."""
        dequantized = {}
        for node in graph.node:
            if not self._reads_integers(node):
                continue
            array = self._float_values(node)
            if array is not None and array.size > 1:
                inputs = [self.values[n] if n else None for n in node.input]
                attributes = {a.name: attribute_value(a) for a in node.attribute}
                build = partial(apply, node.op_type, *inputs, opset=opset, **attributes)
                dequantized[node.output[0]] = node.input[0], array, build
        return dequantized

    def _reads_integers(self, node):
        """Check whether a node converts stored integers to floats."""
        if node.op_type not in ("DequantizeLinear", "Cast") or node.domain not in STANDARD:
            return False
        are_stored = node.input and all(not n or n in self.values for n in node.input)
        return bool(are_stored) and self.values[node.input[0]].dtype.kind != "f"

    def _float_values(self, node):
        """Compute a DequantizeLinear or Cast of stored integers; None if that gives no floats."""
        arrays = [self.values[n].value if n else None for n in node.input]
        outputs = evaluate(one_node_model(node.op_type, arrays, node.attribute))
        array = None if outputs is None else np.asarray(outputs[0])
        return array if array is not None and array.dtype.kind == "f" else None

    def _name_after_integers(self, integers):
        """Give a weight stored as integers their name, unless they are read in several ways."""
        sources = [x for x, _, _ in integers.values()]
        for y, (x, _, _) in integers.items():
            if sources.count(x) == 1:
                self.decisions[y].name = x

    # ---- freezing

    def freeze(self, patterns: Sequence[str]) -> None:
        """Stop training the parameters that match; all of them without patterns."""
        for v in self._select("freeze", patterns):
            v.trainable = False

    def unfreeze(self, patterns: Sequence[str]) -> None:
        """Train the parameters that match, except statistics; all of them without patterns."""
        for v in self._select("unfreeze", patterns):
            v.trainable = True

    def _select(self, who, patterns):
        """Return the parameters, except statistics, that match a pattern; all without patterns."""
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
                if d.trained:
                    why = f"{d.name!r} is stored as integers, and was frozen when it was imported"
                return f"{who}: {why}{'' if d.statistic else hint}"
        return f"{who}: no parameter matches {pattern!r}"

    def _check_patterns(self, patterns, eligible):
        """Check that each pattern matches an eligible tensor."""
        names = [d.name for d in self.decisions.values() if eligible(d)]
        for pattern in patterns:
            if not any(_matches((pattern,), name) for name in names):
                raise ModelError(f"{pattern!r} matches no stored tensor that could be trained")

    def why_nothing(self) -> str:
        """Return why a model has nothing to train."""
        if self.integer_operators:
            operators = " and ".join(self.integer_operators)
            return (
                f"nothing is trained: {operators} multiply integers, which have no gradient\n"
                "  hint: fine-tune the float model and quantize it then, or quantize it as "
                "QuantFormat.QDQ, whose weights have float values"
            )
        return "nothing is trained: the model stores no weights, or all of them are frozen"

    # ---- the table

    def summary(self) -> str:
        """Return the table of `ImportedModel.summary`."""
        rows = [self._row(d) for d in self.decisions.values() if self._is_shown(d)]
        head = ("name", "shape", "dtype", "use", "trained")
        widths = [min(_WIDEST, max(len(r[k]) for r in (head, *rows))) for k in range(len(head))]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in (head, *rows)]
        return "\n".join([*lines, *self._totals()])

    def _is_shown(self, d):
        return np.prod(d.shape) > 1 or d.name in self.parameters

    def _row(self, d):
        trained = d.name in self.parameters and self.parameters[d.name].trainable
        frozen = (d.name in self.parameters and not d.statistic) or d.trained
        state = "yes" if trained else "no: frozen" if frozen else f"no: {d.why}"
        return d.name, str(list(d.shape)), d.dtype, d.use, state

    def _totals(self):
        every = list(self.parameters.values())
        trained = [v for v in every if v.trainable]
        constants: dict[int, Any] = {id(v): v for v in self.values.values() if v.value is not None}
        numbers = sum(v.value.size == 1 for v in constants.values())
        yield f"trained: {_total(trained)}"
        yield f"not trained: {_total([v for v in every if not v.trainable])}"
        total = _total(list(constants.values()))
        yield f"constants: {total}, of which {numbers} are single numbers"


def _total(variables):
    elements = sum(int(np.prod(v.dims)) for v in variables)
    size = sum(ceil(int(np.prod(v.dims)) * bits(v.dtype) / 8) for v in variables)
    return f"{len(variables)} tensors, {elements:,} elements, {size:,} bytes"


def _as_patterns(patterns):
    """Return a tuple of patterns for one of them or several; none for a bool."""
    if isinstance(patterns, bool):
        return ()
    return (patterns,) if isinstance(patterns, str) else tuple(patterns)


def _matches(patterns, name):
    return any(name == p or fnmatchcase(name, p) for p in patterns)
