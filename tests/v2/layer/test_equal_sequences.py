"""Pairs of networks of sequences that 2017 described in two ways: equal costs, equal gradients.

A recurrence along a sequence is the same as one along its sub-sequences that hands its state on; a
layer is the same as a group of the steps that it stands for.
"""

import itertools

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.attr import Param
from pd_v2.data_feeder import DataFeeder
from pd_v2.feeds import feed_dict
from pd_v2.topology import Topology
from tests.thinned import thinned

A, L, N, P, T = (
    getattr(paddle, k) for k in ("activation", "layer", "networks", "pooling", "data_type")
)

WORDS, CLASSES, WIDTH, STATE = 11, 3, 4, 5


def words(name="words"):
    return L.data(name=name, type=T.integer_value_sequence(WORDS))


def nested_words(name="words"):
    return L.data(name=name, type=T.integer_value_sub_sequence(WORDS))


def embedded(x, name="table"):
    return L.embedding(x, WIDTH, param_attr=Param(name=name))


def classified(x):
    label = L.data(name="label", type=T.integer_value(CLASSES))
    return L.classification_cost(L.fc(x, CLASSES, A.Softmax()), label)


def recurrence(parts, name="state", **memory):
    """tanh of the parts and of itself a step before."""
    before = L.memory(name=name, size=STATE, **memory)
    return L.fc([*parts, before], STATE, A.Tanh(), name, bias_attr=True)


def inner_recurrence(parts, name="inner", read=lambda *parts: parts):
    """The same along a sub-sequence, from where the one before it ended."""
    handed = L.memory(name=f"{name} handed on", size=STATE)
    out = L.recurrent_group(
        lambda *xs: recurrence(read(*xs), f"{name} state", boot_layer=handed),
        list(parts),
        name=name,
    )
    return out, L.last_seq(out, name=f"{name} handed on")


# ---- flat and nested


def one_input():
    return classified(L.last_seq(L.recurrent_group(lambda x: recurrence([x]), embedded(words()))))


def one_input_nested():
    out = L.recurrent_group(lambda x: inner_recurrence([x])[0], embedded(nested_words()))
    return classified(L.last_seq(out))


def read_twice(x, ids):
    return x, embedded(ids, "second table")


def two_inputs():
    x = words()
    out = L.recurrent_group(lambda *xs: recurrence(read_twice(*xs)), [embedded(x), x])
    return classified(L.last_seq(out))


def two_inputs_nested():
    x = nested_words()
    out = L.recurrent_group(
        lambda *xs: inner_recurrence(xs, read=read_twice)[0],
        [L.SubsequenceInput(embedded(x)), L.SubsequenceInput(x)],
    )
    return classified(L.last_seq(out))


def paired(a, b):
    """The last state of the first and every state of the second sequence, then a last one."""
    last = L.expand(L.last_seq(a), b)
    both = L.mixed(STATE, [L.identity_projection(last), L.identity_projection(b)])
    return classified(L.last_seq(both))


def unequal_lengths():
    a, b = embedded(words("first")), embedded(words("second"), "second table")
    out = [L.recurrent_group(lambda x: recurrence([x], f"{x.name} state"), x) for x in (a, b)]
    return paired(*out)


def unequal_lengths_nested():
    a, b = nested_words("first"), nested_words("second")

    def step(x, y):
        _, end = inner_recurrence([x], "a")
        out, _ = inner_recurrence([y], "b")
        return L.expand(end, out), out

    inputs = [embedded(a), embedded(b, "second table")]
    return paired(*L.recurrent_group(step, inputs, targetInlink=inputs[1]))


def mixed_step(read):
    """Decoding of sub-sequences beside a row for each of them and one of the sample."""

    def step(part, beside, sample, encoded):
        handed = L.memory(name="handed on", size=WIDTH)
        wide = L.fc(handed, STATE, A.Linear(), bias_attr=False, param_attr=Param(name="widen"))
        inputs = [part, *beside, *sample]
        out = L.recurrent_group(
            lambda *xs: recurrence(read(*xs), boot_layer=wide), inputs, name="inner"
        )
        return N.simple_attention(encoded, encoded, L.last_seq(out), name="context")

    return step


def handed_on(step):
    """Name the layer that a step gives, so that a memory keeps it."""
    return lambda *xs: L.addto(step(*xs), name="handed on")


def mixed_data():
    return nested_words(), words("beside"), L.data(name="sample", type=T.integer_value(WORDS))


