"""The runtime of a device, by its name."""

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from .devices import cuda_devices
from .ort import OrtBackend
from .reference import ReferenceBackend

_Made = TypeVar("_Made", bound=type[Any])

# name -> function that makes a backend; all other names are devices of ONNX Runtime
_backends: dict[str, Callable[[], Any]] = {}


def register_backend(make: _Made) -> _Made:
    """Let sessions run on a backend by the name that is its `device`; return the class.

    ValueError if the name is taken.
    """
    name = make.device
    if name == "auto" or _backends.setdefault(name, make) is not make:
        raise ValueError(f"register_backend: {name!r} is a backend already")
    return make


register_backend(ReferenceBackend)


def named_backend(device: str, exact: bool | None, fused: bool = False) -> Any:
    """Return the runtime of a device as `Session` names it; `exact` is that of convolutions.

    `fused` is for one that `can_fuse`.
    """
    if device in _backends:
        return _backends[device]()
    if device == "auto":
        cuda = cuda_devices()
        if not cuda:
            warnings.warn("there is no CUDA device here, the CPU is used", stacklevel=3)
        device = cuda[0] if cuda else "cpu"
    return OrtBackend(device, exact, fused)
