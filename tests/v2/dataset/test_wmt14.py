import gzip
import io

import numpy as np
import pytest

import pd_v2 as paddle
from pd_v2.dataset import wmt14
from pd_v2.reader import creator

from . import originals

SOURCE = [b"le", b"chat", b"caf\xc3\xa9"]
TARGET = [b"the", b"cat", b"coffee"]
LONG = b" ".join([b"le"] * 78)
PAIRS = {
    "train": [
        b"le chat\tthe cat ",
        b"no tab",
        b"a\tb\tc",
        b"le \t ",
        b"caf\xc3\xa9 noir\tblack coffee",
        LONG + b"\tthe",
        LONG + b" le\tthe",
        b"le\t" + b" ".join([b"the"] * 80),
        b"le\t" + b" ".join([b"the"] * 81),
    ],
    "test": [b"chat\tcat"],
    "gen": [b"le\tthe", b"chat\tcat"],
}


@pytest.fixture
def archive(home):
    return originals.wmt14(home, PAIRS, SOURCE, TARGET)


def test_samples_are_source_target_and_next_target(archive):
    reader = wmt14.train(6)
    samples = list(reader())
    assert samples[:2] == [
        ([0, 3, 4, 1], [0, 3, 4], [3, 4, 1]),
        ([0, 5, 2, 1], [0, 2, 5], [2, 5, 1]),
    ]
    assert [(len(source), len(target)) for source, target, _ in samples[2:]] == [(80, 2), (3, 81)]
    assert list(reader) == samples


def test_words_beyond_the_size_of_the_dictionary_are_unknown(archive):
    assert list(wmt14.test(4)) == [([0, 2, 1], [0, 2], [2, 1])]
    assert list(wmt14.gen(4)) == [([0, 3, 1], [0, 3], [3, 1]), ([0, 2, 1], [0, 2], [2, 1])]


def test_dictionaries_give_words_unless_asked_for_ids(archive):
    source, target = wmt14.get_dict(100)
    assert source == dict(enumerate(["<s>", "<e>", "<unk>", "le", "chat", "café"]))
    assert target[5] == "coffee"
    source, target = wmt14.get_dict(4, reverse=False)
    assert source == {"<s>": 0, "<e>": 1, "<unk>": 2, "le": 3}
    assert target == {"<s>": 0, "<e>": 1, "<unk>": 2, "the": 3}


def test_a_dictionary_without_marks(archive):
    with pytest.raises(ValueError, match=r"the first 1 words of src.dict have no <s> or no <e>"):
        list(wmt14.train(1))


@pytest.mark.parametrize(("names", "count"), [([], 0), (["a/src.dict", "b/src.dict"], 2)])
def test_an_archive_needs_one_dictionary_of_a_side(home, names, count):
    path = originals.tar(home / "wmt14" / "wmt14.tgz", dict.fromkeys(names, b"<s>\n<e>\n"))
    with pytest.raises(ValueError, match=f"{path} is damaged: {count} files end in 'src.dict'"):
        wmt14.get_dict(3)


def test_an_archive_without_sentences(home):
    originals.wmt14(home, {"train": []}, SOURCE, TARGET)
    assert list(wmt14.train(6)) == []
    with pytest.raises(ValueError, match=r"wmt14.tgz is damaged: no file in it ends in 'gen/gen'"):
        list(wmt14.gen(6))


def test_model_is_a_pool_of_parameters(home):
    pool = paddle.parameters.create(
        paddle.layer.fc(paddle.layer.data("x", paddle.data_type.dense_vector(2)), 3)
    )
    values = {name: np.full(pool.get_shape(name), 1.5, np.float32) for name in pool.names()}
    for name, value in values.items():
        pool.set(name, value)
    content = io.BytesIO()
    pool.to_tar(content)
    folder = home / "wmt14"
    folder.mkdir(parents=True)
    (folder / "wmt14_model.tar.gz").write_bytes(gzip.compress(content.getvalue()))
    loaded = wmt14.model()
    assert loaded.names() == pool.names()
    for name, value in values.items():
        np.testing.assert_array_equal(loaded.get(name), value)


def test_convert_writes_both_sets(archive, tmp_path):
    wmt14.convert(str(tmp_path))
    sizes = {"wmt14_train": 4, "wmt14_test": 1}
    for name, size in sizes.items():
        assert len(list(creator.recordio(str(tmp_path / f"{name}-00000"))())) == size


def test_fetch_asks_for_the_originals(asked):
    wmt14.fetch()
    assert asked == [
        ("wmt14.tgz", "wmt14", "0791583d57d5beb693b9414c5b36798c"),
        ("wmt14_model.tar.gz", "wmt14", "0cb4a5366189b6acba876491c8724fa3"),
    ]
