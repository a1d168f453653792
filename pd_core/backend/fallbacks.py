"""Operators of a device's programs that run on the CPU, where the device has no kernel."""

from collections import Counter
from typing import Any

import onnxruntime

from ..graph.errors import BackendError
from .devices import device as find_device

_counts: dict[str, Counter[str]] = {}  # by device


def fallbacks(device: str) -> dict[str, int]:
    """Return {ONNX operator: number} of a device's programs that run on the CPU instead.

    They are those of all programs compiled for the device in this process. ONNX Runtime copies what
    they read and write between the two. It also keeps the arithmetic of shapes on the CPU by its
    own choice: a few `Shape`, `Gather` or `Concat` of integers cost nothing. PlaceError for an
    unknown device, BackendError if ONNX Runtime is older than 1.24, which does not report this.

    Args:
        device: a name of `pd.devices()`.

    Returns:
        {operator: number}.

    Raises:
        PlaceError: there is no such device.
    """
    name = find_device(device).name
    if not _reports():
        raise BackendError(
            f"fallbacks: ONNX Runtime {onnxruntime.__version__} does not report where operators "
            "run, 1.24 does"
        )
    return dict(_counts.get(name, Counter()).most_common())


def count_fallbacks(device: str, session: Any) -> None:
    """Count the operators of a session on a device that run on the CPU."""
    if device == "cpu" or not _reports():
        return
    counts = _counts.setdefault(device, Counter())
    for part in session.get_provider_graph_assignment_info():
        if part.ep_name == "CPUExecutionProvider":
            counts.update(node.op_type for node in part.get_nodes())


def _reports():
    return hasattr(onnxruntime.InferenceSession, "get_provider_graph_assignment_info")
