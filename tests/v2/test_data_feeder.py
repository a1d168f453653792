"""Minibatches become packed arrays, and faults are reported where they are."""

import re

import numpy as np
import pytest

from pd_v2.data_feeder import DataFeeder, Slot, default_feeding_map
from pd_v2.data_type import (
    dense_array,
    dense_vector,
    dense_vector_sequence,
    dense_vector_sub_sequence,
    integer_value,
    integer_value_sequence,
    integer_value_sub_sequence,
    sparse_binary_vector,
    sparse_float_vector_sequence,
)

FLAT = [0.0, 0.0]


def feed(type_, *values):
    """The slot of a single data layer 'x'."""
    return DataFeeder([("x", type_)])([(value,) for value in values])["x"]


def assert_slot(slot, value, lengths=(), image_size=None):
    np.testing.assert_array_equal(slot.value, value)
    assert len(slot.lengths) == len(lengths)
    for got, expected in zip(slot.lengths, lengths, strict=True):
        np.testing.assert_array_equal(got, expected)
        assert got.dtype == np.int64
    assert slot.image_size == image_size


@pytest.mark.parametrize("kind", [np.array, list, tuple, np.float32])
def test_dense_vectors(kind):
    rows = np.random.default_rng(0).normal(size=(32, 7))
    slot = feed(dense_vector(7), *(kind(row) for row in rows))
    assert slot.value.dtype == np.float32
    assert slot.value.flags.c_contiguous
    assert_slot(slot, rows.astype(np.float32))


def test_dense_takes_integers_and_booleans():
    slot = feed(dense_vector(2), [1, True], np.array([3, 255], np.uint8))
    assert_slot(slot, np.float32([[1, 1], [3, 255]]))


@pytest.mark.parametrize(
    "rows",
    [
        [["1.5", "-2e1"], ["3", "nan"]],
        [np.array([b"1.5", b"-2e1"]), np.array([b"3", b"nan"])],
        [("1.5", "-2e1"), [3.0, float("nan")]],
        [[1.5, "-2e1"], np.array(["3", " nan "])],
    ],
)
def test_text_in_a_dense_row_is_read_as_numbers(rows):
    """Columns of a text file, say; 2017's feeder put them into an array of numbers."""
    expected = np.array([[float(v) for v in row] for row in rows], np.float32)
    np.testing.assert_array_equal(feed(dense_vector(2), *rows).value, expected)
    np.testing.assert_array_equal(feed(dense_vector_sequence(2), rows).value, expected)
    image = feed(dense_vector(4), [list(row) for row in rows])
    assert image.value.tolist()[0][:2] == [1.5, -20.0] and image.image_size == (2, 2)


def test_the_batch_does_not_share_the_readers_memory():
    row = np.ones(3, np.float32)
    slot = feed(dense_vector(3), row)
    row[:] = 0
    assert_slot(slot, [[1, 1, 1]])


@pytest.mark.parametrize("shape", [(3, 28, 28), (3, 30, 32), (4, 5)])
def test_an_image_is_flattened_and_keeps_its_frame(shape):
    images = np.random.default_rng(1).random((4, *shape)).astype(np.float32)
    slot = feed(dense_array(3 * 28 * 28), *images)
    assert_slot(slot, images.reshape(4, -1), image_size=shape[-2:])


@pytest.mark.parametrize("kind", [int, np.int64, np.uint8, np.array])
def test_integer_values(kind):
    slot = feed(integer_value(300), *(kind(i) for i in (3, 0, 200)))
    assert slot.value.dtype == np.int64
    assert_slot(slot, [3, 0, 200])


def test_integers_of_one_value_are_positions_of_any_size():
    assert_slot(feed(integer_value(1), 7, 0), [7, 0])


def test_integer_sequences():
    slot = feed(integer_value_sequence(10), [1, 2, 3], [], np.array([9]), iter((4, 5)))
    assert slot.value.dtype == np.int64
    assert_slot(slot, [1, 2, 3, 9, 4, 5], lengths=[[3, 0, 1, 2]])


