"""ONNX operators that inference exports write for results of ours, see `ops.onnx_form`.

A form is a function (node, inputs) -> outputs; `inputs` are those of the form.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from ...graph.node import Node, ancestors, apply
from ...graph.variable import Variable, constant
from .recurrent_forms import recurrent

Form = Callable[[Node, Sequence[Any]], Sequence[Variable]]
NO_FORMS: Mapping[str, Form] = MappingProxyType({})
# bytes of the matrices of a loop that is one operator in fused programs: beyond, reading them in
# each step is the limit
LOOP_BYTES = 4 << 20
_OURS = ("form", "results")
_RECURRENT = ("RNN", "GRU", "LSTM")
_KERNELS = {"LayerNormalization", *_RECURRENT, "Attention"}


@dataclass(frozen=True)
class Kernel:
    """A form that a device computes faster than what it is the form of, for nodes that it suits."""

    form: Form
    suits: Callable[[Node], bool] = lambda node: True


NO_KERNELS: Mapping[str, Kernel] = MappingProxyType({})


def forms_of(opset: int) -> dict[str, Form]:
    """Return the forms whose operators an opset has."""
    return {name: form for name, (since, form) in _FORMS.items() if since <= opset}


def kernels(fused: bool = False) -> dict[str, Kernel]:
    """Return the forms that a CPU computes faster than what they are the forms of.

    In programs that are `fused` the loop of a recurrent layer is an operator of its own, which is
    faster, unless its matrices are large: see `fused/recurrences`.
    """
    found = {name: Kernel(form) for name, (_, form) in _FORMS.items() if name in _KERNELS}
    if fused:
        found |= dict.fromkeys(_RECURRENT, Kernel(recurrent, _is_no_fused_loop))
    return found


def _is_no_fused_loop(node):
    """Whether one of the loops of a recurrent layer's `onnx_form` is no fused operator."""
    weights = [x for x in node.inputs[len(node.outputs) :] if x is not None and x.rank == 2]
    sizes = [m.dims for m in weights[1::2]]  # of the matrices of states
    known = all(isinstance(d, int) for dims in sizes for d in dims)
    large = known and any(4 * prod(dims) > LOOP_BYTES for dims in sizes)
    return not known or large or node.outputs[0].dtype != np.float32


def read_alone(order: Sequence[Node], targets: Sequence[Variable]) -> set[Node]:
    """Return the `onnx_form` nodes among these with results whose parts nothing else reads."""
    readers: dict[Variable, list[Node]] = {}
    for node in order:
        for x in node.inputs:
            if x is not None:
                readers.setdefault(x, []).append(node)
    found = set()
    for form in order:
        if form.op_type == "OnnxForm" and _is_exact(form) and not _has_lengths(form):
            results = len(form.outputs)
            inside = ancestors(form.inputs[:results], stop=set(form.inputs[results:]))
            allowed = {form, *inside}
            parts = [y for node in inside for y in node.outputs]
            if not any(y in targets for y in parts) and all(
                reader in allowed for y in parts for reader in readers.get(y, ())
            ):
                found.add(form)
    return found


def _is_exact(form):
    """Whether kernels compute in the element type of the results: those for float64 round."""
    return form.outputs[0].dtype in (np.float32, np.float16)


def _has_lengths(form):
    """Whether sequences have lengths, which ONNX Runtime's kernels do not check."""
    recurrent = form.attributes["form"] in _RECURRENT
    return recurrent and form.inputs[len(form.outputs) + 1] is not None


def _attributes(node):
    return {key: value for key, value in node.attributes.items() if key not in _OURS}


def _same(node, inputs):
    """The operator with the inputs and attributes of the node."""
    known = node.outputs[0].dims
    return (apply(node.attributes["form"], *inputs, **_attributes(node), known=known),)


def _rms_norm(node, inputs):
    x, scale = inputs
    return _same(node, (x, _filled(scale, x.dims[node.attributes["axis"] :], 1, x)))


def _layer_norm(node, inputs):
    x, scale, shift = inputs
    scale = _filled(scale, x.dims[node.attributes["axis"] :], 1, x)
    return _same(node, (x, scale) if shift is None else (x, scale, shift))


def _channel_norm(node, inputs):
    x, scale, shift = inputs
    channels = (x.dims[1],)
    return _same(node, (x, _filled(scale, channels, 1, x), _filled(shift, channels, 0, x)))


def _filled(v, dims, value, x):
    """v, or a constant of these sizes where it is left out."""
    return constant(np.full(dims, value), x.dtype) if v is None else v


_FORMS: dict[str, tuple[int, Form]] = {
    "BatchNormalization": (9, _same),
    "InstanceNormalization": (6, _channel_norm),
    "LayerNormalization": (17, _layer_norm),
    # Before opset 21 it had a factor for each group instead of each channel.
    "GroupNormalization": (21, _channel_norm),
    "RMSNormalization": (23, _rms_norm),
    "Attention": (23, _same),
    "RNN": (7, recurrent),
    "GRU": (7, recurrent),
    "LSTM": (7, recurrent),
}
