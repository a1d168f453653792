"""Parameters of PyTorch's modules in our layers, and back, by the names of their state dicts."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..graph.errors import NotInitialized
from ..graph.misfits import Misfits
from ..layers.layer import Layer
from ..layers.renaming import NameMap, renamed
from ..layers.structure import load
from ..run.session import default_session
from .names import Names
from .reading import Reader


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
    reader = Reader(who, layer, state_dict, renamed(who, list(state_dict), mapping, strict))
    misfits = reader.misfits()
    known = reader.consumed if strict else ()
    reader.loading.raise_error(misfits if strict else Misfits([], []), known, _HINT)
    load(layer, reader.found, strict, who, reader.used)
    return misfits


_HINT = "  hint: mapping= renames, strict=False loads what fits and returns the names"


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
    session, names = default_session(), Names(layer)
    if names.places and not names.variables:
        raise NotInitialized(
            f"to_pytorch: {type(layer).__name__} has no parameters yet\n"
            "  hint: call it, or infer_shape() with the shapes of its inputs"
        )
    state: dict[str, Any] = {}
    for _, path, one in names.layers:
        for place in names.of(one, path):
            if any(name not in names.variables for name in place.ours):
                continue
            state.update(_stored(session, names, place))
            for name, value in place.ignored.items():
                state.setdefault(name, value)
    for path, name, twin in names.own:
        v = names.variables[names.canonical(path + name)]
        whole = names.theirs(path + name)
        state[whole] = session.val(v) if twin is None else _stored(session, names, twin)[whole]
    return {name: np.array(value, order="C") for name, value in state.items()}


def _stored(session, names, place):
    """Return PyTorch's values of an entry by name, in the first form that can have them."""
    arrays = [session.val(names.variables[name]) for name in place.ours]
    stored = ((form.names, form.store(arrays)) for form in place.forms)
    return next(dict(zip(k, a, strict=True)) for k, a in stored if a is not None)


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
