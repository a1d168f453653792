"""Types of the columns of training data: vectors or ids, single or in sequences."""

import operator
from enum import IntEnum

__all__ = [
    "DataType", "InputType", "SequenceType", "dense_array", "dense_slot", "dense_vector",
    "dense_vector_sequence", "dense_vector_sub_sequence", "index_slot", "integer_sequence",
    "integer_value", "integer_value_sequence", "integer_value_sub_sequence", "sparse_binary_vector",
    "sparse_binary_vector_sequence", "sparse_binary_vector_sub_sequence", "sparse_float_vector",
    "sparse_float_vector_sequence", "sparse_float_vector_sub_sequence", "sparse_non_value_slot",
    "sparse_value_slot", "sparse_vector", "sparse_vector_sequence", "sparse_vector_sub_sequence",
]  # fmt: skip


class SequenceType(IntEnum):
    """The number of levels of sequences in a sample."""

    NO_SEQUENCE = 0
    SEQUENCE = 1
    SUB_SEQUENCE = 2


class DataType(IntEnum):
    """The type of one element."""

    Dense = 0
    SparseNonValue = 1
    SparseValue = 2
    Index = 3


class InputType:
    """The type of a data layer; `dim` is the width of a vector, or the number of different ids.

    The fields are plain ints, because 2017's pickles hold these objects.
    """

    __slots__ = ("dim", "seq_type", "type")

    def __init__(self, dim, seq_type, tp):
        self.dim = _positive(dim)
        self.seq_type = int(SequenceType(seq_type))
        self.type = int(DataType(tp))

    def __eq__(self, other):
        if not isinstance(other, InputType):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self):
        return hash(self._key())

    def __repr__(self):
        return (
            f"InputType(dim={self.dim}, seq_type=SequenceType.{SequenceType(self.seq_type).name}, "
            f"type=DataType.{DataType(self.type).name})"
        )

    def _key(self):
        return self.dim, self.seq_type, self.type


def _positive(dim):
    try:
        number = operator.index(dim)
    except TypeError:
        raise TypeError(f"InputType: dim must be an integer, got {dim!r}") from None
    if number < 1:
        raise ValueError(f"InputType: dim must be at least 1, got {number}")
    return number


def dense_vector(dim, seq_type=SequenceType.NO_SEQUENCE):
    """A vector of `dim` numbers, or an array of 2 or 3 axes, the last two height and width."""
    return InputType(dim, seq_type, DataType.Dense)


def sparse_non_value_slot(dim, seq_type=SequenceType.NO_SEQUENCE):
    """The indices of the ones in a vector of `dim` zeros and ones."""
    return InputType(dim, seq_type, DataType.SparseNonValue)


def sparse_value_slot(dim, seq_type=SequenceType.NO_SEQUENCE):
    """The (index, value) pairs of a vector of `dim` numbers that is zero elsewhere."""
    return InputType(dim, seq_type, DataType.SparseValue)


def integer_value(value_range, seq_type=SequenceType.NO_SEQUENCE):
    """An id from 0 to value_range - 1."""
    return InputType(value_range, seq_type, DataType.Index)


dense_array = dense_vector
sparse_binary_vector = sparse_non_value_slot
sparse_float_vector = sparse_value_slot


def dense_vector_sequence(dim):
    """A sequence of vectors."""
    return dense_vector(dim, SequenceType.SEQUENCE)


def dense_vector_sub_sequence(dim):
    """A sequence of sequences of vectors."""
    return dense_vector(dim, SequenceType.SUB_SEQUENCE)


def sparse_binary_vector_sequence(dim):
    """A sequence of sparse vectors of zeros and ones."""
    return sparse_binary_vector(dim, SequenceType.SEQUENCE)


def sparse_binary_vector_sub_sequence(dim):
    """A sequence of sequences of sparse vectors of zeros and ones."""
    return sparse_binary_vector(dim, SequenceType.SUB_SEQUENCE)


def sparse_float_vector_sequence(dim):
    """A sequence of sparse vectors."""
    return sparse_float_vector(dim, SequenceType.SEQUENCE)


def sparse_float_vector_sub_sequence(dim):
    """A sequence of sequences of sparse vectors."""
    return sparse_float_vector(dim, SequenceType.SUB_SEQUENCE)


def integer_value_sequence(value_range):
    """A sequence of ids."""
    return integer_value(value_range, SequenceType.SEQUENCE)


def integer_value_sub_sequence(dim):
    """A sequence of sequences of ids."""
    return integer_value(dim, SequenceType.SUB_SEQUENCE)


# Names of paddle.trainer.PyDataProvider2, which is this module too.
dense_slot = dense_vector
index_slot = integer_value
integer_sequence = integer_value_sequence

# The former names of sparse_float_vector*.
sparse_vector = sparse_float_vector
sparse_vector_sequence = sparse_float_vector_sequence
sparse_vector_sub_sequence = sparse_float_vector_sub_sequence
