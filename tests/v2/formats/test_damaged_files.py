"""Files of every format with bytes changed, lost and added: read, or DamagedFile with the path."""

import gzip
import io
import pickle
import random
import re
import shutil
import struct
import zlib

import numpy as np
import pytest

import pd_core as pd
from pd_v2 import build, export
from pd_v2.dataset import (
    cifar,
    common,
    conll05,
    flowers,
    imdb,
    imikolov,
    mnist,
    movielens,
    mq2007,
    sentiment,
    uci_housing,
    voc2012,
    wmt14,
    wmt16,
)
from pd_v2.formats.proto import ModelConfig
from pd_v2.parameters import Parameters
from pd_v2.reader import creator
from pd_v2.recordio.chunks import write_records

from ..dataset import miniatures, originals
from ..recordio.test_recordio import FILE_OF_2017, STREAM, chunk
from .test_topology_file import digits, old_pickle, saved

MUTANTS = 60


def mutant(rng, data):
    """The same bytes but for one place."""
    at = rng.randrange(len(data))
    some = data[at : at + rng.randrange(1, 40)]
    return rng.choice(
        [
            lambda: data[:at],
            lambda: data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :],
            lambda: data[:at] + bytes([rng.choice((0, 127, 255))]) + data[at + 1 :],
            lambda: data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at:],
            lambda: data[:at] + some * rng.choice((1, 100)) + data[at:],
            lambda: data[:at] + data[at + len(some) :],
        ]
    )()


def damage(rng, data):
    """A mutant of a file, or of what is compressed in it, under a checksum that is right."""
    if data[:2] == b"\x1f\x8b" and rng.random() < 0.8:
        return gzip.compress(mutant(rng, gzip.decompress(data)), 1)
    if data[:4] == b"\4\3\2\1" and rng.random() < 0.8:
        _, _, compressor, _, count = struct.unpack("<5I", data[:20])
        payload = damage(rng, data[20:])
        crc = zlib.crc32(payload)
        return struct.pack("<5I", 0x01020304, crc, compressor, len(payload), count) + payload
    return mutant(rng, data)


SENTENCE = [(b"The", b"-", b"(A0*"), (b"n", b"-", b"*)"), (b"v", b"v", b"(V*)")]
LABELS = [b"B-V", b"O", b"B-A0", b"I-A0"]
FILMS = [(1, "A (1990)", ["X"]), (2, "B c (1991)", ["X", "Y"])]
REVIEWS = [("train", "pos", b"good ."), ("train", "neg", b"bad bad")]
SAMPLES = [([1, 2, 3], np.arange(4.0), "abc", {"k": (1, 2.5)}), (np.float32(3), b"xyz", None)]


def written(name, content):
    def write(home):
        home.mkdir(parents=True, exist_ok=True)
        path = home / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content() if callable(content) else content)

    return write


def idx(path, magic, count, item):
    path.parent.mkdir(parents=True, exist_ok=True)
    axes = (28, 28) if item > 1 else ()
    head = struct.pack(f">{2 + len(axes)}I", magic, count, *axes)
    path.write_bytes(gzip.compress(head + bytes(count * item)))


def write_mnist(home):
    idx(home / "mnist" / "train-images-idx3-ubyte.gz", 0x803, 100, 784)
    idx(home / "mnist" / "train-labels-idx1-ubyte.gz", 0x801, 100, 1)


def write_flowers(home):
    sets = {"trnid": [1], "valid": [2], "tstid": [3]}
    originals.flowers(home, [b"one", b"two", b"three"], [1, 2, 3], sets)


def write_records_file(home):
    home.mkdir()
    write_records(str(home / "r"), [pickle.dumps(sample, 2) for sample in SAMPLES])


def read_movielens(home):
    movielens.MOVIE_INFO = None
    return movielens.train()


def read_sentiment(home):
    shutil.rmtree(home / "corpora" / "movie_reviews", ignore_errors=True)
    return sentiment.load_sentiment_data()


def housing():
    rows = np.random.default_rng(0).random((20, 14))
    return "\n".join(" ".join(f"{x:.3f}" for x in row) for row in rows).encode()


