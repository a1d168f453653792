"""What is described but cannot be computed: a warning at the line, the error where it is needed."""

import io
import subprocess
import sys
import warnings

import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.inference import Inference
from pd_v2.topology import Topology
from pd_v2.unfit import UnfitWarning

A, E, L, T = paddle.activation, paddle.evaluator, paddle.layer, paddle.data_type


def rows(size=4, name="x"):
    return L.data(name=name, type=T.dense_vector(size))


def ids(name="ids", size=10):
    return L.data(name=name, type=T.integer_value(size))


def norm_of_other_sizes():
    image = L.data(name="image", type=T.dense_vector(48), height=4, width=4)
    return L.img_cmrnorm(input=image, size=3, num_channels=5)


# (what is described, its width, a part of the message)
DESCRIPTIONS = [
    (lambda: L.pooling(input=rows(), pooling_type=paddle.pooling.Avg()), 4, "no sequences"),
    (lambda: L.last_seq(input=rows()), 4, "'x' has no sequences"),
    (lambda: L.square_error_cost(input=rows(), label=ids()), 1, "is 4 wide, its label"),
    (lambda: L.mixed(size=12, input=L.context_projection(rows(), 3)), 12, "has no sequences"),
    (lambda: L.lstmemory(input=ids()), 10, "holds ids, no rows of numbers"),
    (lambda: L.fc(input=ids(), size=3), 3, "holds ids, no rows of numbers"),
    (lambda: L.embedding(input=rows(), size=3), 3, "holds rows of numbers, no ids"),
    (lambda: L.crf(input=rows(), label=ids()), 4, "4 labels, but 'x' has 4 scores"),
    (lambda: L.addto(input=[rows(), rows(3, "y")]), 4, "'x' is 4 wide, 'y' 3"),
    (lambda: L.rotate(input=rows(), height=3, width=2), 4, "no image of 3 x 2 pixels"),
    (norm_of_other_sizes, 48, "'image' is 48 wide"),
]


@pytest.mark.parametrize(("describe", "size", "message"), DESCRIPTIONS)
def test_computing_raises_the_error_that_a_description_warned_of(describe, size, message):
    with pytest.warns(UnfitWarning, match=message) as seen:
        layer = describe()
    (warning,) = seen
    assert warning.filename == __file__ and layer.size == size
    y = L.fc(input=layer, size=2, name="after")  # no second warning
    topology = Topology(y)
    described = {x.name: x for x in topology.proto().layers}
    assert described[layer.name].size == size and "after" in described
    pool = paddle.parameters.create(y)
    assert pool["_after.w0"].shape == (size, 2)
    text = str(warning.message)
    optimizer = paddle.optimizer.Momentum(learning_rate=0.1)
    for compute in (
        lambda: paddle.trainer.SGD(L.sum_cost(input=y), pool, optimizer),
        lambda: Inference(pool, y),
        lambda: topology.export_onnx("model.onnx", pool),
        lambda: topology.serialize_for_inference(io.BytesIO()),
        lambda: pd.eval(layer),
    ):
        with pytest.raises(pd.GraphError) as error:
            compute()
        assert str(error.value) == text and "test_unfit.py:" in text


def test_an_error_filter_raises_the_warning_at_the_line():
    with pytest.raises(pd.ShapeError, match="'x' is 4 wide, 'y' 3") as error:
        L.addto(input=[rows(), rows(3, "y")])
    assert isinstance(error.value, UnfitWarning)
    assert L.get_layer("__addto_0__") is None


def test_what_does_not_need_it_is_computed():
    x = rows(2)
    with pytest.warns(UnfitWarning):
        L.last_seq(input=x)
    y = L.slope_intercept(input=x, slope=2.0)
    assert paddle.infer(y, paddle.parameters.create(y), [([1.0, 2.0],)]).tolist() == [[2.0, 4.0]]


def test_a_mixed_layer_in_the_making():
    with pytest.warns(UnfitWarning, match="'x' has no sequences"), L.mixed(size=12) as m:
        m += L.context_projection(rows(), 3)
    assert m.size == 12 and m.unfit is not None
    with pytest.raises(pd.GraphError, match="'x' has no sequences"):
        paddle.infer(m, paddle.parameters.create(m), [([1.0] * 4,)])


def test_in_the_step_of_a_group():
    def step(row):
        before = L.memory(name="h", size=3)
        with pytest.warns(UnfitWarning, match="'s' has no sequences"):
            last = L.last_seq(input=row)
        return L.fc(input=[last, before], size=3, name="h")

    x = L.data(name="s", type=T.dense_vector_sequence(2))
    out = L.recurrent_group(step=step, input=x)
    pool = paddle.parameters.create(out)
    with pytest.raises(pd.GraphError, match="'s' has no sequences"):
        paddle.infer(out, pool, [([[1.0, 2.0]],)])


def test_an_evaluator():
    x = rows(2)
    cost = L.square_error_cost(input=x, label=rows(2, "y"))
    with pytest.warns(UnfitWarning, match="ctc_error: 'y' holds rows of numbers, no ids"):
        E.ctc_error(input=x, label=L.get_layer("y"), name="e")
    (config,) = Topology(cost).proto().evaluators
    assert config.name == "e" and list(config.input_layers) == ["x", "y"]
    pool = paddle.parameters.create(cost)
    with pytest.raises(pd.GraphError, match="ctc_error: "):
        paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=0.1))


def test_errors_of_arguments_are_raised_at_once():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(TypeError, match="act is an activation"):
            L.fc(input=rows(), size=2, act="relu")
        with pytest.raises(TypeError, match="input is a layer"):
            L.fc(input="x", size=2)


SCRIPT = """\
import paddle.v2 as paddle
x = paddle.layer.data(name='x', type=paddle.data_type.dense_vector(4))
last = paddle.layer.last_seq(input=x)
print paddle.layer.parse_network(last).layers[1].size
paddle.infer(output_layer=last, parameters=paddle.parameters.create(last), input=[([1.0] * 4,)])
"""


def test_a_script_sees_the_line_of_the_warning_and_the_error(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "pd_v2", "train.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "4\n" and done.returncode == 1
    warning, *_, error = [x for x in done.stderr.splitlines() if "has no sequences" in x]
    assert "train.py:3: GraphError: last_seq layer '__last_seq_0__'" in warning
    assert error.startswith("pd_core.graph.errors.GraphError: last_seq layer")
