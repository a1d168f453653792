"""The callbacks of `Module.fit`: data, and the step as a static graph or as `train_one_batch`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...graph.errors import GraphError, NotComputed, ShapeError
from ...graph.nested import variables_in
from ...graph.variable import Variable, as_dim, fresh_dim
from ...layers.layer import Layer
from ...run.session import default_session
from ...run.states import each, integer, maybe, text
from .. import Data, ForwardBackward, RunnerContext
from ..item import Following, Initialize
from ..steps import Step
from .criterion import Criterion
from .data import Batch, Source, source_of
from .evaluation import evaluated
from .kept_update import KeptUpdate
from .modes import modes_kept

Shape = tuple[int | None, ...]
_FLOAT32 = np.dtype(np.float32)


class SourceData(Data):
    """The batches of a Source, in the context as flat tuples of arrays."""

    def __init__(self, source: Source, split: bool):
        super().__init__(source.reader, inputs=[], split=split)
        self.source = source

    def feeds(self, batch: Any) -> Any:
        """Return a batch as a flat tuple of arrays; those of validations are that already."""
        return batch if isinstance(batch, Batch) else self.source.batch(batch)


class StaticStep(ForwardBackward):
    """The cost of a module as a static graph of the shapes of the first batch.

    The first axis is the batch, of any size. When another axis has another size in a later batch,
    the graph is built again, and takes any size there from then on. Arrays of float32 and float64
    are fed as `float_type`.
    """

    def __init__(
        self,
        forward: Callable[..., Any],
        criterion: Criterion,
        source: Source,
        update: KeptUpdate,
        precision: str = "float32",
        float_type: np.dtype = _FLOAT32,
        is_weighted: bool = False,
    ):
        """`is_weighted` tells that validations have weights, whether or not the training has."""
        self.forward, self.criterion, self.source = forward, criterion, source
        self._validation: Source | None = None  # that runs, or ran last
        first, self.names = source.first(), list(source.names)
        if is_weighted and "weight" not in self.names:
            self.names.append("weight")
            first = Batch((*first, np.ones(len(first[0]), np.float32)))
        self._dtypes = [float_type if a.dtype in (_FLOAT32, np.float64) else a.dtype for a in first]
        self._built_for: list[list[Shape]] = []  # the shapes of the graphs so far
        self.update, self.evaluate = update, criterion.evaluate()
        cost = self._build([(None, *a.shape[1:]) for a in first])
        super().__init__(cost, precision)

    def _build(self, shapes):
        """Build the graph for inputs, targets and weights of these shapes; return the cost."""
        source, size = self.source, fresh_dim()
        self._slots = [
            Variable.of((size, *[as_dim(name, d) for d in shape[1:]]), dtype, name)
            for name, shape, dtype in zip(self.names, shapes, self._dtypes, strict=True)
        ]
        inputs, targets = self._slots[source.inputs], self._slots[source.targets]
        weight = self._slots[-1] if "weight" in self.names else None
        try:
            outputs = list(variables_in(self.forward(*inputs)))
        except (NotComputed, TypeError) as error:
            error.add_note(
                "  hint: fit builds a static graph; if forward looks at values, define "
                "train_one_batch()"
            )
            raise
        cost = self.criterion.cost(outputs, targets, weight)
        if self.evaluate is not None:
            self.evaluate.targets = list(self.criterion.pair(outputs, targets))
        self._built_for.append(shapes)
        return cost

    def _rebuild(self, shapes):
        """Go on with a graph for other shapes, and with the same parameters and state."""
        cost = self._build(shapes)
        self._begin([cost])
        self.updates, self.inputs = [], {}
        self._trained, self._gradients = {}, None
        self.update.attach(self)
        self._set_targets()

    def fed(self, batch: Sequence[np.ndarray]) -> Mapping[Variable | str, Any]:
        """Return the feeds of a batch; without weights each sample has the weight 1."""
        names, shapes, arrays = self.names, self._built_for[-1], list(batch)
        if names[-1] == "weight" and len(arrays) == len(names) - 1:
            arrays.append(np.ones(arrays[-1].shape[: len(shapes[-1])], np.float32))
        read = self._validation.names if self._validation is not None else ()
        if len(arrays) != len(names) and "weight" in read and "weight" not in names:
            raise TypeError(
                "fit: a validation's reader has weights, and the training has none\n"
                "  hint: sample_weight of ones, or validation_data=(x, y, weights) of arrays"
            )
        if len(arrays) != len(names):
            raise TypeError(f"fit: a batch of {len(arrays)} arrays, not of {', '.join(names)}")
        wider = [_wider(*each) for each in zip(names, shapes, arrays, strict=True)]
        if wider != shapes:
            self._widen(arrays, wider)
        return dict(zip(self._slots, arrays, strict=True))

    def _widen(self, arrays, wider):
        """Build the graph for the shapes of a batch that does not fit."""
        names, shapes = self.names, self._built_for[-1]
        k = [before == after for before, after in zip(shapes, wider, strict=True)].index(False)
        try:
            self._rebuild(wider)
        except GraphError as error:
            text = f"{names[k]} {arrays[k].shape}, those before had {_text(shapes[k])}"
            raise ShapeError(f"fit: a batch has {text}; no graph is for both:\n{error}") from error

    def test_batches(self, reader: Any) -> Iterable[Any]:
        self._validation = _tested(reader)
        return self._validation

    def state(self) -> dict[str, Any]:
        shapes = [[list(shape) for shape in each] for each in self._built_for]
        return {**super().state(), "shapes": shapes}

    kinds = {**ForwardBackward.kinds, "shapes": each(each(each(maybe(integer))))}

    def check(self, state: Mapping[str, Any]) -> None:
        super().check(state)
        first = self._built_for[0]
        for shapes in _state_shapes(state):
            if len(shapes) != len(first):
                raise GraphError(
                    f"Resume: the checkpoint is of batches of {len(shapes)} arrays, "
                    f"not {len(first)}"
                )
            for name, shape, here in zip(self.names, shapes, first, strict=True):
                if len(shape) != len(here):
                    raise GraphError(
                        f"Resume: the checkpoint is of batches with {name} {_text(shape)}, "
                        f"not {_text(here)}"
                    )

    def restore(self, state: Mapping[str, Any]) -> None:
        # Random draws are named by how often their layers were built: so it is built as often.
        built_for = _state_shapes(state)
        for shapes in built_for[len(self._built_for) :]:
            self._rebuild(shapes)
        if self._built_for[-1] != built_for[-1]:
            self._rebuild(built_for[-1])
        super().restore(state)


def _state_shapes(state):
    """The shapes of the graphs of a state, sizes or None."""
    return [[tuple(shape) for shape in shapes] for shapes in state["shapes"]]


def _wider(name, shape, array):
    """A shape with None for each size that is another one in an array."""
    if array.ndim != len(shape):
        raise ShapeError(f"fit: a batch has {name} {array.shape}, those before had {_text(shape)}")
    return tuple([d if d == n else None for d, n in zip(shape, array.shape, strict=True)])


def _text(shape):
    return f"({', '.join('?' if d is None else str(d) for d in shape)})"


class ModuleStep(Step):
    """A training step by a call of a module, `train_one_batch`, for each batch."""

    scales_rate = False  # of an optimizer that it does not know

    def __init__(self, module: Layer, criterion: Criterion, source: Source):
        self.module, self.criterion, self.source = module, criterion, source
        self.evaluate = criterion.evaluate()
        self.unbuilt: list[str] = []

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        self.evaluators = []
        context.forward = self
        context.parameters.update({v.name: v for v in self.module.parameters()})
        super().initialize(context, following)

    def train_batch(self) -> dict[str, float]:
        context, ranks = self.context, self.context.ranks
        if "weight" in self.source.names:
            raise TypeError("fit: train_one_batch computes the cost, it takes no weights")
        output, cost = _output_and_cost(self.module(*context.feeds))
        self._note_built()
        for evaluator in self.every_evaluator():
            if output is None:
                raise TypeError(
                    "fit: metrics need the output: train_one_batch returns (output, cost)"
                )
            targets = context.feeds[self.source.targets]
            prediction, label = self.criterion.pair(list(variables_in(output)), targets)
            has_none = ranks is not None and ranks.samples == 0  # but rows without a weight
            arrays = None if has_none else [prediction.numpy(), label]
            evaluator.receive(arrays, ranks is not None)
        return {"cost": cost}

    def _note_built(self):
        """Tell of the parameters that the first step has built."""
        self.unbuilt = []
        if not self.context.parameters:
            self.context.parameters.update({v.name: v for v in self.module.parameters()})

    def finalize(self, following: Following) -> None:
        if self.unbuilt and not self.context.is_in_pass:  # it was resumed at its end
            _build(self.module, self.source)
            self._note_built()
        following()

    def state(self) -> dict[str, Any]:
        names = list(self.variables()) or list(self.unbuilt)
        return {**super().state(), "variables": names}

    kinds = {**Step.kinds, "variables": each(text)}
    optional = ("variables",)  # older checkpoints have none

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self.unbuilt = [] if self.variables() else list(state.get("variables", ()))

    def variables(self) -> dict[str, Variable]:
        """Return parameters and buffers by name."""
        return {v.name: v for v in (*self.module.parameters(), *self.module.buffers())}

    def test(self, reader: Any) -> dict[str, float]:
        """Return `cost` and the metrics over a reader, in evaluation mode."""
        self.criterion.check("TestEvery")
        return evaluated(self.module, self.criterion, _tested(reader), self.context.ranks)


def _tested(reader):
    """The batches of a test, which may be one that a callback takes."""
    return reader if isinstance(reader, Source) else source_of("TestEvery", reader)


def _build(module, source):
    """Build a module for the shapes of its data, with the values that wait for its parameters."""
    batch = source.first()
    with modes_kept(module), default_session().store.uncounted():
        module.eval()
        module(*batch[source.inputs])


def _output_and_cost(result):
    """The output, None if there is none, and the cost as a number."""
    is_pair = isinstance(result, (tuple, list)) and len(result) == 2
    output, cost = result if is_pair else (None, result)
    try:
        return output, float(cost)
    except (TypeError, ValueError):
        raise TypeError(
            f"fit: train_one_batch returns the cost, a scalar, or (output, cost), not {result!r}"
        ) from None
