"""chunk and ctc_error: against slow counts of one sequence, and cases by hand."""

from functools import cache

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import evaluator as E
from pd_v2.evaluator import sequences as edit
from pd_v2.topology import Topology

from .evaluator_checks import id_sequences, ids, metrics, packed, row_sequences, rows

L, T = paddle.layer, paddle.data_type
TAGS = {"plain": "-", "IOB": "BI", "IOE": "IE", "IOBES": "BIES"}


def spell(text, scheme):
    """Ids of a text such as 'B0 I0 O B1' with types 0 and 1."""
    tags = TAGS[scheme]
    return [
        2 * len(tags) if word == "O" else int(word[1]) * len(tags) + tags.index(word[0])
        for word in text.split()
    ]


def slow_chunks(labels, scheme, outside):
    """{(begin, end, type)} of one sequence, token by token."""
    tags, found, begin = TAGS[scheme], set(), None
    before, kind = "O", outside
    for i, label in enumerate([*labels, outside * len(tags)]):
        now, new = tags[label % len(tags)], label // len(tags)
        if new == outside:
            ends, begins = kind != outside, False
        elif kind == outside or new != kind:
            ends, begins = kind != outside, True
        else:
            begins = ends = before in "ES" or now in "BS"
        if ends:
            found.add((begin, i - 1, kind))
        if begins:
            begin = i
        before, kind = now, new
    return found


SEQUENCES = [
    ("IOB", "B0 I0 O B1", {(0, 1, 0), (3, 3, 1)}),
    ("IOB", "B0 B0 I1 I0", {(0, 0, 0), (1, 1, 0), (2, 2, 1), (3, 3, 0)}),
    ("IOE", "I0 E0 I0 O E1 E1", {(0, 1, 0), (2, 2, 0), (4, 4, 1), (5, 5, 1)}),
    ("IOBES", "B0 I0 E0 S0 S1 O B1 E1", {(0, 2, 0), (3, 3, 0), (4, 4, 1), (6, 7, 1)}),
    ("plain", "-0 -0 -1 O -1", {(0, 1, 0), (2, 2, 1), (4, 4, 1)}),
]


@pytest.mark.parametrize(("scheme", "text", "expected"), SEQUENCES)
def test_chunks_by_hand(scheme, text, expected):
    labels = np.array(spell(text, scheme))
    assert slow_chunks(labels, scheme, 2) == expected
    tags = "" if scheme == "plain" else TAGS[scheme]
    last, types = edit.Chunks(tags, 2, [])._chunks(labels, [len(labels)])
    assert {(b, e, types[b]) for b, e in enumerate(last) if e >= 0} == expected


@pytest.mark.parametrize("excluded", [None, [1], [0, 2]])
@pytest.mark.parametrize("scheme", TAGS)
def test_chunks_of_random_ids(scheme, excluded, rng):
    size = 3 * len(TAGS[scheme]) + 1
    E.chunk(
        id_sequences("x", size),
        id_sequences("y", size),
        chunk_scheme=scheme,
        num_chunk_types=3,
        excluded_chunk_types=excluded,
        name="c",
    )
    batches, right, found, wanted = [], 0, 0, 0
    for lengths in ([4, 0, 1, 9], [], [0], [30]):
        wanted_ids = [rng.integers(0, size, n) for n in lengths]
        ids = [np.where(rng.uniform(size=len(y)) < 0.3, 0, y) for y in wanted_ids]
        batches.append(batch(x=ids, y=wanted_ids))
        for a, b in zip(ids, wanted_ids, strict=True):
            x, y = (
                {c for c in slow_chunks(s, scheme, 3) if c[2] not in (excluded or ())}
                for s in (a, b)
            )
            right, found, wanted = right + len(x & y), found + len(x), wanted + len(y)
    p, r = right / found, right / wanted
    expected = {"c.precision": p, "c.recall": r, "c.F1-score": 2 * p * r / (p + r)}
    assert metrics(batches) == pytest.approx(expected)


def batch(**columns):
    """Feeds of sequences of ids."""
    feeds = {}
    for name, sequences in columns.items():
        feeds |= packed(name, [*sequences, np.zeros(0, np.int64)])
        feeds[f"{name}.lengths"] = feeds[f"{name}.lengths"][:-1]
    return feeds


