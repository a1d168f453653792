"""The structured costs of 2017, against enumerations and formulas."""

import math

import numpy as np
import onnxruntime
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.attr import Param
from pd_v2.data_feeder import DataFeeder
from pd_v2.feeds import feed_dict
from pd_v2.topology import Topology

from ...core.ops import reference_structured as naive
from ..evaluator import evaluator_checks as evaluators
from . import layer_checks as layers
from .layer_rows import A, Dense, Ids, L, Row, T

E = paddle.evaluator
SIZE = 3


def rows(name="x", size=SIZE, kind=T.dense_vector_sequence):
    return L.data(name=name, type=kind(size))


def ids(name="y", size=SIZE, kind=T.integer_value_sequence):
    return L.data(name=name, type=kind(size))


def fed(outputs, samples):
    """Feeds of data layers, in the order of their creation, for a list of samples."""
    topology = Topology(outputs)
    return feed_dict(topology.data_layers(), DataFeeder(topology.data_type())(samples))


class Slope:
    """Gradients of costs [N, 1] along random ways, on many batches."""

    def __init__(self, cost, variables):
        self.above = pd.Variable([None, 1])
        self.gradients = pd.gradients(cost, variables, seeds=[self.above])

    def __call__(self, feeds, values, formula, rng):
        """(found, by differences of formula(float64 arrays)); `values` are of the variables."""
        arrays = [np.asarray(a, np.float64) for a in values]
        seed = rng.standard_normal(formula(arrays).shape).astype(np.float32)
        ways = [rng.standard_normal(a.shape) for a in arrays]
        found = pd.eval(self.gradients, {**feeds, self.above: seed})
        moved = [
            np.sum(formula([a + step * w for a, w in zip(arrays, ways, strict=True)]) * seed)
            for step in (1e-5, -1e-5)
        ]
        total = sum(np.sum(g.astype(np.float64) * w) for g, w in zip(found, ways, strict=True))
        return total, (moved[0] - moved[1]) / 2e-5


# ---- CRF

BATCHES = {
    "none": [],
    "empty": [0, 0],
    "one step": [1],
    "equal": [3, 3, 3],
    "ragged": [2, 0, 4, 1],
}
NESTED = {"nested": [[2, 0, 1], [], [1], [0, 0]], "nested none": []}


def tagged(lengths, rng):
    """Samples of scores and labels for lengths, which may be nested."""

    def part(length):
        if isinstance(length, list):
            return tuple(map(list, zip(*map(part, length), strict=True))) or ([], [])
        return rng.standard_normal((length, SIZE)).tolist(), rng.integers(0, SIZE, length).tolist()

    return [part(length) for length in lengths]


def crf_formula(v, lengths, weight):
    return naive.crf(v["x"], v["y"], lengths, weight[0], weight[1], weight[2:])


