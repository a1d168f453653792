"""Images as columns of blocks, and back."""

from collections.abc import Sequence

from .. import ops
from ..graph.variable import Operand, Variable
from .layer import Layer
from .parameter import Sizes
from .text import arguments


class _Blocks(Layer):
    """Base: sizes are one number, or one for each spatial axis."""

    def __init__(
        self,
        kernel: Sizes,
        *,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.kernel, self.stride, self.padding, self.dilation = kernel, stride, padding, dilation

    def _geometry(self):
        return {"strides": self.stride, "pads": self.padding, "dilations": self.dilation}

    def extra(self) -> str:
        """Return the size of a block, and what is not the default."""
        return arguments(
            self.kernel,
            stride=(self.stride, 1),
            padding=(self.padding, 0),
            dilation=(self.dilation, 1),
        )


class Unfold(_Blocks):
    """Blocks of images [N, C, ...] as columns [N, C K, P]: `pd.unfold`."""

    def forward(self, x: Operand) -> Variable:
        """Return the columns."""
        return ops.unfold(x, self.kernel, **self._geometry())


class Fold(_Blocks):
    """Columns [N, C K, P] summed into images [N, C, *size]: `pd.fold`."""

    def __init__(
        self,
        size: Sequence[int],
        kernel: Sizes,
        *,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        name: str | None = None,
    ) -> None:
        super().__init__(kernel, stride=stride, padding=padding, dilation=dilation, name=name)
        self.size = size

    def forward(self, x: Operand) -> Variable:
        """Return the images."""
        return ops.fold(x, self.size, self.kernel, **self._geometry())

    def extra(self) -> str:
        """Return the sizes of images and blocks, and what is not the default."""
        return arguments(self.size, super().extra())
