"""ONNX models of any origin as functions of Variables."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from onnx import ModelProto

from ...graph.errors import DamagedModel, DTypeError, ModelError, ShapeError
from ...graph.holder import Holder
from ...graph.names import remember_sizes
from ...graph.variable import Operand, Variable, constant, describe, format_dims
from ...graph.whole import Whole
from .broadcasting import MeetingSizes
from .classical import with_standard_operators, without_trees
from .functions import functions_of
from .fused import with_fused_operators
from .loading import (
    STANDARD,
    check_functions,
    check_names,
    declared,
    hoisted,
    inferred_dims,
    is_optional,
    is_sequence,
    loaded,
    opsets_of,
    reported,
    size_names,
)
from .low_bits import with_standard_low_bits
from .order import sorted_model
from .reader import File, Operands, Reader
from .sizes import FOLD_LIMIT
from .sparse import with_dense_tensors
from .stored import StoredTensors
from .text import Text, refused_output
from .widening import widened


def import_onnx(
    model: str | os.PathLike | bytes | ModelProto,
    trainable: bool | str | Sequence[str] = True,
    training: bool = False,
    frozen: str | Sequence[str] = (),
    fold_limit: int = FOLD_LIMIT,
    float32: bool = False,
) -> "ImportedModel":
    """Import an ONNX model (a path, bytes, or a ModelProto) as a function of Variables.

    Stored tensors that are weights by their use become parameters with the file's names, below
    the current namespace; `summary()` of the result shows the decision on each of them.
    `trainable` and `frozen` override it: names or patterns (`"encoder.*"`) of tensors to train or
    not to train; `trainable` wins where both match, and `trainable=False` freezes all.
    With `training`, BatchNormalization and Dropout are in training mode during a training step;
    operators that the file has in training mode always are.

    With `float32`, what the file has as float16 or bfloat16 is float32 here: parameters, inputs and
    all that is computed; `export_tuned` rounds the trained values to the types of the file.

    Opsets from 7 on are supported, with external and sparse tensors, functions, loops and branches,
    and sequences whose length is known. Constant expressions of up to `fold_limit` elements are
    folded.
    ModelError for anything else in the file, DamagedFile for what contradicts itself or ONNX.

    Args:
        model: a path, bytes or a ModelProto.

    Raises:
        DamagedModel: it is no ONNX model, or contradicts itself.
    """
    proto, folder, origin = loaded(model)
    with reported(origin), Whole():
        without_trees(proto)  # which are large
        return ImportedModel(
            proto, folder, origin, trainable, training, frozen, fold_limit, float32
        )


class ImportedModel(Holder):
    """A model as a function: each call `f(x)` builds its graph anew on Variables.

    An input that is a sequence is a list of Variables; an optional one may be left out.

    `parameters` are the Variables of its parameters by the file's names, `inputs` the (dims, dtype)
    of its inputs by name, `outputs` the names of its outputs. `model` is the file, with all stored
    tensors in one place; their data may be in other files in `folder`.

    `reparametrized` has functions of stored tensors by the name that nodes read: later calls use
    their results. `operands`, if it is no None, is a function of each node of the outermost graph
    and its inputs; later calls use the inputs that it returns.
    """

    def __init__(
        self,
        model: ModelProto,
        folder: str | None,
        origin: str,
        trainable: bool | str | Sequence[str],
        training: bool,
        frozen: str | Sequence[str],
        fold_limit: int,
        float32: bool = False,
    ):
        model = with_dense_tensors(model, folder)
        check_names(model.graph)
        check_functions(model.functions)
        self.opsets = opsets_of(model)
        version = next(v for d, v in self.opsets.items() if d in STANDARD)
        model = with_standard_operators(with_standard_low_bits(model, version, folder))
        model = hoisted(sorted_model(model))
        self.model, self.folder = model, folder
        model = with_fused_operators(model)
        model = widened(model, folder) if float32 else model
        self.graph, self.origin = model.graph, origin
        self.reparametrized: dict[str, Callable[[Variable], Variable]] = {}
        self.operands: Operands | None = None
        self.functions = functions_of(model.functions)
        self.file: dict[str, Any] = {
            "folder": folder,
            "training": training,
            "fold_limit": fold_limit,
        }
        self.stored = StoredTensors(self.graph, self.functions, folder, trainable, frozen, version)
        self.parameters = self.stored.parameters
        stored_names = {t.name for t in self.graph.initializer}
        self.inputs = {i.name: declared(i) for i in self.graph.input if i.name not in stored_names}
        self.sequences = frozenset(i.name for i in self.graph.input if is_sequence(i))
        self.optional = frozenset(i.name for i in self.graph.input if is_optional(i))
        self.outputs = tuple(y.name for y in self.graph.output)
        computed = {y for node in self.graph.node for y in node.output}
        for y in self.outputs:
            if y not in computed and y not in self.inputs and y not in stored_names:
                raise DamagedModel(f"the output {y!r} is computed by no node")
        self.inferred = inferred_dims(model)
        self.reader: Reader | None = None

    def held_variables(self) -> Iterator[tuple[str, Variable, bool]]:
        """Yield (name, variable, whether it is a buffer) of parameters and of what tuning adds.

        A layer that has the model as its attribute has these, and saves them.
        """
        statistics = self.stored.statistics
        yield from [(name, v, v in statistics) for name, v in self.parameters.items()]
        for key, function in self.reparametrized.items():
            for name, v in getattr(function, "variables", dict)().items():
                yield f"{self.stored.decisions[key].name}.{name}", v, False
        yield from [
            (name, v, True) for name, v in getattr(self.operands, "buffers", dict)().items()
        ]

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(self.inputs), ", ".join(self.outputs)
        trained = sum(v.trainable for v in self.parameters.values())
        counts = f"{len(self.parameters)} parameters, {trained} of them trained"
        return f"ImportedModel({self.origin!r}: {inputs} -> {outputs}; {counts})"

    def __call__(
        self,
        *inputs: Operand,
        output: str | Sequence[str] | None = None,
        last_layers: int | None = None,
        **named: Operand,
    ) -> Variable | tuple[Variable, ...]:
        """Build the outputs for inputs in the file's order or by name; a tuple if several.

        `output` is the name of a tensor, or a list of names, at which the model is cut; with
        last_layers=-k it is cut before its last k operators. ModelError for inputs that are missing
        or unknown, ShapeError and DTypeError for inputs that do not fit the file's types.
        """
        values = self._bind(inputs, named)
        names = self._output_names(output, last_layers)
        given = [(n, x) for n, v in values.items() for x in (v if isinstance(v, list) else [v])]
        given = [(n, x) for n, x in given if x is not None]
        exact = all(x.dims == self.inputs[n][0] for n, x in given)
        sizes = frozenset(d for _, x in given for d in x.dims)
        stored = self.stored.values
        changed = {n: f(self.stored.weight(n)) for n, f in self.reparametrized.items()}
        self.reader = Reader(
            self.graph.node,
            self.opsets,
            {**stored, **self.stored.texts, **changed, **values},
            File(
                self.functions,
                input_sizes=sizes,
                freed=dict(self._freed(values)),
                statistics=self.stored.statistics,
                operands=self.operands,
                meeting=MeetingSizes(dict(_file_names(self.graph.input, values))),
                **self.file,
            ),
            declared=self.inferred if exact else _ranks(self.inferred),
            named=True,
        )
        self._name_sizes(self.graph.input, values)
        outputs = [self.tensor(name) for name in names]
        several = isinstance(output, (list, tuple)) or len(outputs) > 1
        return tuple(outputs) if several else outputs[0]

    def tensor(self, name: str) -> Variable:
        """Return a tensor of the model by its name in the file, for the inputs of the last call.

        ModelError before the first call, and for an unknown name.
        """
        if self.reader is None:
            raise ModelError(f"tensor({name!r}): call the model first")
        known = {y for node in self.graph.node for y in node.output}
        if name not in known and name not in self.reader.values:
            raise ModelError(f"the model has no tensor {name!r}; its outputs are {self.outputs}")
        with reported(self.origin):
            value: Any = self.reader.outputs([name])[0]
            if isinstance(value, Text):
                raise refused_output(name, value)
        self._name_sizes((*self.graph.output, *self.graph.value_info), {name: value})
        return value

    def freeze(self, *patterns: str) -> None:
        """Stop training the parameters of these names or patterns; all without patterns."""
        self.stored.freeze(patterns)

    def unfreeze(self, *patterns: str) -> None:
        """Train the parameters of these names or patterns; all but statistics without patterns."""
        self.stored.unfreeze(patterns)

    def summary(self) -> str:
        """Return a table of the stored tensors with more than one float, and of all parameters.

        The columns are name, shape, dtype, use, and whether it is trained, or why not; then totals.
        """
        return self.stored.summary()

    def _name_sizes(self, infos, values):
        """Keep the names that the file gives to dimensions, for exports."""
        for name, sizes in size_names(infos).items():
            dims = getattr(values.get(name), "dims", ())
            if len(dims) == len(sizes):
                remember_sizes(zip(dims, sizes, strict=True))

    def _output_names(self, output, last_layers):
        """Return the names of the tensors at which the model is cut."""
        if output is not None and last_layers is not None:
            raise ModelError("output= and last_layers= cut the model in two places")
        if output is not None:
            return list(output) if isinstance(output, (list, tuple)) else [output]
        if last_layers is None:
            return self.outputs
        count = len(self.graph.node)
        if not -count < last_layers < 0:
            raise ModelError(f"last_layers is between -{count - 1} and -1, not {last_layers}")
        return [self.graph.node[last_layers - 1].output[0]]

    def _freed(self, values):
        """Yield (first size, what the file fixes it to) of inputs of any batch size."""
        for name, x in values.items():
            dims = self.inputs[name][0]
            if not isinstance(x, Variable):
                continue
            if dims and x.dims and isinstance(dims[0], int) and isinstance(x.dims[0], str):
                yield x.dims[0], dims[0]

    def _bind(self, inputs, named):
        """Return the inputs by name, as Variables."""
        if len(inputs) > len(self.inputs):
            raise ModelError(f"{len(inputs)} inputs for {list(self.inputs)}")
        values = dict(zip(self.inputs, inputs, strict=False))
        for name, x in named.items():
            if name not in self.inputs or name in values:
                raise ModelError(f"{name!r} is no input that is left; there is {list(self.inputs)}")
            values[name] = x
        values = {**dict.fromkeys(self.optional & set(self.inputs)), **values}
        missing = [name for name in self.inputs if name not in values]
        if missing:
            raise ModelError(f"the model needs its inputs {missing} too")
        return {name: self._value(name, x) for name, x in values.items()}

    def _value(self, name, x):
        """Return an input as a Variable, a list of them for a sequence, None if it is left out."""
        if x is None and name in self.optional:
            return None
        if name not in self.sequences:
            return self._checked(name, constant(x))
        if not isinstance(x, (list, tuple)):
            raise ModelError(f"input {name!r} is a sequence: a list of Variables, not {x!r}")
        return [self._checked(name, constant(element)) for element in x]

    def _checked(self, name, x):
        """Check an input against the type in the file; return it."""
        dims, dtype = self.inputs[name]
        if x.dtype != dtype:
            raise DTypeError(f"input {name!r} is {dtype}, not {describe(x)}")
        if dims is None:
            return x
        pairs = list(zip(dims, x.dims, strict=False))
        if len(dims) != x.rank or any(d != e for d, e in pairs if _both_known(d, e)):
            raise ShapeError(f"input {name!r} is {format_dims(d or '?' for d in dims)}, not {x!r}")
        return x


def _file_names(infos, values):
    """Yield (size of an input of a call, its name in the file) where the file has a name."""
    for name, sizes in size_names(infos).items():
        dims = getattr(values.get(name), "dims", ())
        if len(dims) == len(sizes):
            yield from (
                (d, n) for d, n in zip(dims, sizes, strict=True) if n and isinstance(d, str)
            )


def _ranks(inferred):
    """Keep only the ranks of inferred dims, which hold for inputs of other sizes too."""
    return {name: (None,) * len(dims) for name, dims in inferred.items()}


def _both_known(d, e):
    return isinstance(d, int) and isinstance(e, int)