def test_dense_sequences():
    first, second = np.arange(6.0).reshape(3, 2), [[7, 8]]
    slot = feed(dense_vector_sequence(2), first, second)
    assert slot.value.dtype == np.float32
    assert_slot(slot, [[0, 1], [2, 3], [4, 5], [7, 8]], lengths=[[3, 1]])


def assigned(rows, dim):
    """Rows as numpy's assignment to the rows of a matrix converts them: 2017's feeder."""
    block = np.empty((len(rows), dim), np.float32)
    for i, row in enumerate(rows):
        block[i] = row
    return block


@pytest.mark.parametrize(
    "rows",
    [
        [3, 4.5, -1],
        [np.float32(3), np.int64(4), np.array(5.0), True],
        [[3], (4.5,), np.array([5.0])],
        [np.float32([3]), np.float32([4])],
        [3, [1, 2, 3, 4], (5,), np.array([6, 7, 8, 9.0]), np.float64(2)],
        [[1, 2, 3, 4], 3],
        [np.float32([1, 2, 3, 4]), np.float32(3), np.float32([7])],
        [np.float32([1, 2, 3, 4]), np.float32([7])],
    ],
)
def test_one_number_stands_for_a_row(rows):
    value = assigned(rows, 4)
    assert_slot(feed(dense_vector(4), *rows), value)
    assert_slot(
        feed(dense_vector_sequence(4), rows, [], rows[:1]), [*value, value[0]], [[len(rows), 0, 1]]
    )
    nested = feed(dense_vector_sub_sequence(4), [rows, []], [rows[:2]])
    assert_slot(nested, [*value, *value[:2]], [[2, 1], [len(rows), 0, 2]])
    assert nested.value.dtype == np.float32
    nested.value[:] = 0  # it is the feeder's own


def test_an_array_of_numbers_is_a_sequence_of_steps():
    slot = feed(dense_vector_sequence(3), np.arange(2.0), np.float32([5]))
    assert_slot(slot, [[0, 0, 0], [1, 1, 1], [5, 5, 5]], [[2, 1]])


def test_numbers_for_vectors_of_one():
    assert_slot(feed(dense_vector(1), 5, [6], 7.5), [[5], [6], [7.5]])
    assert_slot(feed(dense_vector_sequence(1), [1, 2], [3]), [[1], [2], [3]], [[2, 1]])


def test_nested_integer_sequences():
    slot = feed(integer_value_sub_sequence(10), [[1, 2], [], [3]], [], [[4]])
    assert_slot(slot, [1, 2, 3, 4], lengths=[[3, 0, 1], [2, 0, 1, 1]])


def test_nested_dense_sequences():
    slot = feed(dense_vector_sub_sequence(1), [[[1], [2]], [[3]]], [[[4]]])
    assert_slot(slot, [[1], [2], [3], [4]], lengths=[[2, 1], [2, 1, 1]])


@pytest.mark.parametrize(
    ("type_", "value", "lengths"),
    [
        (dense_vector(5), np.zeros((0, 5)), []),
        (integer_value(5), np.zeros(0), []),
        (dense_vector_sequence(5), np.zeros((0, 5)), [np.zeros(0)]),
        (integer_value_sub_sequence(5), np.zeros(0), [np.zeros(0), np.zeros(0)]),
    ],
)
def test_an_empty_batch(type_, value, lengths):
    slot = feed(type_)
    assert slot.value.shape == value.shape
    assert_slot(slot, value, lengths)


def test_sequences_that_are_all_empty():
    assert_slot(feed(dense_vector_sequence(2), [], []), np.zeros((0, 2)), lengths=[[0, 0]])


TYPES = [("image", dense_vector(2)), ("label", integer_value(10))]