def test_ids_beside_rows():
    decoded = row_sequences("wrong", 1)
    decoded.ids = id_sequences("found", 3)
    E.chunk(decoded, id_sequences("y", 3), "IOB", 1, name="c")
    feeds = batch(found=[[0, 1, 2]], y=[[0, 1, 1]]) | packed("wrong", [np.zeros((3, 1))])
    assert set(metrics([feeds]).values()) == {0.0}
    feeds |= batch(found=[[0, 1, 1]])
    assert set(metrics([feeds]).values()) == {1.0}


def test_no_chunks():
    E.chunk(id_sequences("x", 5), id_sequences("y", 5), "IOB", 2, name="c")
    nothing = {"c.precision": 0.0, "c.recall": 0.0, "c.F1-score": 0.0}
    assert metrics([]) == nothing
    assert metrics([batch(x=[[4, 4]], y=[[4, 4]])]) == nothing


def test_chunks_of_the_largest_columns_and_nested_sequences():
    kind = T.dense_vector_sub_sequence(3)
    best = L.max_id(input=L.data(name="x", type=kind))
    label = L.data(name="y", type=T.integer_value_sub_sequence(3))
    E.chunk(best, label, "IOB", 1, name="c")
    lengths = {"lengths": np.array([2]), "sub_lengths": np.array([1, 2])}
    feeds = {f"{name}.{k}": v for name in "xy" for k, v in lengths.items()}
    # one chunk of a sample goes on through its sub-sequences
    found = metrics([feeds | {"x": np.eye(3)[[0, 1, 2]], "y": np.array([0, 1, 1])}])
    assert found == {"c.precision": 0.0, "c.recall": 0.0, "c.F1-score": 0.0}
    found = metrics([feeds | {"x": np.eye(3)[[0, 1, 2]], "y": np.array([0, 1, 2])}])
    assert found == {"c.precision": 1.0, "c.recall": 1.0, "c.F1-score": 1.0}


def test_configuration_of_chunk():
    x, y = id_sequences("x", 9), id_sequences("y", 9)
    E.chunk(input=x, label=y, chunk_scheme="IOE", num_chunk_types=4, excluded_chunk_types=[2, 3])
    (found,) = Topology([x, y]).proto().evaluators
    assert (found.name, found.type) == ("__chunk_evaluator_0__", "chunk")
    assert (found.chunk_scheme, found.num_chunk_types) == ("IOE", 4)
    assert list(found.excluded_chunk_types) == [2, 3]


def test_what_chunk_refuses():
    x, y = id_sequences("x"), id_sequences("y")
    with pytest.raises(ValueError, match="one of plain, IOB, IOE, IOBES, not 'BIO'"):
        E.chunk(x, y, "BIO", 2)
    with pytest.raises(pd.GraphError, match="chunk: 'z' holds no sequences"):
        E.chunk(x, ids("z"), "IOB", 2)
    with pytest.raises(pd.DTypeError, match="chunk: 'r' holds rows of numbers, no ids"):
        E.chunk(row_sequences("r"), y, "IOB", 2)
    E.chunk(x, y, "IOB", 1)
    with pytest.raises(ValueError, match="chunk: 2 ids are found, the labels have 3"):
        metrics([batch(x=[[1, 1]], y=[[1, 1, 1]])])
    with pytest.raises(ValueError, match="chunk: the id 3 is more than 2, which is no chunk"):
        metrics([batch(x=[[1, 2]], y=[[1, 3]])])


# ---- in training


def test_metrics_of_batches_passes_and_tests(rng):
    x, label = row_sequences(size=4), id_sequences("y", 4)
    p = L.fc(x, size=4, act=paddle.activation.Softmax())
    cost = L.classification_cost(input=p, label=label, name="cost")
    E.chunk(L.max_id(input=p, name="best"), label, "plain", 3, name="chunk")
    E.ctc_error(p, label, name="ctc")
    E.sum(label, name="sum")
    pool = paddle.parameters.create(cost)
    optimizer = paddle.optimizer.Momentum(learning_rate=0.0)
    best = L.get_layer("best")
    trainer = paddle.trainer.SGD(cost, pool, optimizer, extra_layers=best)
    batches = [
        [(rng.standard_normal((n, 4)), list(rng.integers(0, 4, n))) for n in lengths]
        for lengths in ([5, 1, 7], [9])
    ]
    seen = []

    def note(event):
        if hasattr(event, "metrics"):
            seen.append((type(event).__name__, event.metrics))

    trainer.train(lambda: iter(batches), event_handler=note)
    assert [kind for kind, _ in seen] == ["EndIteration", "EndIteration", "EndPass"]
    whole = trainer.test(lambda: iter([batches[0] + batches[1]])).metrics
    assert seen[2][1] == pytest.approx(whole) and len(whole) == 1 + 3 + 5 + 1
    for (_, found), batch in zip(seen, batches, strict=False):
        assert found == pytest.approx(trainer.test(lambda batch=batch: iter([batch])).metrics)
    ids = [k for batch in batches for _, labels in batch for k in labels]
    assert whole["sum"] == pytest.approx(np.mean(ids))
    assert seen[0][1]["ctc.error"] != seen[1][1]["ctc.error"]


