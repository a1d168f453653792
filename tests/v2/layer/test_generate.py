"""Generation by beam search, against a search that keeps Python lists."""

import numpy as np
import onnxruntime
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.topology import Topology

from .test_group import filled, packed

A, L, T = paddle.activation, paddle.layer, paddle.data_type
EOS = 1


def generator(words=20, beam_size=3, max_length=10, results=None, more=None):
    """A decoder with one memory that starts from the sample.

    Its step returns the layers of `more(static, word, h)` besides the probabilities.
    """
    x = L.data(name="x", type=T.dense_vector(8))
    encoded = L.fc(input=x, size=6, name="encoded")

    def step(static, word):
        m = L.memory(name="h", size=6, boot_layer=encoded)
        h = L.fc(input=[static, word, m], size=6, name="h")
        p = L.fc(input=h, size=words, act=A.Softmax(), name="p")
        return p if more is None else (p, *more(static, word, h))

    return L.beam_search(
        step=step,
        input=[L.StaticInput(encoded), L.GeneratedInput(words, "words", 7)],
        bos_id=0,
        eos_id=EOS,
        beam_size=beam_size,
        max_length=max_length,
        name="g",
        num_results_per_sample=results,
    )


def searched(values, x, beam_size, max_length):
    """[(words, score, ln p of each)] of one sample, the best first."""
    encoded = np.tanh(x @ values["_encoded.w0"] + values["_encoded.wbias"][0])
    paths, ended, worst = [((), 0.0, (), encoded)], [], 0.0
    while paths:
        grown = []
        for words, score, log_p, m in paths:
            inputs = (encoded, values["words"][words[-1] if words else 0], m)
            weights = [values[f"_h@g.w{k}"] for k in range(3)]
            z = sum(v @ w for v, w in zip(inputs, weights, strict=True))
            h = np.tanh(z + values["_h@g.wbias"][0])
            z = np.exp(h @ values["_p@g.w0"] + values["_p@g.wbias"][0])
            p = np.log(z / z.sum())
            for word in np.argsort(-p, kind="stable")[:beam_size]:
                path = ((*words, int(word)), score + p[word], (*log_p, p[word]), h)
                over = word == EOS or len(path[0]) == max_length
                (ended if over else grown).append(path)
        paths = sorted(grown, key=lambda path: -path[1])[:beam_size]
        if paths:
            ended = [path for path in ended if path[1] >= paths[-1][1]]
            worst = min([worst, *(path[1] for path in ended)])
            if len(ended) >= beam_size and worst >= paths[0][1]:
                break
    return [path[:3] for path in sorted(ended, key=lambda path: -path[1])]


CASES = [(20, 3, 10, 3), (5, 4, 12, 2), (4, 5, 3, 5), (30, 2, 6, 2), (20, 1, 6, 1), (30, 3, 7, 1)]


@pytest.mark.parametrize(("words", "beam_size", "max_length", "results"), CASES)
def test_results(words, beam_size, max_length, results, rng):
    out = generator(words, beam_size, max_length, results)
    pool, values = filled(out, rng)
    for name in pool.names():  # far apart, so that no two paths are level
        pool.set(name, 3 * values[name])
    values = {n: 3 * v for n, v in values.items()}
    samples = rng.standard_normal((5, 8)).astype(np.float32)
    inference = paddle.inference.Inference(parameters=pool, output_layer=out)
    fields = ["id"] if results == 1 else ["id", "prob", "value"]
    found = inference.infer([(x.tolist(),) for x in samples], field=fields)
    best = [searched(values, x.astype(np.float64), beam_size, max_length) for x in samples]
    best = [paths[:results] for paths in best]
    if results == 1:
        assert found.tolist() == [w for paths in best for words, _, _ in paths for w in words]
        return
    ids, prob, value = found
    expected = [[len(words), *words, -1] for paths in best for words, _, _ in paths]
    assert ids.tolist() == [n for row in expected for n in row]
    scores = [[s for _, s, _ in paths] + [-np.inf] * (results - len(paths)) for paths in best]
    np.testing.assert_allclose(prob, scores, rtol=1e-4)
    log_p = [[*p, -1.0] for paths in best for _, _, p in paths]
    np.testing.assert_allclose(value, [[n] for row in log_p for n in row], rtol=1e-4, atol=1e-5)


def test_no_samples(rng):
    out = generator()
    pool, _ = filled(out, rng)
    assert paddle.infer(output_layer=out, parameters=pool, input=[], field="id").shape == (0,)


def attended():
    """A decoder that looks at a whole sequence in every step: the mean of what resembles it."""
    s = L.data(name="s", type=T.dense_vector_sequence(6))
    first = L.first_seq(input=s)

    def step(whole, word):
        m = L.memory(name="h", size=6, boot_layer=first)
        near = L.dot_prod(L.expand(input=m, expand_as=whole), whole)
        weights = L.fc(input=near, size=1, act=A.SequenceSoftmax(), bias_attr=False, name="w")
        seen = L.pooling(
            input=L.scaling(input=whole, weight=weights), pooling_type=paddle.pooling.Sum()
        )
        h = L.fc(input=[seen, word, m], size=6, name="h")
        return L.fc(input=h, size=12, act=A.Softmax(), name="p")

    return L.beam_search(
        step=step,
        input=[L.StaticInput(s), L.GeneratedInput(12, "words", 5)],
        bos_id=0,
        eos_id=EOS,
        beam_size=3,
        max_length=6,
    )