@pytest.mark.parametrize("batches", [BATCHES, NESTED], ids=["plain", "nested"])
class TestCrf:
    """Costs, labels and errors of one network over batches of every kind."""

    @pytest.fixture
    def net(self, batches, rng):
        """Layers by name, the values of the parameter, and for each batch feeds and steps."""
        nested = batches is NESTED
        x = rows(kind=T.dense_vector_sub_sequence if nested else T.dense_vector_sequence)
        y = ids(kind=T.integer_value_sub_sequence if nested else T.integer_value_sequence)
        attr = Param(name="crfw")
        cost = L.crf(input=x, label=y, param_attr=attr)
        best = L.crf_decoding(input=x, size=SIZE, param_attr=attr)
        wrong = L.crf_decoding(input=x, size=SIZE, label=y, param_attr=attr)
        _, values = layers.filled([cost, best, wrong], rng)
        found = {"x": x, "y": y, "cost": cost, "best": best, "wrong": wrong}
        given = [
            (
                fed([cost, best, wrong], tagged(lengths, rng)),
                [sum(n) if isinstance(n, list) else n for n in lengths],
            )
            for lengths in batches.values()
        ]
        return found, values["crfw"], given

    def test_values(self, net):
        found, weight, batches = net
        targets = [found["cost"], found["best"], found["wrong"], found["wrong"].ids]
        for given, steps in batches:
            cost, best, wrong, decoded = pd.eval(targets, given)
            x, y = given[found["x"]].astype(np.float64), given[found["y"]]
            expected = crf_formula({"x": x, "y": y}, steps, weight)
            np.testing.assert_allclose(cost, expected, rtol=1e-5, atol=1e-5, err_msg=str(steps))
            labels = naive.crf_best(x, steps, weight[0], weight[1], weight[2:])
            np.testing.assert_array_equal(best, labels)
            np.testing.assert_array_equal(decoded, labels)
            np.testing.assert_array_equal(wrong, (labels != y)[:, None])

    def test_gradient(self, net, rng):
        found, weight, batches = net
        slope = Slope(found["cost"], [found["x"], pd.get_variable("crfw")])
        for given, steps in batches:
            y = given[found["y"]]

            def formula(a, y=y, steps=steps):
                return crf_formula({"x": a[0], "y": y}, steps, a[1])

            total, expected = slope(given, [given[found["x"]], weight], formula, rng)
            assert total == pytest.approx(expected, rel=2e-4, abs=1e-4), steps


def test_crf_weight_and_coeff(rng):
    x, y, weight = rows(), ids(), rows("weight", 1, T.dense_vector)
    plain = L.crf(input=x, label=y, param_attr=Param(name="w"))
    cost = L.crf(input=x, label=y, weight=weight, coeff=3.0, param_attr=Param(name="w"))
    layers.filled([plain, cost], rng)
    samples = [(*s, [k]) for s, k in zip(tagged([2, 3], rng), (2.0, 0.5), strict=True)]
    given = fed([plain, cost], samples)
    before, after = pd.eval([plain, cost], given)
    np.testing.assert_allclose(after, before * [[2.0], [0.5]], rtol=1e-6)
    learned = [x, pd.get_variable("w")]
    factors = pd.constant(np.float32([[6.0], [1.5]]))
    expected = pd.gradients(plain, learned, seeds=[factors])
    found = pd.gradients(cost, learned)
    for a, b in zip(*pd.eval([found, expected], given), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert pd.gradients(cost, [weight]) == [None]


def test_crf_shares_its_parameter_by_name():
    x, y = rows(), ids()
    cost = L.crf(input=x, label=y, size=SIZE, param_attr=Param(name="crfw", initial_std=0.1))
    L.crf_decoding(input=x, size=SIZE, param_attr=Param(name="crfw"))
    own = L.crf_decoding(input=x, size=SIZE)
    model = Topology([cost, own]).proto()
    assert [(p.name, list(p.dims), p.initial_std) for p in model.parameters] == [
        ("crfw", [SIZE + 2, SIZE], 0.1),
        ("___crf_decoding_layer_1__.w0", [SIZE + 2, SIZE], pytest.approx(1 / math.sqrt(SIZE + 2))),
    ]


def test_decoding_is_inferred_as_ids(rng):
    x, y = rows(), ids()
    best = L.crf_decoding(input=x, size=SIZE, param_attr=Param(name="w"))
    wrong = L.crf_decoding(input=x, size=SIZE, label=y, param_attr=Param(name="w"))
    pool, values = layers.filled([best, wrong], rng)
    samples = tagged([3, 2], rng)
    weight = values["w"]
    labels = naive.crf_best(
        np.concatenate([s[0] for s in samples]), [3, 2], weight[0], weight[1], weight[2:]
    )
    found = paddle.infer(
        output_layer=best, parameters=pool, input=[(s[0],) for s in samples], field="id"
    )
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, labels)
    value, again = paddle.infer(
        output_layer=wrong, parameters=pool, input=samples, field=["value", "id"]
    )
    np.testing.assert_array_equal(again, labels)
    np.testing.assert_array_equal(value[:, 0], labels != np.concatenate([s[1] for s in samples]))


