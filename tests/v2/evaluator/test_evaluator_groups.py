"""Evaluators that are declared in the step of a recurrent group: of the rows of all its steps."""

import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.topology import Topology

from .evaluator_checks import id_sequences, row_sequences, rows

A, E, L = paddle.activation, paddle.evaluator, paddle.layer


def described(evaluate, size=3):
    """The cost of a recurrent classifier, in whose step `evaluate(p, label)` was called."""
    x, label = row_sequences(size=size), id_sequences(size=size)

    def step(row, wanted):
        past = L.memory(name="p", size=size)
        p = L.fc([row, past], size=size, name="p", act=A.Softmax())
        evaluate(p, wanted)
        return p, L.classification_cost(input=p, label=wanted)

    return L.recurrent_group(step=step, input=[x, label], name="g")


def test_they_see_what_the_group_gives(rng):
    def declared(p, label, end=""):
        E.auc(p, label, name=f"auc{end}")
        E.precision_recall(p, label, positive_label=1, name=f"rates{end}")
        E.pnpair(p, label, label, name=f"pairs{end}")
        E.sum(p, name=f"sum{end}")
        E.sum(label, name=f"ids{end}")
        E.column_sum(p, name=f"column{end}")

    p, cost = described(declared)
    label = L.get_layer("label")
    declared(p, label, "_outside")
    E.classification_error(p, label, name="classification_error_evaluator_outside")
    pool = paddle.parameters.create(cost)
    optimizer = paddle.optimizer.Momentum(learning_rate=0.1)
    trainer = paddle.trainer.SGD(cost, pool, optimizer, extra_layers=p)
    batches = [
        [(rng.integers(0, 3, n).tolist(), rng.standard_normal((n, 3))) for n in lengths]
        for lengths in ([3, 1, 5], [4])
    ]
    batches = [[(x, ids) for ids, x in batch] for batch in batches]
    seen = []

    def handler(event):
        if hasattr(event, "metrics"):
            seen.append(event.metrics)

    trainer.train(lambda: iter(batches), event_handler=handler)
    seen.append(trainer.test(lambda: iter(batches)).metrics)
    assert len(seen) == 4 and len(seen[0]) == 2 * 9
    for metrics in seen:
        inside = {k.replace("@g", ""): v for k, v in metrics.items() if "@g" in k}
        outside = {k.replace("_outside", ""): v for k, v in metrics.items() if "_outside" in k}
        assert inside == pytest.approx(outside)


def test_their_names_and_configuration():
    _, cost = described(lambda p, label: E.auc(p, label))
    model = Topology(cost).proto()
    names = ["__auc_evaluator_0__@g", "classification_error_evaluator@g"]
    assert [e.name for e in model.evaluators] == names
    assert list(model.evaluators[0].input_layers) == ["p@g", "label@g"]
    assert [list(m.evaluator_names) for m in model.sub_models] == [[], names]


def test_what_is_not_evaluated_in_a_step():
    nested = L.data(name="nested", type=paddle.data_type.dense_vector_sub_sequence(2))

    def over_sequences(part):
        with pytest.raises(pd.GraphError, match="value_printer: in the step of a recurrent group"):
            E.value_printer(part)
        E.sum(part)
        return L.last_seq(input=part)

    with pytest.raises(pd.GraphError, match="group 'g': 'nested' is no row in each step"):
        L.recurrent_group(step=over_sequences, input=nested, name="g")

    def searched(context, word):
        p = L.fc([context, word], size=5, act=A.Softmax())
        with pytest.raises(pd.GraphError, match="sum: in the step of a recurrent group"):
            E.sum(p)
        return p

    generated = L.GeneratedInput(size=5, embedding_name="words", embedding_size=3)
    inputs = [L.StaticInput(rows("z")), generated]
    L.beam_search(step=searched, input=inputs, bos_id=0, eos_id=1, beam_size=2)


def test_what_does_not_fit_is_found_when_the_step_is_described():
    with pytest.raises(pd.ShapeError, match="auc: the weight 'w' is 2 wide, not 1"):
        described(lambda p, label: E.auc(p, label, weight=L.fc(p, size=2, name="w")))
