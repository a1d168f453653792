"""WMT 2014: pairs of a French and an English sentence, a sample of 191,155 + 5,957 + 3.

A sample is three lists of word ids: the source between <s> and <e>; <s> and the target, the input
of a decoder; the target and <e>, its labels. Pairs with more than 80 words are left out.
"""

import gzip

from pd_core import DamagedFile
from pd_v2.dataset import common
from pd_v2.dataset.samples import Samples
from pd_v2.files import archive
from pd_v2.files import text as words

__all__ = ["convert", "get_dict", "test", "train"]

URL_DEV_TEST = "http://www-lium.univ-lemans.fr/~schwenk/cslm_joint_paper/data/dev+test.tgz"
MD5_DEV_TEST = "7d7897317ddd8ba0ae5c5fa7248d3ff5"
URL_TRAIN = "http://paddlepaddle.cdn.bcebos.com/demo/wmt_shrinked_data/wmt14.tgz"
MD5_TRAIN = "0791583d57d5beb693b9414c5b36798c"
URL_MODEL = "http://paddlepaddle.bj.bcebos.com/demo/wmt_14/wmt14_model.tar.gz"
MD5_MODEL = "0cb4a5366189b6acba876491c8724fa3"

START = "<s>"
END = "<e>"
UNK = "<unk>"
UNK_IDX = 2

_LONGEST = 80
_DICT_SIZE = 30000


def reader_creator(tar_file, file_name, dict_size):
    """Return the samples of the files in an archive whose names end in file_name.

    Words beyond the first dict_size of a dictionary have the id UNK_IDX.
    """

    def samples():
        source_ids, target_ids = map(words.with_bytes_keys, _dictionaries(tar_file, dict_size))
        is_empty = True
        for _, content in _files_ending(tar_file, file_name):
            is_empty = False
            for line in words.lines(content):
                pair = line.strip().split(b"\t")
                if len(pair) == 2:
                    yield from _samples(*pair, source_ids, target_ids)
        if is_empty:
            raise archive.damaged(tar_file, f"no file in it ends in {file_name!r}")

    return Samples(samples)


def train(dict_size):
    """Return the training samples."""
    return reader_creator(_file(), "train/train", dict_size)


def test(dict_size):
    """Return the test samples."""
    return reader_creator(_file(), "test/test", dict_size)


def gen(dict_size):
    """Return samples to translate."""
    return reader_creator(_file(), "gen/gen", dict_size)


def get_dict(dict_size, reverse=True):
    """Return dictionaries of source and target: {id: word}, or {word: id} with reverse=False."""
    dictionaries = _dictionaries(_file(), dict_size)
    if not reverse:
        return dictionaries
    return tuple({number: word for word, number in d.items()} for d in dictionaries)


def model():
    """Return the Parameters of a trained translator."""
    from pd_v2.parameters import Parameters

    with gzip.open(common.download(URL_MODEL, "wmt14", MD5_MODEL)) as file:
        return Parameters.from_tar(file)


def fetch():
    """Download sentences and model into the cache."""
    _file()
    common.download(URL_MODEL, "wmt14", MD5_MODEL)


def convert(path):
    """Write both sets, with dictionaries of 30,000 words, as RecordIO files."""
    common.convert(path, train(_DICT_SIZE), 1000, "wmt14_train")
    common.convert(path, test(_DICT_SIZE), 1000, "wmt14_test")


def _file():
    return common.download(URL_TRAIN, "wmt14", MD5_TRAIN)


def _dictionaries(tar_file, size):
    """Return {word: id} of source and target; a word's id is its line number."""
    files = list(_files_ending(tar_file, ".dict"))
    return tuple(_dictionary(tar_file, files, f"{side}.dict", size) for side in ("src", "trg"))


def _files_ending(tar_file, suffix):
    return archive.tar_files(tar_file, lambda name: name.endswith(suffix))


def _dictionary(tar_file, files, suffix, size):
    contents = [content for name, content in files if name.endswith(suffix)]
    if len(contents) != 1:
        raise archive.damaged(tar_file, f"{len(contents)} files end in {suffix!r}, expected one")
    ids = words.indexed(words.to_text(line.strip()) for line in words.lines(contents[0])[:size])
    if ids.get(START) is None or ids.get(END) is None:
        error = DamagedFile if size > UNK_IDX else ValueError
        raise error(
            f"wmt14: {tar_file}: the first {size} words of {suffix} have no {START} or no {END}; "
            "a dictionary begins with <s>, <e> and <unk>"
        )
    return ids


def _samples(source, target, source_ids, target_ids):
    """Return a list of one sample, empty for a pair that is too long."""
    start, end = START.encode(), END.encode()
    source = [source_ids.get(word, UNK_IDX) for word in (start, *source.split(), end)]
    target = [target_ids.get(word, UNK_IDX) for word in target.split()]
    if len(source) > _LONGEST or len(target) > _LONGEST:
        return []
    return [(source, [target_ids[start], *target], [*target, target_ids[end]])]
