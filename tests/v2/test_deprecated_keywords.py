"""Keywords of releases before the last one of 2017: accepted, and not in the signatures."""

import inspect
from operator import attrgetter

import numpy as np
import pytest

import pd_v2 as paddle
from pd_v2.deprecated_keywords import deprecated_keywords
from pd_v2.trainer_config_helpers.layers import nce_layer

A, L, T = paddle.activation, paddle.layer, paddle.data_type


@deprecated_keywords(old="new", pair=lambda pair: dict(zip(("new", "more"), pair, strict=True)))
def function(new, more=0):
    """What it does."""
    return new, more


def test_earlier_names_of_keywords():
    assert function(old=1) == (1, 0)
    assert function(more=2, old=1) == (1, 2)
    assert function(pair=(3, 4)) == function(3, more=4) == (3, 4)


def test_the_signature_and_the_documentation_are_todays():
    assert str(inspect.signature(function)) == "(new, more=0)"
    assert inspect.getdoc(function) == "What it does."


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"old": 1, "new": 2}, r"function\(\): 'old' and 'new' are the same"),
        ({"other": 1}, "unexpected keyword argument 'other'"),
        ({}, "missing 1 required positional argument: 'new'"),
    ],
)
def test_wrong_keywords(keywords, message):
    with pytest.raises(TypeError, match=message):
        function(**keywords)


def choices():
    """A layer of rows and a label."""
    return L.data("x", type=T.dense_vector(4)), L.data("y", type=T.integer_value(9))


@pytest.mark.parametrize("act", [A.Sigmoid(), None])
@pytest.mark.parametrize("nce", [L.nce, nce_layer])
def test_nce_with_the_activation_that_it_has(nce, act):
    x, y = choices()
    cost = nce(input=x, label=y, num_classes=9, act=act, num_neg_samples=3)
    assert cost.config.active_type == "sigmoid"
    assert "act" not in inspect.signature(nce).parameters


@pytest.mark.parametrize("act", [A.Softmax, A.Linear])
def test_nce_with_another_activation(act):
    x, y = choices()
    with pytest.warns(UserWarning, match=f"nce: act={act.__name__} has no effect") as record:
        cost = L.nce(input=x, label=y, act=act())
    assert [warning.filename for warning in record] == [__file__]
    assert cost.config.active_type == "sigmoid"


# ---- training and inference before 0.10


@pytest.fixture
def line():
    """y = x [1, 2] + 3; and its cost and pool."""
    x, t = L.data("x", type=T.dense_vector(2)), L.data("t", type=T.dense_vector(1))
    y = L.fc(x, size=1, name="y", act=A.Linear())
    cost = L.square_error_cost(input=y, label=t)
    pool = paddle.parameters.create(cost)
    pool["_y.w0"], pool["_y.wbias"] = np.float32([[1], [2]]), np.float32([[3]])
    return y, cost, pool


SAMPLES = [([9.0], [1.0, 0.0]), ([9.0], [0.0, 1.0]), ([9.0], [1.0, 1.0])]
FIELDS = {"t": 0, "x": 1}
FOUND = [[4.0], [5.0], [6.0]]


def test_reader_dict_is_feeding(line):
    _, cost, pool = line
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=0.0))
    reader = paddle.reader.batched(lambda: iter(SAMPLES), batch_size=2)
    costs = []

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            costs.append(event.cost)

    trainer.train(reader=reader, reader_dict=FIELDS, num_passes=1, event_handler=handler)
    assert costs == [(25 + 16) / 2, 9.0]
    assert trainer.test(reader=reader, reader_dict=FIELDS).cost == pytest.approx(50 / 3)
    with pytest.raises(TypeError, match="'reader_dict' and 'feeding' are the same"):
        trainer.test(reader=reader, reader_dict=FIELDS, feeding=FIELDS)


def test_infer_of_the_batches_of_a_reader(line):
    y, _, pool = line
    reader = paddle.reader.batched(lambda: iter(SAMPLES), batch_size=2)
    for found in (
        paddle.infer(output=y, parameters=pool, reader=reader, reader_dict=FIELDS),
        paddle.infer(output=y, parameters=pool, reader=reader, feeding=FIELDS, batch_size=9),
        paddle.infer(y, pool, reader, FIELDS),
        paddle.infer(output=y, parameters=pool, input=SAMPLES, batch_size=2, feeding=FIELDS),
        paddle.infer(output=y, parameters=pool, input=SAMPLES, reader_dict=FIELDS, field="value"),
    ):
        assert found.tolist() == FOUND and found.dtype == np.float32


def test_each_output_is_joined_over_the_batches(line):
    y, _, pool = line
    twice = L.slope_intercept(input=y, slope=2.0)
    reader = paddle.reader.batched(lambda: iter(SAMPLES), batch_size=2)
    inference = paddle.inference.Inference(output=[y, twice], parameters=pool)
    keywords = {"reader": reader, "reader_dict": FIELDS}
    once, doubled = inference.infer(flatten_result=False, **keywords)
    assert once.tolist() == FOUND and doubled.tolist() == [[8.0], [10.0], [12.0]]
    assert inference.infer(**keywords).tolist() == [*FOUND, *doubled.tolist()]
    assert (
        inference.infer(field="id", flatten_result=False, input=SAMPLES, feeding=FIELDS)
        == [None] * 2
    )
    batches = list(inference.iter_infer(**keywords))
    assert [[result["value"].shape for result in batch] for batch in batches] == [
        [(2, 1), (2, 1)],
        [(1, 1), (1, 1)],
    ]


def test_a_reader_without_batches(line):
    assert paddle.infer(output=line[0], parameters=line[2], reader=lambda: iter([])) == []


def test_inference_took_the_output_first(line):
    y, _, pool = line
    for inference in (
        paddle.inference.Inference(y, pool),
        paddle.inference.Inference(pool, y),
        paddle.inference.Inference(output=y, parameters=pool),
    ):
        assert inference.infer(input=[([1.0, 0.0],)]).tolist() == [[4.0]]


def test_parameters_of_layers_given_one_by_one(line):
    other = L.fc(L.data("z", type=T.dense_vector(2)), size=1, name="other")
    assert list(paddle.parameters.create(line[1], other)) == list(
        paddle.parameters.create([line[1], other])
    )


@pytest.mark.parametrize(
    ("early", "later"),
    [
        ("reader.batched", "batch"),
        ("layer.kmax_sequence_score", "layer.kmax_seq_score"),
        ("layer.huber_cost", "layer.huber_classification_cost"),
        ("layer.mse_cost", "layer.square_error_cost"),
        ("data_type.sparse_vector", "data_type.sparse_float_vector"),
    ],
)
def test_earlier_names(early, later):
    assert attrgetter(early)(paddle) is attrgetter(later)(paddle)


@pytest.mark.parametrize("module", [paddle.reader, paddle.layer])
def test_earlier_names_are_not_listed(module):
    assert not {"batched", "kmax_sequence_score", "huber_cost"} & set(module.__all__)
