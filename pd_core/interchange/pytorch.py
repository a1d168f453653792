"""Parameters of PyTorch's modules in our layers, and back, by the names of their state dicts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph.errors import GraphError, NotInitialized, ShapeError
from ..graph.misfits import Misfits
from ..layers.layer import Layer
from ..layers.renaming import NameMap, renamed
from ..layers.structure import as_numbers, layers_below, load, may_have
from ..run.session import default_session
from .counterparts import AROUND, Counterpart, Entry, Form, counterpart


def from_pytorch(
    layer: Layer, state_dict: Mapping[str, Any], strict: bool = True, mapping: NameMap = None
) -> Misfits:
    """Set a layer to the state dict of a PyTorch module that has the same attributes.

    Layers in the place of PyTorch's get their parameters under its names, in its layouts: FC
    `weight` and `bias` of a Linear, LSTM both biases and gates in its order, MultiHeadAttention its
    `in_proj_weight`, and so on; parameters of your own classes have the same names in both.
    PyTorch is not needed. Values for what is not built yet are kept, as by `load_dict`. After an
    error nothing is changed.

    Args:
        layer: ours.
        state_dict: {name: array or tensor}, such as `module.state_dict()` or a `ModelFolder`.
        strict: whether all names must fit.
        mapping: where attributes have other names than in PyTorch, as in `load_dict`: of names of
            the state dict to names that it would have if they were those of this layer.

    Returns:
        PyTorch's names that do not fit, (missing, unexpected).

    Raises:
        DTypeError: a value holds no numbers.
        GraphError: with `strict`, names are missing or unexpected; or values of a shared module
            differ, or the vector of an embedding's padding is not zero.
        ShapeError: a value has another shape.
        TypeError: it is no state dict.
    """
    who = "from_pytorch"
    _check(who, layer, state_dict)
    origins = renamed(who, list(state_dict), mapping, strict)
    values = {new: _array(who, name, state_dict[name]) for new, name in origins.items()}
    names = _Names(layer)
    found: dict[str, np.ndarray] = {}
    used: dict[str, str] = {}  # where the values come from
    missing: list[str] = []
    wrong: list[str] = []
    for place in names.places:
        form = _form_of(who, place, values)
        absent = [name for name in form.names if name not in values]
        if absent:
            missing += absent
            continue
        arrays, text = _loaded(who, names, place, form, values)
        wrong += [text] if text else []
        found.update(zip(place.ours, arrays, strict=False))
        used.update(dict.fromkeys(place.ours, " + ".join(form.names)))
    consumed = {name for place in names.places for form in place.forms for name in form.names}
    unexpected: list[str] = []
    for name in values:
        ours = None if name in consumed or name in names.ignored else names.ours(name)
        if ours is not None and names.is_unexpected(ours):
            unexpected.append(origins[name])
        elif ours is not None:
            found[ours], used[ours] = values[name], origins[name]
            wrong += names.misshaped(ours, values[name], origins[name])
    if wrong:
        raise ShapeError("\n".join([f"{who}: {wrong[0]}", *[f"  {text}" for text in wrong[1:]]]))
    placed = {name for place in names.places for name in place.ours}
    missing += [names.theirs(k) for k in names.variables if k not in found and k not in placed]
    misfits = Misfits(missing, unexpected)
    if strict and any(misfits):
        hint = "  hint: mapping= renames, strict=False loads what fits and returns the names"
        raise GraphError(f"{misfits.text(who, consumed)}\n{hint}")
    load(layer, found, strict, who, used)
    return misfits


def to_pytorch(layer: Layer) -> dict[str, np.ndarray]:
    """Return the values of a layer as the state dict of a PyTorch module with the same attributes.

    The inverse of `from_pytorch`: `module.load_state_dict({k: torch.from_numpy(v) for k, v in …})`.
    Of two biases that PyTorch adds the second is 0. `num_batches_tracked` of batch normalisation is
    0, since it is not counted here; PyTorch reads it with momentum=None only.

    Args:
        layer: ours, built by a call or by `infer_shape`.

    Returns:
        {name: array}, copies.

    Raises:
        NotInitialized: nothing of it is built yet.
        TypeError: it is no layer.
    """
    _check("to_pytorch", layer, {})
    session, names = default_session(), _Names(layer)
    if names.places and not names.variables:
        raise NotInitialized(
            f"to_pytorch: {type(layer).__name__} has no parameters yet\n"
            "  hint: call it, or infer_shape() with the shapes of its inputs"
        )
    state: dict[str, Any] = {}
    for path, one in names.every_layer():
        for place in names.of(one, path):
            if any(name not in names.variables for name in place.ours):
                continue
            arrays = [session.val(names.variables[name]) for name in place.ours]
            stored = ((form.names, form.store(arrays)) for form in place.forms)
            state.update(next(dict(zip(k, a, strict=True)) for k, a in stored if a is not None))
            for name, value in place.ignored.items():
                state.setdefault(name, value)
    placed = {name for place in names.places for name in place.ours}
    for name, v in names.variables.items():
        if name not in placed:
            state[names.theirs(name)] = session.val(v)
    return {name: np.array(value, order="C") for name, value in state.items()}


@dataclass(frozen=True)
class _Place:
    """An entry of a layer at its place: whole names. Forms of all places come one after another."""

    entry: Entry
    ours: tuple[str, ...]
    forms: tuple[Form, ...]
    ignored: Mapping[str, np.ndarray]


class _Names:
    """The names of a layer and of all below it, ours beside those of PyTorch."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.variables = dict([*layer.named_parameters(), *layer.named_buffers()])
        self._layers: list[tuple[str, str, Layer]] = []
        self._known: dict[int, Counterpart | None] = {}
        self._add(layer, "", "", "", ())
        self._first: dict[int, str] = {}  # our path of a layer, the first of several
        for ours, _, one in self._layers:
            self._first.setdefault(id(one), ours)
        self.places: list[_Place] = []
        self.ignored: set[str] = set()
        for key, ours in self._first.items():
            paths = [theirs for _, theirs, one in self._layers if id(one) == key]
            self.places += self._merged(self._known[key], ours, paths)
            for path in paths:
                self.ignored |= {path + name for name in getattr(self._known[key], "ignored", ())}

    def _add(self, layer: Layer, ours: str, theirs: str, computed: str, above: tuple) -> None:
        """Add a layer and all below it, at all their places."""
        if layer in above:
            return
        self._layers.append((ours, theirs, layer))
        known = self._known.setdefault(id(layer), counterpart(layer, computed)) or Counterpart()
        renames = {v: k for k, v in known.layers.items()}
        for name, child in layers_below(layer).items():
            if name in known.merged:
                continue
            # what is around a layer to compute a parameter is no module in PyTorch
            path, of = f"{theirs}{renames.get(name, name)}.", ""
            if isinstance(layer, AROUND) and name == "layer":
                path, of = theirs, layer.of
            self._add(child, f"{ours}{name}.", path, of, (*above, layer))

    def _merged(self, known: Counterpart | None, ours: str, paths: list[str]) -> Iterator[_Place]:
        """Yield the entries of a layer, with the forms of all of its places."""
        for entry in () if known is None else known.entries:
            forms = [
                Form(tuple([path + name for name in form.names]), form.load, form.store)
                for path in paths
                for form in entry.forms
            ]
            whole = tuple([ours + name for name in entry.ours])
            yield _Place(entry, whole, tuple(forms), {})

    def every_layer(self) -> Iterator[tuple[str, Layer]]:
        """Yield (PyTorch's path, layer), a shared one several times."""
        for _, theirs, one in self._layers:
            yield theirs, one

    def of(self, layer: Layer, path: str) -> list[_Place]:
        """Return the entries of a layer at one of its places."""
        known = self._known[id(layer)]
        ignored = {} if known is None else {path + k: v for k, v in known.ignored.items()}
        places = self._merged(known, self._first[id(layer)], [path])
        return [_Place(p.entry, p.ours, p.forms, ignored) for p in places]

    def ours(self, name: str) -> str:
        """Return our name of what has the same one in PyTorch, but for the layers it is in."""
        inside = [(t, o) for o, t, one in self._layers if name.startswith(t)]
        theirs, ours = max(inside, key=lambda pair: len(pair[0]))
        return ours + name.removeprefix(theirs)

    def theirs(self, name: str) -> str:
        """Return PyTorch's name of what has the same one here, but for the layers it is in."""
        inside = [(o, t) for o, t, one in self._layers if name.startswith(o)]
        ours, theirs = max(inside, key=lambda pair: len(pair[0]))
        return theirs + name.removeprefix(ours)

    def is_unexpected(self, ours: str) -> bool:
        """Return whether nothing has a name, nor will have it."""
        if ours in self.variables:
            return False
        inside = [(path, one) for path, _, one in self._layers if ours.startswith(path)]
        owner = max(inside, key=lambda pair: len(pair[0]))[1]
        is_known = self._known[id(owner)] is not None  # one of ours has no other parameters
        is_ours = type(owner).__module__.startswith("pd_core.")
        return (is_known and is_ours) or not may_have(self.layer, ours)

    def misshaped(self, ours: str, array: np.ndarray, name: str) -> list[str]:
        """Return what is wrong with the shape of a value."""
        v = self.variables.get(ours)
        if v is None or v.dims == array.shape:
            return []
        return [f"{name!r} is {list(array.shape)}, {ours} takes {list(v.dims)}"]