def test_the_sum_of_decoded_sequences_is_the_error_rate(rng):
    """Given the labels, a row of crf_decoding is 1 where it is wrong."""
    x, label = row_sequences(size=3), id_sequences("y", 3)
    attr = paddle.attr.Param(name="crf")
    cost = L.crf(input=x, label=label, size=3, param_attr=attr)
    found = L.crf_decoding(input=x, size=3, label=label, param_attr=attr)
    E.sum(found, name="error")
    E.chunk(found, label, chunk_scheme="plain", num_chunk_types=2, name="chunk")
    pool = paddle.parameters.create(cost)
    pool["crf"] = np.zeros((5, 3))
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(), extra_layers=found)
    rows_, labels = [np.eye(3)[[0, 1, 2]], np.eye(3)[[1]]], [[0, 0, 2], [1]]
    result = trainer.test(lambda: iter([list(zip(rows_, labels, strict=True))]))
    assert result.metrics == pytest.approx(
        {"error": 1 / 4, "chunk.precision": 1 / 3, "chunk.recall": 1 / 2, "chunk.F1-score": 0.4}
    )


# ---- ctc_error


def slow_distance(a, b):
    """Levenshtein's distance by its definition."""

    @cache
    def of(i, j):
        if not i or not j:
            return i + j
        return min(of(i - 1, j) + 1, of(i, j - 1) + 1, of(i - 1, j - 1) + (a[i - 1] != b[j - 1]))

    return of(len(a), len(b))


def slow_edits(wanted, found):
    """(deletions, insertions, substitutions) by 2017's way back through the distances.

    It takes the first that fits: both one back for nothing, both for a substitution, one of the
    wanted for a deletion, one of the found for an insertion.
    """
    i, j, kinds = len(wanted), len(found), [0, 0, 0]

    def less(i, j):
        return slow_distance(tuple(wanted[:i]), tuple(found[:j]))

    while i or j:
        here = less(i, j)
        if i and j and less(i - 1, j - 1) == here:
            i, j = i - 1, j - 1
        elif i and j and less(i - 1, j - 1) + 1 == here:
            i, j, kinds[2] = i - 1, j - 1, kinds[2] + 1
        elif i and less(i - 1, j) + 1 == here:
            i, kinds[0] = i - 1, kinds[0] + 1
        else:
            j, kinds[1] = j - 1, kinds[1] + 1
    return tuple(kinds)


EDITS = [
    # wanted, found, deletions, insertions, substitutions
    ("", "", 0, 0, 0),
    ("abc", "abc", 0, 0, 0),
    ("abc", "", 3, 0, 0),
    ("", "ab", 0, 2, 0),
    ("abc", "ac", 1, 0, 0),
    ("ac", "abc", 0, 1, 0),
    ("abc", "axc", 0, 0, 1),
    ("kitten", "sitting", 0, 1, 2),
    ("ab", "ba", 0, 0, 2),
    # in both one deletion and one insertion would do, which 2017 never saw
    ("cab", "abc", 0, 0, 2),
    ("abbc", "cabb", 0, 0, 2),
]


@pytest.mark.parametrize(("wanted", "found", "deleted", "inserted", "substituted"), EDITS)
def test_edits_by_hand(wanted, found, deleted, inserted, substituted):
    codes = [np.array([ord(c) for c in text], np.int64) for text in (wanted, found)]
    assert edit.edits(*codes) == (deleted, inserted, substituted)