REVIEW = re.compile("aclImdb/train/(pos|neg)/")
VOC = {"train": ["a"], "val": ["a"], "trainval": ["a"]}
READERS = {
    "cifar": (miniatures.cifar, "cifar/*.gz", lambda home: cifar.test10()),
    "conll05": (
        lambda home: originals.conll05(
            home, [SENTENCE] * 3, [b"<unk>", b"The"], [b"v"], LABELS, np.ones((2, 32))
        ),
        "conll05st/*.gz",
        lambda home: conll05.test(),
    ),
    "flowers": (
        write_flowers,
        "flowers/*.*",
        lambda home: flowers.train(mapper=lambda sample: sample, use_xmap=False),
    ),
    "imdb": (
        lambda home: originals.imdb(home, REVIEWS),
        "imdb/*",
        lambda home: imdb.train(imdb.build_dict(REVIEW, 0)),
    ),
    "imikolov": (
        lambda home: originals.imikolov(home, [b"a b", b"b"], [b"a"]),
        "imikolov/*",
        lambda home: imikolov.train(imikolov.build_dict(0), 3),
    ),
    "mnist": (write_mnist, "mnist/*", lambda home: mnist.train()),
    "movielens": (
        lambda home: originals.movielens(
            home, FILMS, [(1, "M", 18, 3), (2, "F", 25, 4)], [(1, 1, 5), (2, 2, 3)]
        ),
        "movielens/*",
        read_movielens,
    ),
    "mq2007": (
        lambda home: originals.mq2007(home, [(2, 10, [0.5] * 46), (0, 10, [0.25] * 46)], []),
        "MQ2007/MQ2007/Fold1/train.txt",
        lambda home: mq2007.train(format="listwise"),
    ),
    "sentiment": (
        lambda home: originals.sentiment(home, [b"bad .\n", b"bad"], [b"good\n", b"good !"]),
        "corpora/*.zip",
        read_sentiment,
    ),
    "uci_housing": (
        written("uci_housing/housing.data", housing),
        "uci_housing/*",
        lambda home: uci_housing.train(),
    ),
    "voc2012": (
        lambda home: originals.voc2012(home, {"a": (b"no image", b"no image")}, VOC),
        "voc2012/*",
        lambda home: voc2012.train(),
    ),
    "wmt14": (miniatures.wmt14, "wmt14/*", lambda home: wmt14.train(6)),
    "wmt16": (
        lambda home: originals.wmt16(home, {"train": [b"a dog\tein Hund"], "val": [b"c\td"]}),
        "wmt16/*.gz",
        lambda home: wmt16.train(10, 10),
    ),
    "wmt16's dictionaries": (
        lambda home: (
            originals.wmt16(home, {"train": [b"a dog\tein Hund"]}),
            wmt16.get_dict("en", 5),
        ),
        "wmt16/*.dict",
        lambda home: wmt16.train(5, 10),
    ),
    "recordio": (write_records_file, "r", lambda home: creator.recordio(str(home / "r"))()),
    "recordio of 2017": (
        written("r", FILE_OF_2017),
        "r",
        lambda home: creator.recordio(str(home / "r"))(),
    ),
    "snappy": (
        written("r", chunk(STREAM, 1, 3)),
        "r",
        lambda home: creator.recordio(str(home / "r"))(),
    ),
    "split files": (
        written("r", lambda: pickle.dumps(SAMPLES, 2)),
        "r",
        lambda home: common.cluster_files_reader(str(home / "r"), 1, 0)(),
    ),
    "split files in protocol 0": (
        written("r", lambda: pickle.dumps(SAMPLES, 0)),
        "r",
        lambda home: common.cluster_files_reader(str(home / "r"), 1, 0)(),
    ),
    "parameters": (
        written("p.tar", lambda: saved_once()[1]),
        "p.tar",
        lambda home: Parameters.from_tar(home / "p.tar").names(),
    ),
    "compressed parameters": (
        written("p.tar.gz", lambda: gzip.compress(saved_once()[1])),
        "p.tar.gz",
        lambda home: Parameters.from_tar(home / "p.tar.gz").names(),
    ),
}


