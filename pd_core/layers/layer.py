"""Layer: an object that owns parameters and other layers, and is called like a function."""

import threading
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..graph.argument_kinds import arguments_of_class, as_python
from ..graph.errors import GraphError, NameConflict, NotInitialized, ShapeError
from ..graph.handlers import check_takes
from ..graph.initializers import Initializer
from ..graph.method import provided
from ..graph.misfits import Misfits
from ..graph.names import close_prefix, open_prefix
from ..graph.nested import mapped
from ..graph.other_words import LAYER, Signature, check_arguments, check_positions, place
from ..graph.pickled import check_picklable
from ..graph.recording import not_recording, recorder
from ..graph.site import user_site
from ..graph.variable import Shape, Variable, as_dim
from ..graph.whole import Whole, on_failure, whole
from ..ops.mode import in_mode
from ..run.session import default_session
from .hooks import Called, Hook, HookHandle, P, PreHook, R
from .loading import check_shape
from .parameter import Owned, Parameter, dtype_for, initial, parameter
from .renaming import NameMap, Transposed, Transposes, renamed
from .structure import Structure
from .summary import summary

Computed = Callable[[tuple[int, ...], Parameter], Variable]  # (shape, spec) -> parameter


def _is_of_ours(function: Any) -> bool:
    """Whether a function is a method of a layer of pd_core, which says when it changes."""
    owner = getattr(function, "__self__", None)
    return isinstance(owner, Layer) and owner._is_ours


_SIZES = "the others have names, and the first call sees the size of the input"


class _Calls(threading.local):
    """The arguments of the innermost call of a layer in progress in this thread."""

    inputs: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})


_calls = _Calls()


