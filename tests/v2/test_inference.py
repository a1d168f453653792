"""paddle.infer and Inference: fields, several outputs, and which values they see."""

import numpy as np
import pytest

import pd_v2 as paddle
from pd_v2.inference import Inference
from pd_v2.parameters import Parameters

A, L, T = paddle.activation, paddle.layer, paddle.data_type


@pytest.fixture
def net():
    """y = x W + b, [2] -> [2]; and its pool."""
    x = L.data(name="x", type=T.dense_vector(2))
    y = L.fc(x, size=2, name="y", act=A.Linear())
    pool = paddle.parameters.create(y)
    pool["_y.w0"] = np.eye(2)
    return y, pool


ROWS = [([1.0, 2.0],), ([3.0, 4.0],)]


def test_rows_in_the_order_of_the_samples(net):
    found = paddle.infer(output_layer=net[0], parameters=net[1], input=ROWS)
    assert found.dtype == np.float32 and found.tolist() == [[1, 2], [3, 4]]
    assert paddle.infer(net[0], net[1], [(np.float64([5, 6]),)]).tolist() == [[5, 6]]


def test_no_samples(net):
    assert paddle.infer(net[0], net[1], []).shape == (0, 2)


def test_feeding_may_name_more_than_is_needed(net):
    input = [(7, row[0]) for row in ROWS]
    for feeding in ({"x": 1, "label": 0}, ["label", "x"]):
        assert paddle.infer(net[0], net[1], input, feeding=feeding).tolist() == [[1, 2], [3, 4]]


def test_several_outputs_are_stacked_or_kept(net):
    y, _ = net
    z = L.fc(y, size=2, name="z", act=A.Softmax())
    pool = paddle.parameters.create(z)
    pool["_y.w0"] = np.eye(2)
    found = paddle.infer([y, z], pool, ROWS)
    assert found.shape == (4, 2) and found[:2].tolist() == [[1, 2], [3, 4]]
    kept = Inference(pool, [y, z]).infer(input=ROWS, flatten_result=False)
    np.testing.assert_array_equal(np.concatenate(kept), found)


def test_outputs_of_several_widths_are_kept_apart(net):
    y, pool = net
    wide = L.concat([y, y])
    kept = Inference(pool, [y, wide]).infer(input=ROWS, flatten_result=False)
    assert [a.shape for a in kept] == [(2, 2), (2, 4)]
    with pytest.raises(ValueError, match="must match exactly"):
        paddle.infer([y, wide], pool, ROWS)


def test_fields(net):
    y, pool = net
    values, ids = Inference(pool, [y]).infer(
        input=ROWS, field=["value", "id"], flatten_result=False
    )
    assert values[0].tolist() == [[1, 2], [3, 4]] and ids == [None]
    assert len(paddle.infer(y, pool, ROWS, field=iter(["value"]))) == 2
    with pytest.raises(ValueError, match="an output has no field 'id'"):
        paddle.infer(y, pool, ROWS, field="id")
    with pytest.raises(ValueError, match="a field is one of value, id, prob, not 'ids'"):
        paddle.infer(y, pool, ROWS, field="ids")


def test_ids_are_int32(net):
    label = L.data(name="label", type=T.integer_value(5))
    found = paddle.infer(label, net[1], [(3,), (4,)], field="id")
    assert found.dtype == np.int32 and found.tolist() == [3, 4]


def test_iter_infer_gives_a_dict_per_output(net):
    y, pool = net
    (results,) = Inference(pool, y).iter_infer(input=ROWS)
    (result,) = results
    assert result["value"].tolist() == [[1, 2], [3, 4]]
    assert result["id"] is None and result["prob"] is None
    assert [len(fields) for fields in Inference(pool, y).iter_infer_field("value", input=ROWS)] == [
        1
    ]


def test_inference_mode(net):
    y = L.dropout(net[0], 0.5)
    assert paddle.infer(y, net[1], ROWS).tolist() == [[0.5, 1], [1.5, 2]]


def test_values_are_those_of_the_construction(net):
    y, pool = net
    early = Inference(pool, y)
    pool["_y.w0"] = 2 * np.eye(2)
    late = Inference(pool, y)
    assert late.infer(input=ROWS).tolist() == [[2, 4], [6, 8]]
    assert early.infer(input=ROWS).tolist() == [[1, 2], [3, 4]]
    assert late.infer(input=ROWS).tolist() == [[2, 4], [6, 8]]


def test_infer_sees_what_training_has_done(net):
    y, pool = net
    t = L.data(name="t", type=T.dense_vector(2))
    cost = L.square_error_cost(input=y, label=t)
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=0.5))
    trainer.train(lambda: iter([[([1.0, 0.0], [0.0, 0.0])]]))
    assert paddle.infer(y, pool, [([1.0, 0.0],)]).tolist() == [[-1, 0]]


def test_the_program_is_compiled_once(net, no_programs):
    y, pool = net
    for _ in range(3):
        paddle.infer(y, pool, ROWS)
    (compiled,) = vars(y)["compiled"].values()
    assert compiled.session.stats()["compiled"] == 1


def test_branches_with_shared_names_train_each_other():
    """A ranking model: two branches of one encoder; one trains, inference of the other moves."""
    param = paddle.attr.Param(name="encoder")
    a, b = (L.data(name=n, type=T.dense_vector(2)) for n in "ab")
    fa, fb = (L.fc(x, size=2, param_attr=param, bias_attr=False, act=A.Linear()) for x in (a, b))
    pool = paddle.parameters.create([fa, fb])
    assert pool.names() == ["encoder"]
    pool["encoder"] = np.eye(2)
    t = L.data(name="t", type=T.dense_vector(2))
    cost = L.square_error_cost(input=fa, label=t)
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=1.0))
    trainer.train(lambda: iter([[([1.0, 0.0], [0.0, 0.0])]]))
    assert paddle.infer(fb, pool, [([1.0, 0.0],)]).tolist() == [[-1, 0]]


def test_it_needs_an_output_and_values(net):
    y, pool = net
    with pytest.raises(ValueError, match="give an output_layer"):
        Inference(pool)
    with pytest.raises(ValueError, match=r"no value for the parameters \['_y.w0', '_y.wbias'\]"):
        paddle.infer(y, Parameters(), ROWS)


@pytest.mark.parametrize(
    ("input", "error", "message"),
    [
        (
            [([1.0, 2.0, 3.0],)],
            ValueError,
            r"data layer 'x' \(column 0\), sample 0: expected 2 numbers, got 3",
        ),
        ([["1.0", "2.0"]], ValueError, "expected 2 numbers, got '1.0'"),
        ([(), ([1.0, 2.0],)], ValueError, "sample 0: the sample has only 0 fields"),
        ([1.0], TypeError, r"a single column yields \(x,\), not x"),
    ],
)
def test_input_that_does_not_fit(net, input, error, message):
    with pytest.raises(error, match=message):
        paddle.infer(net[0], net[1], input)


def test_outputs_come_in_the_order_asked_for():
    x = L.data(name="x", type=T.dense_vector(2))
    first = L.slope_intercept(input=x, slope=2.0)
    second = L.slope_intercept(input=first, slope=5.0)
    outputs = [second, first]
    pool = paddle.parameters.create(outputs)
    inference = paddle.inference.Inference(parameters=pool, output_layer=outputs)
    found = inference.infer([([1.0, 3.0],)], flatten_result=False)
    assert [v.tolist() for v in found] == [[[10.0, 30.0]], [[2.0, 6.0]]]