def saved_once():
    with build.fresh():
        return saved(digits()[0])


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache whose files are taken as they are."""
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PD_DATASET_CHECK", "0")
    return tmp_path / "cache"


@pytest.mark.parametrize("name", READERS)
def test_mutants(name, cache):
    write, pattern, read = READERS[name]
    write(cache)
    files = sorted(path for path in cache.glob(pattern) if path.is_file())
    there = {path for path in cache.rglob("*") if path.is_file()}
    rng, refused = random.Random(name), 0
    for _ in range(MUTANTS):
        path = rng.choice(files)
        content = path.read_bytes()
        path.write_bytes(damage(rng, content))
        try:
            list(read(cache))
        except pd.DamagedFile as error:
            refused += 1
            assert str(cache) in str(error)
        path.write_bytes(content)
        for made in {path for path in cache.rglob("*") if path.is_file()} - there:
            made.unlink()
    assert refused > 3


# ---- topologies


def exported(tmp_path, capsys):
    """What `pd-v2 export` says of the files t and p.tar; "" where it succeeds."""
    files = ["--topology", tmp_path / "t", "--parameters", tmp_path / "p.tar", tmp_path / "o.onnx"]
    code = export.main([str(argument) for argument in files])
    out, err = capsys.readouterr()
    assert (code, bool(out), bool(err)) in ((0, True, False), (1, False, True))
    return err


def old_topology(config):
    """A file of 2017 with another configuration."""
    before = config_of(old_pickle()).SerializeToString()
    after = config.SerializePartialToString()
    head, tail = old_pickle().split(struct.pack("<I", len(before)) + before)
    return head + struct.pack("<I", len(after)) + after + tail


def parts(message):
    """A message and all in it, with the fields that are set."""
    for field, value in message.ListFields():
        yield message, field
        if field.message_type is not None:
            for part in value if hasattr(value, "add") else [value]:
                yield from parts(part)


def test_a_description_without_one_of_its_fields(tmp_path, capsys):
    """Each in its turn: the network is another one then, or none."""
    (tmp_path / "p.tar").write_bytes(saved_once()[1])
    config = config_of(old_pickle())
    (tmp_path / "t").write_bytes(old_topology(config))
    assert exported(tmp_path, capsys) == ""
    said = []
    for number in range(len(list(parts(config)))):
        broken = ModelConfig()
        broken.CopyFrom(config)
        message, field = list(parts(broken))[number]
        message.ClearField(field.name)
        (tmp_path / "t").write_bytes(old_topology(broken))
        said.append(exported(tmp_path, capsys))
    failed = [text for text in said if text]
    assert len(failed) > 20
    assert all(str(tmp_path) in text for text in failed)
    assert all(text.startswith("python -m pd_v2 export: ") for text in failed)


def config_of(content):
    content = content.replace(b"paddle.trainer.PyDataProvider2", b"pd_v2.data_type")
    return ModelConfig.FromString(
        pickle.loads(content, encoding="latin1")["protobin"].encode("latin1")
    )


@pytest.mark.parametrize("make", [lambda: saved_once()[0], old_pickle], ids=["ours", "2017's"])
def test_mutants_of_topologies(make, tmp_path, capsys):
    topology, tar = make(), saved_once()[1]
    (tmp_path / "p.tar").write_bytes(tar)
    rng = random.Random(0)
    for _ in range(MUTANTS):
        (tmp_path / "t").write_bytes(mutant(rng, topology))
        said = exported(tmp_path, capsys)
        assert said == "" or (
            said.startswith("python -m pd_v2 export: ") and "\n  File" not in said
        )


def test_a_file_without_a_name_is_the_file():
    with pytest.raises(pd.DamagedFile, match=r"^the file holds no topology"):
        export.read_stored(io.BytesIO(b"text"))
    with pytest.raises(pd.DamagedFile, match=r"^not a tar"):
        Parameters.from_tar(io.BytesIO(b"text" * 200))
