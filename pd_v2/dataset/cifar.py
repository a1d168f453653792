"""CIFAR-10 and CIFAR-100: 50,000 + 10,000 photographs of 32 x 32 pixels in 10 or 100 classes.

A sample is (pixels, label): float32[3072] from 0 to 1, all red values, then green, then blue, each
row by row; and an int from 0 to 9 or 99.
"""

import functools

import numpy as np

from pd_v2.dataset import common
from pd_v2.dataset.samples import Samples
from pd_v2.files import archive
from pd_v2.pickles import load

__all__ = ["convert", "test10", "test100", "train10", "train100"]

URL_PREFIX = "https://www.cs.toronto.edu/~kriz/"
CIFAR10_URL = URL_PREFIX + "cifar-10-python.tar.gz"
CIFAR10_MD5 = "c58f30108f718f92721af3b95e74349a"
CIFAR100_URL = URL_PREFIX + "cifar-100-python.tar.gz"
CIFAR100_MD5 = "eb9058c3a382ffc7106e4002c42a8d85"

_VALUES = 3 * 32 * 32


def reader_creator(filename, sub_name):
    """Return the samples of the members of a tar.gz whose names contain sub_name, in its order.

    The pixels are kept in memory from the first pass on.
    """
    batches = functools.cache(lambda: _batches(filename, sub_name))

    def samples():
        for images, labels in batches():
            for image, label in zip(images, labels, strict=True):
                yield image.astype(np.float32) / np.float32(255), label

    return Samples(samples)


def train100():
    """Return the training samples of CIFAR-100."""
    return reader_creator(_cifar100_file(), "train")


def test100():
    """Return the test samples of CIFAR-100."""
    return reader_creator(_cifar100_file(), "test")


def train10():
    """Return the training samples of CIFAR-10."""
    return reader_creator(_cifar10_file(), "data_batch")


def test10():
    """Return the test samples of CIFAR-10."""
    return reader_creator(_cifar10_file(), "test_batch")


def fetch():
    """Download both archives into the cache."""
    _cifar10_file()
    _cifar100_file()


def convert(path):
    """Write all four sets as RecordIO files."""
    common.convert(path, train100(), 1000, "cifar_train100")
    common.convert(path, test100(), 1000, "cifar_test100")
    common.convert(path, train10(), 1000, "cifar_train10")
    common.convert(path, test10(), 1000, "cifar_test10")


def _cifar10_file():
    return common.download(CIFAR10_URL, "cifar", CIFAR10_MD5)


def _cifar100_file():
    return common.download(CIFAR100_URL, "cifar", CIFAR100_MD5)


def _batches(filename, sub_name):
    """Return for each member uint8 images [n, 3072] and a list of n labels."""
    members = list(archive.tar_files(filename, lambda name: sub_name in name))
    if not members:
        raise archive.damaged(filename, f"no file in it has {sub_name!r} in its name")
    return [_batch(f"{filename}: {name}", content) for name, content in members]


def _batch(where, content):
    """Unpickle the images and labels of a batch."""
    batch = load(where, content, hint=archive.DELETE_HINT)
    if not isinstance(batch, dict):
        raise archive.damaged(where, f"expected a dict, found {type(batch).__name__}")
    labels = batch.get("labels", batch.get("fine_labels"))
    if "data" not in batch or labels is None:
        keys = ", ".join(sorted(map(repr, batch)))
        raise archive.damaged(where, f"expected 'data' and 'labels' or 'fine_labels', found {keys}")
    images, labels = (_array(where, values) for values in (batch["data"], labels))
    if images.dtype != np.uint8 or images.shape[1:] != (_VALUES,):
        raise archive.damaged(
            where, f"data must be uint8 [n, {_VALUES}], found {_described(images)}"
        )
    if labels.dtype.kind not in "iu" or labels.shape != images.shape[:1]:
        actual = _described(labels)
        raise archive.damaged(where, f"expected {len(images)} labels, all integers, found {actual}")
    return images, labels.tolist()


def _array(where, values):
    """Return an array unchanged, a list of numbers as an array."""
    if isinstance(values, list) and all(type(value) in (int, float) for value in values):
        return np.array(values)
    if not isinstance(values, np.ndarray):
        raise archive.damaged(where, f"expected an array of numbers, found {type(values).__name__}")
    return values


def _described(array):
    return f"{array.dtype} {list(array.shape)}"
