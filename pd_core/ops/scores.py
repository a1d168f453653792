"""Scores of layers without an activation, where a loss takes probabilities."""

from ..graph.site import warn
from ..graph.variable import Variable

_SAME_VALUES = "Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"


def are_scores(x: Variable) -> bool:
    """Return whether something is what a fully connected layer or a convolution adds a bias to.

    That is no distribution: it may be negative, and its sum is any number. Of what has been
    computed already nothing is known.
    """
    node = x.node
    while node is not None and node.op_type in _SAME_VALUES:
        node = node.inputs[0].node
    if node is None:
        return False
    if node.op_type == "Add":
        first, second = (v.node for v in node.inputs)
        with_bias = second is None and node.inputs[1].rank == 1
        return with_bias and first is not None and first.op_type == "MatMul"
    return node.op_type == "Gemm" or (node.op_type == "Conv" and len(node.inputs) == 3)


def warn_of_scores(name: str, x: Variable, of_scores: str) -> None:
    """Warn of scores that a loss is given for probabilities; `of_scores` is the loss of scores."""
    if are_scores(x):
        warn(
            UserWarning(
                f"{name}: takes probabilities, and gets the scores of a layer; "
                f"of those the loss is {of_scores}"
            )
        )
