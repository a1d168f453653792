"""Fully connected layers and tables of embeddings."""

from ..graph.errors import ShapeError
from ..graph.initializers import Initial, initializer
from ..graph.variable import Operand, Variable
from . import functional
from .layer import Layer
from .parameter import Activation, activation
from .text import arguments


class FC(Layer):
    """Fully connected layer, act(x W + B), over the last axis of x [..., n]: [..., size].

    It is what PyTorch calls Linear and Keras Dense; n is that of the first x.

    Parameters: W [n, size], and B [size] unless `bias` is False.
    """

    W: Variable
    B: Variable

    def __init__(
        self,
        size: int,
        act: Activation = None,
        kernel_init: Initial = None,
        bias_init: Initial = None,
        bias: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        if size < 1:
            raise ShapeError(f"FC: a size is positive, not {size}")
        activation(act)  # an unknown one is found here
        self.size, self.act, self.has_bias = size, act, bias
        self.kernel_init, self.bias_init = initializer(kernel_init), initializer(bias_init)

    def forward(self, x: Operand) -> Variable:
        """Return act(x W + B)."""
        B = self.owned("B", self.bias_init) if self.has_bias else False
        return functional.fc(x, self.size, self.act, self.owned("W", self.kernel_init), B)

    def extra(self) -> str:
        """Return the size and what is not the default."""
        return arguments(self.size, act=(self.act, None), bias=(self.has_bias, True))


class Embedding(Layer):
    """Table of vectors for integer ids [...] below `words`: [..., width].

    The vector of `padding_id` is zero and is not trained. Parameter: W [words, width], at first
    from N(0, 1 / words), not N(0, 1) as in PyTorch: a table that is the output of a language model
    too then begins near a loss of ln(words). With `row_sparse` a step takes the time and memory of
    the rows that it looks up, and changes no others, see `Variable`.
    """

    W: Variable

    def __init__(
        self,
        words: int,
        width: int,
        padding_id: int | None = None,
        kernel_init: Initial = None,
        name: str | None = None,
        *,
        row_sparse: bool = False,
    ) -> None:
        super().__init__(name)
        if padding_id is not None and not 0 <= padding_id < words:
            raise ValueError(f"Embedding: padding_id {padding_id} is no id of {words} words")
        self.words, self.width, self.padding_id = words, width, padding_id
        self.kernel_init, self.row_sparse = initializer(kernel_init), row_sparse

    def forward(self, ids: Operand) -> Variable:
        """Return the vectors of ids, one more axis."""
        spec = {"initializer": self.kernel_init, "row_sparse": True}
        W = self.owned("W", spec if self.row_sparse else self.kernel_init)
        return functional.embedding(
            ids, (self.words, self.width), W, self.padding_id, squeeze=False
        )

    def extra(self) -> str:
        """Return the sizes of the table."""
        return arguments(
            self.words,
            self.width,
            padding_id=(self.padding_id, None),
            row_sparse=(self.row_sparse, False),
        )