def test_a_batch_gives_what_its_samples_give_alone(rng):
    out = attended()
    pool, values = filled(out, rng)
    for name in pool.names():
        pool.set(name, 3 * values[name])
    samples = packed(rng, [3, 1, 5], 6)
    inference = paddle.inference.Inference(parameters=pool, output_layer=out)
    together = inference.infer(samples, field="id")
    alone = [inference.infer([sample], field="id") for sample in samples]
    np.testing.assert_array_equal(together, np.concatenate(alone))


def test_export(tmp_path, rng):
    out = attended()
    pool, _ = filled(out, rng)
    path = str(tmp_path / "generator.onnx")
    Topology(out).export_onnx(path, pool)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    samples = packed(rng, [3, 1, 5], 6)
    rows = np.array([row for (s,) in samples for row in s], np.float32)
    (found,) = session.run(None, {"s": rows, "s.lengths": np.array([3, 1, 5])})
    expected = paddle.infer(output_layer=out, parameters=pool, input=samples, field="id")
    np.testing.assert_array_equal(found, expected)


def test_training_shares_the_parameters_of_generation():
    s = L.data(name="s", type=T.integer_value_sequence(12))
    x = L.data(name="x", type=T.dense_vector(5))

    def step(static, word):
        m = L.memory(name="h", size=6)
        h = L.fc(input=[static, word, m], size=6, name="h")
        return L.fc(input=h, size=12, act=A.Softmax(), name="p")

    word = L.embedding(input=s, size=4, param_attr=paddle.attr.Param(name="words"))
    trained = L.recurrent_group(step=step, input=[L.StaticInput(x), word], name="decoder")
    with paddle.build.fresh():
        x = L.data(name="x", type=T.dense_vector(5))
        generated = L.beam_search(
            step=step,
            input=[L.StaticInput(x), L.GeneratedInput(12, "words", 4)],
            bos_id=0,
            eos_id=EOS,
            beam_size=2,
            name="decoder",
        )
        names = paddle.parameters.create(generated).names()
    assert sorted(names) == sorted(paddle.parameters.create(trained).names())


def test_inputs_that_are_no_layers_come_as_they_are():
    seen = []

    def step(number, x, options, word):
        seen.append((number, options))
        return L.fc(input=[x, word], size=number, act=A.Softmax())

    L.beam_search(
        step=step,
        input=[9, static(), ["a", 2], L.GeneratedInput(9, "w", 4)],
        bos_id=0,
        eos_id=1,
        beam_size=2,
    )
    assert seen == [(9, ["a", 2])]


def test_memories_of_sequences_and_words_that_come_first(rng):
    """Each path sums its words' rows into its own copy of the sample's sequence."""
    s = L.data(name="s", type=T.dense_vector_sequence(4))

    def step(word):
        rows = L.memory(name="rows", size=4, boot_layer=s)
        wide = L.expand(input=word, expand_as=rows)
        new = L.addto(input=[rows, wide], name="rows")
        total = L.pooling(input=new, pooling_type=paddle.pooling.Sum())
        return L.fc(input=total, size=5, act=A.Softmax(), name="p", bias_attr=False)

    out = L.beam_search(
        step=step,
        input=L.GeneratedInput(5, "words", 4),
        bos_id=0,
        eos_id=EOS,
        beam_size=1,
        max_length=4,
        name="g",
    )
    pool, values = filled(out, rng)
    samples = packed(rng, [2, 0, 3], 4)
    found = paddle.infer(output_layer=out, parameters=pool, input=samples, field="id")
    expected = []
    for (rows,) in samples:
        rows, word = np.reshape(rows, (-1, 4)), 0
        for _ in range(4):
            rows = rows + values["words"][word]
            word = int(np.argmax(rows.sum(0) @ values["_p@g.w0"]))
            expected.append(word)
            if word == EOS:
                break
    assert found.tolist() == expected


def plain(*inputs, **options):
    arguments = {"bos_id": 0, "eos_id": 1, "beam_size": 2, "name": "g"} | options
    L.beam_search(step=lambda *a: L.fc(input=list(a), size=9), input=list(inputs), **arguments)


def static():
    return L.StaticInput(L.data(name="x", type=T.dense_vector(4)))


MISTAKES = [
    (lambda: plain(static().input), TypeError, "a layer comes in a StaticInput, 'x' does not"),
    (lambda: plain(static()), pd.GraphError, "0 GeneratedInputs, not one"),
    (
        lambda: plain(static(), L.GeneratedInput(9, "w", 4), num_results_per_sample=3),
        ValueError,
        "3 results per sample of 2 beams",
    ),
    (
        lambda: plain(static(), L.GeneratedInput(9, "w", 4), beam_size=0),
        ValueError,
        "beam_size 0 is below 1",
    ),
    (lambda: plain(L.GeneratedInput(9, "w", 4)), pd.GraphError, "how many samples there are"),
]


@pytest.mark.parametrize(("act", "error", "message"), MISTAKES)
def test_mistake(act, error, message):
    with pytest.raises(error, match=message):
        act()
