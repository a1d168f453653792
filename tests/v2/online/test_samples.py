"""Samples that are refused, and those that are taken: any batch of them can be converted."""

import itertools
import json

import numpy as np
import pytest

from pd_v2 import data_type as T
from pd_v2.data_feeder import DataFeeder
from pd_v2.online.messages import MessageError, parse
from pd_v2.online.samples import SampleCheck

TYPES = {
    "dense": T.dense_vector(4),
    "one": T.dense_vector(1),
    "id": T.integer_value(10),
    "ids": T.integer_value_sequence(10),
    "nested": T.integer_value_sub_sequence(10),
    "steps": T.dense_vector_sequence(2),
    "binary": T.sparse_binary_vector(10),
    "sparse": T.sparse_float_vector(10),
    "sparse_steps": T.sparse_float_vector_sequence(10),
}


def checks(name):
    feeder = DataFeeder([(name, TYPES[name])])
    return feeder, SampleCheck(feeder)


ACCEPTED = [
    ("dense", [[1, 2.5, -3e9, 0]]),
    ("one", [7]),
    ("one", [[7]]),
    ("id", [9]),
    ("ids", [[]]),
    ("ids", [[0, 9, 3]]),
    ("nested", [[[0], [], [1, 2]]]),
    ("steps", [[[1, 2], [3, 4]]]),
    ("binary", [[]]),
    ("binary", [[9, 0]]),
    ("sparse", [[[3, 0.5], [4, -1]]]),
    ("sparse_steps", [[[[3, 0.5]], []]]),
]


@pytest.mark.parametrize(("name", "sample"), ACCEPTED)
def test_samples_that_fit(name, sample):
    checks(name)[1](sample)


REFUSED = [
    ("dense", [7], "data layer 'dense': expected 4 numbers, got 1"),
    ("dense", [[7]], "data layer 'dense': expected 4 numbers, got 1"),
    ("dense", [[]], "data layer 'dense'.*expected 4 numbers, got 0"),
    ("one", [[1, 2]], "data layer 'one'.*expected 1 numbers, got 2"),
    ("steps", [[1, 2, 3]], "data layer 'steps': expected 2 numbers, got 1"),
    ("steps", [[[1, 2], [3]]], "data layer 'steps'.*expected 2 numbers, got 1"),
    ("dense", [[1, 2, 3, False]], "data layer 'dense': true and false are no numbers"),
    ("one", [True], "data layer 'one': true and false are no numbers"),
    ("id", [True], "data layer 'id': true and false are no numbers"),
    ("ids", [[1, False]], "data layer 'ids': true and false are no numbers"),
    ("nested", [[[1], [True]]], "data layer 'nested': true and false are no numbers"),
    ("steps", [[[1, True]]], "data layer 'steps': true and false are no numbers"),
    ("binary", [[3, True]], "data layer 'binary': true and false are no numbers"),
    ("sparse", [[[3, True]]], "data layer 'sparse': true and false are no numbers"),
    ("sparse", [[[True, 1.0]]], "data layer 'sparse': true and false are no numbers"),
    ("sparse_steps", [[[[3, True]], []]], "data layer 'sparse_steps': true and false"),
    ("dense", {"dense": [1, 2, 3, 4]}, "a sample is a list of its fields, not a dict"),
    ("dense", "text", "a sample is a list of its fields, not a str"),
    ("dense", None, "a sample is a list of its fields, not a NoneType"),
    ("dense", [], "a sample has 1 fields, this one has 0"),
    ("dense", [[1, 2, 3, 4], 0], "a sample has 1 fields, this one has 2"),
    ("dense", [[1, 2, 3]], "data layer 'dense'.*expected 4 numbers, got 3"),
    ("dense", [["1", "2", "3", "4"]], "a layer is fed numbers, not the text '1'$"),
    ("dense", [[1, 2, 3, "4" * 10**6]], "a layer is fed numbers, not the text '4{20}'$"),
    ("dense", [None], "data layer 'dense'.*expected 4 numbers"),
    ("dense", [[1, 2, 3, [4]]], "data layer 'dense'.*expected 4 numbers"),
    ("dense", [[[1, 2], [3, 4]]], "data layer 'dense': a vector is a flat list"),
    ("dense", [[[1, 2, 3, 4]]], "data layer 'dense': a vector is a flat list"),
    ("dense", [[1, 2, 3, 1e999]], "data layer 'dense': a number is not finite in float32"),
    ("dense", [[1, 2, 3, 1e39]], "data layer 'dense': a number is not finite in float32"),
    ("id", [10], "data layer 'id'.*an integer from 0 to 9, got 10"),
    ("id", [-1], "data layer 'id'.*an integer from 0 to 9, got -1"),
    ("id", [1.0], "data layer 'id'.*an integer from 0 to 9, got 1.0"),
    ("id", ["3"], "a layer is fed numbers, not the text '3'"),
    ("ids", [3], "expected a sequence with a step per element, got 3"),
    ("ids", ["12"], "a layer is fed numbers, not the text '12'"),
    ("nested", [[[1], ["2"]]], "a layer is fed numbers, not the text '2'"),
    ("nested", [[1, 2]], "expected a sequence with a step per element, got 1"),
    ("steps", [[[1, 2], [3, 4, 5]]], "data layer 'steps'.*step 1: expected 2 numbers, got 3"),
    ("binary", [[10]], "entry 0: expected a column from 0 to 9, got 10"),
    ("binary", [[0.5]], "expected a column from 0 to 9, got 0.5"),
    ("sparse", [[3, 0.5]], "expected a pair"),
    ("sparse", [[[3, 1e300]]], "data layer 'sparse': a number is not finite in float32"),
    ("sparse", [[[1e300, 1]]], "expected a column from 0 to 9"),
]


