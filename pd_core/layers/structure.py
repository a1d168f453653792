"""The structure of a layer: its parameters, the layers below it, and the names of all of them."""

import copy
import gc
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from weakref import ref

import numpy as np
from numpy.typing import ArrayLike

from ..graph.errors import GraphError, NameConflict
from ..graph.initializers import Value
from ..graph.misfits import Misfits
from ..graph.names import (
    Numbered,
    close_prefix,
    current_namespace,
    names,
    numbered,
    open_prefix,
    open_prefixes,
)
from ..graph.variable import Variable
from ..graph.whole import on_failure
from ..run.session import default_session
from .held import BufferName, Part, held, is_stored, may_hold
from .loading import Loading, check_shape
from .parameter import free_name
from .pickling import restored, root_of, stored


class _Prefix(str):
    """The full name of a layer and a slash, which knows the layer that is called under it."""

    layer: Any = None  # a weak reference


def _callers():
    """Return the layers whose calls are going on, the innermost first."""
    layers = [p.layer() for p in reversed(open_prefixes()) if isinstance(p, _Prefix)]
    return [layer for layer in layers if layer is not None]


# attributes that are not pickled
_OF_ITS_PLACE = ("_parent", "_names", "_numbered", "_prefix", "_repeats")
_HINT = "  hint: strict=False loads what fits, and returns the names"
_PLACE = "(place)"  # what is pickled instead: the outermost layer, its name, the layers below


