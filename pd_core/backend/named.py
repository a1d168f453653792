"""The runtime of a device, by its name."""

import warnings
from typing import Any

from .devices import cuda_devices
from .ort import OrtBackend
from .reference import ReferenceBackend


def named_backend(device: str, exact: bool | None) -> Any:
    """Return the runtime of a device as `Session` names it; `exact` is that of convolutions."""
    if device == "reference":
        return ReferenceBackend()
    if device == "auto":
        cuda = cuda_devices()
        if not cuda:
            warnings.warn("there is no CUDA device here, the CPU is used", stacklevel=3)
        device = cuda[0] if cuda else "cpu"
    return OrtBackend(device, exact)
