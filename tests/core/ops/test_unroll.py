"""Described steps along sequences, and beam search, without any layers."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph.node import ancestors

WIDTH = 3


def described(sequences, tokens, row):
    """A state, a value that no state needs, one that needs no state, and a fixed row."""
    x = pd.Variable.of(("batch", WIDTH), "float32", "x")
    fixed = pd.identity(row)
    w, u = pd.Variable("w", shape=[WIDTH, WIDTH]), pd.Variable("u", shape=[WIDTH, WIDTH])
    h = pd.Variable.of(("batch", WIDTH), "float32", "h")
    before = pd.matmul(x, w)
    new = pd.tanh(before + pd.matmul(h, u) + fixed)
    after = pd.exp(new) * fixed
    state = pd.State(h, sequences.zeros(WIDTH), new)
    step = pd.Step({x: tokens}, [state], [fixed], [before, new, after])
    return step, [new, after, before, fixed], (w, u)


def slots():
    tokens = pd.Variable(["tokens", WIDTH], name="tokens")
    lengths = pd.Variable(["batch"], dtype="int64", name="lengths")
    row = pd.Variable(["batch", WIDTH], name="row")
    return pd.Segments(lengths, "tokens"), tokens, lengths, row


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("counts", [[2, 0, 3, 1], [1], [0, 0], []], ids=str)
def test_values(counts, reverse, rng):
    sequences, tokens, lengths, row = slots()
    step, outputs, weights = described(sequences, tokens, row)
    packed = pd.unroll(step, outputs, sequences, reverse)
    x = rng.standard_normal((sum(counts), WIDTH)).astype(np.float32)
    r = rng.standard_normal((len(counts), WIDTH)).astype(np.float32)
    actual = pd.eval(packed, {tokens: x, lengths: np.array(counts, np.int64), row: r})
    w, u = map(pd.eval, weights)
    expected = np.zeros((4, sum(counts), WIDTH))
    start = 0
    for k, count in enumerate(counts):
        h = np.zeros(WIDTH)
        places = range(start, start + count)
        for t in reversed(places) if reverse else places:
            h = np.tanh(x[t] @ w + h @ u + r[k])
            expected[:, t] = h, np.exp(h) * r[k], x[t] @ w, r[k]
        start += count
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_loop_bodies_hold_only_what_their_states_need():
    sequences, tokens, _, row = slots()
    step, outputs, _ = described(sequences, tokens, row)
    packed = pd.unroll(step, outputs, sequences)
    blocks = [b for node in ancestors(packed) for b in node.blocks.values()]
    inside = [n.op_type for b in blocks for n in ancestors(b.outputs, stop=set(b.inputs))]
    assert inside.count("MatMul") == 1
    assert "Exp" not in inside


# ---- beam search


def markov(table, start, beam_size, max_length, samples):
    """The words of a chain with these transitions, of which each sample sees its own."""
    chain = pd.Variable(["batch", *table.shape[1:]], name="chain")
    shape = [beam_size, *table.shape[1:]]
    repeated = pd.expand(pd.unsqueeze(chain, 1), [1, beam_size, 1, 1])
    rows = pd.reshape(repeated, [-1, *shape[1:]])

    def step(words, states):
        (number,) = states
        index = pd.expand(pd.reshape(words, [-1, 1, 1]), [1, 1, table.shape[2]])
        p = pd.squeeze(pd.gather_elements(rows, index, 1), 1)
        return p, [number + 1.0]

    begin = pd.reshape(repeated, [-1, table.shape[1] * table.shape[2]]) * 0.0
    count = pd.size_of(chain, 0)
    beams = pd.beam_search(step, [begin], count, start, 1, beam_size, max_length)
    fetched = [beams.scores, beams.lengths, *beams.framed(beam_size)[:2], beams.rows(1)[0]]
    return pd.eval(fetched, {chain: table[:samples]})


def every_path(table, start, max_length):
    """All complete paths of a chain: {words: ln p}."""
    paths, stack = {}, [((), 0.0)]
    while stack:
        words, score = stack.pop()
        for word, p in enumerate(table[words[-1] if words else start]):
            path = (*words, word), score + np.log(p)
            over = word == 1 or len(path[0]) == max_length
            if over:
                paths[path[0]] = path[1]
            else:
                stack.append(path)
    return paths


def test_paths_have_the_probability_of_their_words(rng):
    table = rng.dirichlet(np.ones(4), (3, 4)).astype(np.float32)
    scores, lengths, framed, log_p, best = markov(table, 0, 64, 3, 3)
    at, first = 0, []
    for sample in range(3):
        paths = every_path(table[sample].astype(np.float64), 0, 3)
        kept = scores[sample][np.isfinite(scores[sample])]
        assert len(kept) > 10 and np.all(np.diff(kept) <= 0)
        for k, (score, length) in enumerate(zip(kept, lengths[sample], strict=False)):
            count, *words, end = framed[at : at + length + 2].tolist()
            assert (count, end) == (length, -1)
            np.testing.assert_allclose(paths[tuple(words)], score, rtol=1e-4)
            first += words if k == 0 else []
            at += length + 2
    assert best.tolist() == first
    assert len(log_p) == np.sum((lengths + 1)[np.isfinite(scores)])


def test_no_samples(rng):
    table = rng.dirichlet(np.ones(4), (3, 4)).astype(np.float32)
    scores, _, framed, _, best = markov(table, 0, 2, 3, 0)
    assert scores.shape == (0, 2) and framed.shape == best.shape == (0,)


def test_a_word_of_probability_zero_is_never_taken():
    table = np.zeros((1, 3, 3), np.float32)
    table[0] = [[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    scores, lengths, framed, _, _ = markov(table, 0, 3, 4, 1)
    assert framed.tolist() == [1, 1, -1, 2, 2, 1, -1]
    np.testing.assert_allclose(scores, [[np.log(0.5), np.log(0.5), -np.inf]], rtol=1e-6)
    assert lengths[0, :2].tolist() == [1, 2]


def test_the_former_name_of_a_placeholder_warns():
    state = pd.State(pd.Variable.of(("B", 2), np.float32), None)
    with pytest.warns(DeprecationWarning, match=r"State\.formal is State\.placeholder"):
        assert state.formal is state.placeholder
