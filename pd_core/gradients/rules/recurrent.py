"""Derivatives of RNN, GRU and LSTM: of the scan that each of them is.

The inputs' share of the gates is one product before the loop. The weights' gradients are one
product each after it: see `control`.
"""

import numpy as np

from ... import ops
from ...graph.checks import whole
from ...graph.errors import NoGradient
from ...graph.variable import constant
from ..expression import expression


@expression("RNN")
def rnn(a, x, w, r, b=None, lengths=None, h=None):
    """H = f(x Wᵀ + h Rᵀ + b)."""
    layer = _Layer(a, x, w, r, b, lengths, 1, ["Tanh"])

    def cell(k):
        part = layer.part(k)
        r = ops.transpose(part.r)

        def step(states, x):
            (h,) = states
            return [part.activated(0, x + h @ r)]

        return part.before(part.bias), step

    return layer.outputs([h], cell)


@expression("GRU")
def gru(a, x, w, r, b=None, lengths=None, h=None):
    """H = (1 - z) n + z h, where the new state n sees the old one through the reset gate."""
    layer = _Layer(a, x, w, r, b, lengths, 3, ["Sigmoid", "Tanh"])
    sizes = [2 * layer.width, layer.width]
    after = a.get("linear_before_reset", 0)

    def cell(k):
        part = layer.part(k)
        gates, candidate = (ops.transpose(r) for r in ops.split(part.r, sizes))
        bias, kept = part.bias, None
        if after and bias is not None:  # the reset gate acts on the recurrent bias of n too
            both, _ = ops.split(bias, sizes)
            _, own = ops.split(part.own, sizes)
            _, kept = ops.split(part.recurrent, sizes)
            bias = ops.concat([both, own])

        def reset(h, r):
            if not after:
                return (r * h) @ candidate
            seen = h @ candidate
            return r * (seen if kept is None else seen + kept)

        def step(states, x):
            (h,) = states
            x, x_n = ops.split(x, sizes, 1)
            z, r = ops.split(part.activated(0, x + h @ gates), [layer.width] * 2, 1)
            return [(1.0 - z) * part.activated(1, x_n + reset(h, r)) + z * h]

        return part.before(bias), step

    return layer.outputs([h], cell)


@expression("LSTM")
def lstm(a, x, w, r, b=None, lengths=None, h=None, c=None, p=None):
    """C = f c + i g, H = o tanh C (Hochreiter & Schmidhuber 1997), peepholes of Gers et al. 2002.

    ONNX Runtime does not clip C on its way to H, nor do we.
    """
    layer = _Layer(a, x, w, r, b, lengths, 4, ["Sigmoid", "Tanh", "Tanh"])
    peepholes = None if p is None else layer.parts_of(p)
    coupled = a.get("input_forget", 0)

    def cell(k):
        part, n = layer.part(k), layer.width
        r = ops.transpose(part.r)
        peep = [None] * 3 if p is None else ops.split(peepholes[k], [n] * 3)

        def gate(x, c, weight):
            return part.activated(0, x if weight is None else x + weight * c)

        def step(states, x):
            h, c = states
            i, o, f, g = ops.split(x + h @ r, [n] * 4, 1)
            i = gate(i, c, peep[0])
            f = 1.0 - i if coupled else gate(f, c, peep[2])
            c = f * c + i * part.activated(1, g)
            return [gate(o, c, peep[1]) * part.functions[2](c), c]

        return part.before(part.bias), step

    return layer.outputs([h, c], cell)


_DIRECTIONS = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}


