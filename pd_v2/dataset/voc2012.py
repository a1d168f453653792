"""PASCAL VOC 2012 segmentation: photographs with pixels labelled by 20 classes of objects.

A sample is (photograph, classes): uint8[H, W, 3] in red, green and blue, and uint8[H, W] with 0 for
the background, 1 to 20 for objects and 255 along their outlines. Reading needs Pillow.
"""

import io

from pd_v2.dataset import common
from pd_v2.dataset.samples import Samples
from pd_v2.files import archive
from pd_v2.files import text as words
from pd_v2.files.images import pixels

__all__ = ["test", "train", "val"]

VOC_URL = "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar"
VOC_MD5 = "6cd6e144f989b92b3379bac3b3de84fd"
SET_FILE = "VOCdevkit/VOC2012/ImageSets/Segmentation/{}.txt"
DATA_FILE = "VOCdevkit/VOC2012/JPEGImages/{}.jpg"
LABEL_FILE = "VOCdevkit/VOC2012/SegmentationClass/{}.png"
CACHE_DIR = "voc2012"


def reader_creator(filename, sub_name):
    """Return the samples of one of the archive's image sets, in its order."""

    def samples():
        with archive.OpenTar(filename) as tar:
            listing = tar.read(SET_FILE.format(sub_name))
            for line in words.lines(listing):
                name = words.to_text(line.strip())
                paths = (DATA_FILE.format(name), LABEL_FILE.format(name))
                yield tuple(_pixels(tar, path) for path in paths)

    return Samples(samples)


def train():
    """Return the 2,913 photographs with segmentation labels, "trainval"."""
    return reader_creator(_file(), "trainval")


def test():
    """Return the 1,464 samples of the authors' training set; 2017 tested with them."""
    return reader_creator(_file(), "train")


def val():
    """Return the 1,449 samples of the authors' validation set."""
    return reader_creator(_file(), "val")


def _file():
    return common.download(VOC_URL, CACHE_DIR, VOC_MD5)


def _pixels(tar, name):
    return pixels(io.BytesIO(tar.read(name)), f"{tar.path}: {name}")