def _form_of(who: str, place: _Place, values: Mapping[str, np.ndarray]) -> Form:
    """Return the form that values have: the first complete one, or that of which some are there."""
    complete = [form for form in place.forms if all(name in values for name in form.names)]
    for form in complete[1:]:
        pairs = zip(complete[0].names, form.names, strict=False)
        for a, b in pairs:
            if len(form.names) == len(complete[0].names) and not _same(values[a], values[b]):
                raise GraphError(f"{who}: {a!r} and {b!r} are one parameter here, and differ")
    if complete:
        return complete[0]
    some = [form for form in place.forms if any(name in values for name in form.names)]
    return some[0] if some else place.forms[0]


def _same(a, b):
    return a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def _loaded(who, names, place, form, values):
    """Return the arrays of an entry in our layout, and what is wrong with their shapes, if any."""
    given = [values[name] for name in form.names]
    variables = [names.variables.get(name) for name in place.ours]
    try:
        arrays = [np.asarray(a) for a in form.load(given)]
    except GraphError as error:
        raise GraphError(f"{who}: {form.names[0]!r}: {error}") from None
    except (ValueError, IndexError):  # sizes that do not split or add
        arrays = []
    shapes = [a.shape for a in arrays]
    wrong = not arrays or any(
        v is not None and v.dims != shape for v, shape in zip(variables, shapes, strict=False)
    )
    if not wrong:
        return arrays, ""
    return arrays, _shape_text(form, given, place.ours, variables)


