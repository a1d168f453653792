"""ONNX models of any origin as functions of Variables."""

from ..graph.errors import DTypeError, ModelError, ShapeError
from ..graph.names import remember_sizes
from ..graph.variable import constant, describe, shown
from .loading import (
    check_names,
    declared,
    gathered,
    loaded,
    opsets_of,
    promised,
    reported,
    size_names,
)
from .reader import File, Reader
from .sizes import FOLD_LIMIT
from .stored import StoredTensors


def import_onnx(model, trainable=True, training=False, frozen=(), fold_limit=FOLD_LIMIT):
    """An ONNX model (a path, bytes, or a ModelProto) as a function of Variables.

    Stored tensors that are weights by their use become parameters with the file's names, below
    the namespace in force; `summary()` of the result shows the decision on each of them.
    `trainable` and `frozen` overrule it: names or patterns (`"encoder.*"`) of tensors that are
    trained, or are not; `trainable` wins where both match, and `trainable=False` freezes all.
    With `training` a training step through BatchNormalization and Dropout does what they do in
    training, as the file was trained; what the file has in training mode always does.

    Opsets from 7 on are read, tensors in files beside the model too, functions, loops and branches
    included; sequences where their length is known. What is computed of constants alone is
    computed once, up to `fold_limit` elements. ModelError says what else is in the file,
    DamagedFile what contradicts itself or ONNX.
    """
    found, folder, origin = loaded(model)
    with reported(origin):
        return ImportedModel(found, folder, origin, trainable, training, frozen, fold_limit)


class ImportedModel:
    """A model as a function: `f(x)` builds its graph on Variables, each time anew.

    `parameters` are its parameters by the file's names, `inputs` the dims and dtype of what it
    takes, `outputs` the names of what it gives.
    """

    def __init__(self, model, folder, origin, trainable, training, frozen, fold_limit):
        check_names(model.graph)
        model = gathered(model)
        self.graph, self.origin = model.graph, origin
        self.opsets = opsets_of(model)
        self.functions = {(f.domain, f.name): f for f in model.functions}
        self.file = {"folder": folder, "training": training, "fold_limit": fold_limit}
        if self.graph.sparse_initializer:
            raise ModelError("the model stores sparse tensors, which are not imported")
        self.stored = StoredTensors(self.graph, self.functions, folder, trainable, frozen)
        self.parameters = self.stored.parameters
        self.inputs = {
            i.name: declared(i) for i in self.graph.input if i.name not in self.stored.values
        }
        self.outputs = tuple(y.name for y in self.graph.output)
        self.promised = promised(model)
        self.reader, self.sizes = None, {}

    def __call__(self, *inputs, output=None, last_layers=None, **named):
        """The outputs for these inputs, given in the file's order or by name: a Variable, or a
        tuple if there are several.

        `output` is the name of a tensor, or a list of names, at which the model is cut; with
        last_layers=-k it is cut before its last k operators.
        """
        given = self._given(inputs, named)
        wanted = self._wanted(output, last_layers)
        exact = all(x.dims == self.inputs[n][0] for n, x in given.items())
        sizes = frozenset(d for x in given.values() for d in x.dims)
        self.reader = Reader(
            self.graph.node,
            self.opsets,
            {**self.stored.values, **given},
            File(self.functions, given=sizes, statistics=self.stored.statistics, **self.file),
            declared=self.promised if exact else _ranks(self.promised),
            named=True,
        )
        self.sizes = {}
        self._name_sizes(self.graph.input, given)
        found = [self.tensor(name) for name in wanted]
        return tuple(found) if isinstance(output, (list, tuple)) or len(found) > 1 else found[0]

    def tensor(self, name):
        """A tensor inside the model by its name in the file, for the inputs of the last call."""
        if self.reader is None:
            raise ModelError(f"tensor({name!r}): call the model first")
        known = {y for node in self.graph.node for y in node.output}
        if name not in known and name not in self.reader.values:
            raise ModelError(f"the model has no tensor {name!r}; its outputs are {self.outputs}")
        with reported(self.origin):
            (found,) = self.reader.outputs([name])
        self._name_sizes((*self.graph.output, *self.graph.value_info), {name: found})
        return found

    def freeze(self, *patterns):
        """Train the parameters of these names or patterns no more; all without any."""
        self.stored.freeze(patterns)

    def unfreeze(self, *patterns):
        """Train the parameters of these names or patterns; all but statistics without any."""
        self.stored.unfreeze(patterns)

    def summary(self):
        """A table of the stored tensors that hold more than one float, or are trained: name,
        shape, dtype, use, and whether it is trained, or why not; then totals.
        """
        return self.stored.summary()

    def _name_sizes(self, infos, values):
        """Keep the names that the file gives to dimensions, for exports."""
        for name, sizes in size_names(infos).items():
            dims = getattr(values.get(name), "dims", ())
            if len(dims) == len(sizes):
                remember_sizes(zip(dims, sizes, strict=True), self.sizes)

    def _wanted(self, output, last_layers):
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

    def _given(self, inputs, named):
        """The inputs by name."""
        if len(inputs) > len(self.inputs):
            raise ModelError(f"{len(inputs)} inputs for {list(self.inputs)}")
        given = dict(zip(self.inputs, inputs, strict=False))
        for name, x in named.items():
            if name not in self.inputs or name in given:
                raise ModelError(f"{name!r} is no input that is left; there is {list(self.inputs)}")
            given[name] = x
        missing = [name for name in self.inputs if name not in given]
        if missing:
            raise ModelError(f"the model needs its inputs {missing} too")
        return {name: self._fitting(name, constant(x)) for name, x in given.items()}

    def _fitting(self, name, x):
        dims, dtype = self.inputs[name]
        if x.dtype != dtype:
            raise DTypeError(f"input {name!r} is {dtype}, not {describe(x)}")
        if dims is None:
            return x
        pairs = list(zip(dims, x.dims, strict=False))
        if len(dims) != x.rank or any(d != e for d, e in pairs if _both_known(d, e)):
            raise ShapeError(f"input {name!r} is {shown(d or '?' for d in dims)}, not {x!r}")
        return x


def _ranks(promised):
    """What remains of the promised dims for inputs of other sizes."""
    return {name: (None,) * len(dims) for name, dims in promised.items()}


def _both_known(d, e):
    return isinstance(d, int) and isinstance(e, int)
