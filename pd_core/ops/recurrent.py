"""Cells of recurrent networks: what one step makes of the state, for the `scan` of a sequence.

The input's share of the gates, with the bias, is the caller's: one product over all tokens.
"""

from . import math as m
from .matrix import matmul
from .shape import split


def lstm_cell(gates, c, peepholes=None, act=m.tanh, gate_act=m.sigmoid, state_act=m.tanh):
    """A step of an LSTM (Hochreiter & Schmidhuber 1997): (h, new c), each [B, n].

    `gates` [B, 4n] are the sums, with the last h's share, of the candidate and of the input, forget
    and output gate side by side. `peepholes` are three [n] or [1, n] by which c counts in the
    gates, in that order (Gers et al. 2002).
    """
    n = c.dims[-1]
    if peepholes is None:  # the three gates are one operator
        g, gates = split(gates, [n, 3 * n], axis=1)
        i, f, o = split(gate_act(gates), [n, n, n], axis=1)
        c = m.add(m.mul(act(g), i), m.mul(c, f))
        return m.mul(o, state_act(c)), c
    g, i, f, o = split(gates, [n] * 4, axis=1)
    see_i, see_f, see_o = peepholes
    i, f = gate_act(_seen(i, c, see_i)), gate_act(_seen(f, c, see_f))
    c = m.add(m.mul(act(g), i), m.mul(c, f))
    o = gate_act(_seen(o, c, see_o))
    return m.mul(o, state_act(c)), c


def gru_cell(x, h, gates, candidate, act=m.tanh, gate_act=m.sigmoid):
    """A step of a GRU (Cho et al. 2014): the new h, [B, n].

    x [B, 3n] is the input's share of update gate z, reset gate r and candidate, side by side; the
    last h counts through `gates` [n, 2n] and, where r lets it, `candidate` [n, n]. z is the share
    of the candidate in the new h.
    """
    n = h.dims[-1]
    x, x_candidate = split(x, [2 * n, n], axis=1)
    z, r = split(gate_act(m.add(matmul(h, gates), x)), [n, n], axis=1)
    new = act(m.add(matmul(m.mul(r, h), candidate), x_candidate))
    return m.add(h, m.mul(z, m.sub(new, h)))


def _seen(gate, c, weight):
    return m.add(gate, m.mul(c, weight))