def test_evaluators_read_errors_and_labels(rng):
    """As in 2017's tagging configurations, the decoding with a label serves both."""
    x, y = rows(size=2), ids(size=2)
    wrong = L.crf_decoding(input=x, size=2, label=y, name="wrong")
    layers.filled(wrong, rng)
    pd.default_session().set(pd.get_variable("_wrong.w0"), np.zeros((4, 2)))
    E.sum(input=wrong, name="error")
    E.chunk(input=wrong, label=y, chunk_scheme="plain", num_chunk_types=1, name="f1")
    scores = np.float32([[1, 0], [1, 0], [0, 1], [1, 0]])
    given = evaluators.packed("x", [scores]) | evaluators.packed("y", [[0, 1, 1, 0]])
    found = evaluators.metrics([given])
    assert found["error"] == 0.25
    assert found["f1.recall"] == found["f1.precision"] == 0.5  # 00.0 against 0..0


# ---- CTC

# steps and labels of each sequence
LABELLED = {
    "none": ([], []),
    "empty": ([0, 0], [0, 0]),
    "no labels": ([2, 0, 3], [0, 0, 0]),
    "one step": ([1, 1], [1, 0]),
    "equal": ([4, 4, 4], [2, 2, 2]),
    "ragged": ([5, 1, 4, 3, 5], [3, 1, 0, 2, 1]),
    "too short": ([1, 0, 2, 4], [2, 1, 3, 4]),
}


def spoken(steps, labels, rng):
    """Samples of scores and labels 0 and 1."""
    return [
        (rng.standard_normal((n, SIZE)).tolist(), rng.integers(0, SIZE - 1, count).tolist())
        for n, count in zip(steps, labels, strict=True)
    ]


def ctc_formula(x, y, lengths):
    log_p = x - np.log(np.exp(x).sum(1, keepdims=True))
    return naive.ctc(log_p, y, *lengths, blank=SIZE - 1)


class TestCtc:
    """ctc over a softmax and warp_ctc over what that is taken of are the same."""

    @pytest.fixture
    def net(self, rng):
        """(data x and y, both costs, both with norm_by_times, feeds for all lengths)."""
        x, y = rows(), ids(size=SIZE - 1)
        p = L.addto(input=x, act=A.Softmax())
        every = [
            cost
            for norm in (False, True)
            for cost in (
                L.ctc(input=p, label=y, norm_by_times=norm),
                L.warp_ctc(input=x, label=y, blank=SIZE - 1, norm_by_times=norm),
            )
        ]
        return x, y, every, [fed(every, spoken(*lengths, rng)) for lengths in LABELLED.values()]

    def test_values(self, net):
        x, y, every, batches = net
        for (label, lengths), given in zip(LABELLED.items(), batches, strict=True):
            expected = ctc_formula(given[x].astype(np.float64), given[y], lengths)
            for found in pd.eval(every, given):
                assert found.shape == (len(lengths[0]), 1)
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=label)

    @pytest.mark.parametrize("which", range(4))
    def test_gradient(self, net, which, rng):
        x, y, every, batches = net
        slope = Slope(every[which], [x])
        for (label, lengths), given in zip(LABELLED.items(), batches, strict=True):
            share = 1 / np.maximum(lengths[0], 1)[:, None] if which > 1 else 1.0

            def formula(a, share=share, lengths=lengths, labels=given[y]):
                return share * ctc_formula(a[0], labels, lengths)

            total, expected = slope(given, [given[x]], formula, rng)
            assert total == pytest.approx(expected, rel=2e-4, abs=1e-4), label


def test_ctc_of_a_softmax_that_underflows():
    """e^-300 is no float32, its logarithm is."""
    x, y = rows(), ids(size=SIZE - 1)
    cost = L.ctc(input=L.addto(input=x, act=A.Softmax()), label=y)
    given = fed([cost], [([[300.0, 0.0, 0.0], [0.0, 300.0, 0.0]], [1, 0])])
    value, found = pd.eval([cost, *pd.gradients(cost, [x])], given)
    np.testing.assert_allclose(value, [[600.0]])
    np.testing.assert_allclose(found, [[1, -1, 0], [-1, 1, 0]])


