"""The Penn Treebank as preprocessed by Mikolov: 42,068 + 3,370 sentences of newspaper text.

A sample is a tuple of n consecutive word ids (DataType.NGRAM), or a pair of lists (DataType.SEQ):
the ids of <s> and the sentence, those of the sentence and <e>. The test samples are those of the
validation file.
"""

import functools
from collections import Counter

from pd_v2.dataset import common
from pd_v2.dataset.samples import Samples
from pd_v2.files import archive
from pd_v2.files import text as words

__all__ = ["build_dict", "convert", "test", "train"]

URL = "http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz"
MD5 = "30177ea32e27c525793142b6bf2c8e2d"

_TRAIN_FILE = "./simple-examples/data/ptb.train.txt"
_VALID_FILE = "./simple-examples/data/ptb.valid.txt"


class DataType:
    """The kind of a sample: n words, or a sentence."""

    NGRAM = 1
    SEQ = 2


def word_count(f, word_freq=None):
    """Count the words in a binary or text file; counts are added to word_freq.

    <s> and <e> count once per line.
    """
    word_freq = Counter() if word_freq is None else word_freq
    for line in f:
        for word in [*line.strip().split(), "<s>", "<e>"]:
            word = words.to_text(word) if isinstance(word, bytes) else word
            word_freq[word] = word_freq.get(word, 0) + 1
    return word_freq


def build_dict(min_word_freq=50):
    """Return {word: id} of the words that occur more than min_word_freq times in both files.

    Ids are in the order of falling frequency; <unk> has the last one.
    """
    counts = word_count(_lines(_file(), _TRAIN_FILE))
    word_count(_lines(_file(), _VALID_FILE), counts)
    frequent = {
        words.to_bytes(word): count
        for word, count in counts.items()
        if count > min_word_freq and word != "<unk>"
    }
    return words.indexed([*words.by_frequency(frequent), "<unk>"])


def reader_creator(filename, word_idx, n, data_type):
    """Return the samples of a file in the archive.

    NGRAM needs n >= 1. SEQ with n > 0 drops sentences of more than n words, including <s>.
    """
    if data_type not in _SAMPLES_OF:
        raise ValueError(
            f"imikolov: data_type must be DataType.NGRAM (1) or DataType.SEQ (2), got {data_type!r}"
        )
    if data_type == DataType.NGRAM and n < 1:
        raise ValueError(f"imikolov: n-grams need n of at least 1, got {n}")
    for mark in ("<unk>", *(("<s>", "<e>") if data_type == DataType.SEQ else ())):
        if mark not in word_idx:
            raise ValueError(f"imikolov: the dictionary has no {mark} among {len(word_idx)} words")
    path, unknown = _file(), word_idx["<unk>"]
    sentences = functools.cache(lambda: _sentences(path, filename, word_idx))
    start, end = (word_idx.get(mark, unknown) for mark in ("<s>", "<e>"))

    def samples():
        for sentence in sentences():
            yield from _SAMPLES_OF[data_type](sentence, start, end, n)

    return Samples(samples)


def train(word_idx, n, data_type=DataType.NGRAM):
    """Return the training samples."""
    return reader_creator(_TRAIN_FILE, word_idx, n, data_type)


def test(word_idx, n, data_type=DataType.NGRAM):
    """Return the test samples."""
    return reader_creator(_VALID_FILE, word_idx, n, data_type)


def fetch():
    """Download the archive into the cache."""
    _file()


def convert(path):
    """Write the 5-grams of both sets as RecordIO files."""
    word_idx = build_dict()
    common.convert(path, train(word_idx, 5), 1000, "imikolov_train")
    common.convert(path, test(word_idx, 5), 1000, "imikolov_test")


def _file():
    return common.download(URL, "imikolov", MD5)


def _lines(path, filename):
    return words.lines(archive.tar_file(path, filename))


def _sentences(path, filename, word_idx):
    """Return the word ids of each line, in a list of tuples."""
    ids, unknown = words.with_bytes_keys(word_idx), word_idx["<unk>"]
    return [
        tuple(ids.get(word, unknown) for word in line.split()) for line in _lines(path, filename)
    ]


def _ngrams(sentence, start, end, n):
    marked = (start, *sentence, end)
    return (marked[first : first + n] for first in range(len(marked) - n + 1))


def _sequence(sentence, start, end, n):
    if 0 < n < len(sentence) + 1:
        return []
    return [([start, *sentence], [*sentence, end])]


_SAMPLES_OF = {DataType.NGRAM: _ngrams, DataType.SEQ: _sequence}
