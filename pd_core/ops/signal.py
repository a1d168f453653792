"""Signal processing."""

from ..graph.checks import axis_of, whole
from ..graph.node import apply
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant


@op
def dft(
    x: Operand,
    length: int | Variable | None = None,
    axis: int | Variable = -2,
    inverse: bool = False,
    onesided: bool = False,
) -> Variable:
    """Discrete Fourier transform along an axis of real [..., 1] or complex [..., 2] numbers.

    The axis is cut or zero-padded to `length`. `onesided` returns only the first length // 2 + 1
    frequencies, which determine the others for a real signal. The inverse divides by the length.

    Args:
        x: floats [..., 1] or [..., 2].
        length: how many elements are transformed, all by default.

    Returns:
        [..., 2].

    Raises:
        ShapeError: x has no such axis.
    """
    x = constant(x)
    length = length if length is None or isinstance(length, Variable) else whole(length)
    axis = axis if isinstance(axis, Variable) else whole(axis_of(x, axis))
    return apply("DFT", x, length, axis, inverse=int(inverse), onesided=int(onesided))
