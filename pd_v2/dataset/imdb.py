"""IMDB: 25,000 + 25,000 film reviews, positive or negative.

A sample is (word ids, label): a list of ints, and 0 for a positive or 1 for a negative review.
"""

import functools
import itertools
import re
import string
from array import array
from collections import Counter

from pd_v2.dataset import common
from pd_v2.dataset.samples import Samples
from pd_v2.files import archive
from pd_v2.files import text as words

__all__ = ["build_dict", "convert", "test", "train"]

URL = "http://ai.stanford.edu/%7Eamaas/data/sentiment/aclImdb_v1.tar.gz"
MD5 = "7c2ac02c03563afcf9b574c7e56c153a"

_CUTOFF = 150
_PUNCTUATION = string.punctuation.encode()
_MISSING = object()


def tokenize(pattern):
    """Yield the words of each review whose name in the archive matches a compiled pattern."""
    for tokens in _tokens(_file(), pattern):
        yield [words.to_text(token) for token in tokens]


def build_dict(pattern, cutoff):
    """Return {word: id} of the words with more than cutoff occurrences in the reviews of a pattern.

    Ids are in the order of falling frequency; <unk> has the last one.
    """
    counts = Counter(itertools.chain.from_iterable(_tokens(_file(), pattern)))
    frequent = {word: count for word, count in counts.items() if count > cutoff}
    return words.indexed([*words.by_frequency(frequent), "<unk>"])


def reader_creator(pos_pattern, neg_pattern, word_idx, buffer_size):
    """Return positive and negative reviews in turns, then the rest of the longer list.

    buffer_size has no effect; it was the queue size of 2017's reading threads. The ids are kept in
    memory from the first pass on.
    """
    path = _file()
    reviews = functools.cache(lambda: _reviews(path, (pos_pattern, neg_pattern), word_idx))

    def samples():
        for turn in itertools.zip_longest(*reviews(), fillvalue=_MISSING):
            for label, ids in enumerate(turn):
                if ids is not _MISSING:
                    yield ids.tolist(), label

    return Samples(samples)


def train(word_idx):
    """Return the training samples."""
    return _part("train", word_idx)


def test(word_idx):
    """Return the test samples."""
    return _part("test", word_idx)


def word_dict():
    """Return {word: id} of the words that occur more than 150 times in all reviews."""
    return build_dict(re.compile(r"aclImdb/((train)|(test))/((pos)|(neg))/.*\.txt$"), _CUTOFF)


def fetch():
    """Download the archive into the cache."""
    _file()


def convert(path):
    """Write both sets as RecordIO files."""
    word_idx = word_dict()
    common.convert(path, train(word_idx), 1000, "imdb_train")
    common.convert(path, test(word_idx), 1000, "imdb_test")


def _file():
    return common.download(URL, "imdb", MD5)


def _part(name, word_idx):
    positive, negative = (
        re.compile(rf"aclImdb/{name}/{folder}/.*\.txt$") for folder in ("pos", "neg")
    )
    return reader_creator(positive, negative, word_idx, 1000)


def _tokens(path, pattern):
    """Yield the words of each review as bytes, lowercase and without punctuation."""
    for _, content in archive.tar_files(path, pattern.match):
        yield _words(content)


def _words(content):
    return content.rstrip(b"\n\r").translate(None, _PUNCTUATION).lower().split()


def _reviews(path, patterns, word_idx):
    """Return for each pattern the word ids of its reviews, in one pass over the archive."""
    if "<unk>" not in word_idx:
        raise ValueError(f"imdb: the dictionary has no <unk> among {len(word_idx)} words")
    ids, unknown = words.with_bytes_keys(word_idx), word_idx["<unk>"]
    reviews = [[] for _ in patterns]
    for name, content in archive.tar_files(path, lambda name: _matches(patterns, name)):
        review = array("q", (ids.get(word, unknown) for word in _words(content)))
        for pattern, matching in zip(patterns, reviews, strict=True):
            if pattern.match(name):
                matching.append(review)
    if not any(reviews):
        names = " or ".join(pattern.pattern for pattern in patterns)
        raise archive.damaged(path, f"no file in it matches {names}")
    return reviews


def _matches(patterns, name):
    return any(pattern.match(name) for pattern in patterns)
