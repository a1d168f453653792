import numpy as np
import pytest

from pd_v2.minibatch import batch


def test_the_last_batch_holds_what_is_left():
    batches = batch(lambda: iter(range(5)), 2)
    assert list(batches()) == [[0, 1], [2, 3], [4]]
    assert list(batches()) == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("size", [2.0, np.float64(2), np.int32(2)])
def test_a_size_is_any_whole_number(size):
    assert list(batch(lambda: iter(range(3)), size)()) == [[0, 1], [2]]


def test_a_batch_reader_returns_an_iterator():
    assert next(batch(lambda: [1, 2, 3], np.int64(2))()) == [1, 2]


def test_an_empty_reader_has_no_batches():
    assert list(batch(list, 4)()) == []


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((list, 0), ValueError, "batch: batch_size must be at least 1, got 0"),
        ((list, -3), ValueError, "at least 1, got -3"),
        ((list, 2.5), TypeError, "batch: batch_size must be an integer, got 2.5"),
        ((list, float("inf")), TypeError, "batch: batch_size must be an integer, got inf"),
        ((list, 0.0), ValueError, "batch: batch_size must be at least 1, got 0"),
        ((list, None), TypeError, "must be an integer, got None"),
        (([1, 2], 2), TypeError, "batch: a reader is a function that returns samples, got list"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        batch(*arguments)
