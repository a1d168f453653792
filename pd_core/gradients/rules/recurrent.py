"""Derivatives of RNN, GRU and LSTM, each expressed as a scan.

The product of the inputs with W is one matrix product before the loop. The weights' gradients are
one product each after it: see `control`.
"""

import numpy as np

from ... import ops
from ...graph.checks import whole
from ...graph.errors import NoGradient
from ...graph.node import refined
from ...graph.variable import Variable, constant
from ..expression import expression
from ..registry import Attributes


@expression("RNN")
def rnn(a: Attributes, *inputs: Variable | None) -> list[Variable]:
    """H = f(x Wᵀ + h Rᵀ + b)."""
    layer = _Layer(a, 1, ["Tanh"], 1, *inputs)

    def cell(k):
        part = layer.part(k)
        r = ops.transpose(part.r)

        def step(states, x):
            (h,) = states
            return [part.activated(0, x + h @ r)]

        return part.projected(part.bias), step

    return layer.outputs(cell)


@expression("GRU")
def gru(a: Attributes, *inputs: Variable | None) -> list[Variable]:
    """H = (1 - z) n + z h, with the candidate n and the reset gate r (Cho et al. 2014)."""
    layer = _Layer(a, 3, ["Sigmoid", "Tanh"], 1, *inputs)
    sizes = [2 * layer.width, layer.width]
    after = a.get("linear_before_reset", 0)

    def cell(k):
        part = layer.part(k)
        gates, candidate = (ops.transpose(r) for r in ops.split(part.r, sizes))
        bias, candidate_bias = part.bias, None
        if after and bias is not None:  # the reset gate acts on the recurrent bias of n too
            gates_bias, _ = ops.split(bias, sizes)
            _, input_bias = ops.split(part.input_bias, sizes)
            _, candidate_bias = ops.split(part.recurrent_bias, sizes)
            bias = ops.concat([gates_bias, input_bias])

        def reset(h, r):
            if not after:
                return (r * h) @ candidate
            hidden = h @ candidate
            return r * (hidden if candidate_bias is None else hidden + candidate_bias)

        def step(states, x):
            (h,) = states
            x, x_n = ops.split(x, sizes, 1)
            z, r = ops.split(part.activated(0, x + h @ gates), [layer.width] * 2, 1)
            return [(1.0 - z) * part.activated(1, x_n + reset(h, r)) + z * h]

        return part.projected(bias), step

    return layer.outputs(cell)


@expression("LSTM")
def lstm(a: Attributes, *inputs: Variable | None) -> list[Variable]:
    """C = f c + i g, H = o tanh C (Hochreiter & Schmidhuber 1997), peepholes of Gers et al. 2002.

    ONNX Runtime does not clip C before it computes H, nor do we.
    """
    p = inputs[7] if len(inputs) > 7 else None  # the peepholes
    layer = _Layer(a, 4, ["Sigmoid", "Tanh", "Tanh"], 2, *inputs[:7])
    peepholes = [] if p is None else layer.by_direction(p)
    coupled = a.get("input_forget", 0)

    def cell(k):
        part, n = layer.part(k), layer.width
        r = ops.transpose(part.r)
        weights = [None] * 3 if p is None else ops.split(peepholes[k], [n] * 3)

        def gate(x, c, weight):
            return part.activated(0, x if weight is None else x + weight * c)

        def step(states, x):
            h, c = states
            i, o, f, g = ops.split(x + h @ r, [n] * 4, 1)
            i = gate(i, c, weights[0])
            f = 1.0 - i if coupled else gate(f, c, weights[2])
            c = f * c + i * part.activated(1, g)
            return [gate(o, c, weights[1]) * part.functions[2](c), c]

        return part.projected(part.bias), step

    return layer.outputs(cell)


_DIRECTIONS = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}


