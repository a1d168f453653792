"""Fusion of a program: its operators are replaced by kernels, whose libraries are built."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx import ModelProto, helper

from ...graph.variable import Dim
from ..lowering import Lowered
from . import fusion
from .build import build

Kinds = dict[str, tuple[int, tuple[Dim, ...]]]  # value name -> (ONNX element type, sizes)
Equal = Sequence[tuple[Dim, Dim]]  # pairs of sizes that are equal at run time


@dataclass(frozen=True)
class Fuser:
    """A kind of kernels.

    `fuse(model, kinds, equal)` replaces operators of a model, bodies included, by custom operators
    of a domain of its own, and returns their C source, None if there are none, and statistics. The
    name of each has that of an operator that it replaces, alone or between slashes or spaces: the
    line of that is the one that errors and profiles name. `options()` are more arguments of
    `build`; it is called when there is a source.
    """

    fuse: Callable[[ModelProto, Kinds, Equal], tuple[str | None, Any]]
    options: Callable[[], dict[str, Any]] = dict


# in the order in which they choose their operators
FUSERS: list[Fuser] = [Fuser(fusion.fuse)]


def fuse(lowered: Lowered, equal: Equal) -> list[Path]:
    """Replace operators of a program by kernels; return the libraries of these.

    CompilerError if they cannot be compiled.
    """
    kinds: Kinds = {
        name: (helper.np_dtype_to_tensor_dtype(v.dtype), tuple(v.dims))
        for name, v in lowered.values.items()
    }
    libraries = []
    for fuser in FUSERS:
        source, _ = fuser.fuse(lowered.model, kinds, equal)
        if source is not None:
            libraries.append(build(source, **fuser.options()))
    return libraries


def member_of(name: str, names: Iterable[str]) -> str:
    """Return the longest of the names that is a part of that of a fused operator; empty if none."""
    parts = [n for n in names if n in name and re.search(rf"(^|[ /]){re.escape(n)}($|[ /])", name)]
    return max(parts, key=len, default="")
