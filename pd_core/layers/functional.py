"""Layers as functions: they create their parameters, with shapes inferred from the input.

`W` and `B` choose the weight and the bias: a name (the parameter is shared with every layer that
gives the same name), a Variable, an initializer, an array to begin with, a dict of arguments of
`Variable`, or None for a new parameter. `B=False` is no bias.
"""

from collections.abc import Sequence

from .. import ops
from ..graph.errors import DTypeError, ShapeError
from ..graph.initializers import Constant
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, static
from ..graph.whole import whole
from ..ops.gather import within
from .functional_attention import multi_head_attention as multi_head_attention
from .functional_conv import conv1d as conv1d
from .functional_conv import conv2d as conv2d
from .functional_conv import conv3d as conv3d
from .functional_conv import conv_transpose1d as conv_transpose1d
from .functional_conv import conv_transpose2d as conv_transpose2d
from .functional_conv import conv_transpose3d as conv_transpose3d
from .functional_norm import batch_norm as batch_norm
from .functional_norm import group_norm as group_norm
from .functional_norm import instance_norm as instance_norm
from .functional_norm import layer_norm as layer_norm
from .functional_norm import rms_norm as rms_norm
from .functional_recurrent import gru as gru
from .functional_recurrent import lstm as lstm
from .functional_recurrent import simple_rnn as simple_rnn
from .parameter import Activation, Bias, Parameter, activation, dtype_for, layer_name, parameter


@op
@whole
def fc(
    x: Operand, size: int, act: Activation = None, W: Parameter = None, B: Bias = None
) -> Variable:
    """Fully connected layer, act(x W + b), over the last axis of x [..., n]: [..., size].

    Args:
        x: floats [..., n] of a known n.
        size: a positive integer.
        act: a name, a function or None.
        W: [n, size]: a name, a Variable, an initializer or a dict of settings.
        B: [size], in the same way, or False.

    Returns:
        [..., size], of the dtype of x.

    Raises:
        GraphError: there is no such activation.
        ShapeError: n is not known, the size is not positive, or a parameter has another shape.
    """
    x, function = constant(x), activation(act)
    if not x.rank or not isinstance(x.dims[-1], int):
        raise ShapeError(f"takes rows whose width is known when the layer is built, not {x!r}")
    if size < 1:
        raise ShapeError(f"a size is positive, not {size}")
    name = layer_name("fc_", W)
    y = ops.matmul(x, parameter(W, f"{name}.W", [x.dims[-1], size], dtype_for(x)))
    if B is not False:
        y = y + parameter(B, f"{name}.B", [size], dtype_for(x))
    return function(y)


@op
@whole
def softmax(
    x: Operand, axis: int = -1, *, size: int | None = None, W: Parameter = None, B: Bias = None
) -> Variable:
    """Softmax along an axis; with `size`, two or more, of a fully connected layer.

    Args:
        x: floats of any shape; with `size`, [..., n] of a known n.
        size: the number of classes of a fully connected layer, 2 or more.
        W: [n, size], as in `fc`.
        B: [size], as in `fc`.

    Returns:
        Of the shape of x, or [..., size].

    Raises:
        ShapeError: the size is below 2, n is not known, or there is no such axis.
    """
    x = constant(x)
    if size is None and not -x.rank <= axis < max(x.rank, 1):
        raise ShapeError(
            f"no axis {axis} in {x!r}\n"
            f"  hint: softmax(x, size={axis}) is that of a fully connected layer"
        )
    if size is not None and size < 2:
        raise ShapeError(
            f"size is the number of classes of a fully connected layer, not {size}\n"
            f"  hint: softmax(x, axis={size}) is along that axis"
        )
    return ops.softmax(x if size is None else fc(x, size, W=W, B=B), axis)


@op
@whole
def prelu(x: Operand, per_channel: bool = False, W: Parameter = None) -> Variable:
    """Parametric ReLU layer, see `pd.prelu`: one slope, or one for each channel of [N, C, ...].

    A new slope is 0.25.
    """
    x = constant(x)
    if per_channel and (x.rank < 2 or not isinstance(x.dims[1], int)):
        raise ShapeError(f"takes [N, C, ...] with known C, not {x!r}")
    shape = list(static(x.dims[1:2])) if per_channel else [1]
    new: Parameter = {"initializer": Constant(0.25)}
    name = f"{layer_name('prelu_', W)}.W"
    return ops.prelu(x, parameter(new if W is None else W, name, shape, dtype_for(x)))


@op
@whole
def embedding(
    x: Operand,
    size: tuple[int, int],
    W: Parameter = None,
    padding_id: int | None = None,
    squeeze: bool = True,
) -> Variable:
    """Look up integer ids [...] in a table of `size` (words, width): [..., width].

    With `squeeze`, ids [..., 1] lose that axis. The row of `padding_id` is zero and is not trained.
    An id outside 0 … words - 1 is an OutOfRange error on a CPU.

    Args:
        x: integers [...], or [..., 1] with `squeeze`.
        size: (words, width).
        W: the table: a name, a Variable, an initializer or a dict of settings.
        padding_id: an id whose row stays zero.

    Returns:
        Floats [..., width].

    Raises:
        DTypeError: the ids are no integers.
        ShapeError: a size is not positive, or the table has another one.
        ValueError: padding_id is no id of the table.
    """
    x = constant(x)
    if x.dtype.kind not in "iu":
        raise DTypeError(f"takes integer ids, not {x!r}")
    if not isinstance(size, Sequence) or len(size) != 2 or min(size) < 1:
        raise ShapeError(f"embedding: size is (words, width), both positive, not {size!r}")
    words, width = size
    if padding_id is not None and not 0 <= padding_id < words:
        raise ValueError(f"embedding: padding_id {padding_id} is no id of {words} words")
    table = parameter(W, f"{layer_name('embedding_', W)}.W", [words, width])
    if squeeze and x.rank > 1 and x.dims[-1] == 1:
        x = ops.squeeze(x, [x.rank - 1])
    rows = ops.gather(table, within(x, words))
    if padding_id is None:
        return rows
    return ops.where(ops.unsqueeze(ops.equal(x, padding_id), [x.rank]), 0.0, rows)
