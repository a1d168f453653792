"""What a DataFeeder gives, read with the methods that 2017's own tests used."""

import numpy as np
import pytest

from pd_v2 import data_type as T
from pd_v2.arguments import Arguments
from pd_v2.data_feeder import DataFeeder


def converted(type_, *values):
    """The Arguments of a single data layer."""
    return DataFeeder([("x", type_)])([(value,) for value in values])


@pytest.mark.parametrize("kind", [np.array, list, tuple])
def test_dense_rows(kind):
    rows = np.random.default_rng(0).random((32, 784)).astype(np.float32)
    arguments = converted(T.dense_vector(784), *(kind(row) for row in rows))
    matrix = arguments.getSlotValue(0)
    found = matrix.copyToNumpyMat()
    np.testing.assert_array_equal(found, rows)
    assert found.dtype == np.float32
    assert (matrix.getHeight(), matrix.getWidth(), matrix.isSparse()) == (32, 784, False)
    found[:] = 0  # a copy
    np.testing.assert_array_equal(matrix.copyToNumpyMat(), rows)
    assert arguments.getSlotIds(0) is None


def test_columns_of_sparse_rows():
    rows = [[5, 17, 9999], [], [3]]
    matrix = converted(T.sparse_binary_vector(10000), *rows).getSlotValue(0)
    assert [matrix.getSparseRowCols(i) for i in range(3)] == rows
    assert (matrix.getHeight(), matrix.getWidth(), matrix.isSparse()) == (3, 10000, True)
    assert matrix.sum() == 4


def test_columns_and_values_of_sparse_rows():
    rows = [[], [(7, 0.5), (2, -1.0)], [(9, 4.0)]]
    matrix = converted(T.sparse_float_vector(10), *rows).getSlotValue(0)
    assert [matrix.getSparseRowColsVal(i) for i in range(3)] == rows
    assert matrix.getSparseRowCols(1) == [7, 2]
    assert matrix.getWidth() == 10 and matrix.isSparse()
    assert matrix.sum() == 3.5


def test_ids():
    arguments = converted(T.integer_value(300), 3, 0, 200)
    vector = arguments.getSlotIds(0)
    ids = vector.copyToNumpyArray()
    assert ids.tolist() == [3, 0, 200] and ids.dtype == np.int32
    ids[:] = 0  # a copy
    assert vector.copyToNumpyArray().tolist() == [3, 0, 200]
    assert arguments.getSlotValue(0) is None
    assert arguments.getSlotSequenceStartPositions(0) is None
    assert arguments.getSlotSubSequenceStartPositions(0) is None


@pytest.mark.parametrize(
    "type_, values, rows",
    [
        (T.dense_vector(2), [[1, 2], [3, 4]], 2),
        (T.sparse_binary_vector(5), [[1], [], [2, 3]], 3),
        (T.integer_value(9), [4, 5, 6, 7], 4),
        (T.integer_value_sequence(9), [[4, 5], [], [6]], 3),
        (T.dense_vector_sub_sequence(1), [[[[1], [2]], [[3]]], []], 3),
        (T.integer_value_sequence(9), [[], []], 0),
    ],
)
def test_the_size_of_a_slot_is_that_of_its_rows(type_, values, rows):
    assert converted(type_, *values).getBatchSize(0) == rows


def positions(vector):
    found = vector.copyToNumpyArray()
    assert found.dtype == np.int32
    return found.tolist()


def test_start_positions_of_sequences():
    arguments = converted(T.integer_value_sequence(10), [1, 2, 3], [], [4, 5])
    assert arguments.getSlotIds(0).copyToNumpyArray().tolist() == [1, 2, 3, 4, 5]
    assert positions(arguments.getSlotSequenceStartPositions(0)) == [0, 3, 3, 5]
    assert arguments.getSlotSubSequenceStartPositions(0) is None


def test_start_positions_of_nested_sequences_count_rows():
    """Every start of a sample is one of a sub-sequence too."""
    arguments = converted(T.dense_vector_sub_sequence(1), [[[1], [2]], [[3]]], [], [[[4], [5]]])
    assert positions(arguments.getSlotSequenceStartPositions(0)) == [0, 3, 3, 5]
    assert positions(arguments.getSlotSubSequenceStartPositions(0)) == [0, 2, 3, 5]


