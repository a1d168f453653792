"""Layer: an object that owns parameters and other layers, and is called like a function."""

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NoReturn, ParamSpec, Protocol, Self, SupportsIndex, TypeVar, cast
from weakref import ref

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..graph.errors import NameConflict, ShapeError
from ..graph.handlers import check_takes
from ..graph.initializers import Initializer, Value, initializer, initializers
from ..graph.names import close_prefix, current_namespace, open_prefix
from ..graph.nested import mapped
from ..graph.recording import not_recording, recorder
from ..graph.site import user_site
from ..graph.variable import Shape, Variable, as_dim
from ..ops.mode import in_mode
from ..run.session import default_session
from .hooks import HookHandle
from .parameter import Owned, Parameter, free_name, parameter

PreHook = Callable[["Layer", tuple], Any]  # (layer, inputs) -> inputs, or None to keep them
Hook = Callable[["Layer", tuple, Any], Any]  # (layer, inputs, output) -> output, or None

P = ParamSpec("P")
R = TypeVar("R")
_Output = TypeVar("_Output", covariant=True)


class _Callable(Protocol[P, _Output]):
    """A layer to type checkers: calls have the types of its `forward`."""

    @property
    def forward(self) -> Callable[P, _Output]: ...


class Layer:
    """A part of a network: parameters, buffers and the layers below it, and a `forward`.

    A subclass assigns its layers to attributes in `__init__`, after `super().__init__()`, and
    computes in `forward`. Persistent Variables that are assigned become parameters; those of
    integers, and those in the place of a buffer, buffers. A layer creates its own parameters by
    `parameter` and `buffer` in its first call, when the sizes of its inputs are known; until then
    `parameters()` does not list them.

    The parameter W of the layer in attribute `hidden` of a layer "policy" is the variable
    `policy/hidden/W`; in `state_dict()` of that layer it is `hidden.W`. A layer that is in no
    other and has no name gets an automatic one, `fc_0`, when its name is first needed. A name
    that was needed once does not change any more.

    `training` is the mode of what a call builds, see `train` and `eval`.
    """

    training: bool
    _is_ours = True  # whether the class is defined here rather than by a user

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._is_ours = cls.__module__.startswith("pd_core.")

    def __init__(self, name: str | None = None) -> None:
        if name is not None and (not isinstance(name, str) or not name.strip("/")):
            raise TypeError(f"the name of a layer is a str that is not empty, not {name!r}")
        self._layers: dict[str, Layer] = {}
        self._variables: dict[str, Variable] = {}
        self._buffers: set[str] = set()
        self._loaded: dict[str, np.ndarray] = {}  # values of what is not built yet
        self._pre_hooks: dict[HookHandle, PreHook] = {}
        self._hooks: dict[HookHandle, Hook] = {}
        self._given_name = name
        self._namespace = current_namespace()
        self._parent: ref[Layer] | None = None
        self._attribute = ""  # of the parent
        self._prefix: str | None = None  # the full name and a slash, once it is needed
        self._frozen = False
        self.training = True

    # ---- calls

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Compute the output; a subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward()")

    def __call__(self: _Callable[P, R], *inputs: P.args, **kwargs: P.kwargs) -> R:
        """Return `forward` of the inputs, built in this layer's mode and under its name."""
        layer = cast(Layer, self)
        hooked = layer._pre_hooks or layer._hooks
        return layer._call(layer._hooked_forward if hooked else layer.forward, inputs, kwargs)

    def _call(self, function, inputs, kwargs):
        """Call a function in this layer's mode and under its name."""
        prefix = self._prefix or self._fix_prefix()
        recording, outer = recorder(), None
        if recording is not None:
            outer = recording.line
            # of layers of ours, the outermost; in a user's forward() each op has a line of its own
            recording.line = (outer or user_site()) if self._is_ours else None
            inputs, kwargs = recording.arguments(inputs, kwargs)
            recording.begin(prefix)
        open_prefix(prefix)
        try:
            with in_mode(self.training):
                return function(*inputs, **kwargs)
        finally:
            close_prefix()
            if recording is not None:
                recording.line = outer

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
        TypeError for a hook that does not take these arguments.
        """
        check_takes("a hook before forward()", hook, "layer", "inputs")
        return HookHandle(self._pre_hooks, hook)

    def register_forward_hook(self, hook: Hook) -> HookHandle:
        """Call `hook(layer, inputs, output)` after `forward`, from now on.

        What it returns replaces the output; None keeps it.
        """
        check_takes("a hook after forward()", hook, "layer", "inputs", "output")
        return HookHandle(self._hooks, hook)

    def infer_shape(self, *shapes: Shape | Variable) -> Any:
        """Return the shape of the output for inputs of these shapes, in the output's nesting.

        None is a size known only at run time. Inputs are float32; a Variable in place of a shape
        gives another dtype. Parameters are built as a call builds them; nothing is computed.
        """
        with not_recording():
            output = self(*[_slot(f"input_{k}", shape) for k, shape in enumerate(shapes)])
            return mapped(attrgetter("shape"), output)

    # ---- names

    def full_name(self) -> str:
        """Return the name of the layer, which begins with that of its parent and a slash."""
        return (self._prefix or self._fix_prefix())[:-1]

    def _fix_prefix(self):
        parent = None if self._parent is None else self._parent()
        if parent is not None:
            name = f"{parent.full_name()}/{self._given_name or self._attribute}"
        elif self._given_name is not None:
            name = self._namespace + self._given_name.strip("/")
        else:
            name = free_name(_snake_case(type(self).__name__) + "_", self._namespace)
        self._prefix = f"{name}/"
        return self._prefix

    # ---- attributes

    def __setattr__(self, name: str, value: Any) -> None:
        attributes = self.__dict__
        if "_layers" not in attributes and name != "_layers":
            raise AttributeError(
                f"{type(self).__name__}: call super().__init__() before {name!r} is assigned"
            )
        if isinstance(value, Layer):
            self._forget(name, self._layers)
            self._add_layer(name, value)
        elif isinstance(value, Variable) and value.is_persistent:
            is_buffer = name in self._buffers or value.dtype.kind != "f"
            self._forget(name, self._variables)
            self._add_variable(name, value, is_buffer)
        elif name in attributes:
            self._forget(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        self._forget(name)

    def _forget(self, name, table=None):
        """Remove a name from the tables; its place in the one that it is for is kept."""
        child = self._layers.get(name)
        if child is not None and child._attribute == name and child._parent_is(self):
            child._parent = None
        for each in (self._layers, self._variables):
            if each is not table:
                each.pop(name, None)
        self._buffers.discard(name)

    def _parent_is(self, layer):
        return self._parent is not None and self._parent() is layer

    def _add_layer(self, name, child):
        if not name or "." in name or "/" in name:
            raise ValueError(f"the name of a layer has neither dots nor slashes, not {name!r}")
        self._check_distinct(name, [key.partition(".")[0] for key in self._variables if "." in key])
        self._layers[name] = child
        if child._parent is None or child._parent() is None:
            child._parent, child._attribute = ref(self), name
        for key in [k for k in self._loaded if k.startswith(f"{name}.")]:
            child.load_dict({key.removeprefix(f"{name}."): self._loaded.pop(key)})

    def _check_distinct(self, name, taken):
        """Check that `layer.W` of a layer is not the name of a parameter, too."""
        if name in taken:
            raise NameConflict(
                f"{self.full_name()}: {name!r} is a layer, and the name of a parameter begins "
                f"with {name + '.'!r}: state_dict() would have two values of one name"
            )

    def _add_variable(self, name, v, is_buffer):
        if "." in name:
            self._check_distinct(name.partition(".")[0], self._layers)
        value = self._loaded.get(name)
        if value is not None:
            _check_loaded(v.name, value, v.dims)
            if not isinstance(v.fill, Value) or v.fill.array is not value:
                default_session().set(v, value)
            del self._loaded[name]
        self._variables[name] = v
        if is_buffer:
            self._buffers.add(name)
        elif self._frozen:
            v.trainable = False

    # ---- parameters and buffers

    def parameter(self, name: str, shape: Sequence[int], spec: Parameter = None) -> Variable:
        """Return a parameter of this layer; the first call creates it as `full_name()/name`.

        `spec` is an initializer or its name, `"he_uniform"`, a dict of arguments of `Variable`, a
        Variable, or the name of a variable that layers share, in the namespace in which the layer
        was made. ShapeError if it was built, or a value for it loaded, with another shape.
        """
        v = self._variables.get(name)
        if v is None:
            return self._build(name, tuple(shape), spec, False)
        if v.dims != tuple(shape):
            raise ShapeError(f"parameter {v.name!r} is {list(v.dims)}, not {list(shape)}")
        return v

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
        return Owned(lambda shape: self.buffer(name, shape, initializer))

    def _build(self, name, shape, spec, is_buffer):
        """Create a variable, or find one that is shared, and make it an attribute."""
        own = self._prefix or self._fix_prefix()
        if getattr(self, name, None) is not None:
            raise NameConflict(f"{own}{name} cannot be built: {name!r} is another attribute")
        value = self._loaded.get(name)
        if value is not None:
            _check_loaded(own + name, value, shape)
        spec, shared = _initial(spec, value)
        open_prefix(self._namespace if shared else own)
        try:
            v = parameter(spec, name, shape)
        finally:
            close_prefix()
        if v.is_persistent:
            self._add_variable(name, v, is_buffer)
            object.__setattr__(self, name, v)
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

    def _named_variables(self):
        """Yield (dotted name, variable, whether it is a buffer), each variable once."""
        seen = set()
        for path, layer in self._walk():
            for name, v in layer._variables.items():
                if v not in seen:
                    seen.add(v)
                    yield path + name, v, name in layer._buffers

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the values in the default session of what is built, {`hidden.W`: array}."""
        session = default_session()
        return {name: session.val(v) for name, v, _ in self._named_variables()}

    def load_dict(self, values: Mapping[str, ArrayLike]) -> None:
        """Set parameters and buffers in the default session to these values, {`hidden.W`: array}.

        A value for what is not built yet is kept and becomes its initial value, see
        `unused_values`. ShapeError, and nothing is changed, if one that is built has another shape.
        """
        session, built = default_session(), []
        later: list[tuple[Layer, str, np.ndarray]] = []
        for key, value in values.items():
            layer, name = self._owner(key)
            v, array = layer._variables.get(name), np.array(value)
            if v is None:
                later.append((layer, name, array))
            else:
                _check_loaded(v.name, array, v.dims)
                built.append((v, array))
        session.load_values(dict(built))
        for layer, name, array in later:
            layer._loaded[name] = array

    def _owner(self, key):
        """Return the layer to which a dotted name belongs, and the rest of the name."""
        layer = self
        while "." in key:
            name, _, rest = key.partition(".")
            if name not in layer._layers:
                break
            layer, key = layer._layers[name], rest
        return layer, key

    def unused_values(self) -> dict[str, np.ndarray]:
        """Return the loaded values of what is not built, or is in no layer: {name: array}."""
        return {path + k: v for path, layer in self._walk() for k, v in layer._loaded.items()}

    def clear_gradients(self) -> None:
        """Forget the gradients of the parameters."""
        for v in self.parameters():
            v.clear_gradient()

    # ---- the layers below

    def _walk(self, path="", seen=None) -> Iterator[tuple[str, "Layer"]]:
        """Yield (prefix of its dotted names, layer) of itself and all layers below it, once."""
        seen = set() if seen is None else seen
        if self not in seen:
            seen.add(self)
            yield path, self
            for name, child in self._layers.items():
                yield from child._walk(f"{path}{name}.", seen)

    def children(self) -> list["Layer"]:
        """Return the layers that are attributes of this one."""
        return list(dict.fromkeys(self._layers.values()))

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
        for _, layer in self._walk():
            layer._frozen = True
        for v in self.parameters():
            v.trainable = False
        return self

    def unfreeze(self) -> Self:
        """Make all parameters trainable, and return the layer."""
        for _, layer in self._walk():
            layer._frozen = False
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
        lines += [f"({name}): {child!r}" for name, child in self._layers.items()]
        body = "\n".join(lines)
        if self._layers:
            body = "\n  " + body.replace("\n", "\n  ") + "\n"
        return f"{type(self).__name__}({body})"

    def __deepcopy__(self, memo: dict[int, Any]) -> "Layer":
        """Copy the layer with all below it: new variables with the same values, under a new name.

        The copy has no explicit name, so that it takes that of the layer to which it is assigned.
        """
        twin = self._copied_layers(memo)
        for (_, layer), (_, other) in zip(self._walk(), twin._walk(), strict=True):
            other._copy_variables(layer, memo)
        return twin

    def _copied_layers(self, memo):
        """Copy everything but the variables."""
        if id(self) in memo:
            return memo[id(self)]
        twin = memo[id(self)] = type(self).__new__(type(self))
        Layer.__init__(twin)
        tables = set(vars(twin)) | set(self._variables) | set(self._layers)
        for name, child in self._layers.items():
            setattr(twin, name, child._copied_layers(memo))
            if twin._layers[name]._parent_is(twin):
                twin._layers[name]._given_name = child._given_name
        for name in ("_loaded", "_pre_hooks", "_hooks", "_frozen", "training"):
            object.__setattr__(twin, name, copy.deepcopy(getattr(self, name), memo))
        for name, value in vars(self).items():
            if name not in tables:
                is_graph = isinstance(value, Variable)  # a result: it belongs to both
                object.__setattr__(twin, name, value if is_graph else copy.deepcopy(value, memo))
        return twin

    def _copy_variables(self, layer, memo):
        for name, v in layer._variables.items():
            if id(v) not in memo:
                open_prefix(f"{self.full_name()}/")
                try:
                    memo[id(v)] = _copied_variable(v, name)
                finally:
                    close_prefix()
            self._add_variable(name, memo[id(v)], name in layer._buffers)
            object.__setattr__(self, name, memo[id(v)])

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            f"a layer, {type(self).__name__}, is neither pickled nor copied without its parameters"
            "\n  hint: save state_dict(), or use copy.deepcopy()"
        )


