"""Operators in training mode in a file: they differ in a training step and in inference."""

import io
import warnings

import numpy as np
import pytest
from onnx import TensorProto, helper

import pd_core as pd
from pd_core.backend import ort

from .test_import_weights import model_of, normal

STATISTICS = {"s": (0.5, 1.5), "b": (-1, 1), "m": (-1, 1), "v": (0.5, 1.5)}


def normalising(rng, opset, outputs, **attributes):
    """y = BatchNormalization(x) with stored numbers for each of 3 channels."""
    tensors = {n: rng.uniform(*bounds, 3).astype("float32") for n, bounds in STATISTICS.items()}
    nodes = [("BatchNormalization", "x s b m v", outputs, {"momentum": 0.8, **attributes})]
    return model_of(nodes, tensors, {"x": ("float32", ["N", 3, 4])}, "y", opset), tensors


FORMS = {
    "since opset 14": (15, "y mean var", {"training_mode": 1}),
    "one output": (15, "y", {"training_mode": 1}),
    "until opset 13": (9, "y mean var saved_mean saved_var", {}),
}


@pytest.mark.parametrize(("opset", "outputs", "attributes"), FORMS.values(), ids=FORMS)
def test_batch_normalization_in_training_mode(opset, outputs, attributes, rng):
    model, stored = normalising(rng, opset, outputs, **attributes)
    f = pd.import_onnx(model)
    x, rows = pd.Variable([None, 3, 4]), normal(rng, 5, 3, 4)
    y = f(x)

    def by(mean, variance):
        column = [v[:, None] for v in (mean, variance, stored["s"], stored["b"])]
        return (rows - column[0]) / np.sqrt(column[1] + 1e-5) * column[2] + column[3]

    mean, variance = rows.mean((0, 2)), rows.var((0, 2))
    np.testing.assert_allclose(pd.eval(y, {x: rows}), by(stored["m"], stored["v"]), rtol=1e-4)
    found = pd.default_session().eval(y, {x: rows}, training=True)
    np.testing.assert_allclose(found, by(mean, variance), rtol=1e-4, atol=1e-5)

    pd.eval(pd.SGDOptimizer(0.0).minimize(pd.reduce_sum(y)), {x: rows})
    moved = [stored[n] * 0.8 + batch * 0.2 for n, batch in (("m", mean), ("v", variance))]
    for name, wanted in zip("mv", moved, strict=True):
        np.testing.assert_allclose(f.parameters[name].val(), wanted, rtol=1e-5)

    again = pd.export_onnx(None, [y], inputs=[x]).SerializeToString()
    found = ort.session(again).run(None, {x.name: rows})[0]
    np.testing.assert_allclose(found, by(*moved), rtol=1e-4, atol=1e-5)
    with pd.fresh():
        z = pd.Variable([None, 3, 4])
        np.testing.assert_allclose(pd.eval(pd.import_onnx(again)(z), {z: rows}), found, rtol=1e-5)


def test_moved_statistics_are_outputs_too(rng):
    model, stored = normalising(rng, 15, "y mean var", training_mode=1)
    f = pd.import_onnx(model)
    x, rows = pd.Variable([None, 3, 4]), normal(rng, 5, 3, 4)
    new = f(x, output="mean")
    np.testing.assert_array_equal(pd.eval(new, {x: rows}), stored["m"])
    wanted = ort.session(with_output(model, "mean")).run(["mean"], {"x": rows})[0]
    found = pd.default_session().eval(new, {x: rows}, training=True)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def with_output(model, name):
    model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]))
    return model.SerializeToString()


@pytest.mark.parametrize("chosen", [True, None])
def test_statistics_in_a_branch(chosen, rng):
    """Statistics move in a branch that is certain to run; in any other they are refused."""

    def body(name, *node, **attributes):
        y = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(*node, [name], **attributes)], name, [], [y])

    then = body("t", "BatchNormalization", ["x", "s", "b", "m", "v"], training_mode=1)
    _, tensors = normalising(rng, 15, "y")
    nodes = [("If", "c", "y", {"then_branch": then, "else_branch": body("e", "Neg", ["x"])})]
    inputs = {"x": ("float32", ["N", 3, 4]), "c": ("bool", [])}
    f = pd.import_onnx(model_of(nodes, tensors, inputs, "y", 15))
    x = pd.Variable([None, 3, 4])
    if chosen is None:
        with pytest.raises(pd.ModelError, match="its statistics cannot move inside of a loop"):
            f(x, pd.Variable.of((), "bool", "c"))
        return
    step = pd.SGDOptimizer(0.0).minimize(pd.reduce_sum(f(x, chosen)))
    pd.eval(step, {x: normal(rng, 5, 3, 4)})
    assert (f.parameters["m"].val() != tensors["m"]).all()


def test_dropout_in_training_mode(rng):
    tensors = {"rate": np.float32(0.25), "on": np.array(True)}
    nodes = [("Dropout", "x rate on", "y mask")]
    f = pd.import_onnx(model_of(nodes, tensors, {"x": ("float32", ["N"])}, "y"))
    x, ones = pd.Variable([None]), np.ones(4000, "float32")
    y = f(x)
    np.testing.assert_array_equal(pd.eval(y, {x: ones}), ones)
    dropped = pd.default_session().eval(y, {x: ones}, training=True)
    assert set(np.unique(dropped)) == {np.float32(0), np.float32(4 / 3)}
    assert 0.22 < (dropped == 0).mean() < 0.28


def test_training_goes_on_as_in_pytorch(rng):
    """A network exported in training mode, trained by pd and by torch on the same batches."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, bias=False),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 2),
    ).train()
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            (torch.zeros(2, 1, 6, 6),),
            out,
            dynamo=False,
            opset_version=17,
            input_names=["x"],
            dynamic_axes={"x": {0: "rows"}},
            training=torch.onnx.TrainingMode.TRAINING,
            do_constant_folding=False,
        )
    f = pd.import_onnx(out.getvalue())
    for name, buffer in network[1].named_buffers():  # the exporter ran it once
        if name != "num_batches_tracked":
            buffer.copy_(torch.from_numpy(f.parameters[f"1.{name}"].val()))
    images, labels = normal(rng, 64, 1, 6, 6), rng.integers(0, 2, 64)
    x, label = pd.Variable([None, 1, 6, 6]), pd.Variable([None], dtype="int64")
    cost = pd.reduce_mean(pd.softmax_cross_entropy(f(x), label))
    step = pd.SGDOptimizer(0.1).minimize(cost)
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    for _ in range(5):
        pd.eval(step, {x: images, label: labels})
        optimizer.zero_grad()
        there = network(torch.from_numpy(images))
        torch.nn.functional.cross_entropy(there, torch.from_numpy(labels)).backward()
        optimizer.step()
    for name, p in network.named_parameters():
        wanted = p.detach().numpy()
        np.testing.assert_allclose(f.parameters[name].val(), wanted, rtol=1e-3, atol=1e-5)
    mean = network[1].running_mean.numpy()
    np.testing.assert_allclose(f.parameters["1.running_mean"].val(), mean, rtol=1e-3, atol=1e-5)
    variance = network[1].running_var.numpy()  # PyTorch divides by one less
    np.testing.assert_allclose(f.parameters["1.running_var"].val(), variance, rtol=2e-3)
