import functools
import random
import struct
import sys
import zlib

import numpy as np
import pytest

from pd_v2.dataset import common, mq2007
from pd_v2.dataset.mq2007 import Query, QueryList
from pd_v2.reader import creator, shuffle

from . import originals


def features(number):
    return [round(number + i / 100, 2) for i in range(46)]


# (relevance, query, features); query 11 has no relevant document, 10 comes back after it.
TRAIN = [
    (0, 10, features(0)),
    (2, 10, features(1)),
    (1, 10, features(2)),
    (2, 10, features(3)),
    (0, 11, features(4)),
    (0, 11, features(5)),
    (1, 10, features(6)),
]
PATH = "MQ2007/MQ2007/Fold1/train.txt"
TEST = [(1, 7, features(7)), (0, 7, features(8))]


@pytest.fixture
def folder(home):
    return originals.mq2007(home, TRAIN, TEST)


def numbers(documents):
    """Which documents they are: the integral part of the first feature."""
    return [int(document[0]) for document in documents]


def test_pairs_of_unequal_relevance(folder):
    samples = list(mq2007.train(shuffle=False)())
    assert [(label.tolist(), *numbers(pair)) for label, *pair in samples] == [
        ([1], 1, 2),
        ([1], 1, 0),
        ([1], 3, 2),
        ([1], 3, 0),
        ([1], 2, 0),
    ]
    assert {(x.shape, x.dtype) for _, *pair in samples for x in pair} == {((46,), np.dtype("f8"))}
    np.testing.assert_array_equal(samples[0][1], features(1))


def test_lists_of_queries(folder):
    (relevances, documents), (last, _) = mq2007.train(format="listwise", shuffle=False)
    np.testing.assert_array_equal(relevances, [[2], [2], [1], [0]])
    np.testing.assert_array_equal(documents, [features(i) for i in (1, 3, 2, 0)])
    np.testing.assert_array_equal(last, [[1]])


@pytest.mark.parametrize("format", ["pointwise", "plain_txt"])
def test_only_the_first_document_of_a_query(folder, format):
    samples = list(mq2007.train(format=format, shuffle=False))
    heads = {"pointwise": [(2,), (1,)], "plain_txt": [(10, 2), (10, 1)]}
    assert [sample[:-1] for sample in samples] == heads[format]
    assert numbers(sample[-1] for sample in samples) == [1, 6]


def test_functions_are_readers(folder):
    assert len(list(mq2007.test())) == len(list(mq2007.test()())) == 1
    assert len(list(shuffle(mq2007.train, 100)())) == 5
    assert len(list(functools.partial(mq2007.test, format="listwise")())) == 1


def test_queries_are_shuffled(folder):
    random.seed(3)
    orders = {str([q.query_id for q in mq2007.load_from_text(PATH)]) for _ in range(20)}
    assert orders == {"[10, 11, 10]", "[10, 10, 11]", "[11, 10, 10]"}


def test_lines_become_queries(folder):
    lists = mq2007.load_from_text(PATH, shuffle=False)
    assert [(queries.query_id, len(queries)) for queries in lists] == [(10, 4), (11, 2), (10, 1)]
    query = lists[0][1]
    assert (query.query_id, query.relevance_score) == (10, 2)
    assert query.feature_vector == features(1)
    assert query.description == "docid = GX01 inc = 1 prob = 0.5"
    assert str(query).startswith("2 qid:10 1:1.0 2:1.01 3:1.02 ")
    assert len(mq2007.query_filter(lists)) == 2


def test_missing_features(folder):
    line = "1 qid:5 " + " ".join(f"{i}:NULL" for i in range(1, 47))
    (folder / "train.txt").write_text(line + "\n")
    for value in (-1, 0.5):
        ((found,),) = mq2007.load_from_text(PATH, fill_missing=value)
        assert found.feature_vector == [value] * 46


