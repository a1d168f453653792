"""Movie reviews of Pang and Lee as NLTK has them: 1,600 + 400 that praise or damn.

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
from pd_v2.dataset import archive, common, words
from pd_v2.dataset.samples import Samples

__all__ = ["convert", "get_word_dict", "test", "train"]

URL = "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/movie_reviews.zip"
MD5 = "155de2b77c6834dd8eea7cbe88e93acb"

NUM_TRAINING_INSTANCES = 1600
NUM_TOTAL_INSTANCES = 2000

_FOLDER = ("corpora", "movie_reviews")
_SIDES = ("neg", "pos")
_TOKEN = re.compile(r"\w+|[^\w\s]+", re.ASCII)


def download_data_if_not_yet():
    """Download and unpack the reviews, unless the cache has them."""
    if os.path.isdir(_folder()):
        return
    path = common.download(URL, "corpora", MD5)
    with archive.naming(path), zipfile.ZipFile(path) as reviews:
        archive.unpack(reviews, "movie_reviews", _folder())


def get_word_dict():
    """Pairs (word, id) of all words, the most frequent first."""
    names = itertools.chain.from_iterable(map(_names, _SIDES))
    counts = Counter(itertools.chain.from_iterable(map(_words, names)))
    return list(words.numbered(words.ranked(counts)).items())


def sort_files():
    """The names of the reviews, neg/... and pos/... in turns, each in the order of the names."""
    return [name for turn in zip(*map(_names, _SIDES), strict=False) for name in turn]


def load_sentiment_data():
    """All samples, in a list. A word with capitals has the id of the one without, if there is."""
    ids = words.of_bytes(dict(get_word_dict()))
    return [
        ([ids.get(word.lower(), ids[word]) for word in _words(name)], _side(name))
        for name in sort_files()
    ]


def reader_creator(data):
    """The samples in a list."""
    return Samples(lambda: ((list(ids), label) for ids, label in data))


def train():
    """The training samples."""
    return _part(slice(NUM_TRAINING_INSTANCES))


def test():
    """The test samples."""
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
    """The reviews of a side, in the order of their names."""
    download_data_if_not_yet()
    folder = common.in_cache(*_FOLDER, side)
    if not os.path.isdir(folder):
        raise DamagedFile(f"sentiment: {folder} is not there{archive.AGAIN}")
    return [f"{side}/{name}" for name in sorted(os.listdir(folder))]


def _side(name):
    return _SIDES.index(name.split("/")[0])


def _part(rows):
    data = functools.cache(lambda: load_sentiment_data()[rows])
    return Samples(lambda: iter(reader_creator(data())))


def _words(name):
    """The words and the runs of punctuation in a review."""
    with open(common.in_cache(*_FOLDER, *name.split("/")), "rb") as file:
        return [words.as_data(token) for token in _TOKEN.findall(words.as_text(file.read()))]