def test_warp_ctc_has_blank_0_and_the_size_of_its_classes(rng):
    x, y = rows(), ids(size=SIZE - 1)
    cost = L.warp_ctc(input=x, label=y)
    assert (cost.size, cost.config.size, cost.config.blank) == (SIZE, SIZE, 0)
    given = fed([cost], [(rng.standard_normal((3, SIZE)).tolist(), [1, 1])])
    scores = given[x].astype(np.float64)
    log_p = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    expected = -(log_p[0, 1] + log_p[1, 0] + log_p[2, 1])
    np.testing.assert_allclose(pd.eval(cost, given), [[expected]], rtol=1e-5)


def test_exported_models_need_data_and_lengths_only(rng, tmp_path):
    x, y = rows(), ids(size=SIZE - 1)
    attr = Param(name="w")
    outputs = [
        L.crf_decoding(input=x, size=SIZE, param_attr=attr),
        L.crf_decoding(input=x, size=SIZE, label=y, param_attr=attr),
        L.warp_ctc(input=x, label=y, blank=SIZE - 1),
        L.ctc(input=L.addto(input=x, act=A.Softmax()), label=y),
    ]
    pool, _ = layers.filled(outputs, rng)
    path = str(tmp_path / "m.onnx")
    Topology(outputs).export_onnx(path, pool)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert {i.name for i in session.get_inputs()} == {"x", "x.lengths", "y", "y.lengths"}
    for samples in (spoken([3, 0, 5], [3, 0, 5], rng), []):
        given = fed(outputs, samples)
        results = session.run(None, {v.name: array for v, array in given.items()})
        for found, expected in zip(results, pd.eval(outputs, given), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6)


# ---- noise-contrastive estimation


@pytest.mark.parametrize("distribution", [None, [0.1, 0.2, 0.3, 0.4]])
@pytest.mark.parametrize("n", [3, 1, 0])
def test_nce(distribution, n, rng):
    x, z, label, weight = (
        rows("x", 3, T.dense_vector),
        rows("z", 2, T.dense_vector),
        ids("label", 4, T.integer_value),
        rows("weight", 1, T.dense_vector),
    )
    y = L.nce(
        input=[x, z],
        label=label,
        weight=weight,
        num_neg_samples=6,
        neg_distribution=distribution,
        name="y",
    )
    _, v = layers.filled(y, rng)
    given = {
        "x": rng.standard_normal((n, 3)).astype(np.float32),
        "z": rng.standard_normal((n, 2)).astype(np.float32),
        "label": rng.integers(0, 4, n),
        "weight": rng.uniform(0.5, 2, (n, 1)).astype(np.float32),
    }
    with pd.fresh(), pd.namespace("y"):  # the same draws by the same names
        noise = pd.eval(pd.random_classes([n, 6], 4, distribution))
    both = np.concatenate([given["label"][:, None], noise], 1)
    scores = given["x"] @ v["_y.w0"].T + given["z"] @ v["_y.w1"].T + v["_y.wbias"]
    expected = naive.nce(
        np.take_along_axis(scores, both, 1), 6 * np.array(distribution or [0.25] * 4)[both]
    )
    found = pd.eval(y, given, training=False)  # the noise is there in a test as well
    np.testing.assert_allclose(found, expected * given["weight"], rtol=1e-5, atol=1e-6)


def test_nce_draws_anew(rng):
    x, label = rows("x", 3, T.dense_vector), ids("label", 50, T.integer_value)
    y = L.nce(input=x, label=label, bias_attr=False)
    layers.filled(y, rng)
    given = {"x": np.ones((1, 3), np.float32), "label": [7]}
    assert pd.eval(y, given) != pd.eval(y, given)


