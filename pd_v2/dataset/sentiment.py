"""Movie reviews of Pang and Lee, from NLTK: 1,600 + 400, positive or negative.

A sample is (word ids, label): a list of ints, and 0 for a negative or 1 for a positive review.
The reviews are plain text files in corpora/movie_reviews of the cache.
"""

import functools
import itertools
import os
import re
import zipfile
from collections import Counter

from pd_core import DamagedFile
from pd_v2.dataset import common
from pd_v2.dataset.samples import Samples
from pd_v2.files import archive
from pd_v2.files import text as words

__all__ = ["convert", "get_word_dict", "test", "train"]

URL = "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/movie_reviews.zip"
MD5 = "155de2b77c6834dd8eea7cbe88e93acb"

NUM_TRAINING_INSTANCES = 1600
NUM_TOTAL_INSTANCES = 2000

_FOLDER = ("corpora", "movie_reviews")
_CLASSES = ("neg", "pos")
_TOKEN = re.compile(r"\w+|[^\w\s]+", re.ASCII)


def download_data_if_not_yet():
    """Download and unpack the reviews, unless the cache has them."""
    if os.path.isdir(_folder()):
        return
    path = common.download(URL, "corpora", MD5)
    with archive.naming(path), zipfile.ZipFile(path) as reviews:
        archive.unpack(reviews, "movie_reviews", _folder())


def get_word_dict():
    """Return (word, id) pairs of all words, the most frequent first."""
    names = itertools.chain.from_iterable(map(_names, _CLASSES))
    counts = Counter(itertools.chain.from_iterable(map(_words, names)))
    return list(words.indexed(words.by_frequency(counts)).items())


def sort_files():
    """Return the names of the reviews, neg/... and pos/... in turns, each sorted."""
    return [name for turn in zip(*map(_names, _CLASSES), strict=False) for name in turn]


def load_sentiment_data():
    """Read all samples. A word has the id of its lowercase form, if that occurs."""
    ids = words.with_bytes_keys(dict(get_word_dict()))
    return [
        ([ids.get(word.lower(), ids[word]) for word in _words(name)], _label(name))
        for name in sort_files()
    ]


def reader_creator(data):
    """Return the samples of a list."""
    return Samples(lambda: ((list(ids), label) for ids, label in data))


def train():
    """Return the training samples."""
    return _part(slice(NUM_TRAINING_INSTANCES))


def test():
    """Return the test samples."""
    return _part(slice(NUM_TRAINING_INSTANCES, None))


def fetch():
    """Download the reviews into the cache."""
    download_data_if_not_yet()


def convert(path):
    """Write both sets as RecordIO files."""
    common.convert(path, train(), 1000, "sentiment_train")
    common.convert(path, test(), 1000, "sentiment_test")


def _folder():
    return common.in_cache(*_FOLDER)


def _names(side):
    """Return the names of the positive or of the negative reviews, sorted."""
    download_data_if_not_yet()
    folder = common.in_cache(*_FOLDER, side)
    if not os.path.isdir(folder):
        raise DamagedFile(f"sentiment: {folder} is not there{archive.DELETE_HINT}")
    return [f"{side}/{name}" for name in sorted(os.listdir(folder))]


def _label(name):
    return _CLASSES.index(name.split("/")[0])


def _part(rows):
    data = functools.cache(lambda: load_sentiment_data()[rows])
    return Samples(lambda: iter(reader_creator(data())))


def _words(name):
    """Return the words and the runs of punctuation of a review."""
    with open(common.in_cache(*_FOLDER, *name.split("/")), "rb") as file:
        return [words.to_bytes(token) for token in _TOKEN.findall(words.to_text(file.read()))]
