import pickle

import numpy as np
import pytest

from pd_v2 import data_type
from pd_v2.data_type import DataType, InputType, SequenceType

ELEMENTS = {
    "dense_vector": 0,
    "sparse_binary_vector": 1,
    "sparse_float_vector": 2,
    "sparse_vector": 2,
    "integer_value": 3,
}


@pytest.mark.parametrize(("seq_type", "suffix"), [(0, ""), (1, "_sequence"), (2, "_sub_sequence")])
@pytest.mark.parametrize("name", ELEMENTS)
def test_constructors(name, seq_type, suffix):
    made = getattr(data_type, name + suffix)(10)
    assert (made.dim, made.seq_type, made.type) == (10, seq_type, ELEMENTS[name])


@pytest.mark.parametrize(
    ("name", "kind"), [("dense_array", 0), ("sparse_non_value_slot", 1), ("sparse_value_slot", 2)]
)
def test_aliases_take_a_sequence_type(name, kind):
    made = getattr(data_type, name)(dim=4, seq_type=SequenceType.SEQUENCE)
    assert made == InputType(4, 1, kind)


def test_names_of_the_data_provider():
    assert data_type.dense_slot(3) == data_type.dense_vector(3)
    assert data_type.index_slot(3, seq_type=2) == data_type.integer_value_sub_sequence(3)
    assert data_type.integer_sequence(3) == data_type.integer_value_sequence(3)


def test_what_2017_did_not_have():
    assert not hasattr(data_type, "dense_array_sequence")
    assert not hasattr(data_type.dense_vector(3), "__dict__")


def test_argument_names_of_integer_types():
    assert data_type.integer_value(value_range=3).dim == 3
    assert data_type.integer_value_sequence(value_range=3).dim == 3
    assert data_type.integer_value_sub_sequence(dim=3).dim == 3


def test_repr_names_the_enumerations():
    assert repr(data_type.integer_value_sequence(10)) == (
        "InputType(dim=10, seq_type=SequenceType.SEQUENCE, type=DataType.Index)"
    )


def test_fields_are_plain_ints_also_after_pickling():
    made = pickle.loads(pickle.dumps(data_type.dense_vector(np.int64(5)), protocol=2))
    assert made == InputType(dim=5, seq_type=0, tp=0)
    assert {type(made.dim), type(made.seq_type), type(made.type)} == {int}
    assert made.type == DataType.Dense


def test_equality_is_by_value():
    assert data_type.dense_vector(5) != data_type.integer_value(5)
    assert data_type.dense_vector(5) != 5
    assert len({data_type.dense_vector(5), data_type.dense_vector(5)}) == 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, 0, 0), ValueError, "InputType: dim must be at least 1, got 0"),
        ((1.5, 0, 0), TypeError, "InputType: dim must be an integer, got 1.5"),
        ((1, 3, 0), ValueError, "3 is not a valid SequenceType"),
        ((1, 0, 4), ValueError, "4 is not a valid DataType"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        InputType(*arguments)
