"""Sequence layers against slow Python, sequence by sequence."""

import numpy as np
import pytest

import pd_core as pd
from pd_v2.attr import Param

from ...core.ops.sequence_parts import lambda_rank_of, ndcg_of
from .sequence_checks import SequenceChecks, feeds
from .sequence_rows import BATCHES, EXPAND, NETWORKS, POOLING, STEPS, A, Data, L, T
from .sequence_slice_rows import IDS, IMAGES, SLICES


class TestPooling(SequenceChecks):
    rows = POOLING


class TestExpand(SequenceChecks):
    rows = EXPAND


class TestSteps(SequenceChecks):
    rows = STEPS


class TestSlices(SequenceChecks):
    rows = SLICES


class TestImages(SequenceChecks):
    rows = IMAGES


class TestIds(SequenceChecks):
    rows = IDS


class TestNetworks(SequenceChecks):
    rows = NETWORKS


def test_the_gradient_of_max_goes_to_the_first_maximum():
    x = L.data(name="x", type=T.dense_vector_sequence(1))
    (found,) = pd.gradients(L.pooling(input=x), [x])
    fed = dict(zip(x.inputs, [[[1.0], [2.0], [2.0], [0.0], [0.0]], [3, 2]], strict=True))
    np.testing.assert_array_equal(pd.eval(found, fed)[:, 0], [0, 1, 0, 1, 0])


def test_windows_of_nine_steps():
    x = L.data(name="x", type=T.dense_vector_sequence(1))
    layers = [f(input=x, stride=5) for f in (L.last_seq, L.first_seq)]
    fed = dict(zip(x.inputs, [np.arange(9.0).reshape(9, 1), [9]], strict=True))
    last, first = pd.eval(layers, fed)
    assert last[:, 0].tolist() == [4, 8]
    assert first[:, 0].tolist() == [0, 4]


@pytest.mark.parametrize("reverse", [False, True])
def test_the_first_step_that_a_recurrent_layer_made_is_warned_of(reverse, caplog):
    x = L.recurrent(input=L.data(name="x", type=T.dense_vector_sequence(2)), reverse=reverse)
    first, last = L.first_seq(input=x, name="f"), L.last_seq(input=x, name="l")
    warned, end = (last, "first_seq") if reverse else (first, "last_seq")
    way = "backwards" if reverse else "forwards"
    words = f"layer {warned.name!r}: {x.name!r} runs {way}: {end} has seen all steps"
    assert caplog.messages == [words]


@pytest.mark.parametrize("limit", [-1, 3])
def test_lambda_cost_is_ndcg_with_the_gradient_of_lambda_rank(rng, limit):
    relevance = Data(1, values=lambda rng, batch: rng.integers(0, 3, sum(map(sum, batch))))
    kinds = {"s": Data(1), "r": relevance}
    data = {name: kind.layer(name) for name, kind in kinds.items()}
    y = L.lambda_cost(input=data["s"], score=data["r"], NDCG_num=2, max_sort_size=limit)
    assert y.levels == data["s"].levels
    (gradient,) = pd.gradients(pd.reduce_sum(y), [data["s"]])
    for batch in BATCHES.values():
        drawn = {name: kind.draw(rng, batch) for name, kind in kinds.items()}
        (s, (lengths,)), (r, _) = drawn.values()
        found, slope = pd.eval([y, gradient], feeds(data, drawn))
        s, r = s[:, 0].astype(float), r[:, 0]
        value = np.repeat(ndcg_of(s, r, lengths, 2), lengths)
        np.testing.assert_allclose(found[:, 0], value, rtol=1e-5)
        wanted = lambda_rank_of(s, r, lengths, 2, None if limit == -1 else limit)
        np.testing.assert_allclose(slope[:, 0], wanted, rtol=1e-4, atol=1e-6)


def test_training_on_lambda_cost_puts_the_relevant_first():
    x = L.data(name="x", type=T.dense_vector_sequence(2))
    r = L.data(name="r", type=T.dense_vector_sequence(1))
    s = L.fc(input=x, size=1, act=A.Linear(), param_attr=Param(initial_std=0.0), bias_attr=False)
    y = L.lambda_cost(input=s, score=r, NDCG_num=3)
    rows = np.random.default_rng(0).standard_normal((40, 2)).astype("f")
    relevance = (rows[:, :1] > 0) + 0.0
    fed = dict(zip([*x.inputs, *r.inputs], [rows, [20, 20], relevance, [20, 20]], strict=True))
    before = pd.eval(y, fed).mean()
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(y))
    for _ in range(20):
        pd.eval(step, fed)
    assert before < 0.9
    assert pd.eval(y, fed).min() == 1.0


