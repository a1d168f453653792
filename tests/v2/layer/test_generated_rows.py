"""What the step of a generation returns besides the probabilities: rows for each generated word."""

import itertools

import numpy as np
import onnxruntime
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.data_feeder import DataFeeder
from pd_v2.feeds import feed_dict
from pd_v2.topology import Topology
from tests.thinned import thinned

from .test_generate import CASES, EOS, searched
from .test_generate import generator as decoder
from .test_group import A, L, T, filled, packed


def generator(words, beam_size, max_length, results):
    """The decoder of `test_generate`, which also returns its state and its input."""

    def more(static, word, h):
        return h, L.addto(word, name="word"), L.slope_intercept(static, slope=2.0, name="same")

    return decoder(words, beam_size, max_length, results, more)


def along(values, x, words):
    """The rows of one path: states, embedded words before each, and twice the encoded sample."""
    encoded = np.tanh(x @ values["_encoded.w0"] + values["_encoded.wbias"][0])
    m, states, before = encoded, [], []
    for last in (0, *words[:-1]):
        before.append(values["words"][last])
        inputs = zip((encoded, before[-1], m), range(3), strict=True)
        z = sum(v @ values[f"_h@g.w{k}"] for v, k in inputs)
        m = np.tanh(z + values["_h@g.wbias"][0])
        states.append(m)
    return states, before, [2 * encoded] * len(words)


@pytest.mark.parametrize(("case", "training"), thinned(itertools.product(CASES, [False, True]), 5))
def test_rows_of_the_results(case, training, rng):
    _, beam_size, max_length, results = case
    outs = generator(*case)
    pool, values = filled(outs, rng)
    for name in pool.names():
        pool.set(name, 3 * values[name])
    values = {n: 3 * v for n, v in values.items()}
    samples = rng.standard_normal((4, 8)).astype(np.float32)
    topology = Topology(outs)
    session = pd.Session()
    session.load_values(pool.values_of(topology.parameters))
    (x,) = topology.data_layers().values()
    targets = [*outs[1:], outs[1].levels[0].lengths]
    *found, lengths = session.eval(targets, {x: samples}, training=training)
    rows, expected_lengths = [[], [], []], []
    for sample in samples.astype(np.float64):
        for path, _, _ in searched(values, sample, beam_size, max_length)[:results]:
            expected_lengths.append(len(path))
            for mine, one in zip(rows, along(values, sample, path), strict=True):
                mine += one
    assert lengths.tolist() == expected_lengths
    for have, want in zip(found, rows, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)
    assert [out.name for out in outs[1:]] == ["h", "word", "same"]


@pytest.mark.parametrize("results", [1, 2])
def test_without_samples_there_are_no_rows(results, rng):
    outs = generator(9, 3, 5, results)
    pool, _ = filled(outs, rng)
    inference = paddle.inference.Inference(parameters=pool, output_layer=outs[1:])
    assert [v.shape for v in inference.infer([], flatten_result=False)] == [(0, 6), (0, 7), (0, 6)]


def test_the_sequences_of_a_single_result_are_those_of_its_words(rng):
    words, state, *_ = generator(9, 3, 5, 1)
    paired = L.concat([L.embedding(words, 2), state])
    pool, _ = filled(paired, rng)
    samples = [(rng.standard_normal(8).tolist(),) for _ in range(3)]
    assert paddle.infer(output_layer=paired, parameters=pool, input=samples).shape[1] == 8


def sequences_inside():
    """A step with a memory of sequences, whose sum it also returns."""
    s = L.data(name="s", type=T.dense_vector_sequence(4))

    def step(whole, word):
        rows = L.memory(name="rows", size=4, boot_layer=s)
        new = L.addto([rows, L.expand(word, rows), whole], name="rows")
        total = L.pooling(new, paddle.pooling.Sum(), name="total")
        return L.fc(total, 5, A.Softmax(), name="p", bias_attr=False), total, new

    return s, step


