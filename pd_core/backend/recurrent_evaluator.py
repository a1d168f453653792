"""RNN, GRU and LSTM in numpy: the evaluator of onnx 1.23 leaves out lengths, activation functions,
clipping and coupled gates without a word."""

from functools import partial

import numpy as np
from onnx.reference.op_run import OpRun

_WAYS = {"forward": [1], "reverse": [-1], "bidirectional": [1, -1]}


class _Recurrent(OpRun):
    """A layer; `step(x, states, r, b, p, functions, attributes)` gives the states after a step."""

    op_domain = ""
    states, defaults = 1, ("Tanh",)

    def _run(self, x, w, r, b=None, lengths=None, *more, direction="forward", layout=0, **a):
        more = [*more, *[None] * (self.states + 1 - len(more))]
        p, ways = more[self.states], _WAYS[direction]
        functions = _functions(a, self.defaults * len(ways))
        count, size = len(functions) // len(ways), r.shape[2]
        x = x.swapaxes(0, 1) if layout else x
        starts = [_start(s, layout, (len(ways), x.shape[1], size), x.dtype) for s in more[:-1]]
        steps = np.full(x.shape[1], len(x)) if lengths is None else lengths
        every = np.zeros((len(x), len(ways), x.shape[1], size), x.dtype)
        for k, way in enumerate(ways):
            own, kept = np.zeros((2, len(w[k])), x.dtype) if b is None else np.split(b[k], 2)
            peep = None if p is None else np.split(p[k], 3)
            part = functions[count * k : count * (k + 1)]
            part[:2] = [_clipped(function, a.get("clip")) for function in part[:2]]
            for t in range(len(x))[::way]:
                old, going = [s[k] for s in starts], (t < steps)[:, None]
                new = self.step(x[t] @ w[k].T + own, old, r[k], kept, peep, part, a)
                for s, before, after in zip(starts, old, new, strict=True):
                    s[k] = np.where(going, after, before)
                every[t, k] = np.where(going, new[0], 0)
        if layout:
            every, starts = every.transpose(2, 0, 1, 3), [s.swapaxes(0, 1) for s in starts]
        return (every, *starts)[: len(self.onnx_node.output)]


class RNN(_Recurrent):
    def step(self, x, states, r, b, p, functions, a):
        return [functions[0](x + states[0] @ r.T + b)]


class GRU(_Recurrent):
    defaults = ("Sigmoid", "Tanh")

    def step(self, x, states, r, b, p, functions, a):
        f, g = functions
        (h,) = states
        (xz, xr, xn), (rz, rr, rn), (bz, br, bn) = np.split(x, 3, 1), np.split(r, 3), np.split(b, 3)
        z, reset = f(xz + h @ rz.T + bz), f(xr + h @ rr.T + br)
        seen = reset * (h @ rn.T + bn) if a.get("linear_before_reset") else reset * h @ rn.T + bn
        return [(1 - z) * g(xn + seen) + z * h]


class LSTM(_Recurrent):
    states, defaults = 2, ("Sigmoid", "Tanh", "Tanh")

    def step(self, x, states, r, b, p, functions, a):
        (f, g, out), (h, c) = functions, states
        pi, po, pf = [0, 0, 0] if p is None else p
        xi, xo, xf, xc = np.split(x + h @ r.T + b, 4, 1)
        i = f(xi + pi * c)
        c = (1 - i if a.get("input_forget") else f(xf + pf * c)) * c + i * g(xc)
        return [f(xo + po * c) * out(c), c]


def _start(state, layout, shape, dtype):
    if state is None:
        return np.zeros(shape, dtype)
    return np.array(state.swapaxes(0, 1) if layout else state)


def _functions(a, defaults):
    """The activation functions, each with its alpha and beta off the lists."""
    left = [list(a.get(f"activation_{key}") or []) for key in ("alpha", "beta")]
    found = []
    for name in a.get("activations") or defaults:
        function, *numbers = _ACTIVATIONS[name.lower()]
        for k, values in enumerate(left[: len(numbers)]):
            numbers[k] = values.pop(0) if values else numbers[k]
        found.append(partial(function, *numbers))
    return found


def _clipped(function, limit):
    return function if limit is None else lambda x: function(np.clip(x, -limit, limit))


# Each with the alpha and beta that ONNX Runtime takes where the lists are too short.
_ACTIVATIONS = {
    "relu": (lambda x: np.maximum(x, 0),),
    "tanh": (np.tanh,),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)),),
    "softsign": (lambda x: x / (1 + np.abs(x)),),
    "softplus": (lambda x: np.logaddexp(x, 0),),
    "affine": (lambda alpha, beta, x: alpha * x + beta, 0.0, 0.0),
    "leakyrelu": (lambda alpha, x: np.where(x < 0, alpha * x, x), 0.01),
    "thresholdedrelu": (lambda alpha, x: np.where(x < alpha, 0, x), 0.0),
    "scaledtanh": (lambda alpha, beta, x: alpha * np.tanh(beta * x), 0.0, 0.0),
    "hardsigmoid": (lambda alpha, beta, x: np.clip(alpha * x + beta, 0, 1), 0.2, 0.5),
    "elu": (lambda alpha, x: np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x), 1.0),
}