def test_edits_of_random_sequences(rng):
    for _ in range(60):
        a, b = (rng.integers(0, 3, rng.integers(0, 7)) for _ in range(2))
        assert edit.edits(a, b) == slow_edits(a, b)
        assert sum(edit.edits(a, b)) == slow_distance(tuple(a), tuple(b))


def best_path(columns, blank):
    path = [c for k, c in enumerate(columns) if k == 0 or c != columns[k - 1]]
    return tuple(c for c in path if c != blank)


def test_errors_of_best_paths(rng):
    E.ctc_error(row_sequences(size=4), id_sequences(size=3), name="e")
    batches, errors = [], []
    for lengths in ([5, 0, 12], [3]):
        columns = [rng.integers(0, 4, n) for n in lengths]
        labels = [rng.integers(0, 3, rng.integers(1, 6)) for _ in lengths]
        steps = packed("x", [np.eye(4)[c] for c in columns])
        batches.append(steps | packed("label", labels))
        for c, y in zip(columns, labels, strict=True):
            path = best_path(tuple(c), 3)
            errors.append(slow_distance(tuple(y), path) / max(len(y), len(path)))
    found = metrics(batches)
    assert found["e.error"] == pytest.approx(np.mean(errors))
    assert found["e.sequence_error"] == pytest.approx(np.mean(np.array(errors) > 0))
    kinds = [found[f"e.{k}_error"] for k in ("deletion", "insertion", "substitution")]
    assert sum(kinds) == pytest.approx(found["e.error"]) and len(found) == 5


def test_kinds_of_errors():
    E.ctc_error(row_sequences(size=4), id_sequences(size=3), name="e")
    columns, labels = [[0, 0, 3, 0, 1], [2, 3], [3]], [[0, 0, 2], [1, 2, 2], [1]]
    feeds = packed("x", [np.eye(4)[c] for c in columns]) | packed("label", labels)
    assert metrics([feeds]) == pytest.approx(
        {
            "e.error": (1 / 3 + 2 / 3 + 1) / 3,
            "e.deletion_error": (2 / 3 + 1) / 3,
            "e.insertion_error": 0.0,
            "e.substitution_error": 1 / 9,
            "e.sequence_error": 1.0,
        }
    )


def test_no_sequences_no_errors():
    E.ctc_error(row_sequences(size=4), id_sequences(size=3), name="e")
    empty = {"x": np.zeros((0, 4)), "label": np.zeros(0, np.int64)}
    empty |= {"x.lengths": np.zeros(0, np.int64), "label.lengths": np.zeros(0, np.int64)}
    one = {k: np.zeros(1, np.int64) if k.endswith("lengths") else v for k, v in empty.items()}
    for batches in ([], [empty], [one]):
        assert set(metrics(batches).values()) == {0.0}


def test_what_ctc_error_refuses():
    with pytest.raises(pd.GraphError, match="ctc_error: 'x' holds no sequences"):
        E.ctc_error(rows(), id_sequences())


def test_sequences_with_any_error(rng):
    E.seq_classification_error(row_sequences(), id_sequences(), name="e")
    lengths, wrong, total = [[3, 1, 0, 2], [4]], 0, 0
    batches = []
    for counts in lengths:
        scores = [rng.standard_normal((n, 4)) for n in counts]
        labels = [s.argmax(1) for s in scores]
        if len(counts) > 1:
            labels[0][1] = (labels[0][1] + 1) % 4
            labels[3][0] = (labels[3][0] + 1) % 4
            wrong += 2
        total += len(counts)
        batches.append(packed("x", scores) | packed("label", labels))
    batches = [{k: v.astype("float32") if k == "x" else v for k, v in b.items()} for b in batches]
    assert metrics(batches) == {"e": pytest.approx(wrong / total)}


def test_a_sequence_counts_once_however_wrong_its_rows_are():
    E.seq_classification_error(row_sequences(), row_sequences("label"), name="e")
    right, wrong = np.eye(4)[:2], 1 - np.eye(4)[:2]
    feeds = packed("x", [right, right, right]) | packed("label", [right, wrong, wrong])
    assert metrics([feeds]) == {"e": pytest.approx(2 / 3)}


def test_rows_are_no_sequences():
    with pytest.raises(pd.GraphError, match="seq_classification_error: 'x' holds no sequences"):
        E.seq_classification_error(rows(), ids())
