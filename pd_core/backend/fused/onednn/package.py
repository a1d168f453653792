"""The package with oneDNN's shared library, and whether it is used."""

import sys
from functools import cache
from importlib import metadata
from pathlib import Path

from ...switches import is_on
from ..compilers import machine

PACKAGE = "onednn-cpu-gomp"  # threads of OpenMP, which can be told to be one; Linux on x86-64
_LIBRARY = "libdnnl.so.3"
_INSTALL = "python -m pip install 'pd-onnx[onednn]'"


def active() -> bool:
    """Return whether fused programs use oneDNN: it is there, and PD_ONEDNN is not 0."""
    return library() is not None


def library() -> Path | None:
    """Return the shared library that fused programs use, None if they use none."""
    return _found()[0] if _asked() else None


def why_not() -> str:
    """Return one line that says why oneDNN is not used; empty if it is."""
    return _found()[1] if _asked() else "PD_ONEDNN=0"


def _asked():
    return is_on("PD_ONEDNN", default=True)


@cache
def _found() -> tuple[Path | None, str]:
    """The library, or None and why there is none."""
    if sys.platform != "linux" or machine() != "x86_64":
        return None, f"{PACKAGE} is for Linux on x86-64"
    try:
        package = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        return None, f"{PACKAGE} is not installed: {_INSTALL}"
    for file in package.files or ():
        if file.name == _LIBRARY:
            path = Path(str(package.locate_file(file))).resolve()
            if path.is_file():
                return path, ""
    return None, f"{PACKAGE} {package.version} has no {_LIBRARY}"
