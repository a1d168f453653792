"""The id -1, which stood for no word in 2017, where tables look it up and nowhere else."""

import numpy as np
import pytest

import pd_v2 as paddle

WORDS = paddle.data_type.integer_value_sequence(5)
L = paddle.layer


def data(name="word", kind=WORDS):
    return L.data(name=name, type=kind)


def projected(x):
    return L.mixed(size=3, input=L.table_projection(x, 3, paddle.attr.Param(name="w")))


def embedded(x):
    return L.embedding(x, 3, param_attr=paddle.attr.Param(name="w"))


def stepped(x):
    return L.recurrent_group(step=lambda word: embedded(word), input=x)


@pytest.mark.parametrize("lookup", [embedded, projected, stepped])
def test_it_is_a_row_of_zeros(lookup):
    y = lookup(data())
    parameters = paddle.parameters.create(y)
    table = parameters.get("w")
    rows = paddle.infer(output_layer=y, parameters=parameters, input=[([4, -1, 0],), ([-1],)])
    np.testing.assert_array_equal(rows, [table[4], np.zeros(3), table[0], np.zeros(3)])


@pytest.mark.parametrize("sparse", [False, True])
def test_it_has_no_gradient(sparse):
    attr = paddle.attr.Param(name="w", sparse_update=sparse)
    x = L.embedding(data(), 3, param_attr=attr)
    cost = L.sum_cost(L.pooling(x, pooling_type=paddle.pooling.Sum()))
    parameters = paddle.parameters.create(cost)
    before = parameters.get("w").reshape(5, 3).copy()
    trainer = paddle.trainer.SGD(cost, parameters, paddle.optimizer.Momentum(learning_rate=1.0))
    trainer.train(lambda: iter([[([1, -1, -1, 3],)]]))
    expected = before.copy()
    expected[[1, 3]] -= 1.0
    np.testing.assert_allclose(parameters.get("w").reshape(5, 3), expected, rtol=1e-6)


def test_a_stored_network_takes_it(tmp_path):
    y = embedded(data())
    parameters = paddle.parameters.create(y)
    with open(tmp_path / "net", "wb") as f:
        paddle.topology.Topology(y).serialize_for_inference(f)
    with open(tmp_path / "net", "rb") as f:
        stored = paddle.inference.Inference(parameters, fileobj=f)
    np.testing.assert_array_equal(stored.infer(input=[([-1],)]), [[0, 0, 0]])


LABEL = paddle.data_type.integer_value(5)
OTHERS = {
    "a label": (
        LABEL,
        lambda x, f: L.classification_cost(L.fc(f, 5, paddle.activation.Softmax()), x),
    ),
    "a word that is compared": (LABEL, lambda x, f: L.eos(x, eos_id=2)),
    "a word that is also an output": (WORDS, lambda x, f: [x, embedded(x)]),
    "a word that an evaluator reads": (
        LABEL,
        lambda x, f: [embedded(x), paddle.evaluator.value_printer(x)][:1],
    ),
}


@pytest.mark.parametrize("kind, network", OTHERS.values(), ids=OTHERS)
def test_elsewhere_it_is_refused(kind, network):
    features = data("features", paddle.data_type.dense_vector(2))
    y = network(data(kind=kind), features)
    parameters = paddle.parameters.create(y)
    ids = -1 if kind is LABEL else [2, -1]
    sample = {"word": ids, "features": [0.0, 1.0]}
    names = [name for name, _ in paddle.topology.Topology(y).data_type()]
    with pytest.raises(ValueError, match=r"data layer 'word' .*an integer from 0 to 4, got -1"):
        paddle.infer(output_layer=y, parameters=parameters, input=[tuple(sample[n] for n in names)])


def test_other_negative_ids_are_refused():
    y = embedded(data())
    with pytest.raises(ValueError, match="step 1: expected an integer from -1 to 4, got -2"):
        paddle.infer(output_layer=y, parameters=paddle.parameters.create(y), input=[([0, -2],)])
