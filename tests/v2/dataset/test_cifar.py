import gzip
import io
import os
import pickle
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest

from pd_v2.dataset import cifar, common
from pd_v2.reader import creator

RNG = np.random.default_rng(0)
ARRAY_HEAD = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01"
BYTE_TYPE = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNN" + b"J\xff\xff\xff\xff" * 2
BYTE_TYPE += b"K\x00tb"


def python2_str(text):
    return b"U" + bytes([len(text)]) + text


def python2_int(number):
    return b"J" + struct.pack("<i", number)


def python2_bytes(array):
    """A uint8 matrix as numpy pickled it under Python 2: its content is a str."""
    content = b"T" + struct.pack("<i", array.size) + array.astype(np.uint8).tobytes()
    shape = python2_int(array.shape[0]) + python2_int(array.shape[1]) + b"\x86"
    return ARRAY_HEAD + shape + BYTE_TYPE + b"\x89" + content + b"tb"


def python2_batch(images, labels, labels_key=b"labels"):
    """A batch in protocol 2, opcode by opcode."""
    numbers = b"](" + b"".join(map(python2_int, labels)) + b"e"
    names = b"](" + b"".join(python2_str(b"caf\xe9_%d.png" % label) for label in labels) + b"e"
    items = [b"batch_label", python2_str(b"training batch 1 of 5"), labels_key, numbers]
    items += [b"data", python2_bytes(images), b"filenames", names]
    pairs = (python2_str(key) + value for key, value in zip(items[::2], items[1::2], strict=True))
    return b"\x80\x02}(" + b"".join(pairs) + b"u."


def archive(path, members):
    """A tar.gz with a folder entry before its files, as the originals have."""
    with tarfile.open(path, "w:gz") as tar:
        folder = tarfile.TarInfo("cifar-10-batches-py/data_batches")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return str(path)


def photographs(count, classes=10):
    return RNG.integers(0, 256, (count, 3072)), RNG.integers(0, classes, count)


TRAIN = [photographs(4), photographs(3)]
TEST = photographs(2)
TRAIN100, TEST100 = photographs(5, 100), photographs(3, 100)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """Both archives, tiny, as the cache has them."""
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path))
    monkeypatch.setenv("PD_DATASET_CHECK", "0")
    (tmp_path / "cifar").mkdir()
    files = {
        "data_batch_2": python2_batch(*TRAIN[0]),
        "readme.html": b"data",
        "test_batch": python2_batch(*TEST),
        "data_batch_1": python2_batch(*TRAIN[1]),
    }
    members = {f"cifar-10-batches-py/{name}": content for name, content in files.items()}
    archive(tmp_path / "cifar" / "cifar-10-python.tar.gz", members)
    members = {
        "cifar-100-python/meta": b"names",
        "cifar-100-python/test": python2_batch(*TEST100, b"fine_labels"),
        "cifar-100-python/train": python2_batch(*TRAIN100, b"fine_labels"),
    }
    archive(tmp_path / "cifar" / "cifar-100-python.tar.gz", members)


@pytest.fixture
def reader_of(tmp_path):
    """reader_of(content) reads an archive whose only test batch has that content."""

    def write(content):
        path = archive(tmp_path / "tiny.tar.gz", {"cifar/test_batch": content})
        return cifar.reader_creator(path, "test_batch")

    return write


@pytest.mark.parametrize(
    ("creator_name", "batches"),
    [("train10", TRAIN), ("test10", [TEST]), ("train100", [TRAIN100]), ("test100", [TEST100])],
)
def test_samples_are_scaled_pixels_and_labels_in_the_tars_order(cache, creator_name, batches):
    samples = list(getattr(cifar, creator_name)()())
    images, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    assert [label for _, label in samples] == labels.tolist()
    assert {type(label) for _, label in samples} == {int}
    pixels = np.stack([pixels for pixels, _ in samples])
    assert pixels.dtype == np.float32
    np.testing.assert_array_equal(pixels, (images / 255.0).astype(np.float32))


def test_each_byte_is_rounded_as_2017_rounded_it(reader_of):
    images = np.arange(3072).reshape(1, 3072) % 256
    ((pixels, _),) = reader_of(python2_batch(images, [0]))
    np.testing.assert_array_equal(pixels, (images[0] / 255.0).astype(np.float32))


def test_the_reader_may_be_called_or_iterated(cache):
    reader = cifar.test100()
    for samples in (reader(), reader(), reader):
        assert [label for _, label in samples] == TEST100[1].tolist()
    iterator = reader()
    next(iterator)
    assert len(list(iterator)) == 2


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_batches_pickled_by_python_3(reader_of, protocol):
    images, labels = TEST
    batch = {"data": images.astype(np.uint8), "labels": labels}
    samples = list(reader_of(pickle.dumps(batch, protocol)))
    assert [label for _, label in samples] == labels.tolist()
    pixels = np.stack([pixels for pixels, _ in samples])
    np.testing.assert_array_equal(np.round(pixels * 255), images)


