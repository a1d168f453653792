"""Exchange of gradients in the memory of a device: the place of a library such as NCCL.

Without one, gradients of a device come to the host, are summed there, and go back. An object that
sums them where they are is one class: it gets the gradients as OrtValues, whose `data_ptr()` and
`__dlpack__()` are what a library of the device takes, and returns OrtValues.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from ..graph.handlers import check_takes
from .process import current


class DeviceExchange(Protocol):
    """Sums over the ranks of values in the memory of a device.

    `device` is where it takes them, such as cuda. Ranks compare its `name`: all of them have the
    same.
    """

    name: str
    device: str

    def sum(self, values: Sequence[Any], factor: float) -> Sequence[Any]:
        """Return the sums over all ranks of `factor`, which each has of its own, times the values.

        `values` are OrtValues of the same shapes on all ranks, in the same order; the sums are in
        the memory of the device too, with the same bits on all ranks. With the factor 0 a rank's
        values do not count, not even NaN in them. An error ends the job, and so should a rank that
        does not come.
        """


def use_device_exchange(exchange: DeviceExchange | None) -> None:
    """Let an object sum up the gradients of this job in the memory of a device; None ends that.

    It gets those of steps in sessions of its device. On the host remain, on all ranks, a step with
    `row_sparse` or sharded tables, one that exchanges what was added up in `no_sync()`, and one
    that a rank takes by `empty_step`. Called on all ranks after `init`, which has no `divisions`,
    `wire_dtype`, `reproducible`, `compression`, `local_steps` or `on_failure="shrink"` then;
    GraphError in the next step if some have another.

    Args:
        exchange: an object with `name`, `device` and `sum(values, factor)`, or None.

    Raises:
        RuntimeError: before `init`.
        TypeError: the object has no such attributes.
        ValueError: the options of `init` are for the host.
    """
    process = current()
    if exchange is not None:
        lacking = [n for n in ("name", "device", "sum") if not hasattr(exchange, n)]
        if lacking:
            raise TypeError(
                f"use_device_exchange: a {type(exchange).__name__} has no {', '.join(lacking)}"
            )
        check_takes("use_device_exchange: sum", exchange.sum, "values", "factor")
        settings = process.settings
        for name, is_other in (
            ("divisions", settings.divisions > 1),
            ("wire_dtype", settings.wire_dtype is not None),
            ("reproducible", settings.reproducible),
            ("compression", settings.compression is not None),
            ("local_steps", settings.local_steps > 1),
            ('on_failure="shrink"', process.world.can_shrink),
        ):
            if is_other:
                raise ValueError(f"use_device_exchange: init has {name}, which is for the host")
    process.device_exchange = exchange