@pytest.mark.parametrize("feeding", [None, ["image", "label"], {"image": 0, "label": 1}])
def test_fields_in_the_order_of_the_layers(feeding):
    slots = DataFeeder(TYPES, feeding).convert([([1, 2], 3), ([4, 5], 6)])
    assert list(slots) == ["image", "label"]
    assert_slot(slots["image"], [[1, 2], [4, 5]])
    assert_slot(slots["label"], [3, 6])


@pytest.mark.parametrize(
    "feeding", [("label", "unused", "image"), {"image": 2, "label": 0, "z": 9}]
)
def test_feeding_reorders_and_skips_fields(feeding):
    slots = DataFeeder(TYPES, feeding)([(3, "name", [1, 2])])
    assert_slot(slots["image"], [[1, 2]])
    assert_slot(slots["label"], [3])


def test_one_field_may_feed_two_layers():
    slots = DataFeeder([("a", integer_value(9)), ("b", integer_value(9))], {"a": 1, "b": 1})(
        [[0, 5]]
    )
    assert_slot(slots["a"], [5])
    assert_slot(slots["b"], [5])


@pytest.mark.parametrize("kind", [tuple, list])
def test_fields_are_counted_from_the_end_below_0(kind):
    slots = DataFeeder(TYPES, {"image": -3, "label": -1})([kind([[1, 2], "beside", 3])])
    assert slots["image"].value.tolist() == [[1, 2]]
    assert slots["label"].value.tolist() == [3]


@pytest.mark.parametrize(
    "feeding, keys",
    [(None, (0, 1)), ({"image": "pixels", "label": ("a", 1)}, ("pixels", ("a", 1)))],
)
def test_samples_may_be_dicts(feeding, keys):
    """2017 read `sample[feeding[name]]`, whatever that is."""
    samples = [{keys[0]: [1, 2], keys[1]: 3, "beside": 9}, {keys[1]: 0, keys[0]: [4, 5]}]
    slots = DataFeeder(TYPES, feeding)(samples)
    assert slots["image"].value.tolist() == [[1, 2], [4, 5]]
    assert slots["label"].value.tolist() == [3, 0]


@pytest.mark.parametrize(
    "feeding, sample, message",
    [
        ({"image": 0, "label": -3}, (FLAT, 1), "column -3.*the sample has only 2 fields"),
        (
            {"image": "a", "label": "b"},
            {"a": FLAT, "c": 1},
            "'b'.*the sample has the fields 'a', 'c'",
        ),
        (None, {}, "the sample has the fields none"),
        ({"image": 0, "label": "b"}, (FLAT, 1), "column 'b'.*is a tuple, and feeding gives no num"),
    ],
)
def test_a_sample_without_the_field(feeding, sample, message):
    with pytest.raises(ValueError, match=r"^data layer '.*, sample 0: ") as e:
        DataFeeder(TYPES, feeding)([sample])
    assert re.search(message, str(e.value))


def test_size_default_map_and_given_dict():
    feeder = DataFeeder(TYPES)
    assert len(feeder) == 2
    assert default_feeding_map(TYPES) == {"image": 0, "label": 1}
    given = {"other": Slot(np.zeros(1))}
    assert feeder.convert([([1, 2], 3)], given) is given
    assert list(given) == ["other", "image", "label"]


