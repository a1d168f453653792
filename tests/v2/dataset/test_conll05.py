import gzip

import numpy as np
import pytest

from pd_v2.dataset import conll05
from pd_v2.reader import creator

from . import originals

SENTENCES = [
    [
        (b"The", b"-", b"(A0*", b"(A1*"),
        (b"cat", b"-", b"*)", b"*"),
        (b"we", b"-", b"*", b"*)"),
        (b"saw", b"see", b"(V*)", b"*"),
        (b"sat", b"sit", b"(AM-LOC*)", b"(V*"),
        (b"down", b"-", b"*", b"*)"),
        (b".", b"-", b"*", b"*"),
    ],
    [(b"Silence", b"-"), (b".", b"-")],
    [(b"Go", b"go", b"(V*)")],
]
WORDS = [b"UNK", b"bos", b"eos", b"The", b"cat", b"saw", b"sat", b"down", b".", b"we"]
VERBS = [b"see", b"sit"]
LABELS = [b"B-A0", b"I-A0", b"B-A1", b"I-A1", b"B-V", b"I-V", b"B-AM-LOC", b"O"]
VECTORS = np.arange(len(WORDS) * 32).reshape(-1, 32)
SENTENCE = ["The", "cat", "we", "saw", "sat", "down", "."]


@pytest.fixture
def archive(home):
    return originals.conll05(home, SENTENCES, WORDS, VERBS, LABELS, VECTORS)


def corpus(path):
    return conll05.corpus_reader(
        str(path),
        "conll05st-release/test.wsj/words/test.wsj.words.gz",
        "conll05st-release/test.wsj/props/test.wsj.props.gz",
    )


def test_brackets_become_a_labelled_sentence_for_each_predicate(archive):
    assert list(corpus(archive)()) == [
        (SENTENCE, "see", ["B-A0", "I-A0", "O", "B-V", "B-AM-LOC", "O", "O"]),
        (SENTENCE, "sit", ["B-A1", "I-A1", "I-A1", "O", "B-V", "I-V", "O"]),
        (["Go"], "go", ["B-V"]),
    ]


def test_samples_are_nine_lists(archive):
    words = [3, 4, 9, 5, 6, 7, 8]
    see = [words, [4], [9], [5], [6], [7], [0], [0, 1, 1, 1, 1, 1, 0], [0, 1, 7, 4, 6, 7, 7]]
    sit = [words, [9], [5], [6], [7], [8], [1], [0, 0, 1, 1, 1, 1, 1], [2, 3, 3, 7, 4, 5, 7]]
    expected = [
        tuple(part * 7 if len(part) == 1 else part for part in sample) for sample in (see, sit)
    ]
    expected.append(([0], [1], [1], [0], [2], [2], [None], [1], [4]))
    reader = conll05.test()
    assert list(reader()) == expected == list(reader)


def test_dictionaries_count_lines(archive):
    words, verbs, labels = conll05.get_dict()
    assert words == {word.decode(): i for i, word in enumerate(WORDS)}
    assert verbs == {"see": 0, "sit": 1}
    assert labels["B-V"] == 4 and len(labels) == 8


def test_a_label_that_no_dictionary_has_is_none(archive):
    words, verbs, labels = conll05.get_dict()
    del labels["B-AM-LOC"]
    first = next(iter(conll05.reader_creator(corpus(archive), words, verbs, labels)))
    assert first[8] == [0, 1, 7, 4, None, 7, 7]


def test_embedding_is_a_file_of_vectors(archive):
    with open(conll05.get_embedding(), "rb") as file:
        file.read(16)
        np.testing.assert_array_equal(np.fromfile(file, np.float32).reshape(-1, 32), VECTORS)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [(b"a", b"be", b"V*")],
            r"props.gz, lines 1 to 1 is damaged: a cell 'V\*' fits no bracket",
        ),
        ([(b"a", b"be", b"*)")], r"a cell '\*\)' fits no bracket"),
        ([(b"a", b"be", b"(V*)", b"*")], "1 predicates, 2 columns of brackets"),
        ([(b"a", b"be", b"(V*)"), (b"b", b"-")], "columns changes inside a sentence"),
    ],
)
def test_a_damaged_sentence_is_named(home, rows, message):
    path = originals.conll05(home, [rows], WORDS, VERBS, LABELS, VECTORS)
    with pytest.raises(ValueError, match=message):
        list(corpus(path))


def test_a_sentence_without_its_verb(home):
    originals.conll05(home, [[(b"a", b"be", b"*"), (b"b", b"-", b"*")]], WORDS, VERBS, LABELS, [])
    with pytest.raises(ValueError, match="no label B-V in the sentence 'a b'"):
        list(conll05.test())


def test_files_of_different_lengths(home):
    members = {
        "conll05st-release/test.wsj/words/test.wsj.words.gz": gzip.compress(b"a\nb\n\n"),
        "conll05st-release/test.wsj/props/test.wsj.props.gz": gzip.compress(b"be (V*)\n\n"),
    }
    path = originals.tar(home / "tiny.tar.gz", members)
    with pytest.raises(ValueError, match=r"lines of .*words.gz and .*props.gz do not match"):
        list(corpus(path))


def test_convert_writes_the_samples_twice(archive, tmp_path):
    conll05.convert(str(tmp_path))
    for name in ("conl105_train", "conl105_test"):
        samples = list(creator.recordio(str(tmp_path / f"{name}-00000"))())
        assert sorted(len(sample[0]) for sample in samples) == [1, 7, 7]


def test_fetch_asks_for_the_originals(asked):
    conll05.fetch()
    assert asked == [
        ("conll05st-tests.tar.gz", "conll05st", "387719152ae52d60422c016e92a742fc"),
        ("wordDict.txt", "conll05st", "ea7fb7d4c75cc6254716f0177a506baa"),
        ("verbDict.txt", "conll05st", "0d2977293bbb6cbefab5b0f97db1e77c"),
        ("targetDict.txt", "conll05st", "d8c7f03ceb5fc2e5a0fa7503a4353751"),
        ("emb", "conll05st", "bf436eb0faa1f6f9103017f8be57cdb7"),
    ]
