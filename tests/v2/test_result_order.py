"""The order of several results: as asked for, until a recurrent group is described."""

import numpy as np
import pytest

import pd_v2 as paddle
from pd_v2.trainer_config_helpers.config_parser_utils import reset_parser

L, T = paddle.layer, paddle.data_type
MESSAGE = r"the results come in the order in which the layers were defined, \['a', 'b'\]"


def two():
    x = L.data(name="x", type=T.dense_vector(2))
    return L.slope_intercept(x, slope=1.0, name="a"), L.slope_intercept(x, slope=10.0, name="b")


def group():
    rows = L.data(name="rows", type=T.dense_vector_sequence(2))
    return L.recurrent_group(step=lambda x: L.addto(x), input=rows)


def infer(layers):
    sample = (np.array([1.0, 2.0]),)
    pool = paddle.parameters.create(list(layers))
    found = paddle.inference.Inference(pool, list(layers)).infer(
        input=[sample], flatten_result=False
    )
    return [x.tolist() for x in found]


A, B = [[1.0, 2.0]], [[10.0, 20.0]]


def test_they_come_as_asked_for():
    a, b = two()
    assert infer([b, a]) == [B, A]


def test_after_a_group_they_come_as_defined():
    a, b = two()
    group()
    with pytest.warns(UserWarning, match=MESSAGE):
        assert infer([b, a]) == [A, B]
    assert infer([a, b]) == [A, B]


def test_flat_results_too():
    a, b = two()
    group()
    with pytest.warns(UserWarning, match=MESSAGE):
        found = paddle.infer(
            output_layer=[b, a],
            parameters=paddle.parameters.create([b, a]),
            input=[(np.array([1.0, 2.0]),)],
        )
    np.testing.assert_array_equal(found, A + B)


def test_another_configuration_begins_without_groups():
    two()
    group()
    reset_parser()
    a, b = two()
    assert infer([b, a]) == [B, A]


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_stored_network_keeps_its_order(recurrent, tmp_path):
    a, b = two()
    if recurrent:
        group()
    pool = paddle.parameters.create([b, a])
    with open(tmp_path / "net", "wb") as f:
        paddle.topology.Topology([b, a]).serialize_for_inference(f)
    with paddle.build.fresh(), open(tmp_path / "net", "rb") as f:
        stored = paddle.inference.Inference(pool, fileobj=f)
        found = stored.infer(input=[(np.array([1.0, 2.0]),)], flatten_result=False)
    assert [x.tolist() for x in found] == ([A, B] if recurrent else [B, A])
