import zipfile

import pytest

from pd_v2.dataset import sentiment
from pd_v2.reader import creator

from . import originals

NEG = [b"it's bad , bad .\n", b"bad !?\n", b"caf\xe9\n"]
POS = [b"good_film\ngood .\n", b"good\n"]


@pytest.fixture
def archive(home, monkeypatch):
    monkeypatch.setattr(sentiment, "NUM_TRAINING_INSTANCES", 3)
    return originals.sentiment(home, NEG, POS)


def test_words_are_ranked_by_how_often_they_occur(archive):
    ranked = ["bad", ".", "good", "!?", "'", ",", "caf", "good_film", "it", "s", "\udce9"]
    assert sentiment.get_word_dict() == [(word, i) for i, word in enumerate(ranked)]


def test_files_take_turns(archive):
    names = [f"{side}/cv00{i}_{i * 7}.txt" for i in range(2) for side in ("neg", "pos")]
    assert sentiment.sort_files() == names


def test_samples(archive):
    ids = dict(sentiment.get_word_dict())
    texts = [["it", "'", "s", "bad", ",", "bad", "."], ["good_film", "good", "."], ["bad", "!?"]]
    expected = [
        ([ids[w] for w in text], label) for text, label in zip(texts, [0, 1, 0], strict=True)
    ]
    assert list(sentiment.train()) == list(sentiment.train()()) == expected
    assert list(sentiment.test()) == [([ids["good"]], 1)]
    assert sentiment.load_sentiment_data() == [*expected, ([ids["good"]], 1)]


def test_a_word_with_capitals_is_the_one_without(home):
    originals.sentiment(home, [b"Bad bad Tale"], [b"BAD bad"])
    assert [word for word, _ in sentiment.get_word_dict()] == ["bad", "BAD", "Bad", "Tale"]
    assert list(sentiment.train()) == [([0, 0, 3], 0), ([0, 0], 1)]


def test_the_function_itself_is_a_reader(archive):
    assert [label for _, label in sentiment.train()] == [0, 1, 0]
    assert sentiment.NUM_TOTAL_INSTANCES == 2000


def test_reviews_that_are_unpacked_need_no_archive(archive):
    sentiment.fetch()
    archive.unlink()
    assert len(list(sentiment.train())) == 3


def test_an_archive_that_leaves_the_cache(home):
    originals.zipped(home / "corpora" / "movie_reviews.zip", {"../../neg/x.txt": b"bad"})
    with pytest.raises(ValueError, match=r"its member '../../neg/x.txt' would be written outside"):
        sentiment.get_word_dict()
    assert sorted(p.name for p in home.rglob("*")) == ["corpora", "movie_reviews.zip"]


def test_a_damaged_archive(archive, home):
    archive.write_bytes(archive.read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"movie_reviews.zip is damaged: "):
        sentiment.fetch()
    assert not (home / "corpora" / "movie_reviews").exists()


def test_convert_writes_both_sets(archive, tmp_path):
    sentiment.convert(str(tmp_path))
    sizes = {"sentiment_train": 3, "sentiment_test": 1}
    for name, size in sizes.items():
        assert len(list(creator.recordio(str(tmp_path / f"{name}-00000"))())) == size


def test_fetch_asks_for_the_corpus(home, asked):
    with pytest.raises(FileNotFoundError):
        sentiment.fetch()
    assert asked == [("movie_reviews.zip", "corpora", "155de2b77c6834dd8eea7cbe88e93acb")]


def test_the_built_archive_is_in_no_order(archive):
    names = zipfile.ZipFile(archive).namelist()
    assert names != sorted(names)
