"""Equal groups of a graph: their operator is worked out once, and is that of each by itself."""

from itertools import count

import numpy as np
import pytest
from onnx import TensorProto, helper

from pd_core.backend.fused import alike
from pd_core.backend.fused.build import available
from pd_core.backend.fused.fusion import fuse
from tests.core.backend.fused.alone import fused, kinds_of, model_of, run

pytestmark = pytest.mark.skipif(not available(), reason="there is no C compiler here")

N = helper.make_node
FLOAT = TensorProto.FLOAT
# of each layer: its width, the factor, and whether what is between is a result as well
LAYERS = [(400, 0.5, False)] * 3 + [(400, 0.25, False), (400, 0.5, True), (320, 0.5, False)]
LAYERS += [(320, 0.5, False), (400, -0.0, False), (400, 0.0, False), (400, 0.25, False)]
DIFFERENT = 6


def network():
    """Layers of one group each, between which is an operator that fits in none."""
    nodes, constants, inputs, outputs = [], {"axis": np.int64(1), "last": np.array([1])}, {}, []
    for k, (width, factor, is_read) in enumerate(LAYERS):
        inputs |= {f"x{k}": (FLOAT, ["n", width]), f"row{k}": (FLOAT, [width])}
        constants[f"factor{k}"] = np.float32(factor)
        nodes += [
            N("CumSum", [f"x{k}", "axis"], [f"total{k}"]),
            N("Mul", [f"total{k}", f"factor{k}"], [f"scaled{k}"]),
            N("Div", [f"row{k}", f"scaled{k}"], [f"ratio{k}"]),
            N("Tanh", [f"ratio{k}"], [f"tanh{k}"]),
            N("ReduceSum", [f"tanh{k}", "last"], [f"sum{k}"], keepdims=0),
            N("CumSum", [f"tanh{k}", "axis"], [f"y{k}"]),
        ]
        outputs += [f"sum{k}", f"y{k}", *([f"ratio{k}"] if is_read else [])]
    return model_of(nodes, inputs, outputs, constants)


def test_equal_groups_are_worked_out_once(monkeypatch):
    model, made = network(), []
    kinds, make = kinds_of(model), alike.make
    monkeypatch.setattr(alike, "make", lambda *given: made.append(1) or make(*given))
    changed, library = fused(model, kinds)
    assert len(made) == DIFFERENT

    numbers = count()
    numbered = alike.Operators._numbered
    monkeypatch.setattr(
        alike.Operators, "_numbered", lambda *given: (next(numbers), numbered(*given)[1])
    )
    each, source = fuse_copy(model, kinds)
    assert changed.SerializeToString() == each.SerializeToString()
    assert len(made) == DIFFERENT + len(LAYERS)
    monkeypatch.undo()
    assert source == fuse_copy(model, kinds)[1]

    rng = np.random.default_rng(0)
    feeds = {
        v.name: rng.normal(size=[d.dim_value or 3 for d in v.type.tensor_type.shape.dim])
        for v in model.graph.input
    }
    feeds = {name: value.astype(np.float32) for name, value in feeds.items()}
    expected, found = run(model, feeds), run(changed, feeds, library)
    assert [*expected] == [*found]
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-5, err_msg=name)


def fuse_copy(model, kinds):
    """The fused model, and the C of its groups."""
    copy = type(model)()
    copy.CopyFrom(model)
    source, _ = fuse(copy, kinds)
    return copy, source.text()