def test_generators_take_plain_lists():
    documents = [Query(1, score, [float(score)]) for score in (0, 1, 2)]
    assert [score for score, _ in mq2007.gen_point(documents)] == [2, 1, 0]
    assert [head[:2] for head in mq2007.gen_plain_txt(QueryList(documents))] == [
        (1, 2),
        (1, 1),
        (1, 0),
    ]
    assert len(list(mq2007.gen_pair(documents))) == 3
    assert documents[0].relevance_score == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mq2007.train(format="pair"), "the format 'pair' is unknown, there are plain_txt"),
        (lambda: list(mq2007.gen_pair([], "half")), "partial_order must be 'full', got 'half'"),
        (lambda: QueryList([Query(1, 0), Query(2, 0)]), "a document of query 2 .* of query 1"),
    ],
)
def test_wrong_arguments(folder, call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_line_of_another_length_is_named(folder):
    (folder / "train.txt").write_text("\n".join([originals.mq2007_lines(TRAIN[:1]), "1 qid:2 1:1"]))
    with pytest.raises(ValueError, match=r"train.txt, line 2 has 1 fields, expected 48"):
        mq2007.load_from_text(PATH)


def rar_of(members):
    """An archive in RAR's format of 1.5 to 4, which stores files as they are."""

    def block(kind, flags, fields, extra=b""):
        size = 7 + len(fields)
        head = struct.pack("<BHH", kind, flags, size) + fields
        return struct.pack("<H", zlib.crc32(head) & 0xFFFF) + head + extra

    content = b"Rar!\x1a\x07\x00" + block(0x73, 0, bytes(6))
    for name, data in members.items():
        fields = struct.pack(
            "<IIBIIBBHI", len(data), len(data), 3, zlib.crc32(data), 0x4A000000, 20, 0x30,
            len(name), 0o100644,
        )  # fmt: skip
        content += block(0x74, 0x8000, fields + name.encode(), data)
    return content + block(0x7B, 0x4000, b"")


@pytest.fixture
def rar(home):
    def write(members):
        path = home / "MQ2007" / mq2007.URL.split("/")[-1]
        path.parent.mkdir(parents=True)
        path.write_bytes(rar_of(members))
        return path

    return write


@pytest.mark.parametrize("top", ["MQ2007", "MQ2007\\MQ2007"])
def test_the_archive_is_unpacked_once(home, rar, top):
    pytest.importorskip("rarfile")
    members = {
        f"{top}\\Fold1\\{name}.txt": originals.mq2007_lines(documents).encode()
        for name, documents in (("train", TRAIN), ("test", TEST))
    }
    path = rar(members)
    assert len(list(mq2007.train())) == 5
    path.unlink()
    assert len(list(mq2007.test())) == 1


@pytest.mark.parametrize("top", ["", "MQ2007"])
def test_files_in_one_folder_or_in_two_as_2017_looked_for_them(home, top):
    folder = home / "MQ2007" / top / "MQ2007" / "Fold1"
    folder.mkdir(parents=True)
    (folder / "test.txt").write_text(originals.mq2007_lines(TEST))
    assert len(list(mq2007.test())) == 1
    assert len(mq2007.load_from_text("MQ2007/MQ2007/Fold1/test.txt")) == 1


def test_a_file_that_is_missing_is_named(folder):
    with pytest.raises(FileNotFoundError, match=r"MQ2007/MQ2007/Fold1/none\.txt"):
        mq2007.load_from_text("MQ2007/MQ2007/Fold1/none.txt")


def test_a_damaged_archive(home, rar):
    pytest.importorskip("rarfile")
    path = rar({"MQ2007\\Fold1\\train.txt": b"some text"})
    path.write_bytes(b"text")
    with pytest.raises(ValueError, match=r"MQ2007.rar is damaged: "):
        mq2007.train()
    assert not (home / "MQ2007" / "MQ2007").exists()


def test_without_rarfile_the_error_says_where_to_unpack(home, rar, monkeypatch):
    path = rar({"MQ2007\\Fold1\\train.txt": b"some text"})
    monkeypatch.setitem(sys.modules, "rarfile", None)
    with pytest.raises(ImportError) as caught:
        mq2007.train()
    first, hint = str(caught.value).splitlines()
    assert first.startswith(f"dataset MQ2007: {path} cannot be unpacked: ")
    assert hint.endswith(f"or unpack it into {home / 'MQ2007'}")


def test_fetch_asks_for_the_original(home, asked, monkeypatch):
    monkeypatch.setitem(sys.modules, "rarfile", None)
    with pytest.raises(ImportError):
        mq2007.fetch()
    assert asked == [
        (
            "7b6dbbe2-842c-11e4-a536-bcaec51b9163_MQ2007.rar",
            "MQ2007",
            "7be1640ae95c6408dab0ae7207bdc706",
        )
    ]


def test_samples_survive_recordio(folder, tmp_path):
    common.convert(str(tmp_path), mq2007.train(format="listwise"), 10, "part")
    samples = list(creator.recordio(str(tmp_path / "part-*"))())
    assert sorted(len(relevances) for relevances, _ in samples) == [1, 4]
