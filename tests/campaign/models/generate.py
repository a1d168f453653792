"""A whole model from what was drawn: declared sizes, outputs, names and forms of a file."""

import numpy as np
from onnx import ModelProto, helper

from . import layers, shapes, text  # noqa: F401 (they register recipes)
from .draw import Draw, Refused, info, model_of, names_read, tensor
from .elementwise import recipes
from .structure import grow


def generated(rng: np.random.Generator, first: str = "", nodes: int = 0) -> tuple[ModelProto, dict]:
    """Return a random model and the arrays of its inputs.

    `first` names the operator of its first node, else any; `nodes` is how many there are.
    """
    while True:
        opset = int(
            rng.choice([7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26])
        )
        opset = max(opset, recipes[first][0]) if first else opset
        d = Draw(rng, opset)
        try:
            results = recipes[first][1](d) if first else []
        except Refused:
            continue
        for _ in range(nodes or d.number(1, 5)):
            results += grow(d, leaf=d.chance(0.7))
        if results:
            return _whole(d, results)


def _whole(d, results):
    read = {n for node in d.nodes for n in names_read(node)}
    ends = [y for node in d.nodes for y in node.output if y and y not in read]
    arrays = [
        y for y in dict.fromkeys([*ends, *results]) if isinstance(d.values.get(y), np.ndarray)
    ]
    arrays = [y for y in arrays if d.values[y].dtype.kind not in "OUS"]
    arrays = arrays[-4:] or [d.node("Identity", [d.any(("float32",))])[0]]
    outputs = [y for y in arrays if d.chance(0.9)] or arrays[-1:]
    if d.opset > 9 and d.inputs and d.chance(0.05):
        outputs.append(d.one(d.inputs))
    if d.stored and d.chance(0.05):
        outputs.append(d.one(d.stored))
    if d.chance(0.05):
        d.new(2, 2, how="input")  # which nothing reads
    outputs = [y for y in dict.fromkeys(outputs) if d.values[y].dtype.kind not in "OUS"]
    outputs = outputs or [d.node("Identity", [d.any(("float32",))])[0]]
    nodes = list(d.nodes)
    if d.chance(0.2):
        nodes = [nodes[k] for k in d.rng.permutation(len(nodes))]
    inputs = [info(n, d.values[n], _declared(d, n)) for n in d.inputs]
    if d.chance(0.2):  # as files before IR version 4 have them
        inputs += [info(n, d.values[n], d.values[n].shape) for n in d.stored]
    results = [info(y, d.values[y], None) for y in outputs]
    stored = [tensor(d.values[n], n) for n in d.stored]
    graph = helper.make_graph(nodes, "random", inputs, results, stored)
    model = model_of(graph, d.domains, d.functions)
    if d.chance(0.1):
        model.metadata_props.add(key="author", value="nobody")
    return model, {n: d.values[n] for n in d.inputs}


def _declared(d, name):
    """Return dims for the declaration of an input: known, named, unnamed or none at all."""
    dims = d.values[name].shape
    if d.chance(0.05):
        return None
    kind = d.number(0, 2)
    if kind == 0:
        return dims
    return [n if d.chance(0.5) else f"n{n}" if kind == 1 else None for n in dims]
