"""Batches that a step cannot be made of: refused with their place, and nothing has changed."""

import functools
import traceback

import numpy as np
import pytest

import pd_v2 as paddle
from pd_v2.data_feeder import DataFeeder
from pd_v2.reader.protocol import reader_name

A, L, T = paddle.activation, paddle.layer, paddle.data_type

GOOD = ([1.0, 2.0], [(0, 1.0), (4, 0.5)], 1)
NAN = float("nan")


def trainer():
    """x [2] and sparse rows [5] against a label, with momentum; the trainer and its pool."""
    x, label = L.data(name="x", type=T.dense_vector(2)), L.data(name="l", type=T.integer_value(3))
    rows = L.data(name="rows", type=T.sparse_float_vector(5))
    p = L.fc(input=[x, rows], size=3, act=A.Softmax())
    cost = L.classification_cost(input=p, label=label)
    pool = paddle.parameters.create(cost)
    optimizer = paddle.optimizer.Momentum(learning_rate=0.1, momentum=0.9)
    return paddle.trainer.SGD(cost, pool, optimizer), pool


FEEDING = {"x": 0, "rows": 1, "l": 2}
BAD = {
    "empty": ([], ValueError, "the batch has no samples"),
    "a generator": (
        (sample for sample in [GOOD]),
        TypeError,
        "a batch is a list of samples, not of type generator",
    ),
    "no batch": (None, TypeError, "a batch is a list of samples, not of type NoneType"),
    "a label -1": (
        [GOOD, ([1.0, 2.0], [], -1)],
        ValueError,
        "data layer 'l' (column 2), sample 1: expected an integer from 0 to 2, got -1",
    ),
    "a label beyond": ([([1.0, 2.0], [], 3)], ValueError, "data layer 'l' (column 2), sample 0"),
    "a label that is NaN": ([([1.0, 2.0], [], NAN)], ValueError, "data layer 'l'"),
    "a column that is NaN": (
        [GOOD, ([1.0, 2.0], [(0, 1.0), (NAN, 1.0)], 1)],
        ValueError,
        "data layer 'rows' (column 1), sample 1, entry 1: expected a column from 0 to 4, got nan",
    ),
    "a column without end": (
        [([1.0, 2.0], np.array([[np.inf, 1.0]]), 1)],
        ValueError,
        "data layer 'rows' (column 1), sample 0, entry 0: expected a column from 0 to 4, got",
    ),
    "a column -1": ([([1.0, 2.0], [(-1.0, 1.0)], 1)], ValueError, "got -1"),
    "a column beyond": ([([1.0, 2.0], [(5.0, 1.0)], 1)], ValueError, "from 0 to 4, got 5"),
}


MASKED = np.ma.array([1.0, 2.0], mask=[False, True])


def has_masked(**field):
    """A good sample, then one with a masked element; where that is."""
    sample = {"x": GOOD[0], "rows": GOOD[1], "l": GOOD[2], **field}
    (name,) = field
    number = FEEDING[name]
    place = f"data layer {name!r} (column {number}), sample 1"
    return [GOOD, tuple(sample.values())], ValueError, place


BAD |= {
    "a masked float64": has_masked(x=MASKED),
    "a masked float32": has_masked(x=MASKED.astype(np.float32)),
    "masked in lists": has_masked(x=[MASKED[:1], MASKED[1:]]),
    "a masked pair": has_masked(rows=np.ma.array([[0, 1.0]], mask=[[False, True]])),
    "a masked label": has_masked(l=np.ma.masked),
}


@pytest.mark.parametrize(("batch", "error", "message"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("ahead", [False, True])
def test_a_bad_batch_changes_nothing(batch, error, message, ahead):
    sgd, pool = trainer()
    seen = []

    def read_some():
        batches = [[GOOD], [GOOD], batch]
        return iter(batches) if ahead else (b for b in batches)

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            seen[:] = [pool[name] for name in pool]

    with pytest.raises(error) as caught:
        sgd.train(read_some, event_handler=handler, feeding=FEEDING)
    assert message in str(caught.value)
    line = read_some.__code__.co_firstlineno
    assert caught.value.__notes__ == [
        f"  in batch 2 of pass 0, from the reader {read_some.__qualname__} ({__file__}:{line})"
    ]
    assert caught.value.__notes__[0] in "".join(traceback.format_exception(caught.value))
    for name, value in zip(pool, seen, strict=True):
        np.testing.assert_array_equal(pool[name], value)
    sgd.train(lambda: iter([[GOOD]]), feeding=FEEDING)  # and it goes on


@pytest.mark.parametrize(
    ("kind", "sample", "place"),
    [
        (T.dense_vector_sequence(2), np.ma.stack([MASKED, MASKED]), "sample 1, step 0"),
        (T.dense_vector(4), [[MASKED, MASKED]], "sample 1"),
        (T.sparse_float_vector_sequence(2), [[], np.ma.stack([MASKED])], "sample 1, step 1"),
        (T.sparse_binary_vector(2), np.ma.array([0, 1], mask=[True, False]), "sample 1"),
    ],
)
def test_masked_elements_are_named_wherever_they_are(kind, sample, place):
    good = np.ma.getdata(sample) if isinstance(sample, np.ndarray) else [[], []]
    if kind.type == 0 and isinstance(sample, list):
        good = [[[1.0, 2.0], [1.0, 2.0]]]
    feeder = DataFeeder([("x", kind)])
    feeder([(good,), (good,)])
    with pytest.raises(ValueError, match=rf"'x' \(column 0\), {place}: .* masked elements\n  hint"):
        feeder([(good,), (sample,)])


def test_masked_arrays_without_masked_elements_are_arrays():
    whole = np.ma.array([1.0, 2.0], mask=[False, False])
    slot = DataFeeder([("x", T.dense_vector(2))])([(whole,), (whole.astype("float32"),)])["x"]
    assert slot.value.tolist() == [[1.0, 2.0]] * 2


def test_a_parameter_has_no_masked_elements():
    _, pool = trainer()
    name = pool.keys()[0]
    with pytest.raises(ValueError, match="the value has masked elements"):
        pool[name] = np.ma.masked_equal(np.eye(*pool.get_shape(name)), 0.0)


def test_a_test_refuses_what_a_training_does():
    sgd, _ = trainer()
    with pytest.raises(ValueError, match="the batch has no samples"):
        sgd.test(lambda: iter([[GOOD], []]), feeding=FEEDING)


def read():
    yield 1


class Reader:
    def __call__(self):
        return read()


PLACE = f"read ({__file__}:{read.__code__.co_firstlineno})"


@pytest.mark.parametrize(
    ("reader", "name"),
    [
        (read, PLACE),
        (paddle.batch(paddle.reader.shuffle(paddle.reader.buffered(read, 2), 4), 2), PLACE),
        (paddle.reader.firstn(paddle.reader.xmap_readers(abs, read, 1, 1), 3), PLACE),
        (functools.partial(paddle.batch(read, 2)), PLACE),
        (paddle.batch(paddle.reader.chain(read, read), 2), "chain"),
        (paddle.reader.map_readers(abs, read), "map_readers"),
        (paddle.batch(Reader(), 2), "Reader"),
    ],
)
def test_the_name_of_a_reader(reader, name):
    assert reader_name(reader) == name
