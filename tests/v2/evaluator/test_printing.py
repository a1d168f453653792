"""What printers and print layers write to the log and to files, and when."""

import logging

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import evaluator as E
from pd_v2.evaluator import Accumulator
from pd_v2.topology import Topology

from .evaluator_checks import (
    columns,
    id_sequences,
    ids,
    metrics,
    packed,
    row_sequences,
    rows,
    sparse_rows,
)

A, L, T = paddle.activation, paddle.layer, paddle.data_type
NESTED = {"lengths": np.array([2, 1]), "sub_lengths": np.array([1, 2, 1])}


@pytest.fixture
def printed(caplog):
    """The messages so far, a function that forgets them."""

    def take():
        found = [r.getMessage() for r in caplog.records if r.name == "paddle"]
        caplog.clear()
        return found

    with caplog.at_level(logging.INFO, logger="paddle"):
        yield take


def test_values(printed):
    E.value_printer([rows(size=2), id_sequences()], name="p")
    feeds = {"x": np.array([[1.0, 2.5], [-3.0, 1 / 3]])} | packed("label", [[3, 1], [2]])
    assert metrics([feeds]) == {}
    assert printed() == [
        "layer=x value:\n1 2.5 \n-3 0.333333 \n",
        "layer=label ids:\n[3 1 2 ]\nlayer=label sequence pos:\n[0 2 3 ]\n",
    ]


def test_sparse_rows_and_ids_beside_rows(printed):
    both = rows("both", 1)
    both.ids = ids("ids")
    E.value_printer([sparse_rows(size=3), both])
    metrics(
        [columns("label", [[0, 1, 1], [0, 0, 0]]) | {"both": [[0.5], [1]], "ids": [3, 2000000]}]
    )
    assert printed() == [
        "layer=label value:\n\n: row [0 2 2 ]\n\n: col [1 2 ]\n",
        "layer=both value:\n0.5 \n1 \nlayer=both ids:\n[3 2000000 ]\n",
    ]


def test_the_numbers_of_sparse_rows(printed):
    E.value_printer(L.data(name="x", type=T.sparse_float_vector(4)))
    metrics([{"x": [3, 0], "x.counts": [0, 2], "x.values": [0.5, -2.0]}])
    assert printed() == ["layer=x value:\n\n: row [0 0 2 ]\n\n: col [3 0 ]\n\n: value [0.5 -2 ]\n"]


def test_values_of_nested_sequences(printed):
    E.value_printer(L.data(name="x", type=T.integer_value_sub_sequence(9)))
    metrics([{"x": [4, 5, 6, 7]} | {f"x.{k}": v for k, v in NESTED.items()}])
    assert printed() == [
        "layer=x ids:\n[4 5 6 7 ]\n"
        "layer=x sequence pos:\n[0 3 4 ]\nlayer=x sub-sequence pos:\n[0 1 3 4 ]\n"
    ]


@pytest.mark.parametrize(("count", "text"), [(None, "1 : 3, \n0 : 2, \n"), (2, None)])
def test_largest_columns(count, text, printed):
    E.maxid_printer(rows(size=3), num_results=count)
    metrics([{"x": np.array([[1.0, 3, 2], [2, 2, 2]])}])
    text = text or "1 : 3, 2 : 2, \n0 : 2, 1 : 2, \n"
    assert printed() == [f"layer=x row max id vector:\n{text}"]


def test_largest_frames(printed):
    E.maxframe_printer(row_sequences(size=1), num_results=2)
    metrics([packed("x", [[[1.0], [4.0], [2.0]], np.zeros((0, 1)), [[0.5]]])])
    text = "1 : 4, 2 : 2, total 3 frames\ntotal 0 frames\n0 : 0.5, total 1 frames\n"
    assert printed() == [f"layer=x sequence max frames:\n{text}"]


def test_errors_of_rows(printed):
    E.classification_error_printer(rows(size=2), ids(size=2), name="errors")
    metrics([{"x": np.eye(2), "label": [0, 0]}])
    assert printed() == ["Printer=errors Classification Error:\n0 \n1 \n"]


def test_errors_of_dense_labels_in_sequences(printed):
    x, label = row_sequences(size=2), row_sequences("label", 2)
    E.classification_error_printer(x, label, threshold=0.25)
    lengths = [[[0.3, 0.2]], [[0.3, 0.3], [0.1, 0.9]]]
    metrics([packed("x", lengths) | packed("label", [[[1.0, 0]], [[0.0, 0], [0, 1]]])])
    name = "__classification_error_printer_evaluator_0__"
    assert printed() == [
        f"Printer={name} Classification Error:\n0 \n2 \n0 \n",
        f"Printer={name} sequence pos vector:\n[0 1 3 ]\n",
    ]


def test_configurations():
    x, label, frames = rows(), ids(), row_sequences("frames", 1)
    E.value_printer(x)
    E.gradient_printer(x)
    E.maxid_printer(x, num_results=2)
    E.maxframe_printer(frames)
    E.classification_error_printer(x, label)
    found = Topology([x, label, frames]).proto().evaluators
    names = "value", "gradient", "maxid", "maxframe", "classification_error"
    kinds = "value", "gradient", "max_id", "max_frame", "classification_error"
    assert [e.name for e in found] == [f"__{n}_printer_evaluator_0__" for n in names]
    assert [e.type for e in found] == [f"{k}_printer" for k in kinds]
    assert found[2].num_results == 2 and not found[3].HasField("num_results")
    assert found[4].HasField("classification_threshold")


