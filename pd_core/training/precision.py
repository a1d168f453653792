"""Mixed precision of trainings: products in half precision, masters and optimizers in float32."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from .. import ops
from ..graph.errors import DTypeError
from ..graph.update import Update as Assignments
from ..graph.variable import Variable
from ..ops.autocast import HALF, Autocast
from ..optimizers.base import Optimizer
from ..optimizers.loss_scaling import TOO_SMALL, LossScaler
from ..run.session import Session

# The names, as in Keras, and the types of products.
PRECISIONS: dict[str, np.dtype | None] = {
    "float32": None,
    "mixed_float16": np.dtype(np.float16),
    "mixed_bfloat16": np.dtype(bfloat16),
}


def checked_precision(name: Any) -> str:
    """Return the name of a precision; ValueError for another one."""
    if not isinstance(name, str) or name not in PRECISIONS:
        raise ValueError(f"precision is one of {', '.join(PRECISIONS)}, not {name!r}")
    return name


class Precision:
    """The element type of the products of a graph, and the scale of its gradients.

    One belongs to one graph: it gives the same Variable for the same one in all calls of `cast`.
    """

    def __init__(self, name: str):
        self.name = checked_precision(name)
        self.dtype = PRECISIONS[name]
        self._autocast = None if self.dtype is None else Autocast(self.dtype)
        self.loss_scales: list[Variable] = []  # of the updates of the graph

    @property
    def scales(self) -> bool:
        """Whether gradients need a scale: bfloat16 has the range of float32."""
        return self.dtype == np.float16

    def again(self) -> "Precision":
        """Return the same for another graph."""
        return Precision(self.name)

    def check(self, session: Session) -> None:
        """Raise a DTypeError that names the device of a session if it lacks the type."""
        if self.dtype == bfloat16 and not has_bfloat16(session.device):
            raise DTypeError(
                f"precision={self.name!r}: the device {session.device} has no bfloat16 "
                f"kernels for {', '.join(sorted(HALF))}\n  hint: precision='mixed_float16'"
            )

    def cast(self, targets: Sequence[Variable]) -> list[Variable]:
        """Return targets, of their own dtypes, whose products are computed in the type."""
        return list(targets) if self._autocast is None else self._autocast.rewritten(targets)

    def minimize(
        self,
        optimizer: Optimizer,
        costs: Sequence[Variable],
        var_list: Sequence[Variable] | None,
        state: Any = None,
        scaler: LossScaler | None = None,
    ) -> Assignments:
        """Return the update by an optimizer; of scaled gradients where these need a scale.

        `state(None, name, dims, dtype, value)` makes the state of the scale, by default the scaler
        does. A `scaler` of the user has its settings and state. TypeError if nothing is scaled.
        """
        if not self.scales:
            if scaler is not None:
                raise TypeError(
                    f"LossScaler: gradients of precision={self.name!r} need no scale\n"
                    "  hint: precision='mixed_float16', or the optimizer alone"
                )
            return optimizer.minimize(costs, var_list)
        scaler = self._scaler(optimizer, state) if scaler is None else scaler.around(optimizer)
        self.loss_scales.append(scaler.scale)
        return scaler.minimize(costs, var_list)

    def _scaler(self, optimizer, state):
        """A scaler with the default settings, and its state."""
        scaler = LossScaler(optimizer)
        if state is not None:
            for name in ("scale", "good_steps"):
                own = getattr(scaler, name)
                value = 0.0 if name == "good_steps" else scaler.initial_scale
                setattr(scaler, name, state(None, f"loss_scaler/{name}", (), own.dtype, value))
        return scaler


def lost_scale(scale: float) -> str | None:
    """Return what is the matter if a loss scale is too small for any gradient, else None."""
    if scale >= TOO_SMALL:
        return None
    return (
        f"the loss scale is {scale:.3g}: gradients are not finite at any scale, and no step "
        "changes the parameters"
    )


@cache
def has_bfloat16(device: str) -> bool:
    """Return whether a device computes products of bfloat16, rather than of wider numbers."""
    if device.partition(":")[0] == "cpu":
        return False  # ONNX Runtime has no kernels there
    one = ops.cast(np.ones((2, 2), np.float32), bfloat16)
    try:
        with Session(device) as session:
            session.eval(ops.cast(one @ one, np.float32))
    except Exception:
        return False
    return True