def test_nce_learns_to_tell_the_label(rng):
    """After training, the label of each input has the highest score."""
    x, label = rows("x", 8, T.dense_vector), ids("label", 8, T.integer_value)
    cost = L.nce(input=x, label=label, num_neg_samples=5, name="nce")
    pool = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(
        cost=cost, parameters=pool, update_equation=paddle.optimizer.Adam(learning_rate=0.05)
    )
    samples = [(np.eye(8, dtype=np.float32)[k], (3 * k) % 8) for k in range(8)]
    trainer.train(reader=paddle.batch(lambda: iter(samples * 8), 16), num_passes=10)
    scores = pool.get("_nce.w0").reshape(8, 8) + pool.get("_nce.wbias").reshape(8, 1)
    assert scores.argmax(0).tolist() == [label for _, label in samples]


# ---- hierarchical sigmoid


def tree_formula(v, scores, offsets):
    """The cost, and ln 2 where a class has a shorter way than others."""
    return naive.tree(scores, v["label"]) + math.log(2) * np.array(offsets)[v["label"]][:, None]


class TestHsigmoid(layers.LayerChecks):
    """Five classes: the ways of 0, 1 and 2 have two steps, the others three."""

    rows = (
        Row(
            "five",
            {"x": Dense(4), "label": Ids(5)},
            lambda x, label: L.hsigmoid(input=x, label=label, name="y"),
            lambda v: tree_formula(v, v["x"] @ v["w0"].T + v["wbias"], [1, 1, 1, 0, 0]),
        ),
        Row(
            "eight-no-bias",
            {"x": Dense(4), "label": Ids(8)},
            lambda x, label: L.hsigmoid(input=x, label=label, name="y", bias_attr=False),
            lambda v: tree_formula(v, v["x"] @ v["w0"].T, [0] * 8),
        ),
        Row(
            "several-inputs-num-classes",
            {"x": Dense(4), "z": Dense(3), "label": Ids(3)},
            lambda x, z, label: L.hsigmoid(
                input=[x, z],
                label=label,
                num_classes=6,
                name="y",
                param_attr=[Param(name="_y.first"), Param(initial_std=0.1)],
            ),
            lambda v: tree_formula(
                v, v["x"] @ v["first"].T + v["z"] @ v["w1"].T + v["wbias"], [1, 1, 0]
            ),
        ),
    )


# ---- beams


def test_a_beam_over_sentences_and_spans(rng):
    """Sentences, then the first and the last word: each is chosen among what was chosen before."""
    states = rows("states", 4, T.dense_vector_sub_sequence)
    golds = [ids(name, 9, T.integer_value) for name in ("sentence", "start", "end")]
    every = L.pooling(input=states, agg_level=L.AggregateLevel.TO_SEQUENCE)
    scores = [L.fc(input=every, size=1, act=A.Linear())]
    chosen = [L.kmax_seq_score(input=scores[0], beam_size=2)]
    sentences = L.sub_nested_seq(input=states, selected_indices=chosen[0])
    scores.append(L.fc(input=sentences, size=1, act=A.Linear()))
    chosen.append(L.kmax_seq_score(input=scores[1], beam_size=2))
    spans = L.seq_slice(input=sentences, starts=chosen[1], ends=None)
    scores.append(L.fc(input=spans, size=1, act=A.Linear()))
    chosen.append(L.kmax_seq_score(input=scores[2], beam_size=2))
    beams = [L.BeamInput(*parts) for parts in zip(scores, chosen, golds, strict=True)]
    cost = L.cross_entropy_over_beam(input=beams)
    layers.filled(cost, rng)
    samples = [
        ([rng.standard_normal((n, 4)).tolist() for n in (3, 1, 2)], gold, 0, 0) for gold in range(3)
    ]
    given = fed([cost], samples)
    lengths = [s.levels[-1].lengths for s in scores]
    counts = [s.levels[0].lengths for s in scores[1:]]
    value, *arrays = pd.eval([cost, *scores, *chosen, *lengths, *counts], given)
    arrays = [arrays[:3], arrays[3:6], arrays[6:9], [np.ones(3, int), *arrays[9:]]]
    expected = [
        naive.beam(
            [
                (
                    [x[:, 0] for (x,) in naive.pieces(steps, all_scores)][first : first + count[k]],
                    [[int(c) for c in row if c >= 0] for row in places[first : first + count[k]]],
                    sample[1 + step],
                )
                for step, (all_scores, places, steps, count) in enumerate(zip(*arrays, strict=True))
                for first in [count[:k].sum()]
            ]
        )
        for k, sample in enumerate(samples)
    ]
    np.testing.assert_allclose(value[:, 0], expected, rtol=1e-5, atol=1e-6)
    weights = [pd.get_variable(f"___fc_layer_{k}__.w0") for k in range(3)]
    assert all(np.abs(g).max() > 1e-4 for g in pd.eval(pd.gradients(cost, weights), given))