def test_what_printers_refuse():
    with pytest.raises(TypeError, match="value_printer: takes layers, not 'x'"):
        E.value_printer("x")
    with pytest.raises(pd.DTypeError, match="maxid_printer: 'label' holds ids, no rows"):
        E.maxid_printer(ids())
    with pytest.raises(pd.DTypeError, match="gradient_printer: 's' holds sparse rows, no rows"):
        E.gradient_printer(sparse_rows("s"))
    with pytest.raises(pd.ShapeError, match="maxframe_printer: 'x' is 4 wide, not 1"):
        E.maxframe_printer(row_sequences())
    with pytest.raises(pd.GraphError, match="maxframe_printer: 'z' holds no sequences"):
        E.maxframe_printer(rows("z", 1))


# ---- in training, tests and inference


def classifier():
    """Softmax of x [2] as it is, against a label; (output, cost, pool)."""
    x, label = rows(size=2), ids(size=2)
    p = L.fc(x, size=2, name="p", act=A.Softmax(), bias_attr=False)
    cost = L.classification_cost(input=p, label=label)
    pool = paddle.parameters.create(cost)
    pool["_p.w0"] = np.zeros((2, 2))
    return p, cost, pool


def trainer_of(cost, pool):
    return paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=0.0))


def reader():
    yield [([1.0, 0.0], 0), ([0.0, 1.0], 1)]


VALUE, GRADIENT = "layer=p value:\n0.5 0.5 \n0.5 0.5 \n", "layer=p grad matrix:\n-2 0 \n0 -2 \n"


def test_gradients_are_those_of_the_costs_and_only_in_training(printed):
    p, cost, pool = classifier()
    E.value_printer(p)
    E.gradient_printer(p)
    trainer = trainer_of(cost, pool)
    trainer.train(reader, num_passes=2)
    assert printed() == [VALUE, GRADIENT] * 2
    assert trainer.test(reader).metrics == {"classification_error_evaluator": 0.5}
    assert printed() == [VALUE]


def test_gradients_of_images_and_of_layers_without_any(printed):
    x = L.data(name="im", type=T.dense_vector(4), height=2, width=2)
    image = L.img_pool(x, pool_size=1, num_channels=1, name="image")
    y = L.img_pool(image, pool_size=2, pool_type=paddle.pooling.Avg(), num_channels=1)
    apart = rows(size=2)
    cost = L.sum_cost(input=y)
    E.gradient_printer([image, apart])
    optimizer = paddle.optimizer.Momentum(learning_rate=0.0)
    pool = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, pool, optimizer, extra_layers=apart)
    trainer.train(lambda: iter([[(np.arange(4.0), [1.0, 2.0])]]))
    assert printed() == [
        "layer=image grad matrix:\n0.25 0.25 0.25 0.25 \n",
        "layer=x grad matrix:\n0 0 \n",
    ]


def test_a_print_layer_writes_at_every_forward_pass(printed):
    p, cost, pool = classifier()
    assert L.printer(input=p) is None
    trainer = trainer_of(cost, pool)
    for run in (
        lambda: trainer.train(reader),
        lambda: trainer.test(reader),
        lambda: paddle.infer(output_layer=p, parameters=pool, input=[([1.0, 0],), ([0, 1.0],)]),
    ):
        run()
        assert printed() == VALUE.split("\n")


def test_formats_of_a_print_layer(printed):
    x, label = rows(size=1), id_sequences()
    L.print(input=[x, label], format="%sand %s.")
    topology = Topology([x, label])
    (printer,) = topology.printers
    feeds = {"x": np.ones((1, 1))} | packed("label", [[2, 1]])
    Accumulator([printer]).update([pd.eval(list(printer.statistics), feeds)])
    assert printed() == ["value:", "1 ", "and ids:", "[2 1 ]", "sequence pos:", "[0 2 ]", "."]


@pytest.mark.parametrize(
    "format, expected",
    [
        ("x=%s", "x=value:\n1 \n"),
        ("%s;%s;%s.", "value:\n1 \n;ids:\n[2 1 ]\nsequence pos:\n[0 2 ]\n;%s."),
        ("-", "-"),
    ],
)
def test_a_format_with_more_or_fewer_places_than_layers(format, expected, printed):
    x, label = rows(size=1), id_sequences()
    with pytest.warns(UserWarning, match=f"printer: 2 layers for '{format}'"):
        L.print(input=[x, label], format=format)
    (printer,) = Topology([x, label]).printers
    feeds = {"x": np.ones((1, 1))} | packed("label", [[2, 1]])
    Accumulator([printer]).update([pd.eval(list(printer.statistics), feeds)])
    assert printed() == expected.split("\n")


