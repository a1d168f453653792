"""print inputs, outputs, operators and parameters of a model

The table of parameters has each stored tensor with more than one element: its shape, how it is
used, and whether it is trained, or why not. --freeze and --train of other commands change that.
"""

import argparse
import os
from collections import Counter

from onnx import helper

from ..backend.fused.compilers import compiler, why_not
from ..onnx.importing import ImportedModel
from .options import add_model, model_of

NAME = "info"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_model(parser)


def run(options: argparse.Namespace) -> int:
    """Print the description."""
    f = model_of(options)
    size = os.path.getsize(options.model)
    opsets = ", ".join(f"{domain or 'ai.onnx'} {n}" for domain, n in f.opsets.items())
    producer = " ".join(filter(None, [f.model.producer_name, f.model.producer_version]))
    print(f"{options.model}: {size:,} bytes, opset {opsets}, written by {producer or 'unknown'}")
    for what, infos in (("input", _inputs(f)), ("output", f.graph.output)):
        for i in infos:
            print(f"{what}  {i.name}: {_type(i)}")
    counts = Counter(node.op_type for node in f.graph.node)
    print("operators  " + ", ".join(f"{n} {op}" for op, n in sorted(counts.items())))
    print(
        f"fused kernels  {f'no: {why_not()}' if why_not() else f'with PD_FUSE=1, by {compiler()}'}"
    )
    print()
    print(f.summary())
    return 0


def _inputs(f: ImportedModel):
    return [i for i in f.graph.input if i.name in f.inputs]


def _type(info):
    if not info.type.HasField("tensor_type"):
        return info.type.WhichOneof("value") or "of no declared type"
    tensor = info.type.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type).name if tensor.elem_type else "?"
    if not tensor.HasField("shape"):
        return f"{dtype} of any rank"
    sizes = [
        d.dim_param or (str(d.dim_value) if d.HasField("dim_value") else "?")
        for d in tensor.shape.dim
    ]
    return f"{dtype} [{', '.join(sizes)}]"
