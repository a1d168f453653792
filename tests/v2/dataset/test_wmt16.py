import pytest

from pd_v2.dataset import wmt16
from pd_v2.reader import creator

from . import originals

PAIRS = {
    "train": [b"a dog\tein Hund", b"a a cat\teine Katze", b"no tab", b"dog\tHund caf\xc3\xa9"],
    "test": [b"a bird\tein Vogel"],
    "val": [b"dog\tHund", b"cat\tKatze"],
}


@pytest.fixture
def archive(home):
    return originals.wmt16(home, PAIRS)


ENGLISH = ["<s>", "<e>", "<unk>", "a", "dog", "cat"]
GERMAN = ["<s>", "<e>", "<unk>", "Hund", "Katze", "café", "ein", "eine"]


def test_dictionaries_are_built_from_training_data_and_kept(archive, home):
    assert wmt16.get_dict("en", 100) == {word: i for i, word in enumerate(ENGLISH)}
    assert wmt16.get_dict("de", 5, reverse=True) == dict(enumerate(GERMAN[:5]))
    archive.unlink()
    assert len(wmt16.get_dict("en", 100)) == 6
    assert sorted(p.name for p in (home / "wmt16").iterdir()) == ["de_5.dict", "en_100.dict"]
    assert (home / "wmt16" / "de_5.dict").read_bytes() == b"<s>\n<e>\n<unk>\nHund\nKatze\n"


def test_a_dictionary_that_cannot_be_written_leaves_nothing(archive, home, monkeypatch):
    def full(word):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(wmt16.words, "to_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        wmt16.get_dict("en", 100)
    assert [p.name for p in (home / "wmt16").iterdir()] == ["wmt16.tar.gz"]


@pytest.mark.parametrize(("lang", "largest"), [("en", 11250), ("de", 19220)])
def test_sizes_end_at_the_number_of_words(archive, home, lang, largest):
    wmt16.get_dict(lang, 10**6)
    assert (home / "wmt16" / f"{lang}_{largest}.dict").exists()


def test_samples_from_english(archive):
    reader = wmt16.train(100, 5)
    assert list(reader()) == [
        ([0, 3, 4, 1], [0, 2, 3], [2, 3, 1]),
        ([0, 3, 3, 5, 1], [0, 2, 4], [2, 4, 1]),
        ([0, 4, 1], [0, 3, 2], [3, 2, 1]),
    ]
    assert list(reader) == list(reader())


def test_samples_from_german(archive):
    assert list(wmt16.test(100, 100, "de")) == [([0, 6, 2, 1], [0, 3, 2], [3, 2, 1])]
    assert list(wmt16.validation(100, 5, src_lang="de")) == [
        ([0, 3, 1], [0, 4], [4, 1]),
        ([0, 4, 1], [0, 2], [2, 1]),
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wmt16.train(9, 9, "fr"), "the languages are 'en' and 'de', got 'fr'"),
        (lambda: wmt16.get_dict("fr", 9), "the languages are 'en' and 'de', got 'fr'"),
        (lambda: wmt16.test(9, 3), "a dictionary needs more than 3 words, got 3"),
    ],
)
def test_wrong_arguments(archive, call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_convert_writes_all_sets(archive, tmp_path):
    wmt16.convert(str(tmp_path))
    sizes = {"train": 3, "test": 1, "validation": 2}
    for name, size in sizes.items():
        assert len(list(creator.recordio(str(tmp_path / f"wmt16_{name}-00000"))())) == size


def test_fetch_asks_for_the_original(asked):
    wmt16.fetch()
    assert asked == [("wmt16.tar.gz", "wmt16", "0c38be43600334966403524a40dcd81e")]