class _Layer:
    """What the three have in common: directions, layout, lengths, and the loop."""

    def __init__(self, a, x, w, r, b, lengths, gates, activations):
        self.width, self.gates, self.clip = a.get("hidden_size", r.dims[-1]), gates, a.get("clip")
        if not isinstance(self.width, int):
            raise NoGradient(f"only layers of known width have a gradient, not R {r!r}")
        self.batch_first = a.get("layout", 0)
        self.x = ops.transpose(x, [1, 0, 2]) if self.batch_first else x
        self.going = None if lengths is None else _going(self.x, lengths)
        self.reversed = _DIRECTIONS[a.get("direction", "forward")]
        self.functions = _activations(a, activations * len(self.reversed))
        self.w, self.r = self.parts_of(w), self.parts_of(r)
        self.b = None if b is None else self.parts_of(b)

    def parts_of(self, x):
        """One Variable for each direction, the first axis."""
        count = len(self.reversed)
        return [ops.squeeze(part, 0) for part in ([x] if count == 1 else ops.split(x, [1] * count))]

    def part(self, k):
        return _Part(self, k)

    def outputs(self, initial, cell):
        """Y, then the last of each state, for one initial state or None each."""
        found = [self._run(k, initial, *cell(k)) for k in range(len(self.reversed))]
        y = ops.concat([ops.unsqueeze(every, 1) for every, _ in found], 1)
        final = [
            ops.concat([ops.unsqueeze(s, 0) for s in states])
            for states in zip(*(last for _, last in found), strict=True)
        ]
        if self.batch_first:
            return [ops.transpose(y, [2, 0, 1, 3]), *(ops.transpose(s, [1, 0, 2]) for s in final)]
        return [y, *final]

    def _run(self, k, initial, xs, step):
        """The first state of all steps, and the last of each."""
        states = [self._zeros() if s is None else self._state(s, k) for s in initial]
        if self.going is None:

            def free(states, x):
                new = step(states, x)
                return new, new[0]

            final, every = ops.scan(free, states, xs, self.reversed[k])
            return every, final

        def held(states, inputs):
            x, going = inputs
            pairs = zip(step(states, x), states, strict=True)
            new = [ops.where(going, moved, old) for moved, old in pairs]
            return new, new[0]

        final, every = ops.scan(held, states, [xs, self.going], self.reversed[k])
        return ops.where(self.going, every, 0.0), final

    def _state(self, state, k):
        return self.parts_of(ops.transpose(state, [1, 0, 2]) if self.batch_first else state)[k]

    def _zeros(self):
        rows = ops.concat([ops.size_of(self.x, 1), whole([self.width])])
        zeros = ops.expand(constant(0, self.x.dtype), rows)
        zeros.dims = (self.x.dims[1], self.width)
        return zeros


class _Part:
    """The weights and activation functions of one direction."""

    def __init__(self, layer, k):
        self.layer, self.w, self.r = layer, layer.w[k], layer.r[k]
        self.bias = self.own = self.recurrent = None
        if layer.b is not None:
            size = layer.gates * layer.width
            self.own, self.recurrent = ops.split(layer.b[k], [size, size])
            self.bias = self.own + self.recurrent
        count = len(layer.functions) // len(layer.reversed)
        self.functions = layer.functions[count * k : count * (k + 1)]

    def before(self, bias):
        """The inputs' share of the gates, for all steps."""
        x = self.layer.x @ ops.transpose(self.w)
        return x if bias is None else x + bias

    def activated(self, k, x):
        limit = self.layer.clip
        return self.functions[k](x if limit is None else ops.clip(x, -limit, limit))


def _going(x, lengths):
    """Whether a sequence reaches a step, bool [T, B, 1]."""
    steps = ops.reshape(ops.arange(ops.size_of(x, 0)), [-1, 1, 1])
    going = steps < ops.reshape(ops.cast(lengths, np.int64), [1, -1, 1])
    going.dims = (x.dims[0], x.dims[1], 1)
    return going


# ---- activations


def _activations(a, defaults):
    """The activation functions; each takes its alpha and beta, if it has them, off the lists."""
    names = [name.lower() for name in a.get("activations") or defaults]
    left = [list(a.get(f"activation_{key}") or []) for key in ("alpha", "beta")]
    found = []
    for name in names:
        if name not in _FUNCTIONS:
            raise NoGradient(f"there is no activation {name!r}, only {', '.join(_FUNCTIONS)}")
        function, *numbers = _FUNCTIONS[name]
        for k, values in enumerate(left[: len(numbers)]):
            numbers[k] = values.pop(0) if values else numbers[k]
        found.append(lambda x, f=function, numbers=numbers: f(x, *numbers))
    return found


def _thresholded_relu(x, alpha):
    return ops.where(x < alpha, 0.0, x)


def _elu(x, alpha):
    return ops.where(x < 0.0, alpha * (ops.exp(ops.minimum(x, 0.0)) - 1.0), x)


# Each with the alpha and beta that ONNX Runtime takes where the lists are too short.
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
