import numpy as np
import pytest

from pd_v2 import event


class Evaluator:
    """Counts, to show that metrics are read when they are looked at."""

    def __init__(self):
        self.count = 0

    def metrics(self):
        return {"error": np.float32(self.count)}


def test_events_carry_their_fields():
    gm = object()
    assert event.BeginPass(pass_id=1).pass_id == 1
    begin = event.BeginIteration(pass_id=1, batch_id=2)
    assert (begin.pass_id, begin.batch_id) == (1, 2)
    middle = event.EndForwardBackward(pass_id=1, batch_id=2, gm=gm)
    assert (middle.pass_id, middle.batch_id, middle.gm) == (1, 2, gm)
    end = event.EndIteration(pass_id=1, batch_id=2, cost=0.5, evaluator=Evaluator(), gm=gm)
    assert (end.pass_id, end.batch_id, end.cost, end.gm) == (1, 2, 0.5, gm)
    end_pass = event.EndPass(pass_id=1, evaluator=Evaluator(), gm=gm)
    assert (end_pass.pass_id, end_pass.gm) == (1, gm)
    assert event.TestResult(evaluator=Evaluator(), cost=0.25).cost == 0.25


def test_cost_is_a_python_float():
    for cost in (np.float32(0.5), 1):
        assert type(event.TestResult(Evaluator(), cost).cost) is float
    assert type(event.EndIteration(0, 0, np.float64(2), Evaluator(), None).cost) is float


def test_metrics_are_those_of_the_live_evaluator():
    evaluator = Evaluator()
    first = event.EndIteration(0, 0, 1.0, evaluator, None)
    seen = first.metrics
    evaluator.count = 3
    assert seen == {"error": 0.0}
    assert first.metrics == event.EndPass(0, evaluator, None).metrics == {"error": 3.0}
    assert type(first.metrics["error"]) is float
    assert first.__evaluator__ is evaluator


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: event.BeginPass("0"), "BeginPass: pass_id must be an integer, got '0'"),
        (lambda: event.BeginIteration(0, 1.5), "BeginIteration: batch_id must be an .* got 1.5"),
        (lambda: event.EndForwardBackward(None, 0, 0), "EndForwardBackward: pass_id .* got None"),
        (lambda: event.EndIteration(0, 0, "1", Evaluator(), 0), "EndIteration: cost .* got '1'"),
        (lambda: event.EndPass(0, {}, None), r"EndPass: an evaluator has a .* dict has none"),
        (lambda: event.TestResult(0.5, Evaluator()), "TestResult: an evaluator .* float has none"),
    ],
)
def test_wrong_types(make, message):
    with pytest.raises(TypeError, match=message):
        make()