def test_a_single_beam_input_needs_no_list(rng):
    x, gold = rows(size=1), ids("gold", 9, T.integer_value)
    beam = L.BeamInput(
        candidate_scores=x,
        selected_candidates=L.kmax_seq_score(input=x, beam_size=2),
        gold=gold,
    )
    cost = L.cross_entropy_over_beam(input=beam, name="cost")
    assert (cost.layer_type, cost.size) == ("multi-class-cross-entropy", 1)
    given = fed([cost], [([[1.0], [3.0], [2.0]], 1), ([[1.0], [3.0], [2.0]], 0)])
    kept = np.log(np.exp(3.0) + np.exp(2.0))
    expected = [[kept - 3.0], [np.logaddexp(kept, 1.0) - 1.0]]
    np.testing.assert_allclose(pd.eval(cost, given), expected, rtol=1e-5)


# ---- training


def test_a_tagger_learns_which_labels_follow(rng):
    """Labels alternate within a sequence: the scores alone do not say what comes first."""
    x, y = rows(size=2), ids(size=2)
    scores = L.fc(input=x, size=2, act=A.Linear(), bias_attr=False)
    cost = L.crf(input=scores, label=y, param_attr=Param(name="crfw"))
    wrong = L.crf_decoding(input=scores, size=2, label=y, param_attr=Param(name="crfw"))
    E.sum(input=wrong, name="error")
    pool = paddle.parameters.create([cost, wrong])
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=pool,
        extra_layers=wrong,
        update_equation=paddle.optimizer.Adam(learning_rate=0.1),
    )
    samples = []
    for _ in range(40):
        length, first = int(rng.integers(2, 6)), int(rng.integers(0, 2))
        labels = [(first + t) % 2 for t in range(length)]
        seen = np.zeros((length, 2), np.float32)
        seen[0, first] = 1
        samples.append((seen, labels))
    costs, errors = [], []

    def follow(event):
        if isinstance(event, paddle.event.EndPass):
            errors.append(event.metrics["error"])
        if isinstance(event, paddle.event.EndIteration):
            costs.append(event.cost)

    reader = paddle.batch(lambda: iter(samples), 20)
    trainer.train(reader=reader, num_passes=15, event_handler=follow)
    assert costs[-1] < 0.3 * costs[0]
    assert errors[-1] == 0


# ---- mistakes


@pytest.fixture
def net():
    """x and y: scores and labels of 3; wide: 4 labels; plain: a row; one: an id; label: fed."""
    return {
        "x": rows(),
        "y": ids(),
        "wide": ids("wide", 4),
        "plain": rows("plain", 3, T.dense_vector),
        "one": ids("one", 3, T.integer_value),
        "number": rows("number", 1),
        "found": L.max_id(input=rows("z")),
    }