class Structure(Part):
    """Base of layers: the tables of what is below one, which attributes fill, and their names."""

    _is_ours = True  # whether the class is defined here rather than by a user
    _only_holds = False  # whether it has no parameters of its own, whatever it is called with
    _is_called = False  # and returned, so that its own parameters are built
    _is_strict = False  # whether its parameters have to be those that were loaded before

    def __init__(self, name: str | None = None) -> None:
        if name is not None and (not isinstance(name, str) or not name.strip("/")):
            raise TypeError(f"the name of a layer is a str that is not empty, not {name!r}")
        self._layers: dict[str, Any] = {}
        self._variables: dict[str, Variable] = {}
        self._buffers: set[str] = set()
        self._held: set[str] = set()  # attributes that are lists, tuples, dicts and holders
        self._names: dict[str, ref[Structure]] = {}  # of layers that are or were below it
        self._lacking: list[str] = []  # parameters that were built without a loaded value
        self._loaded: dict[str, np.ndarray] = {}  # values of what is not built yet
        self._given_name = name
        self._namespace = current_namespace()
        self._parent: ref[Structure] | None = None
        self._attribute = ""  # of the parent
        self._prefix: str | None = None  # the full name and a slash, once it is needed
        self._frozen = False
        self._numbered: Numbered | None = None  # unless its name is given
        if name is None:
            self._numbered = numbered(_snake_case(type(self).__name__))
        # what calls inside `pd.guard()` add, by the type of their input; False after a change
        self._repeats: dict[tuple, Any] | bool = False

    def _full_name(self):
        return (self._prefix or self._fix_prefix())[:-1]

    def __setattr__(self, name: str, value: Any) -> None:
        attributes = self.__dict__
        if "_layers" not in attributes and name != "_layers":
            raise AttributeError(
                f"{type(self).__name__}: call super().__init__() before {name!r} is assigned"
            )
        attributes["_repeats"] = False
        if isinstance(value, Structure):
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
        self.__dict__["_repeats"] = False
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
            value = self._loaded.pop(key)
            child._load({key.removeprefix(f"{name}."): value}, False, "load_dict")

    def _is_homeless(self):
        """Whether no layer has it, or the one whose list it was in has it no more."""
        parent = self._placed_in()
        name, dot, _ = self._attribute.partition(".")
        if parent is None or not dot or self._prefix is not None:
            return parent is None
        return all(x is not self for x in held(name, vars(parent).get(name) or ()).values())

    def _parts(self):
        """Return {name: layer} and {name: variable} of its own, with those in lists and dicts."""
        if not self._held:
            return self._layers, self._variables
        layers: dict[str, Structure] = {}
        variables = dict(self._variables)
        for name, value in list(vars(self).items()):
            if name in self._layers:
                layers[name] = self._layers[name]
            elif name in self._held:
                parts = held(name, value)
                self._check_held(name, parts)
                layers.update((k, x) for k, x in parts.items() if isinstance(x, Structure))
                variables.update((k, x) for k, x in parts.items() if is_stored(x))
        self._place({k: x for k, x in layers.items() if k not in self._layers})
        return layers, variables

    def _check_held(self, name, parts):
        if any(isinstance(x, Structure) or is_stored(x) for x in parts.values()):
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
                f"{self._full_name()}: {name!r} is a layer, and the name of a parameter begins "
                f"with {name + '.'!r}: state_dict() would have two values of one name"
            )

    def _add_variable(self, name, v, is_buffer):
        if "." in name:
            self._check_distinct(name.partition(".")[0], self._layers)
        value = self._loaded.get(name)
        if value is not None:
            check_shape(v.name, value, v.dims)
            if not isinstance(v.initial, Value) or v.initial.array is not value:
                default_session().set(v, value)
            del self._loaded[name]
            on_failure(self._loaded.update, {name: value})
        self._variables[name] = v
        if is_buffer:
            self._buffers.add(name)
        elif self._frozen:
            v.trainable = names().flags.get(v.name, False)

    def _fix_prefix(self):
        parent = self._placed_in()
        if parent is None:
            for caller in _callers():  # which may have got it in a list since its last call
                caller._parts()
            parent = self._placed_in()
        if parent is not None:
            name = parent._name_of(self)
        elif self._given_name is not None:
            name = self._namespace + self._given_name.strip("/")
        else:
            kind = _snake_case(type(self).__name__)
            if self._numbered is None:
                vars(self)["_numbered"] = numbered(kind)
            name = free_name(f"{kind}_", self._namespace, self._numbered)
        on_failure(vars(self).update, {"_prefix": None})
        return self._set_prefix(name)

    def _set_prefix(self, name):
        prefix = _Prefix(f"{name}/")
        prefix.layer = ref(self)
        vars(self)["_prefix"] = prefix
        return prefix

    def _name_of(self, child):
        """Return the full name of a layer below: that of its place, or its given one.

        A place may have been that of another layer, whose variables have its name.
        """
        own = self._full_name()
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

    def _named_variables(self):
        """Yield (dotted name, variable, whether it is a buffer), each variable once."""
        for path, layer, name, v in self._named_parts():
            is_held = name not in layer._variables
            is_buffer = is_held and (v.dtype.kind != "f" or isinstance(name, BufferName))
            yield path + name, v, name in layer._buffers or is_buffer

    def _named_parts(self):
        """Yield (prefix, layer, name, variable), each variable once."""
        seen = set()
        for path, layer in self._walk():
            for name, v in layer._parts()[1].items():
                if v not in seen:
                    seen.add(v)
                    yield path, layer, name, v

    def _every_parameter(self):
        """Return the parameters of itself and all layers below it, in no order.

        As `_named_variables` does, but in a fifth of the time: loops ask in every step.
        """
        layers: list[Any] = [self]
        found, seen = [], {self}
        for layer in layers:
            if layer._held or layer._buffers:
                return [v for _, v, is_buffer in self._named_variables() if not is_buffer]
            found += layer._variables.values()
            for child in layer._layers.values():
                if child not in seen:
                    seen.add(child)
                    layers.append(child)
        return found

    def _owner(self, key):
        """Return the layer to which a dotted name belongs, and the rest of the name."""
        layers = self._parts()[0]
        ends = [k for k, letter in enumerate(key) if letter == "."]
        child = next((end for end in ends if key[:end] in layers), None)
        if child is None:
            return self, key
        return layers[key[:child]]._owner(key[child + 1 :])

    def _walk(self, path="", seen=None) -> Iterator[tuple[str, Any]]:
        """Yield (prefix of its dotted names, layer) of itself and all layers below it, once."""
        seen = set() if seen is None else seen
        if self not in seen:
            seen.add(self)
            yield path, self
            for name, child in self._parts()[0].items():
                yield from child._walk(f"{path}{name}.", seen)

    def _note_call(self):
        if not self._is_called:
            vars(self)["_is_called"] = True
            on_failure(vars(self).pop, "_is_called")
        if self._is_strict:
            self._check_filled()

    def _may_repeat(self):
        """Whether what it adds follows from its attributes, and these from assignments."""
        return (
            self._is_called
            and not (self._is_strict or self._held)
            and not any(
                isinstance(value, (list, dict, set))
                for name, value in vars(self).items()
                if name[0] != "_"
            )
        )

    def _is_whole(self):
        """Whether a parameter that it does not have will not be built by the next call."""
        return self._is_called or (self._only_holds and self._is_ours)

    def _unbuild(self, name, was_none):
        """Take back that a parameter was built."""
        self._variables.pop(name, None)
        self._buffers.discard(name)
        if name in self._lacking:
            self._lacking.remove(name)
        vars(self).pop(name, None)
        if was_none:
            vars(self)[name] = None

    # ---- values

    def _load(
        self,
        values: Mapping[str, ArrayLike],
        strict: bool,
        who: str,
        origins: Mapping[str, str] | None = None,
    ) -> Misfits:
        """Set what is built, and keep the other values for what will be.

        `origins` are the names that values have where they come from, which errors name.
        """
        loading = Loading(who)
        built: dict[Variable, np.ndarray] = {}
        later: dict[tuple[Structure, str], np.ndarray] = {}
        first: dict[Any, str] = {}  # the name of what has a value
        unexpected: list[str] = []
        known: set[Variable] = set()
        for key, value in values.items():
            (layer, name), origin = self._owner(key), (origins or {}).get(key, key)
            v = layer._parts()[1].get(name)
            known |= set() if v is None else {v}
            place: Any = (layer, name) if v is None else v
            found: dict[Any, np.ndarray] = later if v is None else built
            array = loading.numbers(origin, value)
            if v is None and layer._is_whole():
                unexpected.append(origin)
            if array is None:
                continue
            if v is not None:
                loading.check(v, array, origin)
            if place in found:
                loading.check_twin(origin, array, first[place], found[place])
            found.setdefault(place, array)
            first.setdefault(place, origin)
        misfits = Misfits(
            [name for name, v, _ in self._named_variables() if v not in known], unexpected
        )
        names = [name for name, _, _ in self._named_variables()]
        loading.raise_error(misfits if strict else Misfits([], []), names, _HINT)
        default_session().load_values(built)
        for _, layer in self._walk():
            if strict:
                layer._loaded.clear()  # what was loaded before and waits
            layer._is_strict = strict and not layer._is_whole()
            layer._lacking.clear()
        for (layer, name), array in later.items():
            layer._loaded[name] = array
        return misfits

    def _waiting(self):
        """Return the values that wait, by name."""
        return {path + k: v for path, layer in self._walk() for k, v in layer._loaded.items()}

    def _set_frozen(self, frozen):
        for _, layer in self._walk():
            layer._frozen = frozen

    def _misfit_text(self, misfits, who):
        known = [name for name, _, _ in self._named_variables()]
        return f"{misfits.text(who, known)}\n{_HINT}"

    def _check_filled(self):
        """Check at the end of a first call that what was loaded before is what was built.

        The outermost layer that waits for values checks all below it, so that the error is whole.
        """
        if any(caller._is_strict for caller in _callers() if caller is not self):
            return
        walk = self._walk()
        below = [(path, each) for path, each in walk if each._is_strict and each._is_called]
        lacking = {id(each): each._lacking for _, each in below}
        named = self._named_parts()
        missing = [path + k for path, each, k, _ in named if k in lacking.get(id(each), ())]
        unexpected = [path + name for path, each in below for name in each._loaded]
        if missing or unexpected:
            who = f"{self._full_name()}: load_dict was given other values than are built"
            raise GraphError(self._misfit_text(Misfits(missing, unexpected), who))
        for _, each in below:
            each._is_strict = False

    # ---- copies and pickles

    def _state(self) -> dict[str, Any]:
        """Return what is pickled of the layer: attributes, with variables as they are stored."""
        outermost = self
        while outermost._placed_in() is not None:
            outermost = outermost._placed_in()
        is_built = outermost._prefix is not None and any(True for _ in outermost._named_variables())
        root = root_of(outermost, outermost._full_name()) if is_built else None
        name = None if self._prefix is None else self._prefix[:-1]
        who = name or type(self).__name__
        own = [(key, value) for key, value in vars(self).items() if key not in _OF_ITS_PLACE]
        state = {key: stored(f"{who}: {key}", value, root) for key, value in own}
        layers = self._parts()[0].items()
        below = [(path, child) for path, child in layers if child._parent_is(self)]
        return {**state, _PLACE: (root, name if is_built else None, below)}

    def _set_state(self, state: Mapping[str, Any]) -> None:
        """Make an empty layer what `_state` has described."""
        root, name, below = state[_PLACE]
        own = vars(self)
        own.setdefault("_parent", None)  # the layer around it may have set it
        own.update({key: restored(value) for key, value in state.items() if key != _PLACE})
        own.update(_names={}, _numbered=None, _prefix=None, _repeats=False)
        is_named = root is not None and name is not None
        if is_named:
            self._set_prefix(root.renamed(name))
        for path, child in below:
            vars(child)["_parent"] = ref(self)
            if is_named:
                full = root.renamed(f"{name}/{path.replace('.', '/')}")
                self._names[full] = ref(child)

    def _copied(self, new: Callable[[Any], Any], memo: dict[int, Any]) -> Any:
        """Return a copy with all below it; `new(layer)` makes an empty layer of its class.

        Structure comes first, since a variable is named after its place, and containers come last:
        they may have variables.
        """
        twin = _copied_structure(self, new, memo)
        layers = [layer for _, layer in self._walk()]
        for layer in layers:
            _copy_variables(layer, memo[id(layer)], memo)
        for layer in layers:
            _copy_containers(layer, memo[id(layer)], memo)
        return twin