class _Layer:
    """Base of the three layers: directions, layout, lengths, and the loop.

    Its inputs are those that the three operators have in common: X, W, R, B, the lengths, then as
    many initial states as there are states. One that is missing or None is zeros.
    """

    def __init__(self, a, gates, activations, count, x, w, r, b=None, lengths=None, *states):
        self.states = [*states, *[None] * (count - len(states))]
        self.width, self.gates, self.clip = a.get("hidden_size", r.dims[-1]), gates, a.get("clip")
        if not isinstance(self.width, int):
            raise NoGradient(f"only layers of known width have a gradient, not R {r!r}")
        self.batch_first = a.get("layout", 0)
        self.x = ops.transpose(x, [1, 0, 2]) if self.batch_first else x
        self.mask = None if lengths is None else _sequence_mask(self.x, lengths)
        self.reversed = _DIRECTIONS[a.get("direction", "forward")]
        self.functions = _activations(a, activations * len(self.reversed))
        self.w, self.r = self.by_direction(w), self.by_direction(r)
        self.b = None if b is None else self.by_direction(b)

    def by_direction(self, x):
        """Split the first axis into one Variable for each direction."""
        count = len(self.reversed)
        return [ops.squeeze(part, 0) for part in ([x] if count == 1 else ops.split(x, [1] * count))]

    def part(self, k):
        """Return the weights of the k-th direction."""
        return _Part(self, k)

    def outputs(self, cell):
        """Return Y, then the final value of each state."""
        runs = [self._run(k, *cell(k)) for k in range(len(self.reversed))]
        y = ops.concat([ops.unsqueeze(hidden, 1) for hidden, _ in runs], 1)
        final = [
            ops.concat([ops.unsqueeze(s, 0) for s in states])
            for states in zip(*(last for _, last in runs), strict=True)
        ]
        if self.batch_first:
            return [ops.transpose(y, [2, 0, 1, 3]), *(ops.transpose(s, [1, 0, 2]) for s in final)]
        return [y, *final]

    def _run(self, k, xs, step):
        """Return the hidden state of all steps, and the final value of each state."""
        states = [self._zeros() if s is None else self._state(s, k) for s in self.states]
        if self.mask is None:

            def unmasked(states, x):
                new = step(states, x)
                return new, new[0]

            final, hidden = ops.scan(unmasked, states, xs, self.reversed[k])
            return hidden, final

        def masked(states, inputs):
            x, mask = inputs
            pairs = zip(step(states, x), states, strict=True)
            new = [ops.where(mask, stepped, old) for stepped, old in pairs]
            return new, new[0]

        final, hidden = ops.scan(masked, states, [xs, self.mask], self.reversed[k])
        return ops.where(self.mask, hidden, 0.0), final

    def _state(self, state, k):
        return self.by_direction(ops.transpose(state, [1, 0, 2]) if self.batch_first else state)[k]

    def _zeros(self):
        sizes = ops.concat([ops.size_of(self.x, 1), whole([self.width])])
        zeros = ops.expand(constant(0, self.x.dtype), sizes)
        zeros = refined(zeros, (self.x.dims[1], self.width))
        return zeros


class _Part:
    """The weights and activation functions of one direction."""

    def __init__(self, layer, k):
        self.layer, self.w, self.r = layer, layer.w[k], layer.r[k]
        self.bias = self.input_bias = self.recurrent_bias = None
        if layer.b is not None:
            size = layer.gates * layer.width
            self.input_bias, self.recurrent_bias = ops.split(layer.b[k], [size, size])
            self.bias = self.input_bias + self.recurrent_bias
        count = len(layer.functions) // len(layer.reversed)
        self.functions = layer.functions[count * k : count * (k + 1)]

    def projected(self, bias):
        """Return the input projections x Wᵀ + bias of all steps."""
        x = self.layer.x @ ops.transpose(self.w)
        return x if bias is None else x + bias

    def activated(self, k, x):
        """Apply the k-th activation function, to clipped values if the node clips."""
        limit = self.layer.clip
        return self.functions[k](x if limit is None else ops.clip(x, -limit, limit))


def _sequence_mask(x, lengths):
    """Return whether a step lies within its sequence, bool [T, B, 1]."""
    steps = ops.reshape(ops.arange(ops.size_of(x, 0)), [-1, 1, 1])
    going = steps < ops.reshape(ops.cast(lengths, np.int64), [1, -1, 1])
    going = refined(going, (x.dims[0], x.dims[1], 1))
    return going


# ---- activations


def _activations(a, defaults):
    """Return the activation functions; each takes the alpha and beta it has from ONNX's lists."""
    names = [name.lower() for name in a.get("activations") or defaults]
    lists = [list(a.get(f"activation_{key}") or []) for key in ("alpha", "beta")]
    functions = []
    for name in names:
        if name not in _FUNCTIONS:
            raise NoGradient(f"there is no activation {name!r}, only {', '.join(_FUNCTIONS)}")
        function, *numbers = _FUNCTIONS[name]
        for k, values in enumerate(lists[: len(numbers)]):
            numbers[k] = values.pop(0) if values else numbers[k]
        functions.append(lambda x, f=function, numbers=numbers: f(x, *numbers))
    return functions


def _thresholded_relu(x, alpha):
    return ops.where(x < alpha, 0.0, x)


def _elu(x, alpha):
    return ops.where(x < 0.0, alpha * (ops.exp(ops.minimum(x, 0.0)) - 1.0), x)


# Each with ONNX Runtime's defaults of alpha and beta, for lists that are too short.
_FUNCTIONS = {
    "relu": (ops.relu,),
    "tanh": (ops.tanh,),
    "sigmoid": (ops.sigmoid,),
    "softsign": (ops.softsign,),
    "softplus": (ops.softplus,),
    "affine": (lambda x, alpha, beta: alpha * x + beta, 0.0, 0.0),
    "leakyrelu": (ops.leaky_relu, 0.01),
    "thresholdedrelu": (_thresholded_relu, 0.0),
    "scaledtanh": (lambda x, alpha, beta: alpha * ops.tanh(beta * x), 0.0, 0.0),
    "hardsigmoid": (lambda x, alpha, beta: ops.clip(alpha * x + beta, 0.0, 1.0), 0.2, 0.5),
    "elu": (_elu, 1.0),
}
