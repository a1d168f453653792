"""What scripts take for granted of a trainer, and every kind of value that a field may have."""

import inspect
import logging
import operator
from collections import deque

import numpy as np
import pytest

import pd_v2 as paddle
from pd_v2 import data_type as T
from pd_v2 import event as events
from pd_v2.data_feeder import DataFeeder
from pd_v2.optimizer import L2Regularization, Momentum
from pd_v2.topology import Topology
from pd_v2.training.gradient_machine import GradientMachine

L = paddle.layer


def line(**options):
    """(cost, pool) of y = x w + b for x [2], t [1]."""
    x, t = (L.data(name=n, type=T.dense_vector(k)) for n, k in (("x", 2), ("t", 1)))
    y = L.fc(x, size=1, name="y", act=paddle.activation.Linear(), **options)
    cost = L.square_error_cost(input=y, label=t, name="cost")
    return cost, paddle.parameters.create(cost)


SAMPLES = [([1.0, 2.0], [3.0]), ([0.0, 1.0], [1.0])]


def reader():
    yield SAMPLES


def test_the_parts_of_a_trainer_by_the_names_that_scripts_know():
    cost, pool = line()
    optimizer = Momentum()
    trainer = paddle.trainer.SGD(cost, pool, optimizer)
    assert trainer.__parameters__ is pool and trainer.__optimizer__ is optimizer
    assert isinstance(trainer.__topology__, Topology)
    seen = []
    trainer.train(reader, event_handler=lambda e: seen.append(getattr(e, "gm", None)))
    gm = trainer.__gradient_machine__
    assert isinstance(gm, GradientMachine) and seen == [None, None, gm, gm, gm]
    assert trainer.get_topology_proto() == trainer.__topology__.proto()


def test_train_and_test_log_nothing(caplog):
    trainer = paddle.trainer.SGD(*line(), Momentum())
    with caplog.at_level(logging.DEBUG):
        trainer.train(reader, num_passes=2)
        trainer.test(reader)
    assert caplog.records == []


def test_no_passes_are_no_events_but_the_arguments_are_looked_at():
    trainer, seen = paddle.trainer.SGD(*line(), Momentum()), []
    trainer.train(reader, num_passes=0, event_handler=seen.append)
    assert seen == []
    with pytest.raises(TypeError, match="train_data_reader should be a function"):
        trainer.train(lambda: [SAMPLES], num_passes=0)


@pytest.mark.parametrize("kind", [list, tuple])
def test_costs_and_extra_layers_come_one_or_several(kind):
    cost, pool = line()
    other = L.sum_cost(input=L.get_layer("y"))
    trainer = paddle.trainer.SGD(kind([cost, other]), pool, Momentum(), kind([L.get_layer("t")]))
    assert list(trainer.get_topology_proto().output_layer_names) == ["cost", other.name]
    pool["_y.w0"], pool["_y.wbias"] = np.ones(2), np.zeros(1)
    assert trainer.test(reader).cost == (0 + 3 + 0 + 1) / 2


def test_defaults_come_from_the_optimizer_of_the_trainer():
    """2017 took those of the last one."""
    cost, pool = line(bias_attr=False)
    made = [Momentum(momentum=m, regularization=L2Regularization(m)) for m in (0.25, 0.5)]
    protos = [paddle.trainer.SGD(cost, pool, o).get_topology_proto() for o in made]
    found = [(c.momentum, c.decay_rate) for proto in protos for c in proto.parameters]
    assert found == [(0.25, 0.25), (0.5, 0.5)]


def test_a_test_in_a_handler_leaves_the_training_as_it_is():
    def trained(test):
        with paddle.build.fresh():
            x = L.data(name="x", type=T.dense_vector(20))
            y = L.batch_norm(L.dropout(L.fc(x, size=8), 0.5))
            cost = L.sum_cost(L.fc(y, size=1, name="y"))
            pool = paddle.parameters.create(cost)
            trainer = paddle.trainer.SGD(cost, pool, Momentum(learning_rate=0.1, momentum=0.9))
            batches = [[(row,) for row in np.eye(20)[k : k + 4]] for k in range(0, 20, 4)]

            def handler(event):
                if test and not isinstance(event, events.EndForwardBackward):
                    trainer.test(lambda: iter(batches[:2]))

            trainer.train(lambda: iter(batches), event_handler=handler)
            return [pool[name] for name in pool]

    for plain, tested in zip(trained(False), trained(True), strict=True):
        np.testing.assert_array_equal(tested, plain)


