"""Random ONNX models: some of the campaign's, and that it sees what it looks for."""

import numpy as np
import pytest
from onnx import parser

from pd_core.gradients import registry
from pd_core.onnx.importing import versions
from tests.thinned import thinned

from .models import drawn, outcomes
from .models.check import verdicts
from .plan import BAD


@pytest.mark.parametrize("seed", thinned(range(150), 11))
def test_a_random_model(seed):
    # a machine may be busy
    assert [found for found in outcomes(seed, seconds=0) if found[0] in BAD] == []


def test_a_seed_is_a_model():
    (first, arrays), (second, _) = drawn(7), drawn(7)
    assert first.SerializeToString() == second.SerializeToString()
    assert first.graph.node
    assert set(arrays) <= {i.name for i in first.graph.input}


MODEL = '<ir_version: 8, opset_import: ["": 18]> g (float[2,3] x) => (float[2,3] y) { %s }'


def found(nodes, changed):
    """The outcomes of a model whose rule or kernel is another one."""
    model = parser.parse_model(MODEL % nodes)
    x = np.random.default_rng(0).uniform(0.5, 2.0, (2, 3)).astype("float32")
    changed()
    return dict(verdicts(model, {"x": x}))


def test_wrong_slopes_are_found(monkeypatch):
    rule = registry.gradient_rules["Exp"]
    wrong = {"Exp": lambda node, dy: [g() * 2.0 if callable(g) else g for g in rule(node, dy)]}

    def change():
        rules = {**registry.gradient_rules, **wrong}
        monkeypatch.setattr(registry, "gradient_rules", rules)

    assert "silent difference" in found("y = Exp(x)", change)


def test_wrong_values_are_found(monkeypatch):
    def as_neg(op):
        op.op_type = "Neg"

    assert "silent difference" in found(
        "y = Abs(x)", lambda: monkeypatch.setitem(versions.adapters, "Abs", [(99, as_neg)])
    )


def test_what_the_runtime_refuses_is_no_trial():
    assert list(found("y = Nowhere(x)", lambda: None)) == ["refused by ONNX Runtime"]
