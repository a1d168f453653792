"""Modules with imported models in their attributes: these have parameters, which are saved."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import pd_core as pd

X = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")


def model():
    names = {"first.W": np.ones((3, 4)) * np.arange(4), "s": [1, 2, 3, 4], "b": [0, 1, 0, 1]}
    names |= {"mean": [0, 1, 2, 3], "variance": [1, 2, 3, 4]}
    stored = [numpy_helper.from_array(np.float32(v), k) for k, v in names.items()]
    product, *statistics = names
    nodes = [
        helper.make_node("MatMul", ["x", product], ["a"]),
        helper.make_node("BatchNormalization", ["a", *statistics], ["y"]),
    ]
    x, y = [
        helper.make_tensor_value_info(k, TensorProto.FLOAT, ["N", n])
        for k, n in [("x", 3), ("y", 4)]
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Network(pd.nn.Module):
    def __init__(self, tuned):
        super().__init__()
        self.parts = [pd.import_onnx(model(), training=True)]
        if tuned:
            pd.prepare_qat(self.parts[0])
            pd.lora(self.parts[0], rank=1)
        self.head = pd.nn.FC(2)

    def forward(self, x):
        return self.head(self.parts[0](x))


def trained(network, callbacks=(), rate=0.1):
    steps = pd.SGDOptimizer(rate)
    held_out = (2 * X[::-1], Y)
    options = {"optimizer": steps, "validation_data": held_out, "callbacks": callbacks}
    history = network.fit(X, Y, loss="softmax_cross_entropy", epochs=4, verbose=False, **options)
    return history, network.evaluate(*held_out)


def test_files_have_what_imported_models_have_learned(tmp_path):
    for tuned in (False, True):
        pd.reset(seed=0)
        network = Network(tuned)
        trained(network)
        names = [name for name, _ in network.named_parameters()]
        extra = ["parts.0.first.W.lora_A", "parts.0.first.W.lora_B"] if tuned else []
        own = [f"parts.0.{k}" for k in ("first.W", "s", "b")]
        assert sorted(names) == sorted([*own, *extra, "head.W", "head.B"])
        buffers = {name for name, _ in network.named_buffers()}
        assert {"parts.0.mean", "parts.0.variance"} <= buffers and (len(buffers) > 2) == tuned
        want = network.predict(X)
        network.save(tmp_path / "network")
        pd.reset(seed=1)
        other = Network(tuned)
        other.compile([X.shape])
        assert abs(other.predict(X) - want).max() > 1e-3
        other.load(tmp_path / "network")
        np.testing.assert_array_equal(other.predict(X), want)


def test_the_best_values_of_imported_models_come_back():
    network = Network(False)
    best = pd.training.StopEarly("val_loss", patience=9, restore_best=True)
    history, found = trained(network, [best], rate=30.0)
    losses = history["val_cost"]
    assert losses[-1] > min(losses)
    np.testing.assert_allclose(found["cost"], min(losses), rtol=1e-5)


def test_statistics_of_imported_models_stay_frozen():
    network = Network(False)
    imported = network.parts[0]
    network.freeze()
    assert not any(v.trainable for v in imported.parameters.values())
    network.unfreeze()
    assert [k for k, v in imported.parameters.items() if not v.trainable] == ["mean", "variance"]


def test_statistics_of_imported_models_move_in_any_mode():
    """Once in each training step, of fit or inside `pd.guard()`; not in inference."""
    a = X @ (np.ones((3, 4)) * np.arange(4)).astype("float32")
    for is_dynamic in (False, True):
        pd.reset(seed=0)
        network = Network(False)
        options = {"optimizer": pd.SGDOptimizer(0.0), "loss": "softmax_cross_entropy"}
        if is_dynamic:
            with pd.guard():
                cost = pd.reduce_sum(network(X))
                cost.backward()
                options["optimizer"].minimize(cost)
        else:
            network.fit(X, Y, batch_size=20, verbose=False, **options)
        network.predict(X)
        found = network.state_dict()
        mean = 0.9 * np.arange(4) + 0.1 * a.mean(0)
        np.testing.assert_allclose(found["parts.0.mean"], mean, rtol=1e-5)
