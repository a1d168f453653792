import io

import pytest

from pd_v2.dataset import imikolov
from pd_v2.dataset.imikolov import DataType
from pd_v2.reader import creator

from . import originals

TRAIN = [b"the cat sat", b"a <unk> sat", b"caf\xc3\xa9 the", b""]
VALID = [b"the cat ran", b"\xff sat"]
# Of the six lines' words sat and the occur three times, cat twice, the rest once.
ALL = ["<e>", "<s>", "sat", "the", "cat", "a", "café", "ran", "\udcff", "<unk>"]


@pytest.fixture(autouse=True)
def archive(home):
    return originals.imikolov(home, TRAIN, VALID)


@pytest.mark.parametrize(
    ("least", "expected"),
    [(0, ALL), (1, [*ALL[:5], "<unk>"]), (2, [*ALL[:4], "<unk>"]), (50, ["<unk>"])],
)
def test_dictionary_has_the_most_frequent_first_and_unk_last(least, expected):
    word_idx = imikolov.build_dict(least)
    assert list(word_idx.items()) == [(word, i) for i, word in enumerate(expected)]


@pytest.mark.parametrize("kind", [io.StringIO, lambda text: io.BytesIO(text.encode())])
def test_words_of_a_file_are_counted(kind):
    counts = imikolov.word_count(kind("a b a\n\n"), {"b": 5})
    assert counts == {"a": 2, "b": 6, "<s>": 2, "<e>": 2}


def words_of(samples, word_idx):
    names = {number: word for word, number in word_idx.items()}
    return [" ".join(names[i] for i in sample) for sample in samples]


def test_ngrams():
    word_idx = imikolov.build_dict(1)
    samples = list(imikolov.train(word_idx, 4)())
    assert words_of(samples, word_idx) == [
        "<s> the cat sat",
        "the cat sat <e>",
        "<s> <unk> <unk> sat",
        "<unk> <unk> sat <e>",
        "<s> <unk> the <e>",
    ]
    assert {type(sample) for sample in samples} == {tuple}
    assert {type(i) for sample in samples for i in sample} == {int}
    assert words_of(imikolov.test(word_idx, 5)(), word_idx) == ["<s> the cat <unk> <e>"]
    assert len(list(imikolov.train(word_idx, 1))) == 3 * 4 + 4


@pytest.mark.parametrize(("n", "rows"), [(-1, [0, 1, 2, 3]), (0, [0, 1, 2, 3]), (3, [2, 3])])
def test_sentences(n, rows):
    word_idx = imikolov.build_dict(0)
    start, end, unknown = (word_idx[mark] for mark in ("<s>", "<e>", "<unk>"))
    every = [[word_idx[w.decode()] for w in line.split()] for line in TRAIN]
    assert every[1][1] == unknown
    expected = [([start, *every[row]], [*every[row], end]) for row in rows]
    assert list(imikolov.train(word_idx, n, DataType.SEQ)()) == expected


def test_the_reader_may_be_called_or_iterated():
    reader = imikolov.train(imikolov.build_dict(0), 2)
    assert list(reader()) == list(reader) == list(reader())


def test_ngrams_need_no_sentence_marks_in_the_dictionary():
    assert next(iter(imikolov.test({"cat": 0, "<unk>": 1}, 3))) == (1, 1, 0)
    with pytest.raises(ValueError, match="the dictionary has no <s> among 2 words"):
        imikolov.test({"cat": 0, "<unk>": 1}, 3, DataType.SEQ)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({"<unk>": 0}, 0), "n-grams need n of at least 1, got 0"),
        (({"<unk>": 0}, 3, 7), r"data_type must be DataType.NGRAM .* got 7"),
        (({"a": 0}, 3), "the dictionary has no <unk> among 1 words"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        imikolov.train(*arguments)


def test_convert_writes_5grams_of_both_sets(home, tmp_path):
    line = b"one two three four"
    originals.imikolov(home, [line] * 60, [line] * 2)
    imikolov.convert(str(tmp_path))
    sizes = {"imikolov_train": 120, "imikolov_test": 4}
    for name, size in sizes.items():
        samples = list(creator.recordio(str(tmp_path / f"{name}-00000"))())
        assert [len(sample) for sample in samples] == [5] * size


def test_fetch_asks_for_the_original(asked):
    imikolov.fetch()
    assert asked == [("simple-examples.tgz", "imikolov", "30177ea32e27c525793142b6bf2c8e2d")]
