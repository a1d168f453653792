"""Any ONNX operator, by its name."""

from ..graph import node
from ..graph.op import op

apply = op(node.apply)