def test_configuration_of_a_print_layer():
    x, label, other = rows(size=2), ids(), rows("other")
    L.printer(input=[x, label])
    L.printer(input=other)
    L.printer(input=x, format="<%s>", name="own")
    model = Topology([x], extra_layers=[label]).proto()
    assert [(c.name, c.type) for c in model.layers[2:]] == [
        ("__print_0__", "print"),
        ("own", "print"),
    ]
    first, second = model.layers[2:]
    assert [i.input_layer_name for i in first.inputs] == ["x", "label"]
    assert (first.user_arg, second.user_arg) == ("layer=x %s\nlayer=label %s", "<%s>")
    assert not first.HasField("size")
    assert list(model.sub_models[0].layer_names) == ["x", "label", "__print_0__", "own"]
    assert list(model.output_layer_names) == ["x"]


def test_what_a_print_layer_refuses():
    x = rows()
    with pytest.raises(TypeError, match="printer: takes layers, not 3"):
        L.printer(input=3)
    L.printer(input=x, name="x")
    with pytest.raises(pd.NameConflict, match="the network has two layers 'x'"):
        paddle.topology.Topology(x)


def test_printers_are_not_for_the_step_of_a_group():
    def step(row):
        with pytest.raises(pd.GraphError, match=r"value_printer: in the step .*\n  hint: let the"):
            E.value_printer(row)
        with pytest.raises(pd.GraphError, match="printer: the layers of a recurrent group"):
            L.printer(row)
        return L.addto(input=[row], name="y")

    L.recurrent_group(step=step, input=row_sequences())


# ---- seqtext_printer


@pytest.fixture
def written(tmp_path):
    """The path of a file, a function that reads it."""
    path = tmp_path / "result.txt"
    return str(path), lambda: path.read_text()


def test_sequences_as_text(written):
    path, text = written
    E.seqtext_printer(id_sequences(), result_file=path)
    metrics([packed("label", [[3, 1], [2]]), packed("label", [np.zeros(0, np.int64), [0]])])
    assert text() == "0\t 3 1\n1\t 2\n0\t\n1\t 0\n"


@pytest.mark.parametrize(("delimited", "line"), [(None, " d b"), (True, " d b"), (False, "db")])
def test_words_and_sample_ids(delimited, line, written, tmp_path):
    path, text = written
    (tmp_path / "words").write_text("a\nb\nc\nd\n")
    words, number = str(tmp_path / "words"), ids("number", 99)
    E.seqtext_printer(id_sequences(), path, number, dict_file=words, delimited=delimited)
    feeds = packed("label", [[3, 1]]) | {"number": [42]}
    metrics([feeds])
    assert text() == f"42\t{line}\n"
    (found,) = Topology(list(paddle.build.current().layers.values())).proto().evaluators
    assert (found.type, list(found.input_layers)) == ("seq_text_printer", ["number", "label"])
    assert (found.result_file, found.dict_file) == (path, words)
    assert found.delimited == (delimited is not False)
    (tmp_path / "words").write_text("a\nb\n")
    for wrong in (3, -1):
        with pytest.raises(ValueError, match=rf"no word {wrong} in '.*words', which has 2"):
            metrics([feeds | packed("label", [[0, wrong]])])


def test_a_line_for_each_sub_sequence(written):
    path, text = written
    E.seqtext_printer(L.data(name="x", type=T.integer_value_sub_sequence(9)), path)
    metrics([{"x": [4, 5, 6, 7]} | {f"x.{k}": v for k, v in NESTED.items()}])
    assert text() == "0\t 4\n\t 5 6\n\n1\t 7\n\n"


def test_generated_results_with_their_scores(written):
    path, text = written
    x = id_sequences("x", 100)
    x.prob = pd.constant(np.array([[-0.5, -1.25], [-2.0, 0.0]], np.float32))
    E.seqtext_printer(x, path)
    metrics([packed("x", [[2, 7, 1, -1, 1, 1, -1], [1, 1, -1]])])
    assert text() == "0\n0\t-0.5\t 7 1\n1\t-1.25\t 1\n\n1\n0\t-2\t 1\n\n"


def test_the_file_begins_anew_with_each_training_and_test(written):
    path, text = written
    x = id_sequences()
    cost = L.sum_cost(L.fc(L.data(name="z", type=T.dense_vector(1)), size=1))
    E.seqtext_printer(x, path)
    optimizer = paddle.optimizer.Momentum(learning_rate=0.0)
    pool = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, pool, optimizer, extra_layers=x)
    feeding = {"label": 0, "z": 1}
    batches = [[([1, 2], [0.0])], [([3], [0.0])]]
    trainer.train(lambda: iter(batches), num_passes=2, feeding=feeding)
    assert text() == "0\t 1 2\n0\t 3\n" * 2
    trainer.test(lambda: iter(batches[1:]), feeding=feeding)
    assert text() == "0\t 3\n"


def test_what_seqtext_printer_refuses():
    with pytest.raises(TypeError, match="seqtext_printer: the result file is a path, not None"):
        E.seqtext_printer(id_sequences(), None)
    with pytest.raises(pd.GraphError, match="seqtext_printer: 'ids' holds no sequences"):
        E.seqtext_printer(ids("ids"), "x")
