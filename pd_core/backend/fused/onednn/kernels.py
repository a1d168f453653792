"""The C of oneDNN's operators, and the nodes of a model that are such operators."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto

from ..parts import PRODUCTS, Part, Source
from ..sizes import Dim, Kind
from .package import library

DOMAIN = "pd.onednn"


def fuse(
    model: ModelProto, kinds: Mapping[str, Kind], equal: Iterable[tuple[Dim, Dim]] = ()
) -> tuple[Source | None, int]:
    """Give a model's operators of the domain `pd.onednn` memory of their own: one more output.

    Returns (the C source of the operators, or None if there are none, how many there are).
    """
    count = 0
    for graph in _graphs(model.graph):
        for node in graph.node:
            if node.domain == DOMAIN:
                node.output.append(f"{node.output[0]}/memory")
                count += 1
    return _source() if count else None, count


def options() -> dict[str, Any]:
    """Return what `build` needs to know: the path of the library, in C."""
    path = library()
    if path is None:
        return {}
    status = os.stat(path)
    stamp = f"{status.st_size}.{status.st_mtime_ns}"  # another library at the same place
    return {"flags": [f"-DONEDNN={json.dumps(str(path))}", f"-DSTAMP={stamp}"]}


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and the bodies in it."""
    yield graph
    for node in graph.node:
        for a in node.attribute:
            if a.type == AttributeProto.GRAPH:
                yield from _graphs(a.g)


@cache
def _source() -> Source:
    here = Path(__file__).parent
    files = [here.parent / "prelude.c"]
    files += [here / name for name in ("library.c", "filters.c", "convolution.c")]
    prelude, library, filters, operators = [f.read_text(encoding="utf-8") for f in files]
    return Source(
        (
            Part("", "\n".join([prelude, library, filters, operators])),
            Part("", f"#define FILTERS\n{filters}", PRODUCTS),
        )
    )