class Layer(Structure):
    """A part of a network: parameters, buffers and the layers below it, and a `forward`.

    A subclass assigns its layers to attributes in `__init__`, after `super().__init__()`, and
    computes in `forward`. Persistent Variables that are assigned become parameters; those of
    integers, and those in the place of a buffer, buffers. An attribute may be a list, a tuple or a
    dict of layers and Variables, nested too, which may change at any time: `blocks[0]` has the name
    `blocks.0`. A layer creates its own parameters by `parameter` and `buffer` in its first call,
    when the sizes of its inputs are known; until then `parameters()` does not list them.

    The parameter W of the layer in attribute `hidden` of a layer "policy" is the variable
    `policy/hidden/W`; in `state_dict()` of that layer it is `hidden.W`. A layer that is in no
    other and has no name gets an automatic one, `fc_0`, when its name is first needed. A name
    that was needed once does not change any more.

    A call that fails takes back what it has built, and the names of it.

    `training` is the mode of what a call builds, see `train` and `eval`.
    """

    training: bool
    _functions: Mapping[str, Computed] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._is_ours = cls.__module__.startswith("pd_core.")

    if not TYPE_CHECKING:
        __signature__ = Signature()

        def __new__(cls, *args, **kwargs):
            if kwargs:
                check_arguments(cls, kwargs)
            check_positions(cls, len(args), _SIZES)
            as_python(arguments_of_class(cls), (cls, *args), kwargs)
            return object.__new__(cls)

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self._pre_hooks: dict[HookHandle, PreHook] = {}
        self._hooks: dict[HookHandle, Hook] = {}
        self.training = True

    # ---- calls

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Compute the output; a subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward()")

    def __call__(self: Called[P, R], *inputs: P.args, **kwargs: P.kwargs) -> R:
        """Return `forward` of the inputs, built in this layer's mode and under its name."""
        layer: Any = self
        if layer._repeats and not kwargs:  # there are no repeats while there are hooks
            recording = recorder()
            output = None if recording is None else recording.repeat(layer, inputs)
            if output is not None:
                return output
        hooked = layer._pre_hooks or layer._hooks
        return layer._call(layer._hooked_forward if hooked else layer.forward, inputs, kwargs)

    def _call(self, function, inputs, kwargs):
        """Call a function in this layer's mode and under its name."""
        recording, outer, watched = recorder(), None, None
        with Whole():
            prefix = self._prefix or self._fix_prefix()
            if recording is not None:
                outer = recording.line
                # of layers of ours, the outermost; in a user's forward() each op has its own line
                recording.line = (outer or user_site()) if self._is_ours else None
                inputs, kwargs = recording.arguments(inputs, kwargs)
                recording.begin(prefix)
                watched = recording.watch(self._is_ours)
            open_prefix(prefix)
            outer_call, _calls.inputs = _calls.inputs, (inputs, kwargs)
            try:
                with in_mode(self.training):
                    output = function(*inputs, **kwargs)
                    if not self._is_called or self._is_strict:
                        self._note_call()
                    if recording is not None and self._is_ours:
                        plain = function == self.forward and not (self._pre_hooks or self._hooks)
                        same = plain and not kwargs and self._may_repeat()
                        same = same and all(map(_is_of_ours, self._functions.values()))
                        given = inputs if same else ()
                        output = recording.learned(self, given, output, watched)
                    return output
            finally:
                close_prefix()
                _calls.inputs = outer_call
                if recording is not None:
                    recording.line, recording.watched = outer, watched

    def _hooked_forward(self, *inputs, **kwargs):
        for before in list(self._pre_hooks.values()):
            result = before(self, inputs)
            if result is not None:
                inputs = result if isinstance(result, tuple) else (result,)
        output = self.forward(*inputs, **kwargs)
        for hook in list(self._hooks.values()):
            result = hook(self, inputs, output)
            output = output if result is None else result
        return output

    def register_forward_pre_hook(self, hook: PreHook) -> HookHandle:
        """Call `hook(layer, inputs)` before `forward`, from now on.

        The input or tuple of inputs that it returns replaces the inputs; None keeps them.
        """
        check_takes("a hook before forward()", hook, "layer", "inputs")
        self._repeats = False
        return HookHandle(self._pre_hooks, hook)

    def register_forward_hook(self, hook: Hook) -> HookHandle:
        """Call `hook(layer, inputs, output)` after `forward`, from now on.

        What it returns replaces the output; None keeps it.
        """
        check_takes("a hook after forward()", hook, "layer", "inputs", "output")
        self._repeats = False
        return HookHandle(self._hooks, hook)

    def infer_shape(self, *shapes: Shape | Variable) -> Any:
        """Return the shape of the output for inputs of these shapes, in the output's nesting.

        None is a size known only at run time. Inputs are float32; a Variable in place of a shape
        gives another dtype. Parameters are built as a call builds them; nothing is computed.
        """
        with not_recording():
            output = self(*[_slot(f"input_{k}", shape) for k, shape in enumerate(shapes)])
            return mapped(attrgetter("shape"), output)

    def summary(self, *shapes: Shape | Variable) -> str:
        """Return a table of this layer and all below it: class, output shape, parameters.

        `shapes` are those of the inputs, see `infer_shape`. A size that is known only at run time
        is shown as `?`. Nothing is computed; parameters are built as a call builds them. Without
        shapes no output shapes are shown, and NotInitialized is raised where nothing is built.
        """
        if not shapes and not self.parameters():
            raise NotInitialized(
                f"summary: {type(self).__name__} has no parameters yet\n"
                "  hint: give the shapes of its inputs, such as summary((None, 4))"
            )
        return summary(self, *shapes)

    def full_name(self) -> str:
        """Return the name of the layer, which begins with that of its parent and a slash."""
        return self._full_name()

    # ---- parameters and buffers

    def parameter(self, name: str, shape: Sequence[int], spec: Parameter = None) -> Variable:
        """Return a parameter of this layer; the first call creates it as `full_name()/name`.

        `spec` is an initializer or its name, `"he_uniform"`, an array, a dict of arguments of
        `Variable`, a Variable, or the name of a variable that layers share, in the namespace in
        which the layer was made. Its dtype is float64 if the layer is called with an input of
        float64, and float32 otherwise. ShapeError if it was built, or a value for it loaded, with
        another shape.
        """
        v = self._variables.get(name)
        if v is None:
            if name in self._functions:
                return self._functions[name](tuple(shape), spec)
            return self._build(name, tuple(shape), spec, False)
        if v.dims != tuple(shape):
            raise ShapeError(f"parameter {v.name!r} is {list(v.dims)}, not {list(shape)}")
        return v

    def compute_parameter(self, name: str, function: Computed) -> None:
        """Let `function(shape, spec)` compute a parameter in each call, which is not stored then.

        GraphError if the parameter is built, or computed by another function, already.
        """
        if name in self._variables or name in self._functions:
            raise GraphError(
                f"parameter {name!r} of {self.full_name()} is built or computed already"
            )
        self._functions = {**self._functions, name: function}

    def buffer(
        self,
        name: str,
        shape: Sequence[int],
        initializer: str | Initializer = "zeros",
        dtype: DTypeLike = "float32",
    ) -> Variable:
        """Return a persistent variable that is no parameter, such as a moving average.

        The first call creates it; it is not trainable, and is in `state_dict()`.
        """
        v = self._variables.get(name)
        if v is None:
            spec = {"initializer": initializer, "dtype": dtype, "trainable": False}
            return self._build(name, tuple(shape), spec, True)
        if v.dims != tuple(shape):
            raise ShapeError(f"buffer {v.name!r} is {list(v.dims)}, not {list(shape)}")
        return v

    def owned(self, name: str, spec: Parameter = None) -> Owned | Variable:
        """Return what functional layers take as `W` or `B`: a parameter of this layer, if built."""
        v = self._variables.get(name)
        return Owned(lambda shape: self.parameter(name, shape, spec)) if v is None else v

    def owned_buffer(self, name: str, initializer: str | Initializer = "zeros") -> Owned:
        """Return what functional layers take as statistics: a buffer of this layer."""
        return Owned(
            lambda shape: self.buffer(name, shape, initializer, self._dtype() or "float32")
        )

    def _dtype(self):
        """The dtype of new parameters for the inputs of this call; None for the usual one."""
        inputs, options = _calls.inputs
        return dtype_for(*inputs, *options.values())

    def _build(self, name, shape, spec, is_buffer):
        """Create a variable, or find one that is shared, and make it an attribute."""
        own = self._prefix or self._fix_prefix()
        if getattr(self, name, None) is not None:
            raise NameConflict(f"{own}{name} cannot be built: {name!r} is another attribute")
        value = self._loaded.get(name)
        if value is not None:
            check_shape(own + name, value, shape)
        spec, shared = initial(spec, value)
        open_prefix(self._namespace if shared else own)
        try:
            v = parameter(spec, name, shape, None if is_buffer else self._dtype())
        finally:
            close_prefix()
        if v.is_persistent:
            on_failure(self._unbuild, name, name in vars(self))
            self._add_variable(name, v, is_buffer)
            object.__setattr__(self, name, v)
            if self._is_strict and value is None:
                self._lacking.append(name)
        return v

    def parameters(self) -> list[Variable]:
        """Return the parameters that are built, of this layer and all below it."""
        return [v for _, v in self.named_parameters()]

    def named_parameters(self) -> list[tuple[str, Variable]]:
        """Return (name from this layer on, such as `hidden.W`; parameter) pairs."""
        return [(name, v) for name, v, is_buffer in self._named_variables() if not is_buffer]

    def buffers(self) -> list[Variable]:
        """Return the buffers that are built, of this layer and all below it."""
        return [v for _, v in self.named_buffers()]

    def named_buffers(self) -> list[tuple[str, Variable]]:
        """Return (name from this layer on, such as `norm.mean`; buffer) pairs."""
        return [(name, v) for name, v, is_buffer in self._named_variables() if is_buffer]

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the values in the default session of what is built, {`hidden.W`: array}."""
        session = default_session()
        return {name: session.val(v) for name, v, _ in self._named_variables()}

    def load_dict(
        self,
        values: Mapping[str, ArrayLike],
        strict: bool = True,
        mapping: NameMap = None,
        transpose: Transposed = None,
    ) -> Misfits:
        """Set parameters and buffers in the default session to these values, {`hidden.W`: array}.

        A value for what is not built yet is kept and becomes its initial value. Names that are
        missing, or that nothing has, are a GraphError that lists them, here or, for what is not
        built yet, in the call that builds it. With strict=False what fits is loaded, and they are
        returned, as (missing, unexpected); see `unused_values`, too. Another shape is a ShapeError,
        another dtype, such as floats for integers, a DTypeError, and different values of a shared
        parameter a GraphError; one error has all that is wrong, and nothing is changed after it.

        `mapping` is for values under other names: {name in the values: name here}, a list of
        (pattern, replacement) pairs of regular expressions, which are substituted one after the
        other, or a function of the name; None instead of a name leaves the value out. `transpose`
        has patterns of names in the values whose matrices are transposed, or {pattern: order of the
        axes}. For PyTorch's layers there is `pd.interchange.from_pytorch`.
        """
        who = f"{type(self).__name__}.load_dict"
        if not isinstance(values, Mapping):
            raise TypeError(f"{who}: takes a dict of values by name, not a {type(values).__name__}")
        for key in values:
            if not isinstance(key, str):
                raise TypeError(f"{who}: names are text, not {key!r}")
        order = Transposes(who, transpose, list(values))
        origins = renamed(who, list(values), mapping, strict)
        found = {new: order.apply(name, values[name]) for new, name in origins.items()}
        return self._load(found, strict, who, origins)

    def unused_values(self) -> dict[str, np.ndarray]:
        """Return the loaded values of what is not built, or is in no layer: {name: array}."""
        return self._waiting()

    def clear_gradients(self) -> None:
        """Forget the gradients of the parameters."""
        provided["clear_gradients"](self._every_parameter())

    # ---- the layers below

    def children(self) -> list["Layer"]:
        """Return the layers that are attributes of this one, or in a list or dict that is one."""
        return list(dict.fromkeys(self._parts()[0].values()))

    def sublayers(self) -> list["Layer"]:
        """Return all layers below this one, each in front of its own children."""
        return [layer for _, layer in self.named_sublayers()]

    def named_sublayers(self) -> list[tuple[str, "Layer"]]:
        """Return (name from this layer on, such as `block.conv`; layer) pairs."""
        return [(path[:-1], layer) for path, layer in self._walk() if layer is not self]

    def train(self) -> Self:
        """Put this layer and all below it into training mode, and return it.

        What it builds has both sides of dropout and the like; an evaluation selects one.
        """
        return self._set_training(True)

    def eval(self) -> Self:
        """Put this layer and all below it into evaluation mode, and return it.

        What it builds is for inference, also where it is part of a training step.
        """
        return self._set_training(False)

    def _set_training(self, training):
        for _, layer in self._walk():
            layer.training = training
        return self

    def freeze(self) -> Self:
        """Make all parameters untrainable, those that are built later too; return the layer."""
        self._set_frozen(True)
        for v in self.parameters():
            v.trainable = False
        return self

    def unfreeze(self) -> Self:
        """Make all parameters trainable, and return the layer."""
        self._set_frozen(False)
        for v in self.parameters():
            v.trainable = True
        return self

    def apply(self, function: Callable[["Layer"], Any]) -> Self:
        """Call a function with every layer below this one and then with itself; return it.

        A layer comes after its own children.
        """
        check_takes("the function of apply()", function, "layer")
        self._apply(function, set())
        return self

    def _apply(self, function, seen):
        seen.add(self)
        for child in self.children():
            if child not in seen:
                child._apply(function, seen)
        function(self)

    # ---- text and copies

    def extra(self) -> str:
        """Return what `repr` shows of the layer itself, such as its sizes."""
        return ""

    def __repr__(self) -> str:
        lines = [self.extra()] if self.extra() else []
        layers = self._parts()[0]
        lines += [f"({name}): {child!r}" for name, child in layers.items()]
        body = "\n".join(lines)
        if layers:
            body = "\n  " + body.replace("\n", "\n  ") + "\n"
        return f"{type(self).__name__}({body})"

    @whole
    def __deepcopy__(self, memo: dict[int, Any]) -> "Layer":
        """Copy the layer with all below it: new variables with the same values, under a new name.

        The copy has no explicit name, so that it takes that of the layer to which it is assigned.
        """
        return self._copied(_empty, memo)

    def __copy__(self) -> NoReturn:
        raise TypeError(
            f"a layer, {type(self).__name__}, is not copied without its parameters"
            "\n  hint: use copy.deepcopy()"
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle has of the layer: settings, names, and values in the session.

        Where it is unpickled its variables have the same names, or new ones beside a layer that has
        them. TypeError for an attribute that cannot be pickled.
        """
        who = self._prefix[:-1] if self._prefix else type(self).__name__
        for hook in (*self._pre_hooks.values(), *self._hooks.values()):
            check_picklable(f"{who}: a hook", hook)
        for name, function in self._functions.items():
            check_picklable(f"{who}: the function of {name}", function)
        return self._state()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set_state(state)


place(Layer, LAYER)


def _empty(layer):
    twin = object.__new__(type(layer))
    Layer.__init__(twin)
    return twin


def _slot(name, shape):
    """Return a feed slot that no namespace owns, for a shape or a Variable."""
    if isinstance(shape, Variable):
        return Variable.of(shape.dims, shape.dtype, name)
    return Variable.of([as_dim("infer_shape", d) for d in shape], np.float32, name)