def unpickled_to_run(function, argument):
    return b"\x80\x02c" + function.replace(b".", b"\n") + b"\n" + python2_str(argument) + b"\x85R."


@pytest.mark.parametrize("function", ["os.system", "builtins.eval", "numpy.load", "numpy.memmap"])
def test_a_pickle_runs_nothing(reader_of, tmp_path, function):
    mark = tmp_path / "ran"
    content = unpickled_to_run(function.encode(), b"touch %s" % bytes(mark))
    message = rf"(?s)tiny.tar.gz: cifar/test_batch is damaged: .*{function} is not allowed"
    with pytest.raises(ValueError, match=message):
        list(reader_of(content))
    assert not mark.exists()


def test_a_pickle_uses_no_other_codec(reader_of):
    content = b"\x80\x02c_codecs\nencode\n" + python2_str(b"x") + python2_str(b"rot13") + b"\x86R."
    with pytest.raises(ValueError, match=r"bytes are encoded as 'rot13', not latin1"):
        list(reader_of(content))


IMAGES = np.zeros((2, 3072), np.uint8)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([1], r"expected a dict, found list"),
        ({"data": IMAGES}, r"expected 'data' and 'labels' or 'fine_labels', found 'data'"),
        ({"labels": [1], 3: 4}, r"'fine_labels', found 'labels', 3"),
        ({"data": IMAGES[:, 1:], "labels": [1, 2]}, r"uint8 \[n, 3072\], found uint8 \[2, 3071\]"),
        ({"data": IMAGES / 2, "labels": [1, 2]}, r"found float64 \[2, 3072\]"),
        ({"data": IMAGES[0], "labels": [1]}, r"found uint8 \[3072\]"),
        ({"data": IMAGES, "labels": [1]}, r"expected 2 labels, all integers, found int64 \[1\]"),
        ({"data": IMAGES, "labels": [1, 0.5]}, r"expected 2 labels, .* found float64 \[2\]"),
    ],
)
def test_a_batch_of_other_content_names_the_member(reader_of, batch, message):
    where = r"tiny.tar.gz: cifar/test_batch is damaged: .*"
    with pytest.raises(ValueError, match=where + message):
        list(reader_of(pickle.dumps(batch, 2)))


@pytest.mark.parametrize("content", [b"", b"text", python2_batch(*TEST)[:-9]])
def test_a_damaged_pickle_names_the_member(reader_of, content):
    with pytest.raises(
        ValueError, match=r"tiny.tar.gz: cifar/test_batch is damaged: byte \d+ of the pickle: "
    ):
        list(reader_of(content))


def tar_cut_to(size):
    return lambda raw: gzip.compress(gzip.decompress(raw)[:size])


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[: len(raw) // 2],
        lambda raw: raw[:-4],
        lambda raw: raw[:-8] + b"\xff\xff\xff\xff" + raw[-4:],
        lambda raw: raw[:2000] + bytes([raw[2000] ^ 255]) + raw[2001:],
        lambda raw: b"no gzip",
        lambda raw: b"",
        lambda raw: gzip.compress(b"no tar" * 200),
        tar_cut_to(2000),
    ],
    ids=["half", "short", "checksum", "corrupt", "text", "empty", "gzipped text", "tar cut"],
)
def test_a_damaged_archive_names_the_file(tmp_path, damage):
    path = archive(tmp_path / "tiny.tar.gz", {"cifar/test_batch": python2_batch(*TEST)})
    Path(path).write_bytes(damage(Path(path).read_bytes()))
    with pytest.raises(ValueError, match=r"(?s)tiny.tar.gz is damaged: .+hint: delete the archive"):
        list(cifar.reader_creator(path, "test_batch"))


def test_an_archive_without_the_batch(tmp_path):
    path = archive(tmp_path / "tiny.tar.gz", {"cifar/test_batch": python2_batch(*TEST)})
    with pytest.raises(ValueError, match=r"no file in it has 'data_batch' in its name"):
        list(cifar.reader_creator(path, "data_batch"))


def test_convert_writes_all_sets(cache, tmp_path):
    (tmp_path / "out").mkdir()
    cifar.convert(str(tmp_path / "out"))
    sizes = {"train100": 5, "test100": 3, "train10": 7, "test10": 2}
    names = {f"cifar_{name}-00000" for name in sizes}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    for name, size in sizes.items():
        samples = list(creator.recordio(str(tmp_path / "out" / f"cifar_{name}-*"))())
        assert len(samples) == size
        assert {(pixels.shape, pixels.dtype) for pixels, _ in samples} == {
            ((3072,), np.dtype("f4"))
        }


def test_fetch_asks_for_each_file_with_its_md5(monkeypatch):
    asked = []
    monkeypatch.setattr(common, "download", lambda *args: asked.append(args))
    cifar.fetch()
    assert [(os.path.basename(url), module, md5) for url, module, md5 in asked] == [
        ("cifar-10-python.tar.gz", "cifar", "c58f30108f718f92721af3b95e74349a"),
        ("cifar-100-python.tar.gz", "cifar", "eb9058c3a382ffc7106e4002c42a8d85"),
    ]
