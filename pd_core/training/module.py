"""Module: a network with its training step, compiled from shapes, saved and loaded."""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from inspect import signature
from typing import Any

from ..dynamic import Placeholder, guard, no_grad
from ..dynamic.state import current_state
from ..graph.errors import ExportError, GraphError, LoadWarning, NotInitialized
from ..graph.nested import variables_in
from ..graph.other_words import says_arguments
from ..graph.recording import not_recording, recorder
from ..graph.variable import Variable
from ..graph.whole import on_failure, whole
from ..layers.layer import Layer
from ..onnx.exporting.export import export_onnx
from ..ops import identity
from ..ops.mode import mode
from ..optimizers.base import Optimizer
from ..optimizers.loss_scaling import LossScaler
from ..optimizers.named import optimizer_named
from ..run.parameters import compared
from ..run.session import default_session
from ..storage.small_floats import widened
from ..storage.tensors import write_tensors
from .evaluate import Metrics
from .fit import saved
from .fit.criterion import Criterion, Loss, loss_named
from .fit.data import array_source, is_array, reader_source, source_of
from .fit.evaluation import evaluated, predicted
from .fit.fitting import Callbacks, fit, shown, training_sources
from .fit.history import History
from .fit.inputs import DeclaredInput, Input, declared
from .fit.modes import modes_kept
from .ranks import job


