"""Training of imported models on arrays."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.training import RunnerItem
from pd_core.tuning import finetune, objective

from . import models

DATA = models.samples(256)


def test_a_model_learns_and_its_file_has_learned():
    proto = models.perceptron(head="Softmax")
    f = pd.import_onnx(proto)
    task = objective(f, "cross-entropy")
    history = finetune(
        *(task, DATA, pd.AdamOptimizer(0.02)),
        epochs=5,
        batch_size=32,
        validation=models.samples(64, seed=2),
    )
    assert set(history) == {"cost", "accuracy", "val_cost", "val_accuracy"}
    assert history["accuracy"][-1] > 0.9 > 0.6 > history["accuracy"][0]
    held_out = models.samples(64, seed=2)
    y = models.run(pd.export_tuned(None, f), x=held_out["x"])[0]
    accuracy = (y.argmax(1) == held_out["label"]).mean()
    np.testing.assert_allclose(history["val_accuracy"][-1], accuracy)


def test_batches_are_shuffled_by_the_seed():
    def costs(seed):
        with pd.fresh():
            task = objective(pd.import_onnx(models.perceptron()), "cross-entropy")
            return finetune(task, DATA, pd.SGDOptimizer(0.01), epochs=2, seed=seed)["cost"]

    assert costs(0) == costs(0) != costs(1)


def test_frozen_parameters_stay_and_have_no_slots():
    f = pd.import_onnx(models.perceptron(), frozen=["W1", "b1"])
    task = objective(f, "cross-entropy")
    finetune(task, DATA, pd.AdamOptimizer(0.02))
    before = models.stored(models.perceptron())
    after = models.stored(pd.export_tuned(None, f))
    assert {n for n in after if (after[n] != before[n]).any()} == {"W2", "b2"}
    assert not [v for v in pd.persistent_variables() if v.name.endswith("W1/m")]
    f.freeze()
    with pytest.raises(ValueError, match="all parameters behind the loss are frozen"):
        finetune(task, DATA, pd.AdamOptimizer(0.02))


def test_a_batch_size_that_the_file_fixes():
    proto = models.perceptron()
    for info in (proto.graph.input[0], proto.graph.output[0]):
        info.type.tensor_type.shape.dim[0].dim_value = 30
    task = objective(pd.import_onnx(proto), "cross-entropy")
    with pytest.raises(pd.ShapeError, match=r"its batch size to 30, not 32\n  hint: any_batch"):
        finetune(task, DATA, pd.SGDOptimizer(0.01))
    with pytest.raises(pd.ShapeError, match="29 samples fill no batch of 30"):
        finetune(task, models.samples(29), pd.SGDOptimizer(0.01), batch_size=30)

    class Counted(RunnerItem):
        def on_pass_end(self, following):
            counts.append(self.context.samples)
            return following()

    counts = []
    finetune(task, DATA, pd.SGDOptimizer(0.01), batch_size=30, items=[Counted()])
    with pd.fresh():
        free = objective(pd.import_onnx(proto), "cross-entropy", any_batch=True)
        finetune(free, DATA, pd.SGDOptimizer(0.01), batch_size=30, items=[Counted()])
    assert counts == [240, 256]


RESHAPED = (
    "(float[4,8] x) => (float[4,3] y) { a = MatMul(x, W1) s = Constant<value=int64[3] {4,4,-1}>()"
    " b = Reshape(a, s) c = Relu(b) t = Constant<value=int64[2] {ROWS,16}>()"
    " d = Reshape(c, t) y = Gemm<transB=1>(d, W2, b2) }"
)


@pytest.mark.parametrize("rows", [4, -1, 0])
def test_a_batch_size_that_the_nodes_fix(rows):
    shapes = {k: models.SHAPES[k] for k in ("W1", "W2", "b2")}
    f = pd.import_onnx(models.model(RESHAPED.replace("ROWS", str(rows)), shapes))
    task = objective(f, "cross-entropy", any_batch=True)
    assert task.label.dims == task.output.dims[:1] == task.inputs["x"].dims[:1]
    history = finetune(task, DATA, pd.AdamOptimizer(0.02), epochs=4, batch_size=16)
    assert history["accuracy"][-1] > 0.8


def test_an_output_whose_batch_size_stays_fixed():
    text = (
        "(float[4,8] x) => (float[4,3] y) { a = MatMul(x, W1) h = Concat<axis=1>(a, z)"
        " y = Gemm<transB=1>(h, W2, b2) }"
    )
    shapes = {"W1": (8, 16), "z": (4, 0), "W2": (3, 16), "b2": (3,)}
    f = pd.import_onnx(models.model(text, shapes))
    with pytest.raises(
        pd.ModelError, match=r"fixes the batch size of its output .*\[4, 3\] inside"
    ):
        objective(f, "cross-entropy", any_batch=True)
