"""Readers made from readers, in the consumer's own thread."""

import math
import random

import numpy as np
import pytest

from pd_v2 import reader
from pd_v2.files import given
from pd_v2.python2.shims.files import File
from pd_v2.reader import creator


def counting(n):
    """A reader of 0 .. n-1."""
    return lambda: iter(range(n))


def test_map_readers_without_a_function_gives_rows():
    rows = reader.map_readers(None, counting(3), counting(2))
    assert list(rows()) == [(0, 0), (1, 1)]
    assert list(reader.map_readers(None, counting(2))()) == [(0,), (1,)]


def test_map_readers_stops_at_the_shortest():
    mapped = reader.map_readers(lambda a, b: a * 10 + b, counting(3), counting(5))
    assert list(mapped()) == [0, 11, 22]
    assert list(mapped()) == [0, 11, 22]


@pytest.mark.parametrize("buf_size", [0, 1])
def test_shuffle_without_a_window_keeps_the_order(buf_size):
    assert list(reader.shuffle(counting(10), buf_size)()) == list(range(10))


def test_shuffle_stays_within_its_window():
    random.seed(0)
    shuffled = list(reader.shuffle(counting(25), 10)())
    assert [sorted(shuffled[i : i + 10]) for i in (0, 10, 20)] == [
        list(range(10)),
        list(range(10, 20)),
        list(range(20, 25)),
    ]
    assert shuffled[:10] != list(range(10))
    assert shuffled[20:] != list(range(20, 25))


@pytest.mark.parametrize("size, window", [(3.0, 3), (2.5, 3), (0.5, 1), (1e9, 10), (math.inf, 10)])
def test_shuffle_takes_any_number_for_its_window(size, window):
    """A window is full as soon as it has no less samples."""
    shuffled = []
    for buf_size in (size, window):
        random.seed(7)
        shuffled.append(list(reader.shuffle(counting(10), buf_size)()))
    assert shuffled[0] == shuffled[1]


def test_shuffle_draws_from_the_random_module():
    """And a seed gives the order that Python 2.7 gave."""
    for _ in range(2):
        random.seed(7)
        assert list(reader.shuffle(counting(6), 100)()) == [3, 5, 4, 2, 0, 1]


def test_chain_calls_every_reader_before_the_first_sample():
    called = []

    def source(name):
        called.append(name)
        return [name] * 2

    chained = reader.chain(lambda: source("a"), lambda: source("b"))()
    assert called == []
    assert next(chained) == "a"
    assert called == ["a", "b"]
    assert list(chained) == ["a", "b", "b"]


def test_compose_splices_tuples():
    composed = reader.compose(counting(2), lambda: iter([(5, 6), (7, 8)]), counting(2))
    assert list(composed()) == [(0, 5, 6, 0), (1, 7, 8, 1)]


def test_compose_takes_none_and_arrays_for_samples():
    arrays = np.arange(4.0).reshape(2, 2)
    composed = list(reader.compose(lambda: [None, None], creator.np_array(arrays))())
    assert composed[1][0] is None
    np.testing.assert_array_equal(composed[1][1], [2.0, 3.0])


def test_compose_says_which_reader_ended():
    rows = reader.compose(counting(3), counting(2), counting(2))()
    assert [next(rows), next(rows)] == [(0, 0, 0), (1, 1, 1)]
    message = "not aligned: of 3 readers, number 1, 2 ended after 2 samples and another went on"
    with pytest.raises(reader.ComposeNotAligned, match=message):
        next(rows)
    assert issubclass(reader.ComposeNotAligned, ValueError)


def test_compose_without_a_check_drops_the_surplus():
    composed = reader.compose(counting(3), counting(2), check_alignment=False)
    assert list(composed()) == [(0, 0), (1, 1)]


def test_firstn_takes_no_more_than_it_gives():
    source = iter(range(10))
    assert list(reader.firstn(lambda: source, 3)()) == [0, 1, 2]
    assert next(source) == 3
    assert list(reader.firstn(counting(2), 5)()) == [0, 1]
    assert list(reader.firstn(counting(5), 2.0)()) == [0, 1]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: reader.shuffle([1, 2], 4), TypeError, "shuffle: a reader is a .* got list$"),
        (lambda: reader.chain(), TypeError, "chain: at least one reader is needed"),
        (lambda: reader.compose(counting(1), 3), TypeError, "compose: a reader .* got int$"),
        (lambda: reader.map_readers(3, counting(1)), TypeError, "map_readers: func .* got int"),
        (lambda: reader.firstn(counting(1), -1), ValueError, "firstn: n must not .* got -1"),
        (lambda: reader.firstn(counting(1), None), TypeError, "firstn: n must .* got None"),
        (lambda: reader.shuffle(counting(1), "4"), TypeError, "shuffle: buf_size must .* got '4'"),
        (lambda: reader.buffered(None, 1), TypeError, "buffered: a reader is .* got NoneType"),
    ],
)
def test_wrong_arguments_are_refused_at_once(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_samples_in_place_of_a_reader_get_a_hint():
    with pytest.raises(TypeError, match=r"list_iterator\n  hint: pass the reader itself"):
        reader.firstn(iter([1, 2]), 1)


def test_np_array_gives_slices_along_axis_0():
    matrix = np.arange(6).reshape(3, 2)
    rows = list(creator.np_array(matrix)())
    np.testing.assert_array_equal(rows, matrix)
    assert list(creator.np_array([4, 5])()) == [4, 5]
    assert list(creator.np_array(np.float32(7))()) == [7]


def test_text_file_strips_only_line_ends(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("0 1 \n\n4 é", encoding="utf-8")
    lines = creator.text_file(str(path))
    assert list(lines()) == ["0 1 ", "", "4 é"]
    assert list(lines()) == ["0 1 ", "", "4 é"]


def test_lines_of_a_python_2_program_are_undecoded(tmp_path, monkeypatch):
    monkeypatch.setattr(given._state, "wrap", File.wrap)
    (tmp_path / "data.txt").write_bytes("a\u00a0b c\n".encode())
    (line,) = creator.text_file(str(tmp_path / "data.txt"))()
    assert line == "a\u00a0b c" and line.split() == ["a\u00a0b", "c"]


def test_text_file_has_the_lines_that_the_bytes_have(tmp_path):
    """Only a newline ends one, and what is no UTF-8 comes back as it was."""
    content = b"a\r\nb\rc\x0bd\xc2\x85\n\xd6\xd0\xff\n"
    (tmp_path / "data.txt").write_bytes(content)
    lines = list(creator.text_file(str(tmp_path / "data.txt"))())
    assert lines == ["a\r", "b\rc\x0bd\x85", "\udcd6\udcd0\udcff"]
    assert "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape") == content