def test_a_pass_ends_with_the_updates_of_all_its_batches():
    """And the handler of EndIteration sees that of its own batch."""
    cost, pool = line(bias_attr=False)
    trainer = paddle.trainer.SGD(cost, pool, Momentum(learning_rate=0.05))
    pool["_y.w0"] = np.zeros(2)
    kept = {}

    def handler(event):
        kept[type(event).__name__, getattr(event, "batch_id", None)] = pool["_y.w0"].tolist()

    trainer.train(lambda: iter([SAMPLES[:1], SAMPLES[1:]]), event_handler=handler)
    first, second = [0.3, 0.6], [0.3, 0.64]  # w + 0.1 x (t - x w)
    assert kept["EndForwardBackward", 0] == [0, 0]
    assert kept["EndIteration", 0] == kept["EndForwardBackward", 1] == pytest.approx(first)
    assert kept["EndIteration", 1] == kept["EndPass", None] == pytest.approx(second)


SIGNATURES = {
    "event.BeginPass": "(pass_id)",
    "event.BeginIteration": "(pass_id, batch_id)",
    "event.EndForwardBackward": "(pass_id, batch_id, gm)",
    "event.EndIteration": "(pass_id, batch_id, cost, evaluator, gm)",
    "event.EndPass": "(pass_id, evaluator, gm)",
    "event.TestResult": "(evaluator, cost)",
    "trainer.SGD": "(cost, parameters, update_equation, extra_layers=None, is_local=True, "
    "pserver_spec=None, use_etcd=True, "
    "*, check_numerics=None, precision=None)",  # the last two are new
    "trainer.SGD.train": "(self, reader, num_passes=1, event_handler=None, feeding=None, "
    "*, checkpoint=None)",  # the last one is new
    "trainer.SGD.test": "(self, reader, feeding=None)",
    "trainer.SGD.save_parameter_to_tar": "(self, f)",
    "topology.Topology": "(layers, extra_layers=None)",
    "inference.Inference": "(parameters, output_layer=None, fileobj=None)",
    "inference.Inference.infer": "(self, input, field='value', flatten_result=True, **kwargs)",
    "inference.Inference.iter_infer": "(self, input, feeding=None)",
    "inference.Inference.iter_infer_field": "(self, field, **kwargs)",
    "infer": "(output_layer, parameters, input, feeding=None, field='value')",
    "data_feeder.DataFeeder": "(data_types, feeding=None)",
    "data_feeder.DataFeeder.convert": "(self, dat, argument=None)",
    "batch": "(reader, batch_size)",
    "evaluator.classification_error": "(input, label, name=None, weight=None, top_k=None, "
    "threshold=None)",
    "evaluator.auc": "(input, label, name=None, weight=None)",
    "evaluator.pnpair": "(input, label, query_id, weight=None, name=None)",
    "evaluator.precision_recall": "(input, label, positive_label=None, weight=None, name=None)",
    "evaluator.ctc_error": "(input, label, name=None)",
    "evaluator.chunk": "(input, label, chunk_scheme, num_chunk_types, name=None, "
    "excluded_chunk_types=None)",
    "evaluator.sum": "(input, name=None, weight=None)",
    "evaluator.column_sum": "(input, name=None, weight=None)",
    "evaluator.detection_map": "(input, label, overlap_threshold=0.5, background_id=0, "
    "evaluate_difficult=False, ap_type='11point', name=None)",
    "evaluator.value_printer": "(input, name=None)",
    "evaluator.gradient_printer": "(input, name=None)",
    "evaluator.maxid_printer": "(input, num_results=None, name=None)",
    "evaluator.maxframe_printer": "(input, num_results=None, name=None)",
    "evaluator.seqtext_printer": "(input, result_file, id_input=None, dict_file=None, "
    "delimited=None, name=None)",
    "evaluator.classification_error_printer": "(input, label, threshold=0.5, name=None)",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_those_of_2017(name):
    assert str(inspect.signature(operator.attrgetter(name)(paddle))) == SIGNATURES[name]


# ---- the kinds of values of a field


class Items:
    """Gives its items one by one, and can do nothing else."""

    def __init__(self, items):
        self._items = items

    def __iter__(self):
        return iter(self._items)

    def __repr__(self):
        return "<items>"


ROWS = [
    # an input type, a value of every kind that it takes, and what each is: rows, [counts,
    # numbers,] lengths
    (
        T.dense_vector(3),
        [
            *([1, 2, 3], (1.0, 2.0, 3.0), range(1, 4), deque([1, 2, 3])),
            *(np.array([1, 2, 3], kind) for kind in ("f2", "f4", "f8", "u1", "i8")),
            *([np.float32(1), np.int64(2), 3], np.arange(1, 7)[::2] // 2 + 1),
        ],
        [[1, 2, 3]],
    ),
    (T.dense_vector(2), [[True, False], np.array([True, False])], [[1, 0]]),
    (T.integer_value(9), [5, np.int64(5), np.int32(5), np.uint8(5), np.array(5)], [5]),
    (T.integer_value(9), [True, np.bool_(True)], [1]),
    (
        T.integer_value_sequence(9),
        [*([4, 2, 4], (4, 2, 4), Items([4, 2, 4])), *(np.array([4, 2, 4], k) for k in "ilB")],
        [4, 2, 4, "/", 3],
    ),
    (
        T.integer_value_sub_sequence(9),
        [[[4], [], [2, 7]], ((4,), (), (2, 7)), Items([[4], np.zeros(0, int), range(2, 8, 5)])],
        [4, 2, 7, "/", 3, "/", 1, 0, 2],
    ),
    (
        T.dense_vector_sequence(2),
        [[[1, 2], [3, 4]], np.array([[1, 2], [3, 4]]), Items([(1, 2), np.array([3.0, 4.0])])],
        [[1, 2], [3, 4], "/", 2],
    ),
    (
        T.dense_vector_sub_sequence(1),
        [[[[1], [2]], [[3]]], [np.array([[1], [2]]), ([3],)], Items([[[1], [2]], [[3]]])],
        [[1], [2], [3], "/", 2, "/", 2, 1],
    ),
    (
        T.sparse_binary_vector(9),
        [[7, 2, 2], (7, 2, 2), np.array([7, 2, 2]), Items([7, np.int64(2), 2])],
        [7, 2, 2, "/", 3],
    ),
    (T.sparse_binary_vector(9), [[3], {3}, {3: "a"}, range(3, 4)], [3, "/", 1]),
    (
        T.sparse_binary_vector(9),
        [[], (), set(), np.zeros(0), Items([])],
        ["/", 0],
    ),
    (
        T.sparse_binary_vector_sequence(9),
        [[[7, 2], [], [1]], ((7, 2), (), {1}), Items([range(7, 0, -5), [], [1]])],
        [7, 2, 1, "/", 2, 0, 1, "/", 3],
    ),
    (
        T.sparse_binary_vector_sub_sequence(9),
        [[[[7, 2], []], [], [[1]]], Items([Items([[7, 2], []]), [], [{1}]])],
        [7, 2, 1, "/", 2, 0, 1, "/", 3, "/", 2, 0, 1],
    ),
    (
        T.sparse_float_vector(9),
        [
            *([(7, 0.5), (2, 3)], [[7, 0.5], [2, 3]], {7: 0.5, 2: 3}.items()),
            np.array([[7, 0.5], [2, 3]]),
            Items([(np.int64(7), np.float32(0.5)), (2, 3)]),
        ],
        [7, 2, "/", 2, "/", 0.5, 3],
    ),
    (T.sparse_float_vector(9), [[], (), {}.items(), np.zeros((0, 2))], ["/", 0, "/"]),
    (T.sparse_float_vector(9), [[(2, 1.0), (2, 4.0)]], [2, 2, "/", 2, "/", 1, 4]),
    (
        T.sparse_float_vector_sequence(9),
        [[[(7, 0.5)], [], [(1, 2)]], Items([{7: 0.5}.items(), (), np.array([[1, 2]])])],
        [7, 1, "/", 1, 0, 1, "/", 0.5, 2, "/", 3],
    ),
    (
        T.sparse_float_vector_sub_sequence(9),
        [[[[(7, 0.5)], []], [[(1, 2)]]], (([[7, 0.5]], ()), [{1: 2}.items()])],
        [7, 1, "/", 1, 0, 1, "/", 0.5, 2, "/", 2, "/", 2, 1],
    ),
]


@pytest.mark.parametrize(("kind", "values", "expected"), ROWS, ids=lambda v: None)
def test_every_kind_of_value_is_taken(kind, values, expected):
    for value in values:
        found = []
        for array in fed(kind, value).arrays:
            found += [*array.tolist(), "/"]
        assert found[:-1] == expected, value


def fed(kind, value):
    """The slot of a batch of one sample, whose second field is the value."""
    return DataFeeder([("x", kind)], ["beside", "x"])([("beside", value)])["x"]


FAULTS = [
    (T.dense_vector(2), [[1, 2], {1, 2}], "sample 1: expected 2 numbers, got {1, 2}"),
    (T.dense_vector(2), [Items([1, 2])], "sample 0: expected 2 numbers, got <items>"),
    (T.dense_vector(2), [np.zeros((1, 1, 1, 2))], "sample 0: .* 2 or 3 axes, got shape"),
    (T.dense_vector_sub_sequence(2), [[], [[[1, 2]], [[]]]], "sample 1, sub-sequence 1, step 0: "),
    (T.integer_value(9), [1, "2"], "sample 1: expected an integer from 0 to 8, got '2'"),
    (T.integer_value_sequence(9), [[1], np.array([1.0])], "sample 1, step 0: .* got np.float64"),
    (T.integer_value_sequence(9), [[1], [[2]]], r"sample 1, step 0: .* got \[2\]"),
    (T.sparse_binary_vector(9), [[1], None], "sample 1: expected the columns of a sparse row"),
    (T.sparse_binary_vector(9), [[1], [1, [2]]], r"sample 1, entry 1: expected a column .* \[2\]"),
    (T.sparse_binary_vector_sequence(9), [[[1]], [[], 2]], "sample 1, step 1: expected the column"),
    (
        T.sparse_binary_vector_sub_sequence(9),
        [[[[1]]], [[], [[2], [3, 9]]]],
        "sample 1, sub-sequence 1, step 1, entry 1: expected a column from 0 to 8, got 9",
    ),
    (
        T.sparse_float_vector(9),
        [[(1, 2)], {1: 2}],
        r"sample 1, entry 0: .* \(column, value\), got 1",
    ),
    (
        T.sparse_float_vector(9),
        [[(1, 2)], [(1, 2), (1, 2, 3)]],
        r"sample 1, entry 1: expected a pair",
    ),
    (T.sparse_float_vector(9), [[(1, None)]], r"sample 0, entry 0: expected a pair"),
    (
        T.sparse_float_vector_sequence(9),
        [[], [[(1, 2)], [(1, 2), (-1, 2)]]],
        "sample 1, step 1, entry 1: expected a column from 0 to 8, got -1",
    ),
    (
        T.sparse_float_vector_sub_sequence(9),
        [[[(1, 2)]]],
        "sample 0, sub-sequence 0, step 0, entry",
    ),
]


@pytest.mark.parametrize(("kind", "values", "message"), FAULTS)
def test_what_is_not_taken_is_named_by_sample_and_column(kind, values, message):
    feeder = DataFeeder([("x", kind)], ["beside", "x"])
    with pytest.raises(ValueError, match=rf"^data layer 'x' \(column 1\), {message}"):
        feeder([("beside", value) for value in values])
