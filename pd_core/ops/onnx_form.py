"""Results that ONNX has an operator for, which inference exports write in the place of ours."""

from typing import Any

from ..graph.node import new_node
from ..graph.recording import recorder
from ..graph.variable import Operand, Variable, constant


def onnx_form(
    form: str, outputs: list[Variable], *inputs: Operand | None, **attributes: Any
) -> list[Variable]:
    """Return `outputs` again; an inference export computes them by the ONNX operator `form`.

    Everywhere else they are what they are, gradients included. `inputs` and `attributes` are what
    the form's rule in `backend/passes/forms.py` takes, for the most part those of the operator.
    All `inputs` are among what the outputs are computed from.
    """
    if recorder() is not None:
        return outputs
    given = {key: value for key, value in attributes.items() if value is not None}
    variables = [x if x is None else constant(x) for x in inputs]
    node = new_node(
        "OnnxForm",
        (*outputs, *variables),
        {"form": form, "results": len(outputs), **given},
        [(y.dims, y.dtype) for y in outputs],
        domain="pd",
        output_names=[y.name for y in outputs],
    )
    return list(node.outputs)