@pytest.mark.parametrize(
    ("type_", "values", "message"),
    [
        (dense_vector(2), [FLAT, FLAT, []], "sample 2: expected 2 numbers, got 0$"),
        (dense_vector(2), [3.0, FLAT, [1, 2, 3]], "sample 2: expected 2 numbers, got 3$"),
        (dense_vector(2), [3.0, "3.0"], r"sample 1: expected 2 numbers, got '3.0' \(str\)"),
        (dense_vector(2), [3.0, None], r"sample 1: expected 2 numbers, got None"),
        (dense_vector(2), [10**400], r"sample 0: expected 2 numbers, got 1000"),
        (
            dense_vector(4),
            [3.0, [3.0], np.zeros((2, 2))],
            r"sample 2: expected shape \(\) as in sample 0, got \(2, 2\)",
        ),
        (dense_vector_sequence(2), [[1.0], 2.0], r"sample 1: expected a sequence .* got 2.0"),
        (dense_vector_sequence(3), [[1.0], [2.0, [1, 2]]], "sample 1, step 1: expected 3 .* got 2"),
        (dense_vector(2), [np.zeros(3)], "sample 0: expected 2 numbers, got 3$"),
        (dense_vector(2), [FLAT, "ab"], r"sample 1: expected 2 numbers, got 'ab' \(str\)"),
        (
            dense_vector(2),
            [FLAT, ["1", ""]],
            r"sample 1: expected 2 numbers, got \['1', ''\] \(list",
        ),
        (dense_vector(2), [["1", "2", "3"]], "sample 0: expected 2 numbers, got 3$"),
        (dense_vector(2), [FLAT, None], r"sample 1: expected 2 numbers, got None \(NoneType\)"),
        (dense_vector(2), [FLAT, [1, None]], r"sample 1: expected 2 numbers, got \[1, None\]"),
        (dense_vector(2), [np.zeros(2, complex)], r"got an array of complex128\[2\]"),
        (
            dense_vector(4),
            [[[1, 2], [3]]],
            r"sample 0: expected 4 numbers, got \[\[1, 2\], \[3\]\]",
        ),
        (dense_vector(4), [np.zeros((1, 1, 2, 2))], r"2 or 3 axes, got shape \(1, 1, 2, 2\)"),
        (dense_vector(4), [np.zeros((0, 2))], r"2 or 3 axes, got shape \(0, 2\)"),
        (
            dense_vector(4),
            [np.zeros((2, 2)), np.zeros((2, 2)), np.zeros((2, 3))],
            r"sample 2: expected shape \(2, 2\) as in sample 0, got \(2, 3\)",
        ),
        (
            dense_vector(4),
            [np.zeros((2, 2)), np.zeros(4)],
            r"sample 1: expected shape \(2, 2\) as in sample 0, got \(4,\)",
        ),
        (integer_value(10), [3, 10], r"sample 1: expected an integer from 0 to 9, got 10 \(int\)"),
        (integer_value(10), [-1], r"sample 0: expected an integer from 0 to 9, got -1"),
        (integer_value(1), [3, -1], r"sample 1: expected an integer from 0 to 9\d+, got -1"),
        (integer_value(10), [0, 1.0], r"sample 1: .* from 0 to 9, got 1.0 \(float\)"),
        (integer_value(10), [0, 10**30], r"sample 1: .* from 0 to 9, got 1000"),
        (integer_value(10), [0, "1"], r"sample 1: .* from 0 to 9, got '1' \(str\)"),
        (integer_value(10), [0, None], r"sample 1: .* from 0 to 9, got None"),
        (integer_value(10), [np.array([1])], r"sample 0: .* got an array of int64\[1\]"),
        (integer_value(10), [np.uint64(10)], r"sample 0: .* from 0 to 9, got np.uint64\(10\)"),
        (integer_value_sequence(5), [[1], 3], r"sample 1: expected a sequence .* got 3 \(int\)"),
        (integer_value_sequence(5), [[1, 2], [], [0, 5]], "sample 2, step 1: expected an integer"),
        (
            dense_vector_sequence(2),
            [[FLAT], [FLAT, [1, 2, 3]]],
            "sample 1, step 1: expected 2 numbers, got 3",
        ),
        (
            dense_vector_sequence(4),
            [[], [np.zeros((2, 2))], [np.zeros(4)]],
            r"sample 2, step 0: expected shape \(2, 2\) as in sample 1, step 0, got \(4,\)",
        ),
        (
            integer_value_sub_sequence(5),
            [[[1], [2]], [[], [3, 4, -2]]],
            "sample 1, sub-sequence 1, step 2: expected an integer from 0 to 4, got -2",
        ),
        (
            integer_value_sub_sequence(5),
            [[], [[1], 2]],
            "sample 1, sub-sequence 1: expected a sequence with a step per element, got 2",
        ),
        (integer_value_sub_sequence(5), [3], "sample 0: .* a sub-sequence per element, got 3"),
    ],
)
def test_faults_name_the_place(type_, values, message):
    with pytest.raises(ValueError, match=r"^data layer 'x' \(column 0\), .*" + message.lstrip("^")):
        feed(type_, *values)


