"""WMT 2016 multimodal: 29,000 + 1,014 + 1,000 captions of photographs in English and German.

A sample is three lists of word ids: the source between <s> and <e>; <s> and the target; the target
and <e>. Dictionaries are built from the training sentences and stored beside the archive.
"""

import os
from collections import Counter

from pd_core import DamagedFile, atomic_write
from pd_v2.dataset import common
from pd_v2.dataset.samples import Samples
from pd_v2.files import archive
from pd_v2.files import text as words

__all__ = ["convert", "fetch", "get_dict", "test", "train", "validation"]

DATA_URL = "http://paddlemodels.bj.bcebos.com/wmt/wmt16.tar.gz"
DATA_MD5 = "0c38be43600334966403524a40dcd81e"
TOTAL_EN_WORDS = 11250
TOTAL_DE_WORDS = 19220
START_MARK = "<s>"
END_MARK = "<e>"
UNK_MARK = "<unk>"

_LARGEST = {"en": TOTAL_EN_WORDS, "de": TOTAL_DE_WORDS}
_MARKS = [START_MARK, END_MARK, UNK_MARK]


def reader_creator(file_name, src_dict_size, trg_dict_size, src_lang):
    """Return the samples of a file in the archive, from src_lang, "en" or "de", to the other one.

    Words beyond the sizes of the dictionaries have the id of <unk>.
    """
    _require_language(src_lang)
    trg_lang = "de" if src_lang == "en" else "en"
    columns = (0, 1) if src_lang == "en" else (1, 0)
    path = _file()
    dictionaries = get_dict(src_lang, src_dict_size), get_dict(trg_lang, trg_dict_size)

    def samples():
        source_ids, target_ids = map(words.with_bytes_keys, dictionaries)
        for line in words.lines(archive.tar_file(path, file_name)):
            pair = line.strip().split(b"\t")
            if len(pair) == 2:
                source = _ids(pair[columns[0]], source_ids)
                target = _ids(pair[columns[1]], target_ids)
                yield source, target[:-1], target[1:]

    return Samples(samples)


def train(src_dict_size, trg_dict_size, src_lang="en"):
    """Return the training samples."""
    return reader_creator("wmt16/train", src_dict_size, trg_dict_size, src_lang)


def test(src_dict_size, trg_dict_size, src_lang="en"):
    """Return the test samples."""
    return reader_creator("wmt16/test", src_dict_size, trg_dict_size, src_lang)


def validation(src_dict_size, trg_dict_size, src_lang="en"):
    """Return the validation samples."""
    return reader_creator("wmt16/val", src_dict_size, trg_dict_size, src_lang)


def get_dict(lang, dict_size, reverse=False):
    """Return {word: id} of a language's most frequent words, or {id: word} with reverse.

    There are at most dict_size words, including <s>, <e> and <unk>, which come first.
    """
    _require_language(lang)
    size = min(dict_size, _LARGEST[lang])
    if size <= len(_MARKS):
        raise ValueError(f"wmt16: a dictionary needs more than {len(_MARKS)} words, got {size}")
    path = common.in_cache("wmt16", f"{lang}_{size}.dict")
    if not os.path.exists(path):
        _write_dictionary(path, lang, size)
    with open(path, "rb") as file:
        vocabulary = [words.to_text(line.strip()) for line in words.lines(file.read())]
    if vocabulary[: len(_MARKS)] != _MARKS:
        marks = ", ".join(_MARKS)
        raise DamagedFile(
            f"wmt16: {path} does not begin with {marks}\n  hint: delete it to make it again"
        )
    return dict(enumerate(vocabulary)) if reverse else words.indexed(vocabulary)


def fetch():
    """Download the archive into the cache."""
    _file()


def convert(path, src_dict_size=TOTAL_EN_WORDS, trg_dict_size=TOTAL_DE_WORDS, src_lang="en"):
    """Write all three sets as RecordIO files."""
    for name, reader in (("train", train), ("test", test), ("validation", validation)):
        samples = reader(src_dict_size, trg_dict_size, src_lang)
        common.convert(path, samples, 1000, f"wmt16_{name}")


def _file():
    return common.download(DATA_URL, "wmt16", DATA_MD5)


def _require_language(lang):
    if lang not in _LARGEST:
        raise ValueError(f"wmt16: the languages are 'en' and 'de', got {lang!r}")


def _write_dictionary(path, lang, size):
    column, counts = ("en", "de").index(lang), Counter()
    for line in words.lines(archive.tar_file(_file(), "wmt16/train")):
        pair = line.strip().split(b"\t")
        if len(pair) == 2:
            counts.update(pair[column].split())
    vocabulary = [*_MARKS, *words.by_frequency(counts)][:size]
    with atomic_write(path) as file:
        file.writelines(words.to_bytes(word) + b"\n" for word in vocabulary)


def _ids(sentence, ids):
    """Return the word ids of a sentence between <s> and <e>."""
    inner = (ids.get(word, ids[UNK_MARK.encode()]) for word in sentence.split())
    return [ids[START_MARK.encode()], *inner, ids[END_MARK.encode()]]
