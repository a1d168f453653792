"""The layers of PyTorch beside ours: under which names, and how, each stores its parameters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ..graph.errors import GraphError
from ..layers.activation import PReLU
from ..layers.attention import MultiHeadAttention
from ..layers.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..layers.dense import FC, Embedding
from ..layers.layer import Layer
from ..layers.norm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    RMSNorm,
)
from ..layers.recurrence import DIRECTIONS
from ..layers.recurrent import GRU, LSTM, RNN
from ..layers.reparametrization import SpectralNorm, WeightNorm, innermost
from ..layers.transformer import TransformerDecoderLayer, TransformerEncoderLayer

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class Form:
    """A way in which PyTorch stores some parameters: names, and functions of their arrays.

    `load` returns ours. `store` returns those of PyTorch; None where this way cannot have them.
    """

    names: tuple[str, ...]
    load: Callable[[Arrays], Arrays]
    store: Callable[[Arrays], Arrays | None]


@dataclass(frozen=True)
class Entry:
    """Parameters of ours that belong together, and the forms that PyTorch has for them."""

    ours: tuple[str, ...]
    forms: tuple[Form, ...]


@dataclass(frozen=True)
class Counterpart:
    """PyTorch's names of the parts of a layer.

    `layers` are {its name of a layer below: ours}, where that differs; `merged` layers below whose
    parameters are in the entries; `ignored` names of PyTorch alone, {name: value that it begins
    with}.
    """

    entries: tuple[Entry, ...] = ()
    layers: dict[str, str] = field(default_factory=dict)
    merged: tuple[str, ...] = ()
    ignored: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    """PyTorch's layout of a parameter: gates in another order, then transposed or not."""

    transposed: bool = False
    order: tuple[int, ...] = ()  # of PyTorch's gates in ours

    def load(self, array: np.ndarray) -> np.ndarray:
        """Return the parameter in our layout."""
        array = _reordered(array, self.order)
        return array.T if self.transposed and array.ndim == 2 else array

    def store(self, array: np.ndarray) -> np.ndarray:
        """Return it in PyTorch's."""
        array = array.T if self.transposed and array.ndim == 2 else array
        return _reordered(array, tuple(np.argsort(self.order)))


def _reordered(array, order):
    """Return parts of the first axis in another order; norms along it have no parts."""
    if not order or array.ndim == 0 or len(array) % len(order):
        return array
    parts = np.split(array, len(order))
    return np.concatenate([parts[k] for k in order])


def _single(ours: str, theirs: str, layout: Layout) -> Entry:
    def load(arrays):
        return [layout.load(arrays[0])]

    def store(arrays):
        return [layout.store(arrays[0])]

    return Entry((ours,), (Form((theirs,), load, store),))


def counterpart(layer: Layer, computed: Sequence[str] = ()) -> Counterpart | None:
    """Return that of a layer; None for one of a user, whose parts have the same names.

    `computed` are parameters that layers around it compute.
    """
    if isinstance(layer, AROUND):
        return _reparametrized(layer)
    function = _function_of(layer)
    if function is None:
        return None
    found = function(layer)
    others = [e for e in found.entries if e.ours not in [(name,) for name in computed]]
    return replace(found, entries=tuple(others))


def _function_of(layer):
    kinds = _COUNTERPARTS.items()
    return next((function for kind, function in kinds if isinstance(layer, kind)), None)


def _leaves(*rows: tuple[str, str, Layout, Any]) -> Counterpart:
    return Counterpart(tuple([_single(*row[:3]) for row in rows if row[3]]))


PLAIN, MATRIX = Layout(), Layout(transposed=True)


def _fc(layer):
    return _leaves(("W", "weight", MATRIX, True), ("B", "bias", PLAIN, layer.has_bias))


def _convolution(layer):
    return _leaves(("W", "weight", PLAIN, True), ("B", "bias", PLAIN, layer.has_bias))


def _table(layer):
    return _leaves(("W", "weight", PLAIN, True))


def _embedding(layer):
    """The vector of the padding is zero here whatever is stored, and what is stored in PyTorch."""
    row = layer.padding_id
    if row is None:
        return _table(layer)

    def load(arrays):
        if arrays[0].ndim == 2 and row < len(arrays[0]) and arrays[0][row].any():
            raise GraphError(
                f"row {row}, the padding, is not zero, as it is here\n"
                "  hint: an Embedding without padding_id"
            )
        return arrays

    def store(arrays):
        stored = np.array(arrays[0])
        stored[row] = 0.0
        return [stored]

    return Counterpart((Entry(("W",), (Form(("weight",), load, store),)),))


def _norm(layer):
    has_bias = layer.affine and layer.has_bias
    return _leaves(("scale", "weight", PLAIN, layer.affine), ("bias", "bias", PLAIN, has_bias))


def _batch_norm(layer):
    statistics = ("mean", "running_mean", PLAIN), ("variance", "running_var", PLAIN)
    entries = (*_norm(layer).entries, *[_single(*row) for row in statistics])
    return Counterpart(entries, ignored={"num_batches_tracked": np.zeros((), np.int64)})


_GATES = {LSTM: (2, 0, 1, 3), GRU: (1, 0, 2)}  # of PyTorch in ours


