"""The id -1, which stood for no word in 2017: for tables, and for what takes ids as numbers."""

import numpy as np
import pytest

import pd_v2 as paddle

WORDS = paddle.data_type.integer_value_sequence(5)
A, L = paddle.activation, paddle.layer


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


def computed(make, *samples, kind=WORDS):
    """The ids or numbers of what is made of the data layer `word` and of a row of two."""
    y = make(data(kind=kind), data("features", paddle.data_type.dense_vector(2)))
    names = [name for name, _ in paddle.topology.Topology(y).data_type()]
    samples = [(s, [1.0, 0.5])[: len(names)] for s in samples]
    field = "id" if y.holds_ids else "value"
    pool = paddle.parameters.create(y)
    for name in pool.names():
        pool[name] = np.ones_like(pool[name])
    return paddle.infer(output_layer=y, parameters=pool, input=samples, field=field).tolist()


def test_it_is_compared_as_a_number():
    found = computed(lambda x, f: L.eos(x, eos_id=2), [2, -1, 0], [-1])
    assert found == [1, 0, 0, 0]
    assert computed(lambda x, f: L.eos(embedded(x) and x, eos_id=2), [-1, 2]) == [0, 1]


def test_it_is_a_result_as_it_is():
    assert computed(lambda x, f: x, [4, -1]) == [4, -1]


def one(f):
    return L.fc(f, size=1, act=A.Linear(), bias_attr=False)


def test_labels_of_two_classes_are_numbers():
    """Their signs are 2 label - 1, and the score is 1.5; -label times 0 for two equal scores."""
    kind = paddle.data_type.integer_value(2)
    found = computed(lambda x, f: L.huber_classification_cost(one(f), x), 0, 1, -1, kind=kind)
    assert [v for (v,) in found] == [4 * 1.5, 0.0, 4 * 4.5]
    found = computed(lambda x, f: L.rank_cost(one(f), one(f), x), 0, 1, -1, kind=kind)
    np.testing.assert_allclose(found, [[np.log(2)]] * 3, rtol=1e-6)


def test_a_sum_of_ids_counts_it():
    word = data()
    cost = L.sum_cost(L.pooling(embedded(word), pooling_type=paddle.pooling.Sum()))
    paddle.evaluator.sum(word, name="sum")
    pool = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum())
    metrics = trainer.test(lambda: iter([[([4, -1],), ([-1, -1],)]])).metrics
    assert metrics == {"sum": pytest.approx(1 / 4)}


LABEL = paddle.data_type.integer_value(5)
OTHERS = {
    "a label": (
        LABEL,
        lambda x, f: L.classification_cost(L.fc(f, 5, A.Softmax()), x),
    ),
    "a label of a table too": (
        LABEL,
        lambda x, f: L.classification_cost(L.fc([f, embedded(x)], 5, A.Softmax()), x),
    ),
    "the number of a layer": (LABEL, lambda x, f: L.multiplex(input=[x, f, f])),
    "labels of chunks": (
        WORDS,
        lambda x, f: [embedded(x), paddle.evaluator.chunk(x, x, "plain", 5)][:1],
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