def test_values_that_have_no_common_type():
    with pytest.raises(ValueError, match=r"data layer 'x'.* the values have no common type"):
        feed(integer_value(2**63 + 9), np.uint64(2**63 + 5), 1, np.int64(3))


def test_long_values_are_shortened():
    with pytest.raises(ValueError, match=r"got \['a', .{51}\.\.\. \(list\)$"):
        feed(dense_vector(2), ["a"] * 1000)


def test_a_sample_with_too_few_fields():
    message = r"data layer 'label' \(column 1\), sample 1: the sample has only 1 fields"
    with pytest.raises(ValueError, match=message):
        DataFeeder(TYPES)([(FLAT, 3), (FLAT,)])


@pytest.mark.parametrize("batch", [[(FLAT,), "text"], [(FLAT,), 7]])
def test_a_sample_that_is_no_tuple(batch):
    message = r"sample 1 is of type (str|int)\n  hint: .* yields \(x,\), not x"
    with pytest.raises(TypeError, match=message):
        DataFeeder([("x", dense_vector(2))])(batch)


def test_a_layer_that_feeding_forgets():
    message = (
        r"^DataFeeder: feeding has no entry for data layer 'label', only for 'image', 'lable'$"
    )
    with pytest.raises(KeyError, match=message):
        DataFeeder(TYPES, ["image", "lable"])


@pytest.mark.parametrize(
    ("data_types", "feeding", "error", "message"),
    [
        ([("x", 3)], None, TypeError, r"\(name, InputType\) pairs, got \('x', 3\)"),
        ([dense_vector(3)], None, TypeError, r"pairs, got InputType\(dim=3"),
        ([(1, dense_vector(3))], None, TypeError, r"pairs, got \(1, InputType"),
        (TYPES, "image", TypeError, "a list of names or a dict .* got str"),
    ],
)
def test_wrong_construction(data_types, feeding, error, message):
    with pytest.raises(error, match=message):
        DataFeeder(data_types, feeding)


# ---- rows of Python's numbers are packed without an array of objects


@pytest.mark.parametrize(
    "row",
    [
        [1, -2.5, True],
        (0.1, 1e-42, 3.4e38),
        [float("nan"), float("inf"), -0.0],
        [np.float32(0.1), np.float64(0.1), np.int64(7)],
        [2**60 + 1, 16777217, 0],
    ],
)
def test_lists_are_converted_as_numpy_converts_them(row):
    slot = feed(dense_vector(3), row, tuple(row))
    expected = np.array([[float(v) for v in row]] * 2).astype(np.float32)
    np.testing.assert_array_equal(slot.value.view(np.int32), expected.view(np.int32))
    slot.value[:] = 0  # it is the feeder's own


ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    "rows",
    [
        [ROWS[0].astype(np.float64), ROWS[1]],
        [ROWS[0], ROWS[1].astype(">f4")],
        [np.repeat(ROWS[0], 2)[::2], ROWS[1]],
        [ROWS[0], np.ma.array(ROWS[1])],
    ],
    ids=["float64", "byte order", "strides", "masked"],
)
def test_arrays_of_several_kinds_may_be_mixed(rows):
    value = feed(dense_vector(3), *rows).value
    assert value.dtype == np.float32 and value.tolist() == ROWS.tolist()


def test_lists_and_arrays_may_be_mixed():
    assert_slot(feed(dense_vector(2), [1, 2], np.array([3.0, 4.0])), [[1, 2], [3, 4]])


