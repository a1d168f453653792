"""What data layers take, told from the layers that read them, where nothing else says it."""

import pytest

import pd_v2 as paddle
from pd_v2.described import UnknownLayer, data_types_of
from pd_v2.topology import Topology

from .test_described_golden import GOLDEN, data_types, model_of_2017

L, T = paddle.layer, paddle.data_type

# Rows and sequences of rows give the same here, and sparse rows are like others.
OPEN = {
    "embedding": {"w": T.integer_value(100)},
    "seqops": {"o": T.integer_value(9), "z": T.integer_value(9)},
    "costs": {"mb": T.dense_vector(5)},
}


@pytest.mark.parametrize("name", GOLDEN)
def test_data_types_of_2017(name):
    expected = data_types(GOLDEN[name]) | OPEN.get(name, {})
    assert dict(data_types_of(model_of_2017(GOLDEN[name]))) == expected


def test_a_generator_is_no_data():
    def step(whole, word):
        return L.fc([whole, word], 6, act=paddle.activation.Softmax())

    x = L.data(name="x", type=T.dense_vector(3))
    word = L.GeneratedInput(6, embedding_name="words", embedding_size=2)
    out = L.beam_search(step, [L.StaticInput(x), word], bos_id=0, eos_id=1, beam_size=2)
    assert data_types_of(Topology(out).proto()) == [("x", T.dense_vector(3))]


def test_ids_are_read_in_a_group_in_a_group():
    def outer(part):
        return L.recurrent_group(lambda word: L.embedding(word, 2), part)

    x = L.data(name="x", type=T.integer_value_sub_sequence(9))
    expected = [("x", T.integer_value_sub_sequence(9))]
    assert data_types_of(Topology(L.recurrent_group(outer, x)).proto()) == expected


def scores():
    """A cost of probabilities and labels, as a ModelConfig."""
    p = L.fc(L.data(name="x", type=T.dense_vector(3)), 2, act=paddle.activation.Softmax())
    y = L.data(name="y", type=T.integer_value(2))
    return Topology(L.cross_entropy_cost(p, y, name="c")).proto()


def refused(config):
    with pytest.raises(UnknownLayer) as caught:
        data_types_of(config)
    return str(caught.value)


def test_no_size():
    config = scores()
    config.layers[0].ClearField("size")
    assert refused(config) == "layer 'x' (data) is 0 wide, in sequences of 0 levels"


def test_no_end_of_levels():
    """A group that reads its own result would need sequences in sequences without end."""
    config = scores()
    group = config.sub_models.add(name="g", is_recurrent_layer_group=True)
    group.in_links.add(layer_name="x", link_name="x")
    assert "layer 'x' (data) is 3 wide, in sequences of " in refused(config)


def test_a_wrong_number_of_inputs():
    config = scores()
    config.layers[-1].type = "expand"
    config.layers[-1].inputs.add(input_layer_name="x")
    assert refused(config) == "layer 'c' (expand) has 3 inputs"
