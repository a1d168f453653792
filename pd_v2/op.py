"""Functions of layers, and operators of layers.

In a user's program `+`, `-` and `*` of layers build layers with names of their own, and `<` orders
layers by definition. Inside our packages the same objects are core Variables, so there the
operators are the core's: which one applies depends on the module that calls it.
"""

import operator
import sys
from numbers import Real

import pd_core as pd

from . import activation, build
from .config_base import Layer
from .layer.math import scaling, slope_intercept
from .layer.mixed import identity_projection, mixed
from .layer.reshape import repeat

__all__ = [
    *("abs", "exp", "log", "reciprocal", "relu", "sigmoid", "softmax", "sqrt", "square", "tanh")
]


def exp(input, name=None):
    """Exponential, e^x."""
    return _activated("exp", input, name, activation.Exp())


def log(input, name=None):
    """Natural logarithm."""
    return _activated("log", input, name, activation.Log())


def abs(input, name=None):
    """Absolute value."""
    return _activated("abs", input, name, activation.Abs())


def sigmoid(input, name=None):
    """1 / (1 + e^-x)."""
    return _activated("sigmoid", input, name, activation.Sigmoid())


def tanh(input, name=None):
    """Hyperbolic tangent."""
    return _activated("tanh", input, name, activation.Tanh())


def square(input, name=None):
    """x²."""
    return _activated("square", input, name, activation.Square())


def relu(input, name=None):
    """max(0, x)."""
    return _activated("relu", input, name, activation.Relu())


def sqrt(input, name=None):
    """Square root."""
    return _activated("sqrt", input, name, activation.Sqrt())


def reciprocal(input, name=None):
    """1/x."""
    return _activated("reciprocal", input, name, activation.Reciprocal())


def softmax(input, name=None):
    """Softmax over the row."""
    return _activated("softmax", input, name, activation.Softmax())


def _activated(prefix, input, name, act):
    name = name or build.current().next_name(prefix)
    return mixed(input=[identity_projection(input=input)], name=name, act=act)


def _add(a, b):
    if isinstance(b, Real):
        return slope_intercept(input=a, intercept=b)
    if a.size != b.size:
        if 1 not in (a.size, b.size):
            raise TypeError(f"+ of {a.name!r}, {a.size} wide, and {b.name!r}, {b.size} wide")
        wide, one = (b, a) if a.size == 1 else (a, b)
        a, b = wide, repeat(one, wide.size)
    return mixed(input=[identity_projection(input=a), identity_projection(input=b)])


def _sub(a, b):
    if isinstance(b, Real):
        return slope_intercept(input=a, intercept=b)  # sic: 2017 adds the number here
    return _add(a, _neg(b))


def _rsub(a, b):
    return _add(_neg(a), b)


def _mul(a, b):
    if isinstance(b, Real):
        return slope_intercept(input=a, slope=b)
    if 1 not in (a.size, b.size):
        raise TypeError(
            f"* of {a.name!r}, {a.size} wide, and {b.name!r}, {b.size} wide: one must be 1 wide"
        )
    return scaling(input=b, weight=a) if a.size == 1 else scaling(input=a, weight=b)


def _neg(a):
    return slope_intercept(input=a, slope=-1.0)


def _installed(of_layers, of_core):
    """Return the operator that builds layers in a user's program, and is the core's elsewhere."""

    def operation(self, other):
        legacy = isinstance(other, (Real, Layer)) and not _called_by_us()
        return of_layers(self, other) if legacy else of_core(self, other)

    return operation


def _compared(order, of_core):
    """Return the comparison that orders layers by definition in a user's program, else the core's.

    In 2017 layers were plain objects, which Python 2 could sort.
    """

    def comparison(self, other):
        if _called_by_us():
            return of_core(self, other)
        return order(self.order, other.order) if isinstance(other, Layer) else NotImplemented

    return comparison


def _minus(self):
    return pd.Variable.__neg__(self) if _called_by_us() else _neg(self)


def _called_by_us():
    """Return whether the code that uses an operator is a module of our packages."""
    caller = sys._getframe(2).f_globals.get("__name__", "").partition(".")[0]
    return caller in _PACKAGES


_PACKAGES = ("pd_core", __name__.partition(".")[0])
for _name, _operator in {
    "__add__": _add,
    "__radd__": _add,
    "__sub__": _sub,
    "__rsub__": _rsub,
    "__mul__": _mul,
    "__rmul__": _mul,
}.items():
    setattr(Layer, _name, _installed(_operator, getattr(pd.Variable, _name)))
for _order in (operator.lt, operator.le, operator.gt, operator.ge):
    _name = f"__{_order.__name__}__"
    setattr(Layer, _name, _compared(_order, getattr(pd.Variable, _name)))
Layer.__neg__ = _minus