# fmt: off
MISTAKES = [
    (lambda x, wide, **_: L.crf(input=x, label=wide), pd.ShapeError,
     r"crf layer '__crf_layer_0__', inputs \['x', 'wide'\]: 3 labels, but 'x' has 3 scores and "
     "'wide' 4 labels"),
    (lambda x, y, **_: L.crf(input=x, label=y, size=4), pd.ShapeError,
     "4 labels, but 'x' has 3 scores and 'y' 3 labels"),
    (lambda plain, y, **_: L.crf(input=plain, label=y), pd.GraphError,
     "'plain' holds no sequences"),
    (lambda x, one, **_: L.crf(input=x, label=one), pd.GraphError, "'one' holds no sequences"),
    (lambda x, y, plain, **_: L.crf(input=x, label=y, weight=plain), pd.ShapeError,
     "the weight 'plain' is 3 wide, not 1"),
    (lambda x, **_: L.crf(input=x, label=x), pd.DTypeError, "labels are integers"),
    (lambda x, **_: L.crf_decoding(input=x, size=4), pd.ShapeError,
     "4 labels, but 'x' has 3 scores"),
    (lambda x, **_: L.crf_decoding(input=x, size=3, label=x), pd.DTypeError,
     "the label 'x' holds rows of numbers, no ids"),
    (lambda x, y, **_: L.ctc(input=x, label=y), pd.ShapeError,
     "4 classes are a blank and 3 labels, but 'x' is 3 wide and 'y' has 3 labels"),
    (lambda x, y, **_: L.ctc(input=x, label=y, size=3), pd.ShapeError,
     "3 classes are a blank and 2 labels"),
    (lambda x, y, **_: L.warp_ctc(input=x, label=y, size=3), pd.ShapeError,
     "warp_ctc layer .*: 3 classes are a blank and 2 labels"),
    (lambda plain, **_: L.ctc(input=plain, label=ids("two", 2)), pd.GraphError,
     "'plain' holds no sequences"),
    (lambda x, **_: L.warp_ctc(input=x, label=ids("two", 2), blank=3), pd.ShapeError,
     "the blank 3 is none of 3 classes"),
    (lambda x, found, **_: L.nce(input=x, label=found), pd.GraphError,
     "the label '__maxid_layer_0__' must be a data layer"),
    (lambda plain, one, **_: L.nce(input=plain, label=one, num_neg_samples=0), ValueError,
     "at least one sample is drawn, not 0"),
    (lambda plain, one, **_: L.nce(input=plain, label=one, neg_distribution=[0.5] * 3), ValueError,
     "a distribution is 3 probabilities that add up to 1, not 3 numbers of sum 1.5"),
    (lambda plain, one, **_: L.nce(input=plain, label=one, weight=plain), pd.ShapeError,
     "the weight 'plain' is 3 wide"),
    (lambda x, found, **_: L.hsigmoid(input=x, label=found), pd.GraphError,
     "the label '__maxid_layer_0__' must be a data layer"),
    (lambda plain, one, **_: L.hsigmoid(input=plain, label=one, num_classes=2), pd.GraphError,
     "num_classes is greater than 2, not 2"),
    (lambda plain, one, **_: L.hsigmoid(input=[plain] * 2, label=one, param_attr=[Param()] * 3),
     pd.GraphError, "3 parameter attributes for 2 inputs"),
    (lambda x, **_: L.cross_entropy_over_beam(input=x), TypeError,
     "cross_entropy_over_beam: input is BeamInput, not x"),
    (lambda number, plain, one, **_: L.cross_entropy_over_beam(
        input=[L.BeamInput(number, plain, one)] * 2), pd.GraphError,
     "the scores 'number' of expansion 1 are no nested sequences"),
    (lambda x, plain, one, **_: L.cross_entropy_over_beam(input=L.BeamInput(x, plain, one)),
     pd.ShapeError, r"scores are floats \[T, 1\]"),
]
# fmt: on


@pytest.mark.parametrize(("mistake", "error", "message"), MISTAKES)
def test_mistake(net, mistake, error, message):
    with pytest.raises(error, match=message):
        mistake(**net)