def test_a_number_beyond_float_is_no_number():
    with pytest.raises(ValueError, match="sample 1: expected 2 numbers"):
        feed(dense_vector(2), [1, 2], [1, 10**400])


def test_the_elements_of_an_array_are_the_fields_of_a_sample():
    """With one column a number, which fills the row: a program of 2017 forgot the tuple."""
    feeder = DataFeeder([("x", dense_vector(2)), ("y", dense_vector(1))])
    with pytest.warns(UserWarning, match="a sample is an array, whose elements are its fields"):
        found = feeder([np.array([1.0, 2.0]), (3.0, 4.0)])
    assert_slot(found["x"], [[1, 1], [3, 3]])
    assert_slot(found["y"], [[2], [4]])
    with pytest.raises(TypeError, match="sample 1 is of type float64"):
        feeder([np.array([1.0, 2.0]), np.float64(1.0)])


KINDS = {
    "arrays": (dense_vector(3), np.float32([[1, 2, 3], [4, 5, 6]])),
    "lists": (dense_vector(3), [[1.5, 2, 3], [0.1, 5, 6]]),
    "images": (dense_vector(6), np.arange(12.0).reshape(2, 2, 3)),
    "one number": (dense_vector(3), [7, 0.5]),
    "masked": (dense_vector(2), [np.ma.ones(2, np.float32), np.float32([3, 4])]),
    "ids": (integer_value(5), [4, 0]),
    "arrays of ids": (integer_value(5), np.array([4, 0], np.uint8)),
    "steps": (dense_vector_sequence(2), [[[1, 2]], [[3, 4], [5, 6]]]),
    "words": (integer_value_sequence(9), [[1, 2, 3], []]),
    "nested words": (integer_value_sub_sequence(9), [[[1], [2, 3]], [[8]]]),
    "columns": (sparse_binary_vector(9), [[0, 3], []]),
    "pairs": (sparse_float_vector_sequence(9), [[[(0, 1.5)], []], [[(8, 2.0)]]]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sample", [tuple, list, lambda fields: dict(enumerate(fields))])
def test_the_arrays_to_feed_are_those_of_the_slots(kind, sample):
    type_, values = KINDS[kind]
    feeder = DataFeeder([("x", type_), ("label", integer_value(2))])
    batch = [sample((value, k)) for k, value in enumerate(values)]
    for rows in (batch, tuple(batch), batch[:1]):
        slots, arrays = feeder(rows), feeder.arrays(rows)
        expected = [a for name in ("x", "label") for a in slots[name].arrays]
        assert [(a.dtype, a.shape, a.tobytes()) for a in arrays] == [
            (a.dtype, a.shape, a.tobytes()) for a in expected
        ]
        assert all(a.flags.writeable and a.flags.c_contiguous for a in arrays)


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (dense_vector(2), [np.ones(2, np.float32), np.ones(3, np.float32)]),
        (dense_vector(2), [np.ones(2, np.float32), np.ones((1, 3), np.float32)]),
        (dense_vector(2), [[1.0, 2.0], [1.0, "b"]]),
        (dense_vector(2), [np.ma.ones(2), np.ma.masked_equal([1.0, 2.0], 2.0)]),
        (integer_value(3), [1, 3]),
        (integer_value(3), [1, -1]),
        (integer_value(3), [1, 1.5]),
        (integer_value_sequence(3), [[1], [2, 3]]),
        (sparse_binary_vector(3), [[1], [3]]),
    ],
)
def test_the_arrays_to_feed_have_the_same_faults(type_, values):
    feeder, batch = DataFeeder([("x", type_)]), [(value,) for value in values]
    with pytest.raises(ValueError) as of_slots:
        feeder(batch)
    with pytest.raises(ValueError) as of_arrays:
        feeder.arrays(batch)
    assert str(of_arrays.value) == str(of_slots.value)
    assert "data layer 'x' (column 0), sample 1" in str(of_arrays.value)
