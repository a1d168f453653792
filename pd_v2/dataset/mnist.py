"""MNIST: 60,000 + 10,000 handwritten digits of 28 x 28 pixels.

A sample is (pixels, label): float32[784] from -1 (paper) to 1 (ink), and an int from 0 to 9.
"""

import functools
import gzip
import os
import struct

import numpy as np

from pd_core import DamagedFile
from pd_v2.dataset import common
from pd_v2.dataset.samples import Samples
from pd_v2.files import archive
from pd_v2.files.unpacking import Bounded

__all__ = ["convert", "test", "train"]

URL_PREFIX = "http://yann.lecun.com/exdb/mnist/"
TEST_IMAGE_URL = URL_PREFIX + "t10k-images-idx3-ubyte.gz"
TEST_IMAGE_MD5 = "9fb629c4189551a2d022fa330f9573f3"
TEST_LABEL_URL = URL_PREFIX + "t10k-labels-idx1-ubyte.gz"
TEST_LABEL_MD5 = "ec29112dd5afa0611ce80d1b7f02629c"
TRAIN_IMAGE_URL = URL_PREFIX + "train-images-idx3-ubyte.gz"
TRAIN_IMAGE_MD5 = "f68b3c2dcbeaaa9fbdd348bbdeb94873"
TRAIN_LABEL_URL = URL_PREFIX + "train-labels-idx1-ubyte.gz"
TRAIN_LABEL_MD5 = "d53e105ee54ea40749a09fcbcd1e9432"

_PIXELS = 28 * 28
_BLOCK_SIZE = 100


def reader_creator(image_filename, label_filename, buffer_size):
    """Return the samples of a pair of gzipped IDX files, in blocks of buffer_size.

    As in 2017 an incomplete last block is dropped. The bytes are kept in memory from the first pass
    on.
    """
    digits = functools.cache(lambda: _digits(image_filename, label_filename))

    def samples():
        images, labels = digits()
        for start in range(0, len(labels) - buffer_size + 1, buffer_size):
            block = slice(start, start + buffer_size)
            pixels = images[block].astype(np.float32) / 255.0 * 2.0 - 1.0
            yield from zip(pixels, labels[block].tolist(), strict=True)

    return Samples(samples)


def train():
    """Return the training samples."""
    return reader_creator(*_train_files(), _BLOCK_SIZE)


def test():
    """Return the test samples."""
    return reader_creator(*_test_files(), _BLOCK_SIZE)


def fetch():
    """Download all files into the cache."""
    _train_files()
    _test_files()


def convert(path):
    """Write both sets as RecordIO files; "minist" is 2017's spelling."""
    common.convert(path, train(), 1000, "minist_train")
    common.convert(path, test(), 1000, "minist_test")


def _train_files():
    return (
        common.download(TRAIN_IMAGE_URL, "mnist", TRAIN_IMAGE_MD5),
        common.download(TRAIN_LABEL_URL, "mnist", TRAIN_LABEL_MD5),
    )


def _test_files():
    return (
        common.download(TEST_IMAGE_URL, "mnist", TEST_IMAGE_MD5),
        common.download(TEST_LABEL_URL, "mnist", TEST_LABEL_MD5),
    )


def _digits(image_filename, label_filename):
    """Read uint8 images [n, 784] and labels [n]."""
    images = _idx_bytes(image_filename, axes=3).reshape(-1, _PIXELS)
    labels = _idx_bytes(label_filename, axes=1)
    if len(images) != len(labels):
        raise DamagedFile(
            f"mnist: {image_filename} has {len(images)} images, "
            f"{label_filename} has {len(labels)} labels"
        )
    return images, labels


def _idx_bytes(filename, axes):
    """Read the data of a gzipped IDX file, without its header: uint8 [n * 784] or [n].

    The count in the header is checked only if the magic number is right: 2017 skipped the header,
    and homemade files have arbitrary bytes there.
    """
    content = _gunzip(filename)
    header_bytes = 4 + 4 * axes
    item_bytes = _PIXELS if axes == 3 else 1
    if len(content) < header_bytes or (len(content) - header_bytes) % item_bytes:
        raise archive.damaged(filename, f"{len(content)} bytes are no whole number of items")
    data = np.frombuffer(content[header_bytes:], np.uint8)
    magic, count = struct.unpack(">II", content[:8])
    if magic == 0x800 + axes and count * item_bytes != len(data):
        raise archive.damaged(filename, f"{count} items announced, {len(data) // item_bytes} there")
    return data


def _gunzip(filename):
    with archive.naming(filename), gzip.open(filename) as file:
        return Bounded(file, os.path.getsize(filename)).read()
