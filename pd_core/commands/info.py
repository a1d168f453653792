"""print inputs, outputs, operators and parameters of a model

The table of parameters has each stored tensor with more than one element: its shape, how it is
used, and whether it is trained, or why not. --freeze and --train of other commands change that.

--memory adds what a training step of the model takes in bytes: parameters, the optimizer's state,
the feeds of a batch, what lives at once in a run, and the files of the step in both forms. The
loss, the optimizer and adapters are chosen as for train-step. For a step that train-step or
pd.export_step wrote it tells these of the step itself.
"""

import argparse
import os
from collections import Counter

from onnx import helper

from ..backend.fused import onednn
from ..backend.fused.compilers import compiler, why_not
from ..onnx.importing import ImportedModel
from ..run.session import fresh
from .memory import is_step, print_memory, size, write_operators
from .options import add_adaptation, add_model, add_objective, count, model_of

NAME = "info"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_model(parser)
    parser.add_argument("--memory", action="store_true", help="tell what a training step takes")
    parser.add_argument(
        "--batch",
        type=count,
        default=1,
        metavar="N",
        help="samples of a batch, for --memory (default: %(default)s)",
    )
    parser.add_argument(
        "--size",
        type=size,
        action="append",
        default=[],
        metavar="NAME=N",
        help="another size that the file leaves open, for --memory, such as T=128",
    )
    parser.add_argument(
        "--operators",
        metavar="FILE",
        help="write which operators the file needs, for --include_ops_by_config of a build",
    )
    add_objective(parser)
    add_adaptation(parser)


def run(options: argparse.Namespace) -> int:
    """Print the description."""
    step = options.memory and is_step(options.model)
    if step:
        print(f"{options.model}: {os.path.getsize(options.model):,} bytes, a training step")
    else:
        with fresh():  # --memory imports the model once more, for training
            _describe(options)
    if options.memory:
        print_memory(options)
    if options.operators:
        write_operators(options)
    return 0


def _describe(options):
    f = model_of(options)
    total = os.path.getsize(options.model)
    opsets = ", ".join(f"{domain or 'ai.onnx'} {n}" for domain, n in f.opsets.items())
    producer = " ".join(filter(None, [f.model.producer_name, f.model.producer_version]))
    print(f"{options.model}: {total:,} bytes, opset {opsets}, written by {producer or 'unknown'}")
    for what, infos in (("input", _inputs(f)), ("output", f.graph.output)):
        for i in infos:
            print(f"{what}  {i.name}: {_type(i)}")
    counts = Counter(node.op_type for node in f.graph.node)
    print("operators  " + ", ".join(f"{n} {op}" for op, n in sorted(counts.items())))
    print(f"fused kernels  {_kernels()}")
    print()
    print(f.summary())


def _kernels():
    if why_not():
        return f"no: {why_not()}"
    missing = onednn.why_not()
    convolutions = f"convolutions not by oneDNN: {missing}" if missing else "convolutions by oneDNN"
    return f"with PD_FUSE=1, by {compiler()}; {convolutions}"


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
