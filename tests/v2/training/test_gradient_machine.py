"""event.gm: what the layers of a network gave for the batch at hand."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import event as events
from pd_v2.arguments import Arguments
from pd_v2.attr import Param
from pd_v2.data_feeder import DataFeeder
from pd_v2.layer.resized import Networks
from pd_v2.parameters import Parameters
from pd_v2.training.gradient_machine import PASS_TEST, PASS_TRAIN, GradientMachine

A, L, T = paddle.activation, paddle.layer, paddle.data_type


def dense(name, size):
    return L.data(name=name, type=T.dense_vector(size))


def line(rate=0.5, **options):
    """y = x w for x [1], t [1], with w = 1; the trainer and its pool."""
    y = L.fc(dense("x", 1), size=1, name="y", act=A.Linear(), bias_attr=False, **options)
    cost = L.square_error_cost(input=y, label=dense("t", 1), name="cost")
    pool = paddle.parameters.create(cost)
    pool["_y.w0"] = np.ones((1, 1))
    optimizer = paddle.optimizer.Momentum(learning_rate=rate)
    return paddle.trainer.SGD(cost, pool, optimizer), pool


BATCHES = [[([1.0], [0.0])], [([3.0], [3.0]), ([0.0], [0.0])], [([2.0], [2.0])]]


def collected(trainer, ask, batches=BATCHES, passes=1):
    """What `ask(event)` gave, without the Nones."""
    found = []

    def handler(event):
        answer = ask(event)
        if answer is not None:
            found.append(answer)

    trainer.train(lambda: iter(batches), num_passes=passes, event_handler=handler)
    return found


def outputs(kind, name="y", first=0):
    """Ask an event of this kind for the value of a layer."""

    def ask(event):
        if isinstance(event, kind) and getattr(event, "batch_id", first) >= first:
            return event.gm.getLayerOutputs(name)[name]["value"].tolist()

    return ask


@pytest.mark.parametrize("kind", [events.EndForwardBackward, events.EndIteration])
def test_values_are_those_of_the_batch_before_its_update(kind):
    """w is 1, then 0, then 1."""
    trainer, _ = line()
    cost = 2 * (0 * 3 - 3) * 3 * 0.5
    assert collected(trainer, outputs(kind)) == [[[1.0]], [[0.0], [0.0]], [[-2 * cost]]]


def test_a_handler_may_change_its_mind_and_ask_for_more():
    trainer, _ = line(rate=0.0)

    def ask(event):
        if isinstance(event, events.EndIteration):
            names = ["y", "cost", "x"][: 1 + event.batch_id]
            found = event.gm.getLayerOutputs(names)
            assert list(found) == names
            return found[names[-1]]["value"].tolist()

    assert collected(trainer, ask) == [[[1.0]], [[0.0], [0.0]], [[2.0]]]


def test_a_layer_that_is_asked_for_late_is_computed_anew():
    """From the values before the update, which the session still has; w is 1, then 0, then 9."""
    trainer, _ = line()
    late = outputs(events.EndIteration, first=1)
    assert collected(trainer, late) == [[[0.0], [0.0]], [[18.0]]]


def test_a_layer_may_be_asked_for_when_the_pass_is_over():
    assert collected(line()[0], outputs(events.EndPass)) == [[[18.0]]]


def test_a_late_question_warns_of_values_after_the_update():
    trainer, pool = line()

    def ask(event):
        if isinstance(event, events.EndIteration) and event.batch_id == 1:
            pool["_y.w0"] = np.full((1, 1), 2.0)
            with pytest.warns(UserWarning, match="as they are after the update: _y.w0"):
                return event.gm.getLayerOutputs("y")["y"]["value"].tolist()

    assert collected(trainer, ask) == [[[6.0], [0.0]]]


def test_a_pass_ends_with_the_values_of_its_last_batch():
    trainer, _ = line(rate=0.0)
    found = collected(trainer, outputs(events.EndPass), passes=2)
    assert found == [[[2.0]]] * 2


def test_random_draws_are_those_of_the_step(rng):
    x = dense("x", 50)
    y = L.fc(L.dropout(x, 0.5, name="thin"), size=1, name="y", act=A.Linear(), bias_attr=False)
    cost = L.square_error_cost(input=y, label=dense("t", 1))
    pool = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=0.0))

    def ask(event):
        if hasattr(event, "gm"):
            found = event.gm.getLayerOutputs(["thin", "y"])
            return found["thin"]["value"].ravel(), found["y"]["value"].item(), pool["_y.w0"]

    found = collected(trainer, ask, [[(np.ones(50), [0.0])]])
    assert len(found) == 3
    for thin, y, w in found:
        np.testing.assert_array_equal(thin, found[0][0])
        assert 10 < thin.sum() < 40 and y == pytest.approx(thin @ w, rel=1e-4)


def test_the_draws_of_a_training_are_the_same_whoever_asks():
    def trained(handler):
        with paddle.build.fresh():
            y = L.fc(L.dropout(dense("x", 20), 0.5), size=1, name="y", bias_attr=False)
            cost = L.square_error_cost(input=y, label=dense("t", 1))
            pool = paddle.parameters.create(cost)
            trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=0.1))
            batches = [[(np.ones(20), [1.0])]] * 3
            trainer.train(lambda: iter(batches), event_handler=handler)
            return pool["_y.w0"]

    def nosy(event):
        if isinstance(event, events.EndForwardBackward):
            event.gm.getLayerOutputs("y")

    np.testing.assert_array_equal(trained(lambda event: None), trained(nosy))


def test_a_test_is_the_last_forward_too():
    trainer, _ = line(rate=0.0)

    def ask(event):
        if isinstance(event, events.EndIteration):
            trainer.test(lambda: iter([[([7.0], [0.0])]]))
            return event.gm.getLayerOutputs("y")["y"]["value"].item()

    assert collected(trainer, ask, BATCHES[:1]) == [7.0]


def test_fields_of_ids():
    x, label = dense("x", 3), L.data(name="label", type=T.integer_value(3))
    p = L.fc(x, size=3, name="p", act=A.Softmax())
    best = L.max_id(p, name="best")
    cost = L.classification_cost(input=p, label=label)
    pool = paddle.parameters.create(cost)
    pool["_p.w0"] = np.eye(3)
    optimizer = paddle.optimizer.Momentum(learning_rate=0.0)
    trainer = paddle.trainer.SGD(cost, pool, optimizer, extra_layers=best)

    def ask(event):
        if isinstance(event, events.EndIteration):
            return event.gm.getLayerOutputs(["best", "label", "p"])

    (found,) = collected(trainer, ask, [[([0.0, 5.0, 0.0], 2)]])
    assert found["best"]["id"].tolist() == [1] and found["best"]["id"].dtype == np.int32
    assert found["label"]["id"].tolist() == [2]
    assert found["p"]["id"] is None and found["p"]["prob"] is None
    assert found["p"]["value"].shape == (1, 3) and found["p"]["value"].dtype == np.float32


def test_rows_of_sequences_are_one_below_the_other():
    x = L.data(name="x", type=T.dense_vector_sequence(2))
    double = L.slope_intercept(x, slope=2.0, name="double")
    cost = L.sum_cost(double)
    optimizer = paddle.optimizer.Momentum(learning_rate=0.0)
    trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizer)
    batch = [([[1.0, 2.0], [3.0, 4.0]],), ([[5.0, 6.0]],)]
    found = collected(trainer, outputs(events.EndIteration, "double"), [batch])
    assert found == [[[2, 4], [6, 8], [10, 12]]]


def test_parameters_and_their_gradients():
    trainer, _ = line(param_attr=Param(is_static=False))
    L.fc(L.get_layer("x"), size=1, name="aside")

    def ask(event):
        if hasattr(event, "gm"):
            (w,) = event.gm.getParameters()
            value, gradient = (w.getBuf(k).copyToNumpyArray().tolist() for k in (0, 1))
            return w.getName(), w.getSize(), w.getConfig().name, value, gradient

    found = collected(trainer, ask, BATCHES[:1])
    same = ("_y.w0", 1, "_y.w0")
    assert found == [(*same, [1], [2]), (*same, [0], [0]), (*same, [0], [0])]
    (w,) = trainer.__gradient_machine__.getParameters()
    with pytest.raises(ValueError, match="getBuf: 0 is the value and 1 the gradient, not 2"):
        w.getBuf(2)


def test_static_parameters_are_told_apart():
    trainer, _ = line(param_attr=Param(is_static=True))
    gm = trainer.__gradient_machine__
    assert len(gm.getParameters()) == 1 and gm.getNonStaticParameters() == []


def test_a_pool_may_take_the_network_of_a_machine():
    trainer, pool = line()
    other = Parameters()
    other.append_gradient_machine(trainer.__gradient_machine__)
    assert other.names() == ["_y.w0"] and other["_y.w0"].shape == (1,)
    other["_y.w0"] = np.array([4.0])
    assert pool["_y.w0"].tolist() == [4.0]


def test_the_ranking_script_of_2017_reads_its_scores():
    """Both towers share their parameters; the mean difference of scores is logged."""
    attr = Param(name="score.w")
    left, right = (
        L.fc(dense(f"{side}_data", 2), 1, A.Linear(), f"{side}_score", attr, bias_attr=False)
        for side in ("left", "right")
    )
    cost = L.rank_cost(left, right, label=dense("label", 1))
    pool = paddle.parameters.create(cost)
    pool["score.w"] = np.array([[1.0], [10.0]])
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Adam(learning_rate=2e-4))
    differences = []

    def handler(event):
        if isinstance(event, events.EndIteration) and event.batch_id % 2 == 0:
            found = [event.gm.getLayerOutputs(n)[n]["value"] for n in ("left_score", "right_score")]
            differences.append(float(np.average(np.abs(found[0] - found[1]))))

    sample = ([1.0], [1.0, 1.0], [0.0, 1.0])
    feeding = {"label": 0, "left_data": 1, "right_data": 2}
    trainer.train(lambda: iter([[sample]] * 3), event_handler=handler, feeding=feeding)
    assert differences == pytest.approx([1.0, 1.0 + 2 * 2e-4], abs=1e-5)


def inside(names):
    trainer, _ = line()

    def ask(event):
        if isinstance(event, events.EndIteration):
            event.gm.getLayerOutputs(names)

    collected(trainer, ask)


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (3, RuntimeError, "getLayerOutputs: a name or a list of names, not 3"),
        (["y", 3], RuntimeError, "a name or a list of names"),
        (("y",), RuntimeError, "a name or a list of names"),
        ("none", ValueError, "the network has no layer 'none'"),
        (["y", "aside"], ValueError, "the network has no layer 'aside'"),
    ],
)
def test_what_it_refuses(names, error, message):
    with pytest.raises(error, match=message):
        inside(names)


def test_layers_of_a_step_are_not_there():
    x = L.data(name="x", type=T.dense_vector_sequence(2))
    out = L.recurrent_group(lambda row: L.slope_intercept(row, name="in"), x, name="g")
    cost = L.sum_cost(out)
    optimizer = paddle.optimizer.Momentum(learning_rate=0.0)
    trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizer)
    with pytest.raises(ValueError, match="'in@g' is a layer of a group's step"):
        collected(trainer, outputs(events.EndIteration, "in@g"), [[([[1.0, 2.0]],)]])


def test_before_any_batch_there_are_no_outputs():
    trainer, _ = line()
    with pytest.raises(RuntimeError, match="no batch has been computed yet"):
        trainer.__gradient_machine__.getLayerOutputs("y")
    assert pd.default_session().stats()["evaluations"] == 0


def test_rows_of_a_table_that_is_updated_in_place():
    """The first batch is seen with the table as it was before."""
    w = L.data(name="w", type=T.integer_value(4))
    rows = L.embedding(w, size=1, param_attr=Param(name="table", sparse_update=True), name="rows")
    cost = L.sum_cost(rows)
    pool = paddle.parameters.create(cost)
    pool["table"] = np.arange(4.0).reshape(4, 1)
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=10.0))
    batches = [[(3,), (1,)], [(3,), (2,)]]
    found = collected(trainer, outputs(events.EndIteration, "rows"), batches)
    assert found == [[[3], [1]], [[3 - 10], [2]]]
    assert pool["table"].tolist() == [0, 1 - 10, 2 - 10, 3 - 20]


def test_moving_statistics_move_once_whoever_asks():
    x = dense("x", 2)
    y = L.batch_norm(x, name="y", act=A.Linear(), moving_average_fraction=0.5)
    cost = L.square_error_cost(y, label=dense("t", 2))
    pool = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=0.0))
    batch = [([1.0, 2.0], [0.0, 0.0]), ([3.0, 6.0], [0.0, 0.0])]
    found = collected(trainer, lambda e: outputs(events.EndForwardBackward)(e), [batch])
    np.testing.assert_allclose(found, [[[-1, -1], [1, 1]]], rtol=1e-4)
    np.testing.assert_allclose(pool["_y.w1"], [1.0, 2.0])


# ---- forward passes that a program asks for


def arguments(gm, samples):
    """The Arguments of a batch for the network of a machine."""
    return DataFeeder(gm.topology.data_type())(samples)


def machine(*outputs, **values):
    """The machine of a network whose parameters have these values."""
    topology, pool = paddle.topology.Topology(list(outputs)), paddle.parameters.create(outputs)
    for name, value in values.items():
        pool[name] = np.array(value, np.float32)
    return GradientMachine(topology, pool, learned=[], networks=Networks(topology))


@pytest.mark.parametrize("kind", [PASS_TRAIN, PASS_TEST])
def test_a_forward_pass_fills_arguments_with_the_outputs(kind, no_programs):
    trainer, pool = line()
    gm, found = trainer.__gradient_machine__, Arguments.createArguments(0)
    gm.forward(arguments(gm, BATCHES[1]), found, kind)
    found["other"] = None
    gm.forward(arguments(gm, BATCHES[0]), found, kind)
    assert list(found) == ["cost"] and found.getSlotNum() == 1
    assert found.getSlotValue(0).copyToNumpyMat().tolist() == [[1.0]]
    assert found.getSlotIds(0) is None
    assert pool["_y.w0"].tolist() == [1.0]
    assert gm.getLayerOutputs("cost")["cost"]["value"].tolist() == [[1.0]]
    stats = pd.default_session().stats()
    assert (stats["evaluations"], stats["compiled"]) == (2, 1)
    assert gm.getLayerOutputs("y")["y"]["value"].tolist() == [[1.0]]


def test_the_sum_of_a_forward_pass_is_the_cost_of_all_samples():
    trainer, _ = line()
    gm, found = trainer.__gradient_machine__, Arguments()
    samples = [([3.0], [1.0]), ([0.0], [2.0])]
    gm.forward(arguments(gm, samples), found, PASS_TEST)
    assert found.sum() == 8.0 == 2 * trainer.test(lambda: iter([samples])).cost


def test_outputs_of_sequences_have_start_positions():
    nested = L.data(name="x", type=T.dense_vector_sub_sequence(1))
    last = L.last_seq(nested, agg_level=L.AggregateLevel.TO_SEQUENCE, name="last")
    double = L.slope_intercept(nested, slope=2.0, name="double")
    gm, found = machine(last, double), Arguments()
    gm.forward(arguments(gm, [([[[1], [2]], [[3]]],), ([[[4]]],)]), found, PASS_TEST)
    assert list(found) == ["last", "double"]
    values = [found.getSlotValue(i).copyToNumpyMat().ravel().tolist() for i in (0, 1)]
    assert values == [[2, 3, 4], [2, 4, 6, 8]]
    starts = [found.getSlotSequenceStartPositions(i).copyToNumpyArray().tolist() for i in (0, 1)]
    assert starts == [[0, 2, 3], [0, 3, 4]]
    assert found.getSlotSubSequenceStartPositions(0) is None
    inner = found.getSlotSubSequenceStartPositions(1).copyToNumpyArray()
    assert inner.tolist() == [0, 2, 3, 4]


def test_outputs_of_images_have_a_frame():
    image = L.data(name="x", type=T.dense_vector(6), height=2, width=3)
    pool = L.img_pool(image, pool_size=1, num_channels=1, name="pool")
    gm, found = machine(pool), Arguments()
    gm.forward(arguments(gm, [(range(6),)]), found, PASS_TEST)
    assert (found.getSlotFrameHeight(0), found.getSlotFrameWidth(0)) == (2, 3)


def decoding():
    """The labels of greatest score, and where they are not the given ones: both ids and rows."""
    x = L.data(name="x", type=T.dense_vector_sequence(2))
    label = L.data(name="label", type=T.integer_value_sequence(2))
    attr = Param(name="chain", initial_std=0.0)
    best = L.max_id(x, name="best")
    wrong = L.crf_decoding(x, size=2, label=label, param_attr=attr, name="wrong")
    return best, wrong


ROWS = [([[1.0, 5.0], [6.0, 2.0]], [1, 1]), ([[0.0, 7.0]], [1])]


def test_outputs_of_ids():
    best, wrong = decoding()
    gm, found = machine(wrong, best), Arguments()
    gm.forward(arguments(gm, ROWS), found, PASS_TEST)
    assert [found.getSlotIds(i).copyToNumpyArray().tolist() for i in (0, 1)] == [[1, 0, 1]] * 2
    assert found.getSlotValue(0).copyToNumpyMat().tolist() == [[0], [1], [0]]
    assert found.getSlotValue(1) is None


def test_a_forward_test_gives_what_inference_gives():
    best, wrong = decoding()
    gm = machine(wrong, best)
    found = gm.forwardTest(arguments(gm, ROWS))
    assert [sorted(fields) for fields in found] == [["id", "prob", "value"]] * 2
    assert found[0]["id"].tolist() == found[1]["id"].tolist() == [1, 0, 1]
    assert found[0]["id"].dtype == np.int32
    assert found[0]["value"].tolist() == [[0], [1], [0]]
    assert found[1]["prob"].tolist() == [[5], [6], [7]] and found[1]["value"] is None
    inference = paddle.inference.Inference(gm.pool, [wrong, best])
    (same,) = inference.iter_infer(ROWS)
    for ours, theirs in zip(found, same, strict=True):
        for field in ours:
            np.testing.assert_array_equal(ours[field], theirs[field])


def test_a_training_forward_applies_dropout_and_moves_statistics():
    x = dense("x", 400)
    thin = L.dropout(x, 0.5, name="thin")
    norm = L.batch_norm(dense("z", 1), name="norm", moving_average_fraction=0.5, act=A.Linear())
    gm = machine(thin, norm, **{"_norm.w0": [[1]]})
    samples = [(np.ones(400), [1.0]), (np.ones(400), [3.0])]
    found, seen = Arguments(), []
    for kind in PASS_TRAIN, PASS_TEST, PASS_TRAIN:
        gm.forward(arguments(gm, samples), found, kind)
        seen.append(found.getSlotValue(0).copyToNumpyMat())
        outputs = gm.getLayerOutputs(["thin"])["thin"]["value"]
        np.testing.assert_array_equal(outputs, seen[-1])
        if kind == PASS_TRAIN:
            assert found.getSlotValue(1).copyToNumpyMat().ravel() == pytest.approx([-1, 1], 1e-3)
    assert set(seen[0].ravel()) == {0, 1} and set(seen[1].ravel()) == {0.5}
    assert (seen[0] != seen[2]).any()
    assert gm.pool["_norm.w1"] == pytest.approx(0.5 * (0.5 * 2) + 0.5 * 2)


def test_a_forward_pass_in_a_handler_leaves_the_training_alone():
    """From then on it is the last batch, also for layers that come with each step."""
    trainer, pool = line()
    gm, gradients, seen = trainer.__gradient_machine__, [], []

    def handler(event):
        if isinstance(event, events.EndForwardBackward):
            gm.forward(arguments(gm, [([9.0], [0.0])]), Arguments(), PASS_TEST)
            gradients.append(pool.get_grad("_y.w0").tolist())
        if isinstance(event, events.EndIteration):
            seen.append(event.gm.getLayerOutputs(["y", "t"]))

    trainer.train(lambda: iter(BATCHES), event_handler=handler)
    with paddle.build.fresh():
        untouched, same = line()
        untouched.train(lambda: iter(BATCHES))
        assert pool["_y.w0"].tolist() == same["_y.w0"].tolist()
    assert gradients == [[2.0], [-18.0], [2 * (9 * 2 - 2) * 2]]
    assert [found["y"]["value"].tolist() for found in seen] == [[[9.0]], [[0.0]], [[81.0]]]
    assert [found["t"]["value"].tolist() for found in seen] == [[[0.0]]] * 3


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"y": None}, PASS_TEST, "forward: the network has no data layer 'y'"),
        ({}, 2, "forward: 0 is a pass of training, 1 of a test, not 2"),
    ],
)
def test_forward_passes_that_it_refuses(given, kind, message):
    trainer, _ = line()
    with pytest.raises(ValueError, match=message):
        trainer.__gradient_machine__.forward(Arguments(given), Arguments(), kind)
