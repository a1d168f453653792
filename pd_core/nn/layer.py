"""Layer: an object that owns parameters and other layers, and is called like a function."""

import gc
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NoReturn, Self, SupportsIndex, cast
from weakref import ref

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..graph.errors import NameConflict, ShapeError
from ..graph.handlers import check_takes
from ..graph.initializers import Initializer, Value
from ..graph.misfits import Misfits
from ..graph.names import close_prefix, current_namespace, names, open_prefix
from ..graph.nested import mapped
from ..graph.recording import not_recording, recorder
from ..graph.site import user_site
from ..graph.variable import Shape, Variable, as_dim
from ..graph.whole import on_failure, whole
from ..ops.mode import in_mode
from ..run.session import default_session
from .copying import copied
from .held import Part, held, is_stored, may_hold
from .hooks import Called, Hook, HookHandle, P, PreHook, R
from .loading import Prefix, callers, check_filled, check_shape, load
from .parameter import Owned, Parameter, free_name, initial, parameter


class Layer(Part):
    """A part of a network: parameters, buffers and the layers below it, and a `forward`.

    A subclass assigns its layers to attributes in `__init__`, after `super().__init__()`, and
    computes in `forward`. Persistent Variables that are assigned become parameters; those of
    integers, and those in the place of a buffer, buffers. An attribute may be a list, a tuple or a
    dict of layers and Variables, nested too, which may change at any time: `blocks[0]` has the name
    `blocks.0`. A layer creates its own parameters by
    `parameter` and `buffer` in its first call, when the sizes of its inputs are known; until then
    `parameters()` does not list them.

    The parameter W of the layer in attribute `hidden` of a layer "policy" is the variable
    `policy/hidden/W`; in `state_dict()` of that layer it is `hidden.W`. A layer that is in no
    other and has no name gets an automatic one, `fc_0`, when its name is first needed. A name
    that was needed once does not change any more.

    A call that fails takes back what it has built, and the names of it.

    `training` is the mode of what a call builds, see `train` and `eval`.
    """

    training: bool
    _is_ours = True  # whether the class is defined here rather than by a user
    _only_holds = False  # whether it has no parameters of its own, whatever it is called with
    _is_called = False  # and returned, so that its own parameters are built
    _is_strict = False  # whether its parameters have to be those that were loaded before

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._is_ours = cls.__module__.startswith("pd_core.")

    def __init__(self, name: str | None = None) -> None:
        if name is not None and (not isinstance(name, str) or not name.strip("/")):
            raise TypeError(f"the name of a layer is a str that is not empty, not {name!r}")
        self._layers: dict[str, Layer] = {}
        self._variables: dict[str, Variable] = {}
        self._buffers: set[str] = set()
        self._held: set[str] = set()  # attributes that are lists, tuples and dicts
        self._names: dict[str, ref[Layer]] = {}  # of layers that are or were below it
        self._lacking: list[str] = []  # parameters that were built without a loaded value
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

    def __call__(self: Called[P, R], *inputs: P.args, **kwargs: P.kwargs) -> R:
        """Return `forward` of the inputs, built in this layer's mode and under its name."""
        layer = cast(Layer, self)
        hooked = layer._pre_hooks or layer._hooks
        return layer._call(layer._hooked_forward if hooked else layer.forward, inputs, kwargs)

    @whole
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
                output = function(*inputs, **kwargs)
                if not self._is_called or self._is_strict:
                    self._note_call()
                return output
        finally:
            close_prefix()
            if recording is not None:
                recording.line = outer

    def _note_call(self):
        if not self._is_called:
            vars(self)["_is_called"] = True
            on_failure(vars(self).pop, "_is_called")
        if self._is_strict:
            check_filled(self)

    def _is_whole(self):
        """Whether a parameter that it does not have will not be built by the next call."""
        return self._is_called or (self._only_holds and self._is_ours)

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
        parent = self._placed_in()
        if parent is None:
            for caller in callers():  # which may have got it in a list since its last call
                caller._parts()
            parent = self._placed_in()
        if parent is not None:
            name = parent._name_of(self)
        elif self._given_name is not None:
            name = self._namespace + self._given_name.strip("/")
        else:
            name = free_name(_snake_case(type(self).__name__) + "_", self._namespace)
        self._prefix = prefix = Prefix(f"{name}/")
        prefix.layer = ref(self)
        on_failure(vars(self).update, {"_prefix": None})
        return prefix

    def _name_of(self, child):
        """Return the full name of a layer below: that of its place, or its given one.

        A place may have been that of another layer, whose variables have its name.
        """
        own = self.full_name()
        if child._given_name:
            return f"{own}/{child._given_name}"
        place = f"{own}/{child._attribute.replace('.', '/')}"
        name, number = place, 0
        while self._is_anothers(name, child):
            number += 1
            name = f"{place}_{number}"
        self._names[name] = ref(child)
        return name

    def _is_anothers(self, name, child):
        """Whether another layer below had a name first, and it or its variables are there."""
        first = self._names.get(name)
        if first is None or first() is child:
            return False
        if first() is not None or names().variables.has_layer(name):
            gc.collect()  # graphs are cycles
        return first() is not None or names().variables.has_layer(name)

    def _placed_in(self):
        return None if self._parent is None else self._parent()

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
        elif may_hold(name, value):
            self._check_held(name, held(name, value))
            self._forget(name)
            self._held.add(name)
            object.__setattr__(self, name, value)
            self._parts()
            return
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
        if name in self._held:
            self._held.remove(name)
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
        if child._is_homeless():
            child._parent, child._attribute = ref(self), name
        self._hand_over(name, child)

    def _hand_over(self, name, child):
        """Give a child the values that were loaded for it before."""
        for key in [k for k in self._loaded if k.startswith(f"{name}.")]:
            load(child, {key.removeprefix(f"{name}."): self._loaded.pop(key)}, False)

    def _is_homeless(self):
        """Whether no layer has it, or the one whose list it was in has it no more."""
        parent = self._placed_in()
        name, dot, _ = self._attribute.partition(".")
        if parent is None or not dot or self._prefix is not None:
            return parent is None
        return all(x is not self for x in held(name, vars(parent).get(name, ())).values())

    # ---- lists, tuples and dicts

    def _parts(self):
        """Return {name: layer} and {name: variable} of its own, with those in lists and dicts."""
        if not self._held:
            return self._layers, self._variables
        layers: dict[str, Layer] = {}
        variables = dict(self._variables)
        for name, value in list(vars(self).items()):
            if name in self._layers:
                layers[name] = self._layers[name]
            elif name in self._held:
                parts = held(name, value)
                self._check_held(name, parts)
                layers.update((k, x) for k, x in parts.items() if isinstance(x, Layer))
                variables.update((k, x) for k, x in parts.items() if is_stored(x))
        self._place({k: x for k, x in layers.items() if k not in self._layers})
        return layers, variables

    def _check_held(self, name, parts):
        if any(isinstance(x, Layer) or is_stored(x) for x in parts.values()):
            starts = [key.partition(".")[0] for key in self._variables if "." in key]
            self._check_distinct(name, starts)

    def _place(self, layers):
        """Note the places of layers in lists and dicts, which name them once they need a name."""
        for path, child in layers.items():
            is_own = child._parent_is(self) and "." in child._attribute
            if is_own or child._is_homeless():
                child._parent, child._attribute = ref(self), path
            if self._loaded:
                self._hand_over(path, child)

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
            check_shape(v.name, value, v.dims)
            if not isinstance(v.fill, Value) or v.fill.array is not value:
                default_session().set(v, value)
            del self._loaded[name]
            on_failure(self._loaded.update, {name: value})
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
            check_shape(own + name, value, shape)
        spec, shared = initial(spec, value)
        open_prefix(self._namespace if shared else own)
        try:
            v = parameter(spec, name, shape)
        finally:
            close_prefix()
        if v.is_persistent:
            on_failure(self._unbuild, name, name in vars(self))
            self._add_variable(name, v, is_buffer)
            object.__setattr__(self, name, v)
            if self._is_strict and value is None:
                self._lacking.append(name)
        return v

    def _unbuild(self, name, was_none):
        """Take back that a parameter was built."""
        self._variables.pop(name, None)
        self._buffers.discard(name)
        if name in self._lacking:
            self._lacking.remove(name)
        vars(self).pop(name, None)
        if was_none:
            vars(self)[name] = None

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
        for path, layer, name, v in self._named_parts():
            is_held = name not in layer._variables
            yield path + name, v, name in layer._buffers or (is_held and v.dtype.kind != "f")

    def _named_parts(self):
        """Yield (prefix, layer, name, variable), each variable once."""
        seen = set()
        for path, layer in self._walk():
            for name, v in layer._parts()[1].items():
                if v not in seen:
                    seen.add(v)
                    yield path, layer, name, v

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the values in the default session of what is built, {`hidden.W`: array}."""
        session = default_session()
        return {name: session.val(v) for name, v, _ in self._named_variables()}

    def load_dict(self, values: Mapping[str, ArrayLike], strict: bool = True) -> Misfits:
        """Set parameters and buffers in the default session to these values, {`hidden.W`: array}.

        A value for what is not built yet is kept and becomes its initial value. Names that are
        missing, or that nothing has, are a GraphError that lists them, here or, for what is not
        built yet, in the call that builds it. With strict=False what fits is loaded, and they are
        returned, as (missing, unexpected); see `unused_values`, too. ShapeError for another shape.
        After an error nothing is changed.
        """
        return load(self, values, strict)

    def _owner(self, key):
        """Return the layer to which a dotted name belongs, and the rest of the name."""
        layers = self._parts()[0]
        ends = [k for k, letter in enumerate(key) if letter == "."]
        child = next((end for end in ends if key[:end] in layers), None)
        if child is None:
            return self, key
        return layers[key[:child]]._owner(key[child + 1 :])

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
            for name, child in self._parts()[0].items():
                yield from child._walk(f"{path}{name}.", seen)

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
        return copied(self, _empty, memo)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            f"a layer, {type(self).__name__}, is neither pickled nor copied without its parameters"
            "\n  hint: save state_dict(), or use copy.deepcopy()"
        )


def _empty(layer):
    twin = object.__new__(type(layer))
    Layer.__init__(twin)
    return twin


def _snake_case(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _slot(name, shape):
    """Return a feed slot that no namespace owns, for a shape or a Variable."""
    if isinstance(shape, Variable):
        return Variable.of(shape.dims, shape.dtype, name)
    return Variable.of([as_dim("infer_shape", d) for d in shape], np.float32, name)