def _shape_text(form, given, ours, variables):
    """Return the names and shapes of both sides, ours also as PyTorch would have it."""
    theirs = ", ".join(f"{n!r} is {list(a.shape)}" for n, a in zip(form.names, given, strict=True))
    built = [(name, v) for name, v in zip(ours, variables, strict=True) if v is not None]
    if len(built) < len(ours):
        return f"{theirs}, which is no {' and '.join(ours)}"
    sizes = ", ".join(f"{name} {list(v.dims)}" for name, v in built)
    as_theirs = form.store([np.zeros(v.dims, np.float32) for _, v in built])
    if as_theirs is None:
        return f"{theirs}; here are {sizes}"
    shapes = ", ".join(str(list(a.shape)) for a in as_theirs)
    return f"{theirs}, not {shapes}; here are {sizes}"


def _check(who, layer, state_dict):
    if not isinstance(layer, Layer):
        raise TypeError(f"{who}: takes a layer of pd.nn, not {layer!r}")
    if isinstance(state_dict, Mapping):
        for name, value in state_dict.items() if isinstance(state_dict, dict) else ():
            if not isinstance(name, str):
                raise TypeError(f"{who}: names are text, not {name!r}")
            if isinstance(value, Mapping):
                raise TypeError(
                    f"{who}: {name!r} is a {type(value).__name__}, not a tensor\n"
                    f"  hint: a checkpoint has several things; pass checkpoint[{name!r}]"
                )
        return
    hint = ""
    if callable(getattr(state_dict, "state_dict", None)):
        hint = "\n  hint: pass module.state_dict()"
    elif isinstance(state_dict, str) or hasattr(state_dict, "__fspath__"):
        hint = "\n  hint: pass torch.load(path, weights_only=True), or ModelFolder(path)"
    raise TypeError(f"{who}: takes a state dict, not a {type(state_dict).__name__}{hint}")


def _array(who, name, value):
    """Return an array of numbers for an array, or for a tensor of PyTorch on any device."""
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        try:
            value = value.detach().cpu()
            if getattr(value, "is_sparse", False) or getattr(value, "is_quantized", False):
                raise TypeError(f"it is {'sparse' if value.is_sparse else 'quantized'}")
            small = any(kind in str(value.dtype) for kind in ("bfloat16", "float8"))
            value = (value.float() if small else value).numpy()
        except (TypeError, RuntimeError) as error:
            raise TypeError(f"{who}: {name!r} cannot be read as an array: {error}") from None
    return as_numbers(who, name, value)
