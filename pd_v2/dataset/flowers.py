"""Oxford 102 Flowers: 8,189 photographs of 102 species of flowers.

A sample is (pixels, label): float32[3 * 224 * 224], blue, green, then red, minus the mean of each;
and an int from 0 to 101. As in 2017 the authors' test set of 6,149 photographs is the training set,
and their training set of 1,020 the test set.
"""

import functools
import os

from pd_core import DamagedFile
from pd_core.training.positions import rereadable
from pd_v2 import image
from pd_v2.dataset import common, matlab
from pd_v2.dataset.samples import Samples
from pd_v2.files import text as words
from pd_v2.pickles import load
from pd_v2.reader import map_readers, xmap_readers

__all__ = ["test", "train", "valid"]

_HOME = "http://www.robots.ox.ac.uk/~vgg/data/flowers/102/"
DATA_URL = _HOME + "102flowers.tgz"
LABEL_URL = _HOME + "imagelabels.mat"
SETID_URL = _HOME + "setid.mat"
DATA_MD5 = "52808999861908f626f3c1f4e79d11fa"
LABEL_MD5 = "e0620be6f572b9609742df49c70aed4d"
SETID_MD5 = "a5357ecc9cb78c4bef273ce3793fc85c"

TRAIN_FLAG = "tstid"
TEST_FLAG = "trnid"
VALID_FLAG = "valid"

_MEAN = [103.94, 116.78, 123.68]


def default_mapper(is_train, sample):
    """Convert (encoded file, label) to a sample: a random crop for training, else a central one."""
    content, label = sample
    pixels = image.load_image_bytes(content)
    return image.simple_transform(pixels, 256, 224, is_train, mean=_MEAN).flatten(), label


train_mapper = functools.partial(default_mapper, True)
test_mapper = functools.partial(default_mapper, False)


def reader_creator(
    data_file, label_file, setid_file, dataset_name, mapper, buffered_size=1024, use_xmap=True
):
    """Return mapper((encoded file, label)) of the photographs of the split dataset_name.

    With use_xmap they are mapped in threads, in the order of completion; the number of threads is
    the environment variable CPU_NUM, by default the number of processors.
    """
    batches = functools.cache(lambda: _batches(data_file, label_file, setid_file, dataset_name))

    @rereadable
    def samples():
        for path in batches():
            for number, (content, label) in enumerate(_batch(path), 1):
                content = content.encode("latin1") if isinstance(content, str) else content
                yield f"{path}, photograph {number}", (content, label - 1)

    mapped = functools.partial(_mapped, mapper)
    if not use_xmap:
        return Samples(map_readers(mapped, samples))
    threads = int(os.environ.get("CPU_NUM") or os.cpu_count() or 1)
    return Samples(xmap_readers(mapped, samples, threads, buffered_size))


def train(mapper=train_mapper, buffered_size=1024, use_xmap=True):
    """Return the training samples."""
    return reader_creator(*_files(), TRAIN_FLAG, mapper, buffered_size, use_xmap)


def test(mapper=test_mapper, buffered_size=1024, use_xmap=True):
    """Return the test samples."""
    return reader_creator(*_files(), TEST_FLAG, mapper, buffered_size, use_xmap)


def valid(mapper=test_mapper, buffered_size=1024, use_xmap=True):
    """Return the validation samples."""
    return reader_creator(*_files(), VALID_FLAG, mapper, buffered_size, use_xmap)


def fetch():
    """Download all files into the cache."""
    _files()


def _files():
    return (
        common.download(DATA_URL, "flowers", DATA_MD5),
        common.download(LABEL_URL, "flowers", LABEL_MD5),
        common.download(SETID_URL, "flowers", SETID_MD5),
    )


def _batches(data_file, label_file, setid_file, dataset_name):
    """Return the paths of pickled batches of encoded files, which are created on first use."""
    labels, numbers = _array(label_file, "labels"), _array(setid_file, dataset_name)
    if numbers.size and not 1 <= numbers.min() <= numbers.max() <= labels.size:
        raise DamagedFile(
            f"flowers: {setid_file} lists photographs {numbers.min()} to {numbers.max()}, "
            f"{label_file} has {labels.size} labels"
        )
    img2label = {f"jpg/image_{number:05d}.jpg": int(labels[number - 1]) for number in numbers}
    with open(image.batch_images_from_tar(data_file, dataset_name, img2label), "rb") as listing:
        paths = [os.fsdecode(path) for path in words.lines(listing.read())]
    for path in paths:
        common.require_inside(path, f"{data_file}_batch")
    return paths


def _mapped(mapper, item):
    """Apply the mapper to the sample of a (place for errors, sample) pair."""
    where, sample = item
    try:
        return mapper(sample)
    except DamagedFile as error:
        raise DamagedFile(f"flowers: {where}: {error}") from error


def _array(path, name):
    """Read a vector of integers from a MATLAB file."""
    arrays = matlab.read_arrays(path)
    if name not in arrays or arrays[name].dtype.kind not in "iu":
        raise DamagedFile(f"flowers: {path} has no whole numbers named {name!r}")
    return arrays[name].ravel()


def _batch(path):
    """Read (encoded file, label) pairs; labels start at 1."""
    with open(path, "rb") as file:
        batch = load(path, file.read())
    columns = [batch.get(key) for key in ("data", "label")] if isinstance(batch, dict) else []
    kinds = [{type(value) for value in column} for column in columns if isinstance(column, list)]
    if len(kinds) != 2 or not kinds[0] <= {bytes, str} or not kinds[1] <= {int}:
        raise DamagedFile(f"flowers: {path}: expected a list of files and one of their labels")
    if len(columns[0]) != len(columns[1]):
        counts = f"{len(columns[0])} files and {len(columns[1])} labels"
        raise DamagedFile(f"flowers: {path}: {counts}")
    return zip(*columns, strict=True)