@pytest.mark.parametrize(("name", "sample", "error"), REFUSED)
def test_samples_that_do_not_fit(name, sample, error):
    with pytest.raises(MessageError, match=error):
        checks(name)[1](sample)


def test_deep_nesting_is_refused(rng):
    for depth in (10, 70, 600):
        sample = json.loads("[" * depth + "]" * depth)
        for name in TYPES:
            feeder, check = checks(name)
            try:
                check(sample)
            except MessageError:
                continue
            feeder([sample] * 3)


FEEDINGS = [
    *((None, 2), (["x", "b", "a"], 3), ({"a": 3, "b": 0}, 4)),
    *(({"a": -3, "b": 0}, 3), ({"a": -1, "b": 1}, 2)),
]


def test_fields_are_those_of_feeding():
    types = [("a", TYPES["id"]), ("b", TYPES["id"])]
    for feeding, fields in FEEDINGS:
        check = SampleCheck(DataFeeder(types, feeding), feeding)
        check([1] * fields)
        for count in (fields - 1, fields + 1):
            error = f"a sample has {fields} fields, this one has {count}"
            with pytest.raises(MessageError, match=error):
                check([1] * count)


def test_a_check_of_the_user_comes_after():
    def check(sample):
        if sample[0] == 3:
            raise ValueError("no threes")
        return 1 / (sample[0] - 4)

    check = SampleCheck(DataFeeder([("id", TYPES["id"])]), None, check)
    check([5])
    with pytest.raises(MessageError, match="no threes"):
        check([3])
    with pytest.raises(MessageError, match="division"):
        check([4])
    with pytest.raises(MessageError, match="from 0 to 9"):
        check([10])


def anything(rng, depth=0):
    """Any JSON value."""
    kind = rng.integers(14 if depth < 4 else 9)
    if kind < 9:
        number = int(rng.integers(-2, 12)), int(rng.integers(12)), 2**63, 2**70, 10**39
        return [*number, float(rng.normal()), 1e39, "3", None][kind]
    if kind == 9:
        return {"a": anything(rng, depth + 1)}
    return [anything(rng, depth + 1) for _ in range(rng.integers(5))]


def like(rng, value):
    """A value with some of its parts replaced."""
    if rng.random() < 0.08:
        return anything(rng, 2)
    return [like(rng, v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", TYPES)
def test_batches_of_samples_that_fit_can_be_converted(name, rng):
    feeder, check = checks(name)
    seeds = [sample for n, sample in ACCEPTED if n == name]
    taken = []
    for _ in range(1500):
        line = json.dumps({"sample": like(rng, seeds[rng.integers(len(seeds))])})
        try:
            (sample,) = parse(line.encode()).value
            check(sample)
        except MessageError:
            continue
        taken.append(sample)
    assert 100 < len(taken) < 1500
    kinds = {json.dumps(s): s for s in taken}
    for a, b in itertools.islice(itertools.combinations(kinds.values(), 2), 20_000):
        feeder([a, b])
    for _ in range(50):
        order = rng.permutation(len(taken))[:60]
        slots = feeder([taken[k] for k in order])
        for slot in slots.values():
            assert slot.image_size is None
            for array in slot.arrays:
                assert np.isfinite(array).all()