def test_sequences_of_sparse_rows():
    arguments = converted(T.sparse_binary_vector_sequence(5), [[0, 1], []], [[4]])
    matrix = arguments.getSlotValue(0)
    assert [matrix.getSparseRowCols(i) for i in range(3)] == [[0, 1], [], [4]]
    assert positions(arguments.getSlotSequenceStartPositions(0)) == [0, 2, 3]
    assert arguments.getSlotIds(0) is None


TYPES = [
    ("fea0", T.dense_vector(2)),
    ("fea1", T.sparse_binary_vector(9)),
    ("fea2", T.dense_array(2)),
]


@pytest.mark.parametrize(
    "feeding", [{"fea0": 2, "fea1": 1, "fea2": 2}, ["unused", "fea1", "fea0", "fea2"]]
)
def test_several_features(feeding):
    samples = [(7, [3, 8], [1.0, 2.0], [1.0, 2.0], "more"), (8, [], [3.0, 4.0], [3.0, 4.0], "")]
    arguments = DataFeeder(TYPES, feeding)(samples)
    assert arguments.getSlotNum() == 3
    for number in (0, 2):
        found = arguments.getSlotValue(number).copyToNumpyMat()
        assert found.tolist() == [[1, 2], [3, 4]]
    assert [arguments.getSlotValue(1).getSparseRowCols(i) for i in (0, 1)] == [[3, 8], []]


def test_frames_follow_the_data():
    feeder = DataFeeder([("image", T.dense_array(2352)), ("id", T.integer_value(2))])
    for height, width in [(28, 28), (30, 32)]:
        arguments = feeder([(np.ones((3, height, width)), 1)])
        assert (arguments.getSlotFrameHeight(0), arguments.getSlotFrameWidth(0)) == (height, width)
        assert (arguments.getSlotFrameHeight(1), arguments.getSlotFrameWidth(1)) == (0, 0)
        assert arguments.getSlotValue(0).getWidth() == 3 * height * width


def test_sums_are_over_the_rows_of_all_slots():
    types = [*TYPES[:2], ("id", T.integer_value(99))]
    batch = [([0.5, 1.0], [4], 50), ([2.0, -8.0], [1, 2], 60)]
    assert DataFeeder(types)(batch).sum() == -4.5 + 3
    assert Arguments().sum() == 0


def test_arguments_are_filled_again():
    feeder = DataFeeder(TYPES[:1])
    given = feeder([([1.0, 2.0],)])
    assert feeder.convert([([3.0, 4.0],), ([5.0, 6.0],)], given) is given
    assert given.getSlotNum() == 1
    assert given.getSlotValue(0).copyToNumpyMat().tolist() == [[3, 4], [5, 6]]


def test_without_slots():
    assert Arguments.createArguments(0).getSlotNum() == 0


DENSE, SPARSE = T.dense_vector(1), T.sparse_binary_vector(3)


@pytest.mark.parametrize(
    ("read", "type_", "value", "error", "message"),
    [
        (lambda a: a.getSlotValue(1), DENSE, [1.0], IndexError, "there is no slot 1 of 1"),
        (lambda a: a.getSlotIds(-1), DENSE, [1.0], IndexError, "there is no slot -1 of 1"),
        (
            lambda a: a.getSlotValue(0).getSparseRowCols(0),
            *(DENSE, [1.0], ValueError, r"the rows are dense\n  hint: copyToNumpyMat"),
        ),
        (
            lambda a: a.getSlotValue(0).getSparseRowColsVal(0),
            *(DENSE, [1.0], ValueError, "getSparseRowColsVal: the rows are dense"),
        ),
        (
            lambda a: a.getSlotValue(0).copyToNumpyMat(),
            *(SPARSE, [1], ValueError, r"the rows are sparse\n  hint: getSparseRowCols"),
        ),
        (
            lambda a: a.getSlotValue(0).getSparseRowColsVal(0),
            *(SPARSE, [1], ValueError, "all values are 1"),
        ),
        (
            lambda a: a.getSlotValue(0).getSparseRowCols(1),
            *(SPARSE, [1], IndexError, "there is no row 1 of 1"),
        ),
        (
            lambda a: a.createArguments(2),
            *(DENSE, [1.0], ValueError, "begins with 0 slots, not with 2"),
        ),
    ],
)
def test_what_is_not_there(read, type_, value, error, message):
    with pytest.raises(error, match=message):
        read(converted(type_, value))