def mixed_inputs():
    """Ids come into the groups, each as it is: nested, a sequence, a row."""
    part, beside, sample = mixed_data()

    def read(part, beside, sample):
        tables = ("table", "beside table", "sample table")
        return [embedded(x, name) for x, name in zip((part, beside, sample), tables, strict=True)]

    def step(part, beside, sample, encoded):
        return mixed_step(read)(part, [L.StaticInput(beside)], [sample], encoded)

    inputs = [part, beside, L.StaticInput(sample), L.StaticInput(embedded(beside, "encoded"))]
    return classified(L.last_seq(L.recurrent_group(handed_on(step), inputs, name="outer")))


def matched_inputs():
    """Rows come into the groups, all expanded to the words of the nested one."""
    part, beside, sample = mixed_data()
    levels = L.ExpandLevel
    inputs = [
        embedded(part),
        L.expand(embedded(beside, "beside table"), part, expand_level=levels.FROM_SEQUENCE),
        L.expand(embedded(sample, "sample table"), part, expand_level=levels.FROM_NO_SEQUENCE),
        L.StaticInput(embedded(beside, "encoded")),
    ]

    def step(part, beside, sample, encoded):
        return mixed_step(lambda *xs: xs)(part, [beside], [sample], encoded)

    return classified(L.last_seq(L.recurrent_group(handed_on(step), inputs, name="outer")))


def lstm_of(x, name, **options):
    gates = L.mixed(4 * STATE, L.full_matrix_projection(x, param_attr=Param(name="gates")))
    return N.lstmemory_group(
        gates, STATE, name, param_attr=Param(name="lstm"), lstm_bias_attr=Param(name="peepholes")
    )


def sentences():
    return classified(L.last_seq(lstm_of(embedded(words()), "lstm")))


def sentences_of_paragraphs():
    """Each sentence by itself, and its last state for each of its words, then their mean."""
    x = embedded(nested_words())
    states = L.recurrent_group(lambda part: lstm_of(part, "lstm"), L.SubsequenceInput(x))
    last = L.last_seq(states, agg_level=L.AggregateLevel.TO_SEQUENCE)
    every = L.expand(last, x, expand_level=L.ExpandLevel.FROM_SEQUENCE)
    mean = L.pooling(every, P.Avg(), agg_level=L.AggregateLevel.TO_SEQUENCE)
    label = L.data(name="label", type=T.integer_value_sequence(CLASSES))
    return L.classification_cost(L.fc(mean, CLASSES, A.Softmax()), label)


# ---- a layer and the group of its steps


def of_states(states):
    return classified(L.concat([L.first_seq(states), L.last_seq(states)]))


def plain(reverse, act):
    x = L.fc(embedded(words()), STATE, A.Linear(), bias_attr=False)
    return of_states(
        L.recurrent(x, act, bias_attr=False, param_attr=Param(name="w"), reverse=reverse)
    )


def plain_group(reverse, act):
    x = L.fc(embedded(words()), STATE, A.Linear(), bias_attr=False)

    def step(row):
        before = L.memory(name="state", size=STATE)
        parts = [L.identity_projection(row)]
        parts.append(L.full_matrix_projection(before, param_attr=Param(name="w")))
        return L.mixed(STATE, parts, name="state", act=act, bias_attr=False)

    return of_states(L.recurrent_group(step, x, reverse))


def gates(count):
    return L.mixed(count * STATE, L.full_matrix_projection(embedded(words())))


def lstm(reverse, act):
    """Without peepholes and biases: a group keeps those of the gates in a layer of its own."""
    x = L.lstmemory(gates(4), reverse=reverse, act=act, bias_attr=False, param_attr=Param(name="w"))
    return of_states(x)


def lstm_group(reverse, act):
    x = N.lstmemory_group(
        gates(4),
        STATE,
        reverse=reverse,
        act=act,
        param_attr=Param(name="w"),
        input_proj_bias_attr=False,
        lstm_bias_attr=False,
    )
    return of_states(x)


def gru(reverse, act):
    names = {"param_attr": Param(name="w"), "bias_attr": Param(name="b")}
    return of_states(L.grumemory(gates(3), reverse=reverse, act=act, **names))


def gru_group(reverse, act):
    names = {"gru_param_attr": Param(name="w"), "gru_bias_attr": Param(name="b")}
    return of_states(N.gru_group(gates(3), size=STATE, reverse=reverse, act=act, **names))


# ---- their data


def drawn(rng, *sizes):
    """Words in lists of so many, one for each of the sizes."""
    return [rng.integers(0, WORDS, n).tolist() for n in sizes]


def flat(parts):
    return list(itertools.chain.from_iterable(parts))


def texts(rng):
    """Samples of nested words and a label; the same flat."""
    parts = [drawn(rng, 2, 3), drawn(rng, 1), drawn(rng, 4, 1, 2)]
    labels = rng.integers(0, CLASSES, 3).tolist()
    samples = list(zip(parts, labels, strict=True))
    return [(flat(p), y) for p, y in samples], samples


