"""CoNLL-2005 semantic roles: the test sentences of the Wall Street Journal, 5,267 predicates.

A sample is nine lists of the length of a sentence: word ids; the ids of the words two and one
before the predicate, of the predicate, one and two after it, each repeated; the id of the
predicate's base form, repeated; 1 at the predicate and up to two words around it, else 0; and label
ids. Labels are in IOB form: B-A0 begins a phrase of role A0, I-A0 continues it, O is outside.
"""

from pd_core import DamagedFile
from pd_v2.dataset import common
from pd_v2.dataset.samples import Samples
from pd_v2.files import archive
from pd_v2.files import text as words

__all__ = ["convert", "get_dict", "get_embedding", "test"]

DATA_URL = "http://www.cs.upc.edu/~srlconll/conll05st-tests.tar.gz"
DATA_MD5 = "387719152ae52d60422c016e92a742fc"
_OURS = "http://paddlepaddle.bj.bcebos.com/demo/srl_dict_and_embedding/"
WORDDICT_URL = _OURS + "wordDict.txt"
WORDDICT_MD5 = "ea7fb7d4c75cc6254716f0177a506baa"
VERBDICT_URL = _OURS + "verbDict.txt"
VERBDICT_MD5 = "0d2977293bbb6cbefab5b0f97db1e77c"
TRGDICT_URL = _OURS + "targetDict.txt"
TRGDICT_MD5 = "d8c7f03ceb5fc2e5a0fa7503a4353751"
EMB_URL = _OURS + "emb"
EMB_MD5 = "bf436eb0faa1f6f9103017f8be57cdb7"

UNK_IDX = 0

_WORDS = "conll05st-release/test.wsj/words/test.wsj.words.gz"
_ROLES = "conll05st-release/test.wsj/props/test.wsj.props.gz"
_NO_PREDICATE = "-"


def load_dict(filename):
    """Return {line: line number} of a text file."""
    with open(filename, "rb") as file:
        return words.indexed(words.to_text(line.strip()) for line in words.lines(file.read()))


def corpus_reader(data_path, words_name, props_name):
    """Return the samples (words, predicate, labels) of an archive, one per predicate."""

    def samples():
        for where, sentence, rows in _sentences(data_path, words_name, props_name):
            base_forms, *columns = zip(*rows, strict=True)
            predicates = [form for form in base_forms if form != _NO_PREDICATE]
            if len(predicates) != len(columns):
                problem = f"{len(predicates)} predicates, {len(columns)} columns of brackets"
                raise archive.damaged(where, problem)
            for predicate, column in zip(predicates, columns, strict=True):
                yield sentence, predicate, _labels(where, column)

    return Samples(samples)


def reader_creator(corpus_reader, word_dict=None, predicate_dict=None, label_dict=None):
    """Return the samples of a corpus_reader as ids.

    Unknown words have the id UNK_IDX; the id of an unknown predicate or label is None.
    """

    def samples():
        for sentence, predicate, labels in corpus_reader():
            verb = _verb(sentence, labels)
            context = [_word_at(sentence, verb + offset) for offset in (-2, -1, 0, 1, 2)]
            size = len(sentence)
            yield (
                [word_dict.get(word, UNK_IDX) for word in sentence],
                *([word_dict.get(word, UNK_IDX)] * size for word in context),
                [predicate_dict.get(predicate)] * size,
                [int(abs(i - verb) <= 2) for i in range(size)],
                [label_dict.get(label) for label in labels],
            )

    return Samples(samples)


def get_dict():
    """Return dictionaries {name: id} of words, predicates and labels."""
    return tuple(load_dict(_dictionary(*file)) for file in _DICTIONARIES)


def get_embedding():
    """Return the path of word vectors: a header of 16 bytes, then float32[44068, 32]."""
    return common.download(EMB_URL, "conll05st", EMB_MD5)


def test():
    """Return the samples; others require a licence."""
    corpus = corpus_reader(_file(), _WORDS, _ROLES)
    return reader_creator(corpus, *get_dict())


def fetch():
    """Download all files into the cache."""
    _file()
    for file in _DICTIONARIES:
        _dictionary(*file)
    get_embedding()


def convert(path):
    """Write the samples as RecordIO files, twice as in 2017; "conl105" is 2017's spelling."""
    common.convert(path, test(), 1000, "conl105_train")
    common.convert(path, test(), 1000, "conl105_test")


_DICTIONARIES = (
    (WORDDICT_URL, WORDDICT_MD5),
    (VERBDICT_URL, VERBDICT_MD5),
    (TRGDICT_URL, TRGDICT_MD5),
)


def _file():
    return common.download(DATA_URL, "conll05st", DATA_MD5)


def _dictionary(url, md5sum):
    return common.download(url, "conll05st", md5sum)


def _sentences(data_path, words_name, props_name):
    """Yield (place for errors, words, rows of columns) of each sentence."""
    tokens, rows = (_column_lines(data_path, name) for name in (words_name, props_name))
    if [bool(token) for token in tokens] != [bool(row) for row in rows]:
        raise archive.damaged(data_path, f"lines of {words_name} and {props_name} do not match")
    start = 0
    for end in [*(i for i, row in enumerate(rows) if not row), len(rows)]:
        if end > start:
            where = f"{data_path}: {props_name}, lines {start + 1} to {end}"
            if len({len(row) for row in rows[start:end]}) > 1:
                raise archive.damaged(where, "the number of columns changes inside a sentence")
            yield where, [" ".join(token) for token in tokens[start:end]], rows[start:end]
        start = end + 1


def _column_lines(data_path, name):
    content = archive.gunzipped(f"{data_path}: {name}", archive.tar_file(data_path, name))
    return [[words.to_text(word) for word in line.split()] for line in words.lines(content)]


def _labels(where, column):
    """Convert a column of brackets such as (A0*, * and *) to IOB labels."""
    labels, role = [], None
    for cell in column:
        opening, star, closing = cell.partition("*")
        if star and opening.startswith("("):
            role = opening[1:]
            labels.append(f"B-{role}")
        elif cell == "*" or (cell == "*)" and role is not None):
            labels.append("O" if role is None else f"I-{role}")
        else:
            raise archive.damaged(where, f"a cell {cell!r} fits no bracket")
        if closing.startswith(")"):
            role = None
    return labels


def _verb(sentence, labels):
    if "B-V" not in labels:
        raise DamagedFile(f"conll05: no label B-V in the sentence {' '.join(sentence)!r}")
    return labels.index("B-V")


def _word_at(sentence, i):
    if i < 0:
        return "bos"
    return sentence[i] if i < len(sentence) else "eos"