def layers_below(layer: Structure) -> dict[str, Any]:
    """Return {name: layer} of a layer, those in lists and dicts too, shared ones at every place."""
    return layer._parts()[0]


def variables_of(layer: Structure) -> dict[str, Variable]:
    """Return {name: variable} of a layer itself, those in lists and dicts too."""
    return layer._parts()[1]


def variables_at_all_places(
    layer: Structure, path: str = "", above: tuple[Structure, ...] = ()
) -> Iterator[tuple[str, Variable]]:
    """Yield (dotted name, variable) of all places of each, those of shared layers too."""
    layers, variables = layer._parts()
    yield from [(path + name, v) for name, v in variables.items()]
    for name, child in layers.items():
        if child is not layer and child not in above:
            yield from variables_at_all_places(child, f"{path}{name}.", (*above, layer))


def may_have(layer: Structure, name: str) -> bool:
    """Return whether a variable of a dotted name is there, or may be built yet."""
    owner, rest = layer._owner(name)
    return rest in owner._parts()[1] or not owner._is_whole()


def load(
    layer: Structure,
    values: Mapping[str, ArrayLike],
    strict: bool,
    who: str,
    origins: Mapping[str, str],
) -> Misfits:
    """Set what is built to values by name, and keep the other values for what will be.

    `origins` are the names that values have where they come from, which errors name.
    """
    return layer._load(values, strict, who, origins)


