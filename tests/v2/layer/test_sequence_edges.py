"""2017's rules at the edges of sequences, groups and generation: ties, ranges, sizes, orders."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.attr import Param

from .sequence_rows import L, P, T


def rows(name="x", size=1):
    return L.data(name=name, type=T.dense_vector(size))


def sequence(name="x", size=1):
    return L.data(name=name, type=T.dense_vector_sequence(size))


def nested(name="x", size=1):
    return L.data(name=name, type=T.dense_vector_sub_sequence(size))


def inferred(y, *samples, **options):
    """The value of a layer, as nested lists."""
    parameters = paddle.parameters.create(y)
    return paddle.infer(output_layer=y, parameters=parameters, input=samples, **options).tolist()


def column(*numbers):
    return [[float(n)] for n in numbers]


# ---- pooling


def test_the_index_of_a_maximum_has_no_bias_and_no_gradient():
    x = sequence()
    bias = Param(name="b", initial_mean=0.5, initial_std=0.0)
    y = L.pooling(x, P.Max(output_max_index=True), bias_attr=bias)
    assert inferred(y, (column(1, 3),), (column(4),)) == column(1, 2)
    assert pd.gradients(y, [x]) == [None]


def test_a_pooling_of_an_empty_sequence_is_its_bias():
    bias = {"bias_attr": Param(name="b", initial_mean=0.5, initial_std=0.0)}
    x = sequence()
    for kind in (P.Max(), P.Avg(), P.Sum(), P.SquareRootN()):
        assert inferred(L.pooling(x, kind, **bias), ([],), (column(2),)) == column(0.5, 2.5)


def test_an_empty_sequence_takes_no_row_of_its_neighbours(rng):
    x = sequence()
    for layer in (L.first_seq, L.last_seq, L.pooling):
        y = layer(x)
        (gradient,) = pd.gradients(y, [x], seeds=[pd.constant(np.array(column(1, 7, 1), "f"))])
        fed = dict(zip(x.inputs, [np.array(column(4, 5), "f"), [1, 0, 1]], strict=True))
        value, gradient = pd.eval([y, gradient], fed, training=True)
        assert value.tolist() == column(4, 0, 5)
        assert gradient.tolist() == column(1, 1)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "layer, width",
    [(L.recurrent, 1), (L.lstmemory, 4), (L.grumemory, 3)],
    ids=["recurrent", "lstmemory", "grumemory"],
)
def test_an_empty_sequence_leaves_recurrent_layers_as_they_are(layer, width, reverse, rng):
    y = layer(sequence(size=width), reverse=reverse, name="y")
    texts = [rng.standard_normal((n, width)).tolist() for n in (2, 3)]
    parameters = paddle.parameters.create(y)
    found = [
        paddle.infer(output_layer=y, parameters=parameters, input=[(t,) for t in samples])
        for samples in ([texts[0], [], texts[1], []], texts)
    ]
    np.testing.assert_array_equal(*found)


def test_gates_are_held_as_the_activation_is():
    """The forget gate of a large input keeps 1 - 2.26e-6 of a cell, and no more."""
    kept = 1e6 / (1 + np.exp(-13.0))
    gates, cell = rows(size=4), rows("cell")
    state = L.get_output(L.lstm_step(gates, cell, bias_attr=False), "state")
    assert abs(inferred(state, ([0.0, 0.0, 30.0, 0.0], [1e6]))[0][0] - kept) < 0.2
    with paddle.build.fresh():
        y = L.grumemory(sequence(size=3), bias_attr=False, act=paddle.activation.Relu())
        assert abs(inferred(y, ([[30.0, 0.0, 1e6]],))[0][0] - kept) < 0.2


def test_rows_are_expanded_to_as_many_sub_sequences():
    y = L.expand(sequence(), nested("n"), expand_level=L.ExpandLevel.FROM_SEQUENCE)
    parts = [column(1, 2), [], column(3)]
    assert inferred(y, (column(7, 8, 9), parts)) == column(7, 7, 9)
    for given in (column(7, 8), column(7, 8, 9, 10)):
        with pytest.raises(pd.ShapeError, match=r"sizes \d and 3 must be equal, from the feeds x"):
            inferred(y, (given, parts))


# ---- slices


def test_fractions_of_steps_are_cut():
    y = L.seq_slice(sequence(), rows("from"), rows("to"))
    found = inferred(y, (column(1, 2, 3), [0.7], [1.9]), (column(4, 5), [1.2], [1.0]))
    assert found == column(1, 2, 5)


def test_a_slice_that_ends_before_it_starts_has_no_steps():
    y = L.seq_slice(sequence(), rows("from", 2), rows("to", 2))
    sample = column(1, 2, 3), [2.0, 0.0], [1.0, 0.0]
    assert inferred(y, sample) == column(1)
    fed = [np.array(column(1, 2, 3), "f"), [3], [[2.0, 0.0]], [[1.0, 0.0]]]
    layers = y.parents
    feeds = dict(zip([*layers[0].inputs, *layers[1:]], fed, strict=True))
    assert pd.eval(y.levels[0].lengths, feeds).tolist() == [0, 1]


def test_sub_sequences_beyond_the_last_are_left_out():
    y = L.sub_nested_seq(nested(), rows("chosen", 3))
    sample = [column(1, 2), column(3)], [1.0, 5.0, 0.0]
    assert inferred(y, sample) == column(3, 1, 2)


def test_steps_beyond_a_sequence_are_not_those_of_the_next():
    x, ids = sequence(), [L.data(name=k, type=T.integer_value(9)) for k in ("at", "count")]
    samples = (column(1, 2, 3), 2, 4), (column(4, 5), 1, 1), (column(6), 3, 1)
    assert inferred(L.sub_seq(x, *ids), *samples) == column(3, 5)
    y = L.seq_slice(sequence("s"), rows("from"), rows("to"))
    assert inferred(y, (column(1, 2), [1.0], [7.0]), (column(3), [0.0], [0.0])) == column(2, 3)


def test_offsets_may_be_sequences_of_one_id():
    x = sequence()
    ids = [L.data(name=k, type=T.integer_value_sequence(9)) for k in ("at", "count")]
    samples = (column(1, 2, 3), [1], [2]), (column(4), [0], [1])
    assert inferred(L.sub_seq(x, *ids), *samples) == column(2, 3, 4)


def test_of_equal_scores_the_first_is_best():
    y = L.kmax_seq_score(sequence(), beam_size=4)
    assert inferred(y, (column(1, 2, 2),), (column(3, 3, 3, 3, 3),)) == [
        [1, 2, 0, -1],
        [0, 1, 2, 3],
    ]


@pytest.mark.parametrize("counts", [(2, 1), (1, 2), (3, 2)], ids=str)
def test_other_numbers_of_sequences_are_not_concatenated(counts):
    x = sequence()
    slices = [L.seq_slice(x, rows(f"from {k}", n), None) for k, n in enumerate(counts)]
    sample = column(1, 2, 3), *([0.0] * n for n in counts)
    message = r"the elements of \[\d\] do not fit \[\d\]|sizes 2 and 3 must be equal"
    with pytest.raises(pd.BackendError, match=message):
        inferred(L.seq_concat(*slices), sample)


# ---- groups


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_step_with_a_list_of_one_layer_gives_that_layer(kind):
    y = L.recurrent_group(lambda a: kind([L.slope_intercept(a, slope=2.0)]), sequence())
    assert inferred(L.last_seq(y), (column(1, 2),)) == column(4)


def test_a_memory_may_keep_the_input():
    y = L.recurrent_group(lambda a: L.addto([a, L.memory(name="x", size=1)]), sequence())
    assert inferred(y, (column(1, 2, 5),), (column(3),)) == column(1, 3, 7, 3)


def test_ids_of_a_reversed_group_stand_where_their_rows_do():
    y = L.recurrent_group(L.max_id, sequence(size=2), reverse=True)
    samples = ([[1.0, 2.0], [2.0, 1.0]],), ([],), ([[3.0, 1.0]],)
    assert inferred(y, *samples, field="id") == [1, 0, 0]


def test_a_sub_sequence_at_the_end_may_be_empty():
    def step(part):
        return L.addto([L.pooling(part, P.Sum()), L.memory(name="sum", size=1)], name="sum")

    y = L.recurrent_group(step, nested())
    samples = ([column(1, 2), []],), ([column(3)],), ([],), ([[], column(4)],)
    assert inferred(y, *samples) == column(3, 3, 3, 0, 4)


def test_boot_layers_of_another_number_of_rows_are_refused():
    x = sequence()
    boot = L.last_seq(L.seq_slice(x, rows("from", 2), None))

    def step(a):
        return L.addto([a, L.memory(name="sum", size=1, boot_layer=boot)], name="sum")

    words = r"the elements of \[2, 2, 1\] do not fit \[2, 1\]"
    if pd.default_session().fused:  # the loop is one operator, which compares sizes before all else
        words = r"inputs of a loop do not have the same sizes: 2 and 1, that of axis 1 of input 1"
    with pytest.raises(pd.BackendError, match=words):
        inferred(L.recurrent_group(step, x), (column(1, 2), [0.0, 1.0]))


def test_inputs_of_other_lengths_are_refused():
    both = sequence("a"), nested("b")
    y = L.recurrent_group(lambda a, b: L.addto([a, L.last_seq(b)]), list(both))
    assert inferred(y, (column(1, 2), [column(3), column(4)])) == column(4, 6)
    with pytest.raises(pd.ShapeError, match="sizes 3 and 2 must be equal, from the feeds a"):
        inferred(y, (column(1, 2, 3), [column(3), column(4)]))


def test_without_bias_there_are_no_peepholes(rng):
    x = sequence(size=4)
    y = L.lstmemory(x, bias_attr=False, name="y", param_attr=Param(initial_mean=1, initial_std=0))
    steps = rng.standard_normal((2, 4))
    h = c = 0.0
    for candidate, i, f, o in steps:
        c = np.tanh(candidate + h) * sigmoid(i + h) + sigmoid(f + h) * c
        h = sigmoid(o + h) * np.tanh(c)
    assert list(paddle.parameters.create(y).names()) == ["_y.w0"]
    np.testing.assert_allclose(inferred(L.last_seq(y), (steps.tolist(),)), [[h]], rtol=1e-5)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# ---- ids


def test_a_row_that_sums_to_less_than_1_draws_its_last_column():
    y = L.sampling_id(rows(size=3))
    assert inferred(y, *[([0.0, 0.0, 0.0],)] * 5, field="id") == [2] * 5
    ids = inferred(y, *[([0.25, 0.25, 0.0],)] * 4000, field="id")
    np.testing.assert_allclose(np.bincount(ids) / 4000, [0.25, 0.25, 0.5], atol=0.04)


# ---- generation

EOS = 1


def chain(size, beam_size, max_length, results=None):
    """Words that depend on the word before: `table` has their probabilities."""
    x = rows(size=size)

    def step(same, word):
        return L.addto([word, L.slope_intercept(same, slope=0.0)])

    inputs = [L.StaticInput(x), L.GeneratedInput(size, "table", size)]
    options = {"num_results_per_sample": results, "max_length": max_length}
    return L.beam_search(step, inputs, bos_id=0, eos_id=EOS, beam_size=beam_size, **options)


def generated(y, table, count=1):
    """(words of each result, their scores) for `count` samples."""
    parameters = paddle.parameters.create(y)
    parameters.set("table", np.array(table, np.float32))
    samples = [([0.0] * len(table),)] * count
    infer = paddle.inference.Inference(parameters=parameters, output_layer=y).infer
    ids, scores = infer(samples, field=["id", "prob"])
    found, k = [], 0
    while k < len(ids):
        found.append(ids[k + 1 : k + 1 + ids[k]].tolist())
        assert ids[k + 1 + ids[k]] == -1
        k += ids[k] + 2
    return found, scores


def test_an_ended_path_is_forgotten_if_all_open_ones_are_better():
    """Even if those end up worse: the sentence without words, of 0.3, is not found."""
    table = [[0, 0.3, 0.7, 0], [0, 1, 0, 0], [0, 0.4, 0, 0.35], [0, 0.6, 0.2, 0]]
    found, scores = generated(chain(4, 2, 3), table)
    assert found == [[2, 1], [2, 3, 1]]
    np.testing.assert_allclose(np.exp(scores), [[0.28, 0.147]], rtol=1e-5)


def test_a_word_is_found_only_among_the_likeliest_of_its_path():
    """A beam of 2 does not see the end at 0.2, behind 0.5 and 0.3."""
    table = [[0, 0.2, 0.5, 0.3], [0, 1, 0, 0], [0, 0.3, 0.31, 0.32], [0, 0.1, 0.2, 0.7]]
    found, scores = generated(chain(4, 2, 2), table)
    assert found == [[3, 3], [2, 3]]
    np.testing.assert_allclose(np.exp(scores), [[0.21, 0.16]], rtol=1e-5)


def test_words_without_probability_are_dropped():
    """A sample may have fewer results than were asked for; their scores are -inf."""
    table = [[0, 0.5, 0.5, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]]
    found, scores = generated(chain(4, 3, 4), table, count=2)
    assert found == [[1], [2, 1]] * 2
    np.testing.assert_allclose(np.exp(scores), [[0.5, 0.5, 0]] * 2, rtol=1e-6)


def test_of_equal_words_the_first_are_generated():
    found, scores = generated(chain(4, 2, 2), np.full((4, 4), 0.25))
    assert found == [[1], [0, 0]]
    np.testing.assert_allclose(np.exp(scores), [[0.25, 0.0625]], rtol=1e-6)


def test_without_a_number_of_results_there_are_as_many_as_beams():
    table = [[0, 0.6, 0.4, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]]
    with pytest.raises(ValueError, match="3 results per sample of 2 beams"):
        chain(4, 2, 3, 3)
    found, scores = generated(chain(4, 2, 3), table)
    assert found == [[1], [2, 1]]
    np.testing.assert_allclose(np.exp(scores), [[0.6, 0.4]], rtol=1e-5)


def test_a_training_step_generates_as_inference_does(rng):
    x = rows(size=4)
    inputs = [L.StaticInput(x), L.GeneratedInput(4, "table", 4)]

    def step(same, word):
        return L.dropout(L.addto([word, same]), 0.9)

    y = L.beam_search(step, inputs, bos_id=0, eos_id=EOS, beam_size=1, max_length=9)
    paddle.parameters.create(y).set("table", np.roll(np.eye(4, dtype=np.float32), 2, axis=1))
    found = [pd.eval(y, {x: np.zeros((3, 4))}, training=mode).tolist() for mode in (False, True)]
    assert found == [[2, 0, 2, 0, 2, 0, 2, 0, 2] * 3] * 2


def test_a_path_may_end_without_the_end_mark():
    table = [[0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    assert generated(chain(4, 2, 5, 2), table)[0] == [[2, 3, 2, 3, 2]]
    with paddle.build.fresh():
        y = chain(4, 1, 5)
        parameters = paddle.parameters.create(y)
        parameters.set("table", np.array(table, np.float32))
        samples = [([0.0] * 4,)] * 2
        found = paddle.infer(output_layer=y, parameters=parameters, input=samples, field="id")
        assert found.tolist() == [2, 3, 2, 3, 2] * 2
