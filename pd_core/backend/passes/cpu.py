"""What a program becomes for ONNX Runtime's own CPU kernels; no exported model gets this."""

from collections import Counter
from dataclasses import replace

from ...graph.names import fresh_names
from ...graph.node import ancestors
from ...graph.rewrite import rewrite
from .affine import ChannelAffine
from .blocked import BlockedKernels
from .bytes import in_bytes
from .crops import merged_crop
from .momentum import MomentumGemm


def for_cpu(graph, block):
    """The same Graph in faster forms; `block` is the size that BlockedKernels takes."""
    with fresh_names():
        outputs = rewrite(graph.outputs, merged_crop)
        outputs = rewrite(outputs, in_bytes)
        outputs = rewrite(outputs, ChannelAffine(_uses(outputs)))
        outputs = rewrite(outputs, MomentumGemm(graph.sizes, _uses(outputs)))
        outputs = rewrite(outputs, BlockedKernels(block, graph.sizes, _uses(outputs)))
    count = len(graph.fetches)
    updates = zip(graph.updates, outputs[count:], strict=True)
    return replace(
        graph,
        fetches=tuple(outputs[:count]),
        updates=tuple((v, new) for (v, _), new in updates),
    )


def _uses(outputs):
    """How often each variable is read, as an output or by a node outside of bodies."""
    uses = Counter(x for node in ancestors(outputs) for x in node.inputs)
    uses.update(outputs)
    return uses
