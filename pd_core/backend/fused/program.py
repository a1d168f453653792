"""Fusion of a program: its operators are replaced by kernels, whose libraries are built."""

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from onnx import ModelProto, helper

from ...graph.variable import Dim, is_open
from ..lowering import Lowered
from . import fusion, rows, writes
from .attention import operators as attention
from .build import build, toolchain
from .groups import CHECKED, NO_STATES
from .home import keep, kept, library
from .in_place import Places
from .onednn import kernels
from .parts import Source
from .products import operators as products
from .recurrences import scans

Kinds = dict[str, tuple[int, tuple[Dim, ...]]]  # value name -> (ONNX element type, sizes)
Equal = Sequence[tuple[Dim, Dim]]  # pairs of sizes that are equal at run time


@dataclass(frozen=True)
class Fuser:
    """A kind of kernels.

    `fuse(model, kinds, equal)` replaces operators of a model, bodies included, by custom operators
    of a domain of its own, and returns their C, None if there are none, and statistics. The
    name of each has that of an operator that it replaces, alone or between slashes or spaces: the
    line of that is the one that errors and profiles name. One that `writes` takes `Places` too, and
    its statistics tell what it has found of them. `options()` are more arguments of `build`. What
    `fuse` does follows from its arguments and the files of its folder alone.
    """

    fuse: Callable[..., tuple[str | Source | None, Any]]
    options: Callable[[], dict[str, Any]] = dict
    writes: bool = False


_LARGEST = 1 << 24  # bytes of a model, beyond which it is not kept
# in the order in which they choose their operators
FUSERS: list[Fuser] = [
    Fuser(kernels.fuse, kernels.options),
    Fuser(scans.fuse),
    Fuser(rows.fuse),
    Fuser(attention.fuse),
    Fuser(products.fuse),
    Fuser(fusion.fuse, writes=True),
]


@dataclass(frozen=True)
class Fused:
    """A program with kernels: the model and their libraries.

    The results `written` may have the memory of their states. The operator `writer` makes them.
    """

    model: bytes
    libraries: list[Path]
    written: Sequence[str] = ()
    writer: str = ""


def fuse(
    lowered: Lowered,
    equal: Equal,
    waiting: Sequence[str] = (),
    states: Mapping[str, str] = NO_STATES,
) -> Fused:
    """Return a program with kernels in the place of operators.

    `waiting` are results of row writes that go into the memory of the table which they read: these
    wait for everything else. `states` are inputs by the outputs that are their new values.

    What it becomes is kept in the folder of libraries, for the same program in another process.
    CompilerError if the kernels cannot be compiled.
    """
    kinds, equal = _canonical(lowered, equal)
    model = lowered.model.SerializeToString()
    if len(model) > _LARGEST:
        return _fuse(lowered.model, kinds, equal, waiting, states)
    name = _digest(model, kinds, equal, (list(waiting), list(states.items())))
    found = _remembered(name)
    if found is None:
        found = _fuse(lowered.model, kinds, equal, waiting, states)
        names = [path.name for path in found.libraries]
        known = names, list(found.written), found.writer
        keep(name, json.dumps(known).encode() + b"\n" + found.model)
    return found


def _fuse(
    model: ModelProto,
    kinds: Kinds,
    equal: Equal,
    waiting: Sequence[str],
    states: Mapping[str, str],
) -> Fused:
    """Replace operators of a model.

    Those of a fuser are compiled while the next one replaces operators.
    """
    tables = {
        node.input[0] for node in model.graph.node if not set(waiting).isdisjoint(node.output)
    }
    written, writer = [], ""
    with ThreadPoolExecutor() as pool:
        libraries = []
        for fuser in FUSERS:
            if fuser.writes:
                source, found = fuser.fuse(model, kinds, equal, Places(states, tables))
                written, writer = found.written, found.writer
            else:
                source, _ = fuser.fuse(model, kinds, equal)
            if source is not None:
                libraries.append(pool.submit(build, source, **fuser.options()))
        if waiting:
            libraries.append(pool.submit(build, writes.wait(model, kinds, waiting, writer)))
        if writer:
            writes.wait_for_all(model, writer)
        paths = list(dict.fromkeys(made.result() for made in libraries))
    return Fused(model.SerializeToString(), paths, written, writer)


def _canonical(lowered: Lowered, equal: Equal) -> tuple[Kinds, Equal]:
    """The types of all values, and pairs of sizes that are equal, with names of sizes in order.

    Sizes without a name are numbered as they are made: in another process they have other names.
    """
    names: dict[Dim, str] = {}

    def named(d: Dim) -> Dim:
        open_or_not = "?*" if is_open(d) else ""
        return d if isinstance(d, int) else names.setdefault(d, f"{open_or_not}s{len(names)}")

    kinds = {
        name: (int(helper.np_dtype_to_tensor_dtype(v.dtype)), tuple([named(d) for d in v.dims]))
        for name, v in lowered.values.items()
    }
    return kinds, [(named(a), named(b)) for a, b in equal]


def _digest(model: bytes, kinds: Kinds, equal: Equal, writes: object) -> str:
    """A digest of all that decides what a program becomes."""
    parts = [repr(kinds), repr(equal), repr(writes)]
    for fuser in FUSERS:
        module = sys.modules[fuser.fuse.__module__]
        parts += [_sources(str(Path(str(module.__file__)).parent)), module.__name__]
        parts.append(toolchain(**fuser.options()))
    return hashlib.sha256(model + "\0".join(parts).encode()).hexdigest()[:40]


@cache
def _sources(folder: str) -> str:
    """A digest of the code of fusers, which a checkout may change without another version."""
    paths = [p for p in Path(folder).iterdir() if p.suffix in (".py", ".c")]
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _remembered(name: str) -> Fused | None:
    """The cached result for a program; None if it, or one of its libraries, is missing."""
    data = kept(name)
    if data is None:
        return None
    first, _, model = data.partition(b"\n")
    names, written, writer = json.loads(first)
    libraries = [library(each) for each in names]
    there = [path for path in libraries if path is not None]
    return Fused(model, there, written, writer) if len(there) == len(libraries) else None


def failed_member(name: str, text: str, names: Iterable[str]) -> str:
    """Return the member of a fused operator that failed with a text, as `member_of`.

    A group tells which of its checks of indices has failed.
    """
    _, *checked = name.split(CHECKED)
    number = re.search(r"Group\d+: check (\d+): ", text)
    if number is not None and int(number[1]) < len(checked):
        return checked[int(number[1])]
    return member_of(name, names)


def member_of(name: str, names: Iterable[str]) -> str:
    """Return the longest of the names that is a part of that of a fused operator; empty if none."""
    name = name.partition(CHECKED)[0]
    parts = [n for n in names if n in name and re.search(rf"(^|[ /]){re.escape(n)}($|[ /])", name)]
    return max(parts, key=len, default="")