def _recurrent(layer):
    order = _order(layer)
    matrix = Layout(True, order)
    entries = []
    for k in range(layer.num_layers):
        for direction in DIRECTIONS[: 1 + layer.bidirectional]:
            part = f"l{k}{direction}"
            entries.append(_single(f"W_{part}", f"weight_ih_{part}", matrix))
            entries.append(_single(f"R_{part}", f"weight_hh_{part}", matrix))
            if isinstance(layer, LSTM) and layer.proj_size:
                entries.append(_single(f"P_{part}", f"weight_hr_{part}", MATRIX))
            if layer.has_bias:
                names = (f"bias_ih_{part}", f"bias_hh_{part}")
                pair = _gru_biases if isinstance(layer, GRU) else _added_biases
                load, store = (partial(f, Layout(order=order)) for f in pair)
                entries.append(Entry((f"B_{part}",), (Form(names, load, store),)))
    return Counterpart(tuple(entries))


def _order(layer):
    return next((order for kind, order in _GATES.items() if isinstance(layer, kind)), ())


def _sum(layout, arrays):
    return [layout.load(arrays[0]) + layout.load(arrays[1])]


def _and_zeros(layout, arrays):
    bias = layout.store(arrays[0])
    return [bias, np.zeros_like(bias)]


def _gru_sum(layout, arrays):
    """Return the sums of the gates' biases, and both of the candidate: a reset gate is between."""
    inputs, states = (layout.load(array) for array in arrays)
    n = len(inputs) // 3
    return [np.concatenate([inputs[: 2 * n] + states[: 2 * n], inputs[2 * n :], states[2 * n :]])]


def _gru_parts(layout, arrays):
    n = len(arrays[0]) // 4
    states = np.concatenate([np.zeros_like(arrays[0][: 2 * n]), arrays[0][3 * n :]])
    return [layout.store(arrays[0][: 3 * n]), layout.store(states)]


_added_biases, _gru_biases = (_sum, _and_zeros), (_gru_sum, _gru_parts)


def _attention(layer):
    """The three products with inputs are one matrix in PyTorch, unless the sizes differ."""
    parts = ("query", "key", "value")
    packed = Form(("in_proj_weight",), _split_matrix, _joined_matrix)
    names = tuple([f"{part[0]}_proj_weight" for part in parts])
    separate = Form(names, _transposed, _transposed)
    entries = [Entry(tuple([f"{part}.W" for part in parts]), (packed, separate))]
    if layer.query.has_bias:
        biases = Form(("in_proj_bias",), lambda a: np.split(a[0], 3), lambda a: [np.concatenate(a)])
        entries.append(Entry(tuple([f"{part}.B" for part in parts]), (biases,)))
    return Counterpart(tuple(entries), {"out_proj": "output"}, parts)


def _split_matrix(arrays):
    return [part.T for part in np.split(arrays[0], 3)]


def _joined_matrix(arrays):
    """Return one matrix of square ones; None if keys or values have another size than queries."""
    if any(array.shape[0] != array.shape[1] for array in arrays):
        return None
    return [np.concatenate([array.T for array in arrays])]


def _transposed(arrays):
    return [array.T for array in arrays]


_BRANCHES = {"self_attn": "self_attention", "linear1": "hidden", "linear2": "output"}


def _encoder(layer):
    return Counterpart(layers=_BRANCHES)


def _decoder(layer):
    return Counterpart(layers={**_BRANCHES, "multihead_attn": "cross_attention"})


def _reparametrized(layer):
    """Return the counterpart of a WeightNorm or SpectralNorm.

    PyTorch has the names of its parametrizations, and those of before version 2.0. What the layer
    computes is stored as the parameter would be without it.
    """
    inner = innermost(layer)
    function = _function_of(inner)
    entries = () if function is None else function(inner).entries
    entry = next((e for e in entries if e.ours == (layer.of,)), None)
    if entry is None:
        return Counterpart()
    form, rows = entry.forms[0], Layout(order=_order(inner))
    name = form.names[0]
    new = f"parametrizations.{name}"
    if isinstance(layer, WeightNorm):
        ours: tuple[str, ...] = ("g", "v")
        names: list[tuple[str, ...]] = [
            (f"{new}.original0", f"{new}.original1"),
            (f"{name}_g", f"{name}_v"),
        ]
        load, store = partial(_each, form.load), partial(_each, form.store)
    else:
        ours = ("W", "u", "v")
        names = [
            (f"{new}.original", f"{new}.0._u", f"{new}.0._v"),
            (f"{name}_orig", f"{name}_u", f"{name}_v"),
        ]
        load, store = partial(_first, form.load, rows.load), partial(_first, form.store, rows.store)
    return Counterpart((Entry(ours, tuple([Form(each, load, store) for each in names])),))


def _each(function, arrays):
    return [function([array])[0] for array in arrays]


def _first(function, rows, arrays):
    """Return a matrix with its singular vectors, of which the first is in the order of the rows."""
    matrix, u, v = arrays
    return [function([matrix])[0], rows(u), v]


_CONVOLUTIONS = (Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
AROUND = (WeightNorm, SpectralNorm)  # layers around one
_COUNTERPARTS: dict[Any, Callable[[Any], Counterpart]] = {
    FC: _fc,
    _CONVOLUTIONS: _convolution,
    Embedding: _embedding,
    PReLU: _table,
    (BatchNorm1d, BatchNorm2d, BatchNorm3d): _batch_norm,
    (LayerNorm, RMSNorm, GroupNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d): _norm,
    (LSTM, GRU, RNN): _recurrent,
    MultiHeadAttention: _attention,
    TransformerEncoderLayer: _encoder,
    TransformerDecoderLayer: _decoder,
}
