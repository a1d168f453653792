"""The same exported models trained by onnxsim's loop and by pd: losses, then time of a step.

Both train an ONNX model whose output is the loss: a perceptron 784-128-64-10, and a residual
network on 32 x 32 images, with heavy-ball momentum. Shapes are fixed and batch normalisation uses
stored statistics, as onnxsim needs it. Both run the whole step in ONNX Runtime. Needs onnxsim 0.8.
"""

import argparse
import os
import sys
import time

CORES = 2
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402

import pd_core as pd  # noqa: E402

try:
    import onnxsim
    from onnxsim.qat_graph import SGD_MOMENTUM
except ImportError:
    print("skipped: onnxsim, which pd is compared with, is not installed")
    sys.exit(0)

RATE, CLASSES = 0.01, 10
STAGES = [(16, 1), (32, 2), (64, 2)]  # filters, stride of the first block


class File:
    """A model of opset 17, which is what onnxsim trains, written node by node."""

    def __init__(self, shape):
        self.nodes, self.stored, self.shape = [], [], shape
        self.rng = np.random.default_rng(0)

    def add(self, op_type, *inputs, **attributes):
        output = f"{op_type}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [output], **attributes))
        return output

    def store(self, array):
        name = f"stored_{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def drawn(self, *shape, fan_in):
        values = self.rng.normal(size=shape) * np.sqrt(2 / fan_in)
        return self.store(values.astype(np.float32))

    def dense(self, x, inputs, outputs):
        weight = self.drawn(inputs, outputs, fan_in=inputs)
        return self.add("Gemm", x, weight, self.store(np.zeros(outputs, np.float32)))

    def conv_bn(self, x, inputs, filters, size, stride):
        weight = self.drawn(filters, inputs, size, size, fan_in=inputs * size * size)
        pads, strides = [size // 2] * 4, [stride] * 2
        x = self.add("Conv", x, weight, kernel_shape=[size] * 2, pads=pads, strides=strides)
        ones, zeros = np.ones(filters, np.float32), np.zeros(filters, np.float32)
        return self.add("BatchNormalization", x, *map(self.store, (ones, zeros, zeros, ones)))

    def model(self, scores):
        """Return the model with the mean cross-entropy of scores and the input y, one-hot."""
        log_p = self.add("Log", self.add("Softmax", scores, axis=1))
        axes = self.store(np.array([0, 1]))
        total = self.add("ReduceSum", self.add("Mul", log_p, "y"), axes, keepdims=0)
        scale = self.store(np.array(-1 / self.shape[0], np.float32))
        self.nodes.append(helper.make_node("Mul", [total, scale], ["loss"]))
        kind = onnx.TensorProto.FLOAT
        sizes = {"x": self.shape, "y": (self.shape[0], CLASSES)}
        inputs = [helper.make_tensor_value_info(n, kind, size) for n, size in sizes.items()]
        loss = helper.make_tensor_value_info("loss", kind, ())
        graph = helper.make_graph(self.nodes, "benchmark", inputs, [loss], self.stored)
        opset = helper.make_opsetid("", 17)
        return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def perceptron(shape):
    file = File(shape)
    hidden = file.add("Relu", file.dense("x", shape[1], 128))
    hidden = file.add("Relu", file.dense(hidden, 128, 64))
    return file.model(file.dense(hidden, 64, CLASSES))


def residual(shape, blocks):
    """Return a residual network for images [N, 3, 32, 32] (He et al. 2016, section 4.2)."""
    file = File(shape)
    x, inputs = file.add("Relu", file.conv_bn("x", 3, 16, 3, 1)), 16
    for filters, first_stride in STAGES:
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            y = file.add("Relu", file.conv_bn(x, inputs, filters, 3, stride))
            y = file.conv_bn(y, filters, filters, 3, 1)
            shortcut = file.conv_bn(x, inputs, filters, 1, stride) if stride > 1 else x
            x, inputs = file.add("Relu", file.add("Add", y, shortcut)), filters
    x = file.add("GlobalAveragePool", x)
    x = file.add("Reshape", x, file.store(np.array([shape[0], inputs])))
    return file.model(file.dense(x, inputs, CLASSES))


def ours(model):
    """Return the training step of pd, a function of a batch; and the names of the parameters."""
    f = pd.import_onnx(model)
    x, y = (pd.Variable.of(dims, dtype, name) for name, (dims, dtype) in f.inputs.items())
    loss = f(x, y)
    trained = [v for v in f.parameters.values() if v.trainable]
    update = pd.MomentumOptimizer(RATE, SGD_MOMENTUM).minimize(loss, trained)

    def step(batch):
        return float(pd.eval([update, loss], {x: batch["x"], y: batch["y"]})[1])

    return step, [v.name for v in trained]


def theirs(model, parameters):
    loop = onnxsim.compile_training_loop(model, "loss", parameters, optimizer="sgd_momentum")
    return lambda batch: loop(batch, lr=RATE)


def batches(shape, count=4):
    rng = np.random.default_rng(0)
    return [
        {
            "x": rng.normal(size=shape).astype(np.float32),
            "y": np.eye(CLASSES, dtype=np.float32)[rng.integers(0, CLASSES, shape[0])],
        }
        for _ in range(count)
    ]


def compare(title, model, shape, steps, blocks):
    print(f"\n{title}: {len(model.graph.node)} operators")
    data = batches(shape)
    with pd.fresh():
        first = {}
        start = time.perf_counter()
        step, parameters = ours(model)
        losses = [step(data[0])]
        first["pd"] = time.perf_counter() - start
        start = time.perf_counter()
        other = theirs(model, parameters)
        their_losses = [other(data[0])]
        first["onnxsim"] = time.perf_counter() - start
        losses += [step(batch) for batch in data[1:]]
        their_losses += [other(batch) for batch in data[1:]]
        print("losses of pd     ", *[f"{v:.6f}" for v in losses])
        print("losses of onnxsim", *[f"{v:.6f}" for v in their_losses])
        np.testing.assert_allclose(losses, their_losses, rtol=2e-3)
        times = {"pd": [], "onnxsim": []}
        for block in range(blocks):
            sides = [("pd", step), ("onnxsim", other)]
            for name, function in sides if block % 2 else sides[::-1]:
                function(data[0])
                for k in range(steps):
                    start = time.perf_counter()
                    function(data[k % len(data)])
                    times[name].append(time.perf_counter() - start)
    print("| | median ms | minimum ms | first step s |\n|---|---|---|---|")
    for name, values in times.items():
        a = np.array(values) * 1e3
        print(f"| {name} | {np.median(a):.3f} | {a.min():.3f} | {first[name]:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="few steps, to see that it runs")
    options = parser.parse_args()
    steps, blocks = (3, 2) if options.small else (50, 8)
    shape = (128, 784)
    compare("Perceptron 784-128-64-10", perceptron(shape), shape, steps, blocks)
    depth, shape = (1, (8, 3, 32, 32)) if options.small else (3, (64, 3, 32, 32))
    model = residual(shape, depth)
    steps = 3 if options.small else 5
    title = f"Residual network of {6 * depth + 2} layers, batch {shape[0]}"
    compare(title, model, shape, steps, blocks)


if __name__ == "__main__":
    main()