def _snake_case(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _check_loaded(name, value, shape):
    if value.shape != tuple(shape):
        raise ShapeError(f"{name}: a value of {list(value.shape)} is loaded, it is {list(shape)}")


def _initial(spec, value):
    """Return what `parameter` takes, with a loaded value as the initial one; whether it is shared.

    A variable that is shared or given is not created here: it keeps its initializer.
    """
    if isinstance(spec, str):
        if spec not in initializers:
            return spec, True
        spec = initializers[spec]
    if isinstance(spec, dict):
        shared = "name" in spec
        spec = spec if shared else {"reuse": False, **spec}
        if "initializer" in spec:
            spec = {**spec, "initializer": initializer(spec["initializer"])}
        if value is not None:
            kept = {k: v for k, v in spec.items() if k != "data"}
            spec = {**kept, "initializer": Value(value)}
        return spec, shared
    if value is None or isinstance(spec, (Variable, Owned)):
        return spec, False
    return Value(value), False


def _copied_variable(v, name):
    return Variable(
        name,
        shape=v.dims,
        dtype=v.dtype,
        initializer=Value(default_session().val(v)),
        trainable=v.trainable,
        learning_rate=v.learning_rate,
        regularizer=v.regularizer,
        clip=v.clip,
        row_sparse=v.row_sparse,
    )


def _slot(name, shape):
    """Return a feed slot that no namespace owns, for a shape or a Variable."""
    if isinstance(shape, Variable):
        return Variable.of(shape.dims, shape.dtype, name)
    return Variable.of([as_dim("infer_shape", d) for d in shape], np.float32, name)
