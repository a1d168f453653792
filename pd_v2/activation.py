"""Activations of layers: elementwise, over a row, or over a sequence."""

import pd_core as pd

__all__ = [
    *("Abs", "BRelu", "Base", "Exp", "Identity", "Linear", "Log", "Reciprocal", "Relu"),
    *("STanh", "SequenceSoftmax", "Sigmoid", "SoftRelu", "SoftSign", "Softmax", "Sqrt"),
    *("Square", "Tanh"),
]


class Base:
    """An activation, with its name in the configuration.

    A `bounded` one has bounded values. `over_row` ones need the whole row at once, `over_sequence`
    ones all rows of a sequence: they are also called with the Segments. `support_hppl` is 2017's
    mark of those that recurrent cells take.
    """

    over_row = False
    over_sequence = False
    bounded = False

    def __init__(self, name, support_hppl):
        self.name, self.support_hppl = name, support_hppl

    def __repr__(self):
        return self.name

    def __call__(self, x):
        """Apply the activation to a Variable."""
        raise TypeError(f"activation {self.name!r} does not say what it computes")


class Identity(Base):
    """x."""

    def __init__(self):
        super().__init__("", False)

    def __call__(self, x):
        return x


Linear = Identity


class Tanh(Base):
    """Hyperbolic tangent."""

    bounded = True

    def __init__(self):
        super().__init__("tanh", True)

    def __call__(self, x):
        return pd.tanh(x)


class Sigmoid(Base):
    """1 / (1 + e^-x), x clipped to [-40, 13]; the derivative is y (1 - y) everywhere."""

    bounded = True

    def __init__(self):
        super().__init__("sigmoid", True)

    def __call__(self, x):
        return pd.sigmoid(_clipped(x, -40.0, 13.0))


class Softmax(Base):
    """Softmax over the row."""

    over_row = bounded = True

    def __init__(self):
        super().__init__("softmax", False)

    def __call__(self, x):
        return pd.softmax(x)


class SequenceSoftmax(Base):
    """Softmax over the steps of each sequence, for rows of one number."""

    over_row = over_sequence = True

    def __init__(self):
        super().__init__("sequence_softmax", False)

    def __call__(self, x, sequences=None):
        if sequences is None:
            raise pd.GraphError("sequence_softmax is over the steps of a sequence, there is none")
        if x.dims[1] != 1:
            raise pd.ShapeError(f"sequence_softmax is of rows of 1 number, not of {x.dims[1]}")
        return sequences.softmax(x)


class Relu(Base):
    """max(0, x)."""

    def __init__(self):
        super().__init__("relu", True)

    def __call__(self, x):
        return pd.relu(x)


class BRelu(Base):
    """min(24, max(0, x)), without a gradient at 0 and at 24."""

    def __init__(self):
        super().__init__("brelu", False)

    def __call__(self, x):
        y = pd.relu(x)
        return pd.where(y >= 24.0, 24.0, y)


class SoftRelu(Base):
    """ln(1 + e^x), x clipped to [-40, 40]; the derivative is 1 - e^-y everywhere."""

    def __init__(self):
        super().__init__("softrelu", False)

    def __call__(self, x):
        return pd.softplus(_clipped(x, -40.0, 40.0))


class STanh(Base):
    """1.7159 tanh(2x/3)."""

    bounded = True

    def __init__(self):
        super().__init__("stanh", False)

    def __call__(self, x):
        return pd.tanh(x * (2.0 / 3.0)) * 1.7159


class Abs(Base):
    """|x|."""

    def __init__(self):
        super().__init__("abs", False)

    def __call__(self, x):
        return pd.abs(x)


class Square(Base):
    """x²."""

    def __init__(self):
        super().__init__("square", False)

    def __call__(self, x):
        return pd.square(x)


class Exp(Base):
    """e^x."""

    def __init__(self):
        super().__init__("exponential", False)

    def __call__(self, x):
        return pd.exp(x)


class Log(Base):
    """ln x."""

    def __init__(self):
        super().__init__("log", False)

    def __call__(self, x):
        return pd.log(x)


class Sqrt(Base):
    """Square root."""

    def __init__(self):
        super().__init__("sqrt", False)

    def __call__(self, x):
        return pd.sqrt(x)


class Reciprocal(Base):
    """1/x."""

    def __init__(self):
        super().__init__("reciprocal", False)

    def __call__(self, x):
        return pd.reciprocal(x)


class SoftSign(Base):
    """x / (1 + |x|)."""

    def __init__(self):
        super().__init__("softsign", False)

    def __call__(self, x):
        return pd.softsign(x)


def _clipped(x, low, high):
    """Clip x to [low, high], with the gradient of x: 2017 computed derivatives from the result."""
    return pd.straight_through(pd.clip(x, low, high), x)