def dialogues(rng):
    """Samples of two nested texts of unequally long parts, and a label; the same flat."""
    pairs = [(drawn(rng, 2, 3), drawn(rng, 4, 1)), (drawn(rng, 1, 1, 2), drawn(rng, 3, 2, 1))]
    labels = rng.integers(0, CLASSES, 2).tolist()
    samples = [(a, b, y) for (a, b), y in zip(pairs, labels, strict=True)]
    return [(flat(a), flat(b), y) for a, b, y in samples], samples


def mixtures(rng):
    samples = [
        (drawn(rng, 2, 3), *drawn(rng, 2), 4, 1),
        (drawn(rng, 3, 1, 2), *drawn(rng, 3), 7, 0),
    ]
    return samples, samples


def paragraphs(rng):
    """Sentences with a label each, alone and in paragraphs."""
    groups = [(drawn(rng, 2, 3, 1), [0, 2, 1]), (drawn(rng, 4, 2), [1, 1])]
    alone = [pair for parts, labels in groups for pair in zip(parts, labels, strict=True)]
    return alone, groups


def sequences(rng):
    samples = [(w, int(n % CLASSES)) for n, w in enumerate(drawn(rng, 3, 1, 5, 2))]
    return samples, samples


# Columns: what draws the samples, and two functions of the cost.
PAIRS = {
    "one input": (texts, one_input, one_input_nested),
    "two inputs": (texts, two_inputs, two_inputs_nested),
    "unequal lengths": (dialogues, unequal_lengths, unequal_lengths_nested),
    "mixed inputs": (mixtures, mixed_inputs, matched_inputs),
    "sentences": (paragraphs, sentences, sentences_of_paragraphs),
}
LAYERS = {
    "plain": (plain, plain_group, A.Tanh()),
    "plain with softmax": (plain, plain_group, A.Softmax()),
    "lstm": (lstm, lstm_group, A.Tanh()),
    "lstm with relu": (lstm, lstm_group, A.Relu()),
    "gru": (gru, gru_group, A.Tanh()),
    "gru with sigmoid": (gru, gru_group, A.Sigmoid()),
}


def computed(cost, *batches):
    """For each batch the mean cost and the gradients of all parameters, by name.

    Parameters with a name of their own come first, then those of layers in their order.
    """
    with paddle.build.fresh():
        pd.reset(seed=0)
        cost = cost()
        pool, rng = paddle.parameters.create(cost), np.random.default_rng(7)
        names = sorted(name for name in pool.names() if not name.startswith("_"))
        names += [name for name in pool.names() if name.startswith("_")]
        for name in names:
            pool.set(name, rng.normal(0, 0.7, pool.get_shape(name)).astype(np.float32))
        topology = Topology(cost)
        feeder = DataFeeder(topology.data_type())
        session = pd.Session()
        session.load_values(pool.values_of(topology.parameters))
        mean = pd.reduce_mean(cost)
        targets = [mean, *pd.gradients(mean, [pd.get_variable(name) for name in names])]
        feeds = [feed_dict(topology.data_layers(), feeder(batch)) for batch in batches]
        found = [session.eval(targets, fed, training=True) for fed in feeds]
        return [dict(zip(["cost", *names], values, strict=True)) for values in found]


def check_equal(first, second, samples):
    (one,), (other,) = (computed(f, s) for f, s in zip((first, second), samples, strict=True))
    compare(one, other)


def compare(one, other):
    assert len(one) == len(other) > 2
    for (a, mine), (b, theirs) in zip(one.items(), other.items(), strict=True):
        assert np.any(mine), f"{a} has no influence"
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6, err_msg=f"{a} and {b}")


@pytest.mark.parametrize("draw, first, second", PAIRS.values(), ids=PAIRS)
def test_two_descriptions_of_one_network(draw, first, second, rng):
    check_equal(first, second, draw(rng))


@pytest.mark.parametrize(("name", "reverse"), thinned(itertools.product(LAYERS, [False, True]), 3))
def test_a_layer_is_a_group_of_its_steps(name, reverse, rng):
    """And a batch gives what its sequences give alone."""
    layer, group, act = LAYERS[name]
    samples, _ = sequences(rng)
    together, *alone = computed(lambda: layer(reverse, act), samples, *([s] for s in samples))
    compare(together, *computed(lambda: group(reverse, act), samples))
    for name, value in together.items():
        mean = np.mean([each[name] for each in alone], axis=0)
        np.testing.assert_allclose(value, mean, rtol=1e-4, atol=1e-6, err_msg=name)