def searched_sequences(step, s, **options):
    arguments = {"beam_size": 2, "max_length": 4, "bos_id": 0, "eos_id": EOS, "name": "g"}
    inputs = [L.StaticInput(s), L.GeneratedInput(5, "words", 4)]
    return L.beam_search(step, inputs, **arguments | options)


@pytest.mark.parametrize("results", [1, 2])
def test_sequences_for_each_word(results, rng):
    """Such as what a decoder attends to: a sub-sequence per word, in a sequence per path."""
    s, step = sequences_inside()
    outs = searched_sequences(step, s, num_results_per_sample=results)
    pool, values = filled(outs, rng)
    samples = packed(rng, [2, 0, 3], 4)
    ids = paddle.infer(output_layer=outs[0], parameters=pool, input=samples, field="id").tolist()
    topology = Topology(outs[1:])
    fed = feed_dict(topology.data_layers(), DataFeeder(topology.data_type())(samples))
    session = pd.Session()
    session.load_values(pool.values_of(topology.parameters))
    totals, rows = outs[1:]
    counts = [level.lengths for level in (*totals.levels, *rows.levels)]
    found, lengths = session.eval([[totals, rows], counts], fed, training=False)
    ended, k, all_totals, all_rows, per_path, per_word = paths_of(ids, results), 0, [], [], [], []
    for (start,) in samples:
        start = np.reshape(start, (-1, 4)).astype(np.float64)
        for path in ended[k : k + results]:
            now = start
            for last in (0, *path[:-1]):
                now = now + values["words"][last] + start
                all_totals.append(now.sum(0))
                all_rows += [*now]
            per_path.append(len(path))
            per_word += [len(start)] * len(path)
        k += results
    np.testing.assert_allclose(found[0], all_totals, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], np.reshape(all_rows, (-1, 4)), rtol=1e-4, atol=1e-5)
    assert [v.tolist() for v in lengths] == [per_path, per_path, per_word]


def paths_of(ids, results):
    """The words of each path; those of a single result end with the mark, or are 4."""
    found, k = [], 0
    while k < len(ids):
        if results > 1:
            n, start = ids[k], k + 1
        else:
            n, start = next(j + 1 for j in range(4) if j == 3 or ids[k + j] == EOS), k
        found.append(ids[start : start + n])
        k = start + n + (results > 1)
    return found


def test_export(tmp_path, rng):
    outs = generator(9, 3, 5, 2)
    pool, _ = filled(outs, rng)
    path = str(tmp_path / "generator.onnx")
    Topology(outs[1]).export_onnx(path, pool)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    x = rng.standard_normal((3, 8)).astype(np.float32)
    (found,) = session.run(["h"], {"x": x})
    expected = paddle.infer(output_layer=outs[1], parameters=pool, input=[(r,) for r in x])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_sequences_of_other_lengths_are_refused():
    s, step = sequences_inside()

    def cut(whole, word):
        p, _, new = step(whole, word)
        first = L.slope_intercept(L.fc(word, 1), slope=0.0)
        return p, L.seq_slice(new, first, first)

    message = "beam_search 'g': the step returns '__seq_slice_layer_0__', whose sequences are not"
    with pytest.raises(pd.GraphError, match=message):
        searched_sequences(cut, s)


class Sampled(L.GeneratedInput):
    """Words that are drawn."""

    def after_real_step(self, input):
        return L.sampling_id(input, name="__beam_search_predict__")


class Single(L.GeneratedInput):
    """One layer instead of a list, as the first versions had it."""

    def after_real_step(self, input):
        return L.max_id(input, name="__beam_search_predict__")


def test_an_input_of_the_user_may_give_one_layer(rng):
    def out(kind):
        x = L.data(name="x", type=T.dense_vector(4))
        boot = L.fc(x, 3)

        def step(word):
            return L.fc([word, L.memory(name="p", size=3, boot_layer=boot)], 3, A.Softmax(), "p")

        return L.beam_search(step, kind(3, "words", 2), bos_id=0, eos_id=1, beam_size=2)

    with pytest.raises(pd.GraphError, match="the words are the max_id of a layer"):
        out(Sampled)
    with paddle.build.fresh():
        assert out(Single).name == "__beam_search_predict__"
