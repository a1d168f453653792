"""RNN, GRU and LSTM in numpy: onnx 1.23's reference evaluator silently ignores lengths, activation
functions, clipping and coupled gates."""

from functools import partial

import numpy as np
from onnx.reference.op_run import OpRun

_DIRECTIONS = {"forward": [1], "reverse": [-1], "bidirectional": [1, -1]}  # order of the steps


class _Recurrent(OpRun):
    """A layer; `_step(x, states, r, b, p, functions, attributes)` returns the next states."""

    op_domain = ""
    states: int = 1
    defaults: tuple[str, ...] = ("Tanh",)

    def _run(self, x, w, r, b=None, lengths=None, *more, direction="forward", layout=0, **a):
        more = [*more, *[None] * (self.states + 1 - len(more))]
        p, directions = more[self.states], _DIRECTIONS[direction]
        functions = _functions(a, self.defaults * len(directions))
        count, size = len(functions) // len(directions), r.shape[2]
        x = x.swapaxes(0, 1) if layout else x
        shape = len(directions), x.shape[1], size
        states = [_initial(s, layout, shape, x.dtype) for s in more[:-1]]
        steps = np.full(x.shape[1], len(x)) if lengths is None else lengths
        ys = np.zeros((len(x), *shape), x.dtype)
        for k, order in enumerate(directions):
            wb, rb = np.zeros((2, len(w[k])), x.dtype) if b is None else np.split(b[k], 2)
            peepholes = None if p is None else np.split(p[k], 3)
            own = functions[count * k : count * (k + 1)]
            own[:2] = [_clipped(function, a.get("clip")) for function in own[:2]]
            for t in range(len(x))[::order]:
                old, active = [s[k] for s in states], (t < steps)[:, None]
                new = self._step(x[t] @ w[k].T + wb, old, r[k], rb, peepholes, own, a)
                for s, before, after in zip(states, old, new, strict=True):
                    s[k] = np.where(active, after, before)
                ys[t, k] = np.where(active, new[0], 0)
        if layout:
            ys, states = ys.transpose(2, 0, 1, 3), [s.swapaxes(0, 1) for s in states]
        return (ys, *states)[: len(self.onnx_node.output)]


class RNN(_Recurrent):
    def _step(self, x, states, r, b, p, functions, a):
        return [functions[0](x + states[0] @ r.T + b)]


class GRU(_Recurrent):
    defaults = ("Sigmoid", "Tanh")

    def _step(self, x, states, r, b, p, functions, a):
        f, g = functions
        (h,) = states
        (xz, xr, xn), (rz, rr, rn), (bz, br, bn) = np.split(x, 3, 1), np.split(r, 3), np.split(b, 3)
        z, reset = f(xz + h @ rz.T + bz), f(xr + h @ rr.T + br)
        hn = reset * (h @ rn.T + bn) if a.get("linear_before_reset") else reset * h @ rn.T + bn
        return [(1 - z) * g(xn + hn) + z * h]


class LSTM(_Recurrent):
    states, defaults = 2, ("Sigmoid", "Tanh", "Tanh")

    def _step(self, x, states, r, b, p, functions, a):
        (f, g, out), (h, c) = functions, states
        pi, po, pf = [0, 0, 0] if p is None else p
        xi, xo, xf, xc = np.split(x + h @ r.T + b, 4, 1)
        i = f(xi + pi * c)
        c = (1 - i if a.get("input_forget") else f(xf + pf * c)) * c + i * g(xc)
        return [f(xo + po * c) * out(c), c]


def _initial(state, layout, shape, dtype):
    if state is None:
        return np.zeros(shape, dtype)
    return np.array(state.swapaxes(0, 1) if layout else state)


def _functions(a, defaults):
    """The activation functions, each with its alpha and beta taken off the lists."""
    parameters = [list(a.get(f"activation_{key}") or []) for key in ("alpha", "beta")]
    functions = []
    for name in a.get("activations") or defaults:
        function, *numbers = _ACTIVATIONS[name.lower()]
        for k, values in enumerate(parameters[: len(numbers)]):
            numbers[k] = values.pop(0) if values else numbers[k]
        functions.append(partial(function, *numbers))
    return functions


def _clipped(function, limit):
    return function if limit is None else lambda x: function(np.clip(x, -limit, limit))


# Each with the alpha and beta that ONNX Runtime uses where the lists are too short.
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
