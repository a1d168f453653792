import gzip
import os
import struct
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from pd_v2.dataset import common, mnist
from pd_v2.reader import creator

DEMO_DATA = Path(__file__).parents[3] / "demos" / "data"
RNG = np.random.default_rng(0)


def idx_images(images):
    return struct.pack(">IIII", 2051, len(images), 28, 28) + images.astype(np.uint8).tobytes()


def idx_labels(labels):
    return struct.pack(">II", 2049, len(labels)) + labels.astype(np.uint8).tobytes()


@pytest.fixture
def files(tmp_path):
    """files(images, labels) writes two contents and returns their paths."""

    def write(images, labels):
        paths = str(tmp_path / "images.gz"), str(tmp_path / "labels.gz")
        for path, content in zip(paths, (images, labels), strict=True):
            Path(path).write_bytes(gzip.compress(content))
        return paths

    return write


def digits(count):
    return RNG.integers(0, 256, (count, 784)), RNG.integers(0, 10, count)


@pytest.fixture
def demo_cache(monkeypatch):
    monkeypatch.setattr(common, "DATA_HOME", str(DEMO_DATA))
    monkeypatch.setenv("PD_DATASET_CHECK", "0")


def test_samples_are_scaled_pixels_and_labels(files):
    images, labels = digits(200)
    reader = mnist.reader_creator(*files(idx_images(images), idx_labels(labels)), 100)
    samples = list(reader())
    assert [label for _, label in samples] == labels.tolist()
    assert {type(label) for _, label in samples} == {int}
    pixels = np.stack([image for image, _ in samples])
    assert pixels.dtype == np.float32
    expected = images.astype(np.float32) / np.float32(255) * np.float32(2) - np.float32(1)
    np.testing.assert_array_equal(pixels, expected)


def test_a_block_that_is_not_full_is_dropped(files):
    images, labels = digits(70)
    paths = files(idx_images(images), idx_labels(labels))
    assert len(list(mnist.reader_creator(*paths, 30)())) == 60
    assert len(list(mnist.reader_creator(*paths, 70)())) == 70
    assert list(mnist.reader_creator(*paths, 71)()) == []


def test_the_reader_may_be_called_or_iterated(files):
    images, labels = digits(10)
    reader = mnist.reader_creator(*files(idx_images(images), idx_labels(labels)), 10)
    for samples in (reader(), reader(), reader):
        assert [label for _, label in samples] == labels.tolist()
    iterator = reader()
    next(iterator)
    assert len(list(iterator)) == 9


def test_a_header_of_other_bytes_is_skipped(files):
    images, labels = digits(10)
    paths = files(b"h" * 16 + idx_images(images)[16:], b"h" * 8 + idx_labels(labels)[8:])
    assert [label for _, label in mnist.reader_creator(*paths, 10)] == labels.tolist()


IMAGES, LABELS = (idx(part) for idx, part in zip((idx_images, idx_labels), digits(4), strict=True))


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (IMAGES[:-5], LABELS, r"images.gz is damaged: 3147 bytes are no whole number of items"),
        (IMAGES[:7], LABELS, r"images.gz is damaged: 7 bytes are no whole number"),
        (b"", LABELS, r"images.gz is damaged: 0 bytes are no whole number"),
        (IMAGES[:-784], LABELS, r"images.gz is damaged: 4 items announced, 3 there"),
        (IMAGES, LABELS[:-1], r"labels.gz is damaged: 4 items announced, 3 there"),
        (IMAGES, LABELS[:5], r"labels.gz is damaged: 5 bytes are no whole number"),
        (IMAGES, b"h" * 8 + LABELS[9:], r"images.gz has 4 images, .*labels.gz has 3 labels"),
    ],
)
def test_damaged_content_names_the_file(files, images, labels, message):
    reader = mnist.reader_creator(*files(images, labels), 2)
    with pytest.raises(ValueError, match=message):
        list(reader())


@pytest.mark.parametrize(
    "damage",
    [lambda raw: raw[:-20], lambda raw: b"no gzip", lambda raw: raw[:10] + b"\xff" + raw[11:]],
    ids=["truncated", "text", "corrupt"],
)
def test_damaged_gzip_names_the_file(files, damage):
    paths = files(IMAGES, LABELS)
    Path(paths[0]).write_bytes(damage(Path(paths[0]).read_bytes()))
    with pytest.raises(ValueError, match=r"(?s)images.gz is damaged: .*hint: delete the"):
        list(mnist.reader_creator(*paths, 2)())


def test_demo_digits(demo_cache):
    for reader, count in ((mnist.train(), 4000), (mnist.test(), 1000)):
        labels = np.array([label for _, label in reader()])
        assert len(labels) == count
        assert np.bincount(labels).min() > count // 12
    pixels = np.stack([image for image, _ in islice(mnist.train(), 100)])
    assert pixels.shape == (100, 784)
    assert (pixels.min(), pixels.max()) == (-1.0, 1.0)
    frames = pixels.reshape(100, 28, 28)
    assert frames[:, 8:20, 8:20].mean() > frames[:, :4].mean() + 0.3  # ink is in the middle


def test_convert_writes_both_sets(monkeypatch, tmp_path):
    monkeypatch.setattr(mnist, "train", lambda: lambda: [(np.float32([1, 2]), 3)] * 1001)
    monkeypatch.setattr(mnist, "test", lambda: lambda: [(np.float32([4]), 5)])
    mnist.convert(str(tmp_path))
    names = ["minist_test-00000", "minist_train-00000", "minist_train-00001"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    ((pixels, label),) = creator.recordio(str(tmp_path / "minist_test-*"))()
    assert (pixels.tolist(), pixels.dtype, label) == ([4.0], np.float32, 5)


def test_fetch_asks_for_each_file_with_its_md5(monkeypatch):
    asked = []
    monkeypatch.setattr(common, "download", lambda *args: asked.append(args))
    mnist.fetch()
    assert {(os.path.basename(url), module, md5) for url, module, md5 in asked} == {
        ("train-images-idx3-ubyte.gz", "mnist", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        ("train-labels-idx1-ubyte.gz", "mnist", "d53e105ee54ea40749a09fcbcd1e9432"),
        ("t10k-images-idx3-ubyte.gz", "mnist", "9fb629c4189551a2d022fa330f9573f3"),
        ("t10k-labels-idx1-ubyte.gz", "mnist", "ec29112dd5afa0611ce80d1b7f02629c"),
    }