class Module(Layer):
    """A layer that is called with arrays: a whole network, and a step of its training.

    A subclass defines `forward`, and may define `train_one_batch(*inputs)`: the computation of the
    cost and `optimizer.backward_and_update(cost)`. In training mode a call with arrays is
    `train_one_batch`, if there is one; in evaluation mode it is `forward`. Values are at hand in
    both, as in `pd.guard()`, and so they are in the results, which later calls do not change.

    Every call records its graph anew, and a program is found by the structure of the graph, so
    that a Python value, a rank or a branch that changes is noticed; the calls that repeat a
    structure compile nothing. A forward pass, its gradients and the update are one program.

    A call inside another layer, or with Variables of a static graph, builds `forward` into that
    graph, as for any layer.
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self._use_graph = True
        self._is_compiled = False
        self._inputs: tuple[DeclaredInput, ...] = ()  # of forward
        self._criterion = Criterion(None, ())  # of the last `fit`
        self._named: tuple[str, Optimizer] | None = None  # the optimizer that `fit` made of a name

    # ---- calls

    @says_arguments
    @whole
    def compile(
        self, inputs: Sequence[Input], is_train: bool = True, use_graph: bool = True
    ) -> None:
        """Build all parameters for inputs of `forward` of these shapes; nothing is computed.

        An input is a Placeholder, whether filled or not, another Variable, or a shape, which is
        then float32. `is_train` sets the mode, as `train()` and `eval()` do. Without `use_graph`
        every operator is computed at its line, for debugging: one that fails raises there.

        Where `forward` looks at values, which are not there yet, leave this out: the first call
        does the same, and takes the first axis of inputs to be the batch, of any size.
        """
        for layer in (self, *self.sublayers()):
            on_failure(vars(layer).update, {"training": layer.training})
        on_failure(vars(self).update, {"_use_graph": self._use_graph})
        self._forget_on_failure()
        self._set_training(is_train)
        self._use_graph = use_graph
        self._inputs = declared(inputs)
        self._build_forward()
        self._is_compiled = True

    def _forget_on_failure(self):
        """Let a call that fails leave what is known of the inputs as it is."""
        known = {"_inputs": self._inputs, "_is_compiled": self._is_compiled}
        on_failure(vars(self).update, known)

    def _build_forward(self):
        """Return feed slots for the inputs, and the static graph of `forward` on them."""
        slots = [x.slot() for x in self._inputs]
        with not_recording():
            return slots, super().__call__(*slots)

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        """Take a training step or return `forward`, by the mode; see the class."""
        values = [*inputs, *kwargs.values()]
        if mode() is not None or (recorder() is None and any(map(_is_static, values))):
            return self._computed(None, inputs, kwargs)
        train = getattr(self, "train_one_batch", None) if self.training else None
        if recorder() is not None and self._use_graph:
            return self._computed(train, inputs, kwargs)
        if recorder() is not None:
            with guard(immediate=True):
                return self._computed(train, inputs, kwargs)
        with guard(immediate=not self._use_graph):
            # nobody can ask for gradients of what is evaluated outside of a guard
            with nullcontext() if self.training else no_grad():
                output = self._computed(train, inputs, kwargs)
            waiting = [v for v in variables_in(output) if v.is_recorded and v.eager_value is None]
            if waiting:
                current_state().force(waiting)
            return output

    def _computed(self, train, inputs, kwargs):
        with nullcontext() if self._is_compiled else self._noting_inputs():
            if train is None:
                return super().__call__(*inputs, **kwargs)
            return self._call(train, inputs, kwargs)

    @contextmanager
    def _noting_inputs(self):
        """Note in a `with` what `forward` is called with, from wherever in the training step."""
        forward = self.forward

        def noting(*inputs, **kwargs):
            self._forget_on_failure()
            given = signature(forward).bind(*inputs, **kwargs).args
            output = forward(*inputs, **kwargs)
            self._inputs = declared(variables_in(given))
            self._is_compiled = True
            return output

        own = vars(self).get("forward")
        object.__setattr__(self, "forward", noting)
        try:
            yield
        finally:
            if own is None:
                del vars(self)["forward"]
            else:
                object.__setattr__(self, "forward", own)

    # ---- training

    @says_arguments
    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        optimizer: str | Optimizer | LossScaler | None = None,
        loss: Loss | None = None,
        epochs: int = 1,
        batch_size: int | None = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        metrics: Metrics = (),
        callbacks: Callbacks = (),
        class_weight: Mapping[int, float] | None = None,
        sample_weight: Any = None,
        shuffle: bool | None = None,
        seed: int | None = None,
        verbose: bool | None = None,
        split: bool = True,
        precision: str = "float32",
    ) -> History:
        """Train until there were so many epochs; return the numbers of each.

        x and y are arrays whose first axis is the samples, or tuples or lists of such arrays for
        several inputs and targets; or x is a reader without y, a function or an iterable of
        batches (x, y) or (x, y, weights). `batch_size`, by default 32, `shuffle`, by default True,
        and `seed`, by default 0, which with the number of the epoch determines the order, are for
        arrays: a reader has its own.

        The cost is `loss(*outputs, *targets)`, or a loss of `pd.nn` by name, such as "mse" or
        "softmax_cross_entropy"; so may the optimizer be, `"adam"` with its defaults, and the next
        call with the same name goes on with it. Parameters are updated by a static graph, which is
        built for the shapes of the first batch, and again if another axis than the first changes;
        a reader is called once more for that batch. The optimizer has the same state in all calls,
        and in steps inside `pd.guard()`. A module with `train_one_batch` is called with each batch
        instead; it returns the cost, or (output, cost) for metrics, and has its own optimizer.

        `validation_data` is (x, y), (x, y, weights) or a reader; `validation_split` takes this
        share of the arrays from their end, before they are shuffled. `metrics`, names, instances of
        `pd.metrics.Metric` or functions (y_true, y_pred), compare one output with one y.
        `callbacks` are items around the step, such as `pd.training.StopEarly`; `Resume` continues
        a training that `SaveEvery` saved. A function among them is called with the context after
        each epoch.

        `class_weight` {class: weight, 1 if it is not there} and `sample_weight` [N] multiply the
        loss of each sample in training; the cost is sum(w loss) / n.

        `verbose` shows a bar for each epoch, by default only in a terminal.

        `precision="mixed_float16"` computes products in float16, with gradients of a cost times a
        scale, which follows overflows; the scale is state of the optimizer, or of a `pd.LossScaler`
        around it, which has other settings. Parameters, slots and files stay float32, and so does
        what `evaluate` and `predict` compute. `"mixed_bfloat16"` is for devices that have it.

        In a job of `pd.distributed` all ranks call it. x, y and the validation are the whole data
        on each of them, and `batch_size` that of all together: each rank takes its rows of every
        batch. With `split=False` data and `batch_size` are those of this rank alone. The numbers of
        the History are over all ranks.

        The module is in training mode meanwhile. If it was that before, layers below it that are in
        evaluation mode stay so.

        Args:
            x: arrays [N, ...], or a reader.
            y: arrays [N, ...]; None with a reader.
            loss: a layer or a function (*outputs, *targets) -> cost.

        Returns:
            The `cost` and metrics of each epoch.

        Raises:
            DTypeError: an array holds no numbers, or the device lacks the precision.
            ShapeError: the arrays have different numbers of samples, or none.
            TypeError: optimizer, loss or y is missing, an argument is of another kind, or one that
                is for arrays is given with a reader.
            ValueError: the precision has another name, validation_split leaves no samples, an array
                has a NaN, or a reader gives nothing.
        """
        training, validation = training_sources(
            x,
            y,
            validation_split,
            validation_data,
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            class_weight=class_weight,
            sample_weight=sample_weight,
        )
        criterion, forward = Criterion(loss_named("fit", loss), metrics), self._static_forward()
        chosen = self._optimizer_named(optimizer) if isinstance(optimizer, str) else optimizer
        self._criterion = criterion
        items = shown(callbacks, verbose)
        return fit(
            self, forward, criterion, chosen, training, validation, items, epochs, split, precision
        )

    def _optimizer_named(self, name):
        """Return the optimizer of a name: that of the last `fit` if it had the same name."""
        if self._named is None or self._named[0] != name:
            self._named = name, optimizer_named("fit", name)
        return self._named[1]

    def _static_forward(self) -> Callable[..., Any]:
        """Return a function that builds `forward` on feed slots.

        It notes them as the inputs of the module, unless they are known before.
        """
        is_known = self._is_compiled

        def build(*slots):
            output = self(*slots)
            if not is_known:
                self._forget_on_failure()
                self._inputs = declared(slots)
            return output

        return build

    @says_arguments
    def evaluate(
        self,
        x: Any,
        y: Any = None,
        *,
        loss: Loss | None = None,
        metrics: Metrics | None = None,
        batch_size: int | None = None,
        split: bool = True,
    ) -> dict[str, float]:
        """Return the mean `cost`, and metrics by name, in evaluation mode.

        x and y are those of `fit`, without weights. Loss and metrics are those of the last `fit`
        unless they are given. In a job all ranks call it with the whole data, and each computes its
        rows of every batch; with `split=False` a rank evaluates its own data alone.

        Args:
            x: arrays [N, ...], or a reader.
            y: arrays [N, ...]; None with a reader.
            loss: as in `fit`.

        Returns:
            {name: number}.

        Raises:
            ShapeError: the arrays have different numbers of samples, or none.
            TypeError: there is no loss, or an argument is of another kind.
            ValueError: a reader gives no batches, or an array has a NaN.
        """
        last = self._criterion
        loss = loss_named("evaluate", loss) or last.loss
        criterion = Criterion(loss, last.metrics if metrics is None else metrics)
        criterion.check("evaluate")
        source = source_of("evaluate", x, y, batch_size=batch_size)
        return evaluated(self, criterion, source, job(splits=True) if split else None)

    @says_arguments
    def predict(self, x: Any, *, batch_size: int | None = None, split: bool = True) -> Any:
        """Return the output in evaluation mode for all samples, arrays in its nesting.

        x is an array [N, ...], a tuple or list of arrays for several inputs, or a reader of batches
        of these. In a job all ranks call it with the same x, each computes its rows of every batch,
        and all get all rows; with `split=False` a rank computes its own x alone.

        Args:
            x: arrays [N, ...], or a reader of their batches.

        Returns:
            Arrays with the samples along their first axis.

        Raises:
            ShapeError: there are no samples, or the outputs of batches do not fit together.
            ValueError: a reader gives no batches, or an array has a NaN.
        """
        if is_array(x):
            source = array_source("predict", x, batch_size=batch_size)
        else:
            source = reader_source("predict", x, batch_size=batch_size)
        return predicted(self, source, job(splits=True) if split else None)

    # ---- parameters

    def get_params(self) -> dict[str, Variable]:
        """Return the parameters by name, such as `conv.W`; NotInitialized before `compile`.

        Raises:
            NotInitialized: the parameters are not built.
        """
        self._check_compiled("get_params")
        return dict(self.named_parameters())

    def get_states(self) -> dict[str, Variable]:
        """Return parameters and buffers by name; NotInitialized before `compile`.

        Raises:
            NotInitialized: the parameters are not built.
        """
        self._check_compiled("get_states")
        return dict([*self.named_parameters(), *self.named_buffers()])

    def _check_compiled(self, who):
        if not self._is_compiled:
            raise NotInitialized(
                f"{who}: {type(self).__name__} has no parameters yet\n"
                "  hint: compile() it with the shapes of its inputs, or call it with arrays"
            )

    def summary(self, *shapes: Input) -> str:
        """Return a table of the layers: class, output shape, number of parameters.

        `shapes` are those of the inputs, by default what was compiled. A size that is known only
        at run time is shown as `?`. Nothing is computed; parameters are built as a call does.

        Args:
            shapes: one for each input of `forward`.

        Raises:
            NotInitialized: no shape is given, and the module is not compiled.
        """
        if not shapes:
            self._check_compiled("summary")
        return super().summary(*(shapes or [x.slot() for x in self._inputs]))

    # ---- files

    def save(self, path: str | os.PathLike, state: Mapping[str, Any] | None = None) -> None:
        """Write `path.onnx`, the model for inference, and `path.safetensors`, all of its values.

        The ONNX model takes what the module was compiled for, any size where that was None. Its
        inputs are `input_0`, … or have the names of the Placeholders, its outputs `output_0`, ….
        The other file has parameters and buffers by name, and `state`: nested dicts and lists of
        numbers, strings, arrays and Variables; an optimizer stands for the state of its steps.
        Each file is written completely or not at all.

        Args:
            path: of the two files, without a suffix.
            state: nested dicts and lists of numbers, strings, arrays, Variables and optimizers.

        Raises:
            NotInitialized: the parameters are not built.
        """
        self._check_compiled("save")
        path = os.fspath(path)
        with not_recording():
            tensors, metadata = saved.content(self.get_states(), state or {})
            slots, targets = self._inference()
            export_onnx(f"{path}.onnx", targets, slots)
        write_tensors(f"{path}.safetensors", tensors, metadata)

    def _inference(self):
        """Return feed slots, and the outputs of `forward` in evaluation mode."""
        with modes_kept(self):
            self.eval()
            slots, output = self._build_forward()
        targets = [identity(v) for v in variables_in(output)]
        if not targets:
            raise ExportError(f"save: forward of {type(self).__name__} returns no Variables")
        for k, v in enumerate(targets):
            v.name = f"output_{k}"
        return slots, targets

    def load(
        self, path: str | os.PathLike, include_state: bool = False, strict: bool = False
    ) -> dict[str, Any]:
        """Set parameters and buffers to what `save` wrote; return its `state`, if included.

        A LoadWarning names each parameter or buffer that the file lacks or has in another shape,
        and each that only the file has; these are left as they are. With `strict` they are a
        GraphError that lists all of them, and nothing is changed. The state of an optimizer is a
        dict for `load_state` of this module's. The module has to be compiled: NotInitialized.
        DamagedFile if `save` did not write the file so.

        Args:
            path: of the two files, without a suffix.
            strict: whether all must fit.

        Raises:
            GraphError: with `strict`, names or shapes differ.
            NotInitialized: the parameters are not built.
        """
        self._check_compiled("load")
        file, variables = f"{os.fspath(path)}.safetensors", self.get_states()
        values, state = saved.read(file, variables)
        fitting, misfits = compared(variables, values)
        if misfits and strict:
            raise GraphError("\n".join([f"load: {file} does not fit", *misfits.values()]))
        for text in misfits.values():
            warnings.warn(f"load: {text} ({file})", LoadWarning, stacklevel=2)
        default_session().load_values({variables[name]: widened(values[name]) for name in fitting})
        return state if include_state else {}


def _is_static(x):
    """Whether a value belongs to a static graph; a Placeholder may be filled."""
    return isinstance(x, Variable) and not x.has_value and not isinstance(x, Placeholder)