def _snake_case(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _copied_structure(layer, new, memo):
    """Copy everything but variables and containers."""
    if id(layer) in memo:
        return memo[id(layer)]
    twin = memo[id(layer)] = new(layer)
    tables = {*vars(twin), *layer._variables, *layer._layers, *layer._held}
    for name in vars(layer):
        vars(twin).setdefault(name, None)  # attributes keep their order
    for path, child in layer._parts()[0].items():
        other = _copied_structure(child, new, memo)
        if path in layer._layers:
            setattr(twin, path, other)
        elif child._parent_is(layer):
            other._parent, other._attribute = ref(twin), path
        if other._parent_is(twin):
            other._given_name = child._given_name
    for name in ("_loaded", "_pre_hooks", "_hooks", *_FLAGS):
        object.__setattr__(twin, name, copy.deepcopy(getattr(layer, name), memo))
    for name, value in vars(layer).items():
        if name not in tables:
            is_graph = isinstance(value, Variable)  # a result: it belongs to both
            object.__setattr__(twin, name, value if is_graph else copy.deepcopy(value, memo))
    return twin


_FLAGS = ("_frozen", "training", "_is_called", "_is_strict", "_lacking")


def _copy_variables(layer, twin, memo):
    for name, v in layer._variables.items():
        twin._add_variable(name, _variable(v, name, twin, memo), name in layer._buffers)
        object.__setattr__(twin, name, memo[id(v)])


def _copy_containers(layer, twin, memo):
    for name in layer._held:
        value = vars(layer)[name]
        for path, part in held(name, value).items():
            if isinstance(part, Variable):
                if part.is_persistent:
                    _variable(part, path, twin, memo)
                else:
                    memo.setdefault(id(part), part)
        object.__setattr__(twin, name, copy.deepcopy(value, memo))
        twin._held.add(name)


def _variable(v, name, twin, memo):
    if id(v) not in memo:
        open_prefix(f"{twin._full_name()}/")
        try:
            memo[id(v)] = Variable(
                name.replace(".", "/") if "." in name else name,
                shape=v.dims,
                dtype=v.dtype,
                initializer=Value(default_session().val(v)),
                trainable=v.trainable,
                learning_rate=v.learning_rate,
                regularizer=v.regularizer,
                clip=v.clip,
                row_sparse=v.row_sparse,
            )
        finally:
            close_prefix()
    return memo[id(v)]