def test_sampled_ids_belong_to_their_rows():
    x = L.data(name="x", type=T.dense_vector_sequence(3))
    y = L.sampling_id(input=x)
    assert y.levels == x.levels
    fed = dict(zip(x.inputs, [np.eye(3)[[2, 0, 1, 1]], [3, 1]], strict=True))
    assert pd.eval(y, fed).tolist() == [2, 0, 1, 1]


# Layers whose rows are those of the first layer in the configuration.
# fmt: off
ROW_WISE = [
    lambda x, z, **_: L.fc([x, z], size=2),
    lambda x, **_: L.mixed(input=L.identity_projection(x)),
    lambda x, z, **_: L.mixed(input=L.dotmul_operator(x, z)),
    lambda w, **_: L.embedding(w, size=2),
    lambda x, z, **_: L.addto([x, z]),
    lambda x, z, **_: L.concat([x, z]),
    lambda x, **_: L.dropout(x, 0.5),
    lambda x, **_: L.slope_intercept(x, slope=2.0),
    lambda x, **_: L.clip(x, min=0.0, max=1.0),
    lambda x, **_: L.prelu(x),
    lambda x, **_: L.scale_shift(x),
    lambda x, **_: L.row_l2_norm(x),
    lambda x, **_: L.sum_to_one_norm(x),
    lambda x, **_: L.batch_norm(x),
    lambda x, z, **_: L.dot_prod(x, z),
    lambda x, z, **_: L.out_prod(x, z),
    lambda x, z, **_: L.l2_distance(x, z),
    lambda x, z, **_: L.cos_sim(x, z),
    lambda x, z, **_: L.conv_shift(x, z),
    lambda x, z, **_: L.tensor(x, z, size=2),
    lambda x, **_: L.factorization_machine(x, factor_size=2),
    lambda x, **_: L.gated_unit(x, size=2),
    lambda x, **_: L.repeat(x, num_repeats=2),
    lambda x, **_: L.fc(x, size=2, act=A.Softmax()),
    lambda x, z, **_: L.square_error_cost(input=x, label=z),
    lambda x, w, **_: L.cross_entropy_cost(input=L.fc(x, size=5, act=A.Softmax()), label=w),
    lambda x, w, **_: L.classification_cost(input=L.fc(x, size=5, act=A.Softmax()), label=w),
    lambda x, **_: L.sum_cost(x),
    lambda x, z, **_: L.smooth_l1_cost(input=x, label=z),
    lambda x, **_: x + 1.0,
    lambda x, z, **_: x + z,
]
OF_THE_WEIGHT = [
    lambda x, one: L.scaling(input=x, weight=one),
    lambda x, one: L.power(input=x, weight=one),
    lambda x, one: L.interpolation(input=[x, x], weight=one),
]
# fmt: on


@pytest.mark.parametrize("build", ROW_WISE)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_layers_of_rows_keep_sequences(build, depth):
    x, z, w = (
        kind.layer(name)
        for name, kind in {
            "x": Data(3, depth),
            "z": Data(3, depth),
            "w": Data(5, depth, "ids"),
        }.items()
    )
    y = build(x=x, z=z, w=w)
    assert y.levels == (w if y.parents[0] is w else x).levels
    assert len(y.levels) == depth


@pytest.mark.parametrize("build", OF_THE_WEIGHT)
def test_sequences_of_the_first_layer_in_the_configuration(build):
    one, x = Data(1).layer("one"), Data(3, 2).layer("x")
    assert build(x=x, one=one).levels == one.levels


@pytest.mark.parametrize(
    "build",
    [
        lambda x: L.resize(x, size=3),
        lambda x: L.trans(x),
        lambda x: L.pooling(input=x),
    ],
)
def test_layers_without_sequences(build):
    assert build(Data(3).layer("x")).levels == ()
