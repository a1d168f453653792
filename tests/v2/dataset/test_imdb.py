import re

import pytest

from pd_v2.dataset import imdb
from pd_v2.reader import creator

from . import originals

# In the archive all negative reviews of a part come before the positive ones, as in the original.
REVIEWS = [
    ("test", "neg", b"Bad!\n"),
    ("test", "pos", b"good good"),
    ("test", "pos", b"fine\xc2\xa0film, good"),
    ("train", "neg", b"It's a BAD, bad film.\r\n"),
    ("train", "pos", b"a \xc3\x89t\xc3\xa9 film"),
    ("train", "pos", b"good"),
    ("train", "pos", b"<br />good; good\xff\n\n"),
    ("train", "unsup", b"film film film film film"),
]
WORDS = ["good", "bad", "a", "film", "br", "fine\u00a0film", "good\udcff", "its", "\u00c9t\u00e9"]


@pytest.fixture
def archive(home):
    return originals.imdb(home, REVIEWS)


EVERYTHING = re.compile(r"aclImdb/.*/(pos|neg)/.*\.txt$")


@pytest.mark.parametrize(
    ("pattern", "cutoff", "expected"),
    [
        (EVERYTHING, 0, WORDS),
        (EVERYTHING, 1, WORDS[:4]),
        (EVERYTHING, 2, WORDS[:2]),
        (re.compile("aclImdb/test"), 0, ["good", "bad", "fine\u00a0film"]),
    ],
)
def test_dictionary_has_the_most_frequent_first_and_unk_last(archive, pattern, cutoff, expected):
    word_idx = imdb.build_dict(pattern, cutoff)
    assert list(word_idx.items()) == [(w, i) for i, w in enumerate([*expected, "<unk>"])]


def test_the_dictionary_has_words_of_over_150_occurrences(home):
    often = [("train", "pos", b"a b"), ("test", "neg", b"a")] * 75
    originals.imdb(home, [*often, ("train", "neg", b"c a"), ("train", "unsup", b"b " * 200)])
    assert imdb.word_dict() == {"a": 0, "<unk>": 1}


def test_reviews_are_split_into_small_words_without_punctuation(archive):
    reviews = list(imdb.tokenize(re.compile("aclImdb/train/(pos|neg)")))
    assert reviews == [
        ["its", "a", "bad", "bad", "film"],
        ["a", "\u00c9t\u00e9", "film"],
        ["good"],
        ["br", "good", "good\udcff"],
    ]


def test_positive_and_negative_take_turns_while_both_last(archive):
    word_idx = {"good": 5, "film": 7, "<unk>": 9}
    assert list(imdb.train(word_idx)()) == [
        ([9, 9, 7], 0),
        ([9, 9, 9, 9, 7], 1),
        ([5], 0),
        ([9, 5, 9], 0),
    ]
    assert list(imdb.test(word_idx)()) == [([5, 5], 0), ([9], 1), ([9, 5], 0)]


def test_negative_reviews_may_be_more(home):
    originals.imdb(home, [("test", "pos", b"a"), *[("test", "neg", b"b")] * 3])
    assert list(imdb.test({"a": 0, "<unk>": 1})) == [([0], 0), ([1], 1), ([1], 1), ([1], 1)]


def test_the_reader_can_be_called_or_iterated(archive):
    reader = imdb.test({"good": 5, "<unk>": 9})
    first = list(reader())
    first[0][0].append("changed")
    assert list(reader) == list(reader()) != first


def test_a_dictionary_without_unk(archive):
    with pytest.raises(ValueError, match="imdb: the dictionary has no <unk> among 1 words"):
        list(imdb.train({"a": 0}))


def test_an_archive_without_reviews(home):
    originals.imdb(home, [("train", "pos", b"a")])
    with pytest.raises(ValueError, match=r"v1.tar.gz is damaged: no file .* aclImdb/test/pos/"):
        list(imdb.test({"<unk>": 0}))


def test_convert_writes_both_sets(home, tmp_path):
    originals.imdb(home, [("train", "pos", b"a " * 160), ("test", "neg", b"b a")])
    imdb.convert(str(tmp_path))
    assert list(creator.recordio(str(tmp_path / "imdb_train-00000"))()) == [([0] * 160, 0)]
    assert list(creator.recordio(str(tmp_path / "imdb_test-00000"))()) == [([1, 0], 1)]


def test_fetch_asks_for_the_original(asked):
    imdb.fetch()
    assert asked == [("aclImdb_v1.tar.gz", "imdb", "7c2ac02c03563afcf9b574c7e56c153a")]
