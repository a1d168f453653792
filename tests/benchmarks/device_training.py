"""One training step on a device, by pd's exported file and by its peers: times and sizes of files.

    python tests/benchmarks/device_training.py pd|onnxsim|executorch|tflite|onnx-ad

Each peer needs packages of its own, and so an environment of its own. All train the same networks
with SGD: a small CNN on 32 images of 28 x 28, and a LoRA of rank 4 on the queries and values of a
BERT-like encoder (2 layers of 128 units, 4 heads, 8 texts of 64 tokens, 2 classes). They
run on one core, and times are those of the processor. A line of Markdown is printed for each.
"""

import importlib
import importlib.metadata
import os
import pathlib
import sys
import tempfile
import time

import numpy as np

CNN_BATCH, TEXTS, TOKENS, WIDTH, HEADS, WORDS, RANK, RATE = 32, 8, 64, 128, 4, 1000, 4, 0.01
STEPS = 30
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])


def arrays():
    """Return the batches of both networks, as {network: (x, label)}."""
    rng = np.random.default_rng(0)
    return {
        "CNN": (
            rng.random((CNN_BATCH, 1, 28, 28)).astype(np.float32),
            rng.integers(0, 10, CNN_BATCH),
        ),
        "LoRA": (rng.integers(0, WORDS, (TEXTS, TOKENS)), rng.integers(0, 2, TEXTS)),
    }


def report(peer, network, step, size, losses=STEPS):
    """Time a step, a function that returns the loss, and print a line."""
    values, times = [], []
    for _ in range(1 + losses):
        start = time.process_time()
        values.append(float(step()))
        times.append(1e3 * (time.process_time() - start))
    fastest, median = min(times[1:]), float(np.median(times[1:]))
    line = f"| {peer} | {network} | {size / 1e3:,.0f} kB | {fastest:.2f} | {median:.2f} |"
    print(line, f"{values[0]:.4f} → {values[-1]:.4f} |", flush=True)


def bytes_of(*paths):
    return sum(os.path.getsize(p) for p in paths)


# PyTorch's modules, which ExecuTorch takes, and whose exported files pd and onnxsim take.


def modules(pool=None):
    """Return {network: module}; `pool` is another module for the max pooling of the CNN."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    pool = pool or nn.MaxPool2d(2)

    class Row(nn.Module):
        """Flatten by a Reshape, which onnxsim differentiates."""

        def forward(self, x):
            return x.reshape(CNN_BATCH, 400)

    class Adapted(nn.Module):
        """A linear layer with low-rank matrices beside it."""

        def __init__(self):
            super().__init__()
            self.base = nn.Linear(WIDTH, WIDTH)
            self.lora_a = nn.Parameter(torch.randn(WIDTH, RANK) * 0.02)
            self.lora_b = nn.Parameter(torch.zeros(RANK, WIDTH))

        def forward(self, x):
            return self.base(x) + x @ self.lora_a @ self.lora_b

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.v, self.k = Adapted(), Adapted(), nn.Linear(WIDTH, WIDTH)
            self.out = nn.Linear(WIDTH, WIDTH)
            self.one, self.two = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            shape = (TEXTS, TOKENS, HEADS, WIDTH // HEADS)
            q, k, v = (f(x).reshape(shape).transpose(1, 2) for f in (self.q, self.k, self.v))
            weights = torch.softmax(q @ k.transpose(2, 3) / shape[3] ** 0.5, -1)
            mixed = (weights @ v).transpose(1, 2).reshape(TEXTS, TOKENS, WIDTH)
            x = self.one(x + self.out(mixed))
            return self.two(x + self.down(torch.relu(self.up(x))))

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(WORDS, WIDTH)
            self.blocks = nn.Sequential(Block(), Block())
            self.head = nn.Linear(WIDTH, 2)

        def forward(self, x):
            return self.head(self.blocks(self.words(x)).mean(1))

    cnn = nn.Sequential(
        *(nn.Conv2d(1, 8, 3), nn.ReLU(), pool),
        *(nn.Conv2d(8, 16, 3), nn.ReLU(), pool),
        *(Row(), nn.Linear(400, 10)),
    )
    encoder = Encoder()
    for name, parameter in encoder.named_parameters():
        parameter.requires_grad_("lora" in name)
    return {"CNN": cnn, "LoRA": encoder}


def write_models(folder):
    """Write both networks as ONNX files of opset 17, for the other peers."""
    import torch

    for name, module in modules().items():
        x = torch.tensor(arrays()[name][0])
        path = os.path.join(folder, f"{name}.onnx")
        torch.onnx.export(
            module.eval(), (x,), path, input_names=["x"], output_names=["y"], dynamo=False,
            opset_version=17, do_constant_folding=False,
        )  # fmt: skip


def by_pd(folder):
    """The step that `train-step` writes, in stock ONNX Runtime."""
    import onnxruntime

    import pd_core as pd
    from pd_core import tuning
    from pd_core.training.tuning.artifacts import training_step

    for name, (x, label) in arrays().items():
        with pd.fresh():
            frozen = () if name == "CNN" else ("*",)
            f = pd.import_onnx(os.path.join(folder, f"{name}.onnx"), frozen=frozen)
            if frozen:
                f.unfreeze("*lora*")
            task = tuning.objective(f, "cross-entropy")
            paths = [os.path.join(folder, f"{name}-{part}.onnx") for part in ("step", "initial")]
            step = training_step(task, pd.SGDOptimizer(RATE))
            inputs = [*task.inputs.values(), task.label]
            pd.export_step(paths[0], step, [task.cost], inputs, initial=paths[1])
        session, first = map(onnxruntime.InferenceSession, paths)
        state = dict(zip([o.name for o in first.get_outputs()], first.run(None, {}), strict=True))
        outputs, batch = [o.name for o in session.get_outputs()], {"x": x, "label": label}

        def run(session=session, state=state, outputs=outputs, batch=batch):
            out = dict(zip(outputs, session.run(None, {**batch, **state}), strict=True))
            state.update({n.removesuffix("_next"): a for n, a in out.items() if n[-5:] == "_next"})
            return out[outputs[0]]

        report("pd", name, run, bytes_of(*paths))


def with_loss(folder, name):
    """Return a model whose output is the loss against a one-hot label, its batch, and the names of
    the trained tensors.
    """
    import onnx
    from onnx import helper, numpy_helper

    x, label = arrays()[name]
    model, classes = onnx.load(os.path.join(folder, f"{name}.onnx")), {"CNN": 10, "LoRA": 2}[name]
    graph = model.graph
    scale = numpy_helper.from_array(np.array(-1 / len(label), np.float32), "loss_scale")
    graph.initializer.extend([scale, numpy_helper.from_array(np.array([0, 1]), "loss_axes")])
    graph.node.extend(
        [
            helper.make_node("Softmax", ["y"], ["p"], axis=1),
            helper.make_node("Log", ["p"], ["log_p"]),
            helper.make_node("Mul", ["log_p", "label"], ["picked"]),
            helper.make_node("ReduceSum", ["picked", "loss_axes"], ["total"], keepdims=0),
            helper.make_node("Mul", ["total", "loss_scale"], ["loss"]),
        ]
    )
    kind = onnx.TensorProto.FLOAT
    graph.input.append(helper.make_tensor_value_info("label", kind, (len(label), classes)))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("loss", kind, ()))
    batch = {"x": x, "label": np.eye(classes, dtype=np.float32)[label]}
    return model, batch, [t.name for t in graph.initializer if trains(name, t)]


def by_onnxsim(folder):
    """The loop of compile_training_loop."""
    import onnx
    import onnxsim

    for name in arrays():
        model, batch, trained = with_loss(folder, name)
        model, _ = onnxsim.simplify(model)
        try:
            loop = onnxsim.compile_training_loop(model, "loss", trained, optimizer="sgd_momentum")
        except Exception as error:
            print("| onnxsim |", name, "|", error, flush=True)
            continue
        found = [v for v in vars(loop).values() if isinstance(v, onnx.ModelProto)]
        size = max((v.ByteSize() for v in found), default=0)
        report("onnxsim", name, lambda loop=loop, batch=batch: loop(batch, lr=RATE), size)


def by_onnx_ad(folder):
    """Its reverse mode, and gradient descent in NumPy, which it has none of."""
    import onnx_ad
    import onnxruntime
    from onnx import helper, numpy_helper

    for name in arrays():
        model, batch, trained = with_loss(folder, name)
        stored = {t.name: t for t in model.graph.initializer if t.name in trained}
        state = {n: numpy_helper.to_array(t).copy() for n, t in stored.items()}
        for n, tensor in stored.items():
            model.graph.initializer.remove(tensor)
            value = helper.make_tensor_value_info(n, tensor.data_type, tensor.dims)
            model.graph.input.append(value)
        try:
            adjoint = onnx_ad.reverse(model, inputs=trained, outputs=["loss"], layout="onnx")
        except Exception as error:
            print("| onnx-ad |", name, "|", type(error).__name__, error, flush=True)
            continue
        data = adjoint.SerializeToString()
        session = onnxruntime.InferenceSession(data)
        seed = next(i.name for i in session.get_inputs() if i.name not in {*batch, *state})
        wanted = [
            n for n in (o.name for o in session.get_outputs()) if n not in ("loss", "out_loss")
        ]
        wanted = [next(n for n in wanted if n.endswith(f"_{w}")) for w in trained]
        loss = next(o.name for o in session.get_outputs() if o.name.endswith("loss"))
        seeds = {seed: np.ones(1, np.float32)}

        def run(session=session, state=state, batch=batch, names=(loss, *wanted), seeds=seeds):
            value, *slopes = session.run(names, {**batch, **state, **seeds})
            for w, g in zip(trained, slopes, strict=True):  # noqa: B023
                state[w] = state[w] - np.float32(RATE) * g[..., 0]
            return value

        report("onnx-ad", name, run, len(data))


def trains(network, tensor):
    """Whether a stored tensor of a network is trained."""
    if network == "LoRA":
        return "lora" in tensor.name
    return tensor.data_type == 1 and tensor.name != "loss_scale"


def by_executorch(folder):
    """Export forward and backward, and run ExecuTorch's training module with its SGD.

    Pooling is the maximum over axes of a reshaped image: with the portable kernel of 1.5.1 for the
    gradient of MaxPool2d the gradients of all layers before it are wrong.
    """
    import torch
    from executorch.exir import to_edge
    from executorch.extension.training import (
        _load_for_executorch_for_training,
        get_sgd_optimizer,
    )
    from torch.export import export
    from torch.export.experimental import _export_forward_backward

    class WithLoss(torch.nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net, self.loss = net, torch.nn.CrossEntropyLoss()

        def forward(self, x, label):
            y = self.net(x)
            return self.loss(y, label), y.detach().argmax(dim=1)

    class Pool(torch.nn.Module):
        def forward(self, x):
            n, c, side, _ = x.shape
            half = side // 2
            x = x[:, :, : 2 * half, : 2 * half].reshape(n, c, half, 2, half, 2)
            return x.amax((3, 5))

    for name, module in modules(Pool()).items():
        x, label = (torch.tensor(a) for a in arrays()[name])
        joint = _export_forward_backward(export(WithLoss(module), (x, label), strict=True))
        program = to_edge(joint).to_executorch()
        path = os.path.join(folder, f"{name}.pte")
        pathlib.Path(path).write_bytes(program.buffer)
        loaded = _load_for_executorch_for_training(path)
        loaded.forward_backward("forward", (x, label))  # names the parameters
        optimizer = get_sgd_optimizer(loaded.named_parameters(), RATE, 0, 0, 0, False)

        def run(loaded=loaded, optimizer=optimizer, x=x, label=label):
            out = loaded.forward_backward("forward", (x, label))
            optimizer.step(loaded.named_gradients())
            return out[0]

        report("ExecuTorch", name, run, bytes_of(path))


def by_tflite(folder):
    """The same networks as tf.Modules with a signature that trains, converted."""
    import tensorflow as tf

    def dense(inputs, outputs, trainable=True):
        scale = (1 / inputs) ** 0.5
        return (
            tf.Variable(tf.random.uniform((inputs, outputs), -scale, scale), trainable=trainable),
            tf.Variable(tf.zeros(outputs), trainable=trainable),
        )

    class Trained(tf.Module):
        def step(self, x, label):
            with tf.GradientTape() as tape:
                scores = self.scores(x)
                loss = tf.reduce_mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(logits=scores, labels=label)
                )
            trained = self.trainable_variables
            for v, g in zip(trained, tape.gradient(loss, trained), strict=True):
                v.assign_sub(RATE * g)
            return {"loss": loss}

    class Images(Trained):
        def __init__(self):
            super().__init__()
            self.one = tf.Variable(tf.random.uniform((3, 3, 1, 8), -0.3, 0.3))
            self.two = tf.Variable(tf.random.uniform((3, 3, 8, 16), -0.12, 0.12))
            self.biases = tf.Variable(tf.zeros(8)), tf.Variable(tf.zeros(16))
            self.head = dense(400, 10)

        def scores(self, x):
            for filters, bias in zip((self.one, self.two), self.biases, strict=True):
                x = tf.maximum(tf.nn.conv2d(x, filters, 1, "VALID") + bias, 0.0)
                # pooled by what has builtin gradients: neither that of MaxPool nor of slices is
                half, rest = divmod(x.shape[1], 2)
                for axis in (1, 2) if rest else ():
                    x = tf.split(x, [2 * half, 1], axis)[0]
                x = tf.reshape(x, (CNN_BATCH, half, 2, half, 2, -1))
                x = tf.reduce_max(x, (2, 4))
            return tf.reshape(x, (CNN_BATCH, 400)) @ self.head[0] + self.head[1]

    class Texts(Trained):
        def __init__(self):
            super().__init__()
            self.words = tf.Variable(tf.random.normal((WORDS, WIDTH)), trainable=False)
            names = dict.fromkeys("qkvo", (WIDTH, WIDTH)) | {
                "up": (WIDTH, 4 * WIDTH),
                "down": (4 * WIDTH, WIDTH),
            }
            self.blocks = [
                {
                    **{n: dense(*sizes, trainable=False) for n, sizes in names.items()},
                    **{f"{n}_a": tf.Variable(tf.random.normal((WIDTH, RANK)) * 0.02) for n in "qv"},
                    **{f"{n}_b": tf.Variable(tf.zeros((RANK, WIDTH))) for n in "qv"},
                }
                for _ in range(2)
            ]
            self.head = dense(WIDTH, 2, trainable=False)

        def scores(self, x):
            def norm(v):
                mean, variance = tf.nn.moments(v, -1, keepdims=True)
                return (v - mean) * tf.math.rsqrt(variance + 1e-5)

            x = tf.gather(self.words, x)
            for b in self.blocks:

                def linear(v, n, b=b):
                    y = v @ b[n][0] + b[n][1]
                    return y + v @ b[f"{n}_a"] @ b[f"{n}_b"] if f"{n}_a" in b else y

                shape = (TEXTS, TOKENS, HEADS, WIDTH // HEADS)
                q, k, v = (
                    tf.transpose(tf.reshape(linear(x, n), shape), (0, 2, 1, 3)) for n in "qkv"
                )
                weights = tf.nn.softmax(q @ tf.transpose(k, (0, 1, 3, 2)) / shape[3] ** 0.5)
                mixed = tf.reshape(tf.transpose(weights @ v, (0, 2, 1, 3)), (TEXTS, TOKENS, WIDTH))
                x = norm(x + linear(mixed, "o"))
                x = norm(x + linear(tf.maximum(linear(x, "up"), 0.0), "down"))
            return tf.reduce_mean(x, 1) @ self.head[0] + self.head[1]

    for name, (x, label) in arrays().items():
        x = x.transpose(0, 2, 3, 1) if name == "CNN" else x.astype(np.int32)
        label = label.astype(np.int32)
        module = Images() if name == "CNN" else Texts()
        signature = [tf.TensorSpec(a.shape, a.dtype) for a in (x, label)]
        train = tf.function(module.step, input_signature=signature)
        saved = os.path.join(folder, name)
        tf.saved_model.save(module, saved, signatures={"train": train.get_concrete_function()})
        converter = tf.lite.TFLiteConverter.from_saved_model(saved)
        converter.target_spec.supported_ops = [
            tf.lite.OpsSet.TFLITE_BUILTINS,
            tf.lite.OpsSet.SELECT_TF_OPS,
        ]
        converter.experimental_enable_resource_variables = True
        path = os.path.join(folder, f"{name}.tflite")
        pathlib.Path(path).write_bytes(converter.convert())
        interpreter = tf.lite.Interpreter(path, num_threads=len(os.sched_getaffinity(0)))
        try:
            interpreter.allocate_tensors()
        except RuntimeError as error:
            print("| TensorFlow Lite |", name, "|", bytes_of(path), error, flush=True)
            continue
        runner = interpreter.get_signature_runner("train")
        report("TensorFlow Lite", name, lambda r=runner, x=x, t=label: r(x=x, label=t)["loss"],
               bytes_of(path))  # fmt: skip


PEERS = {
    "pd": (by_pd, "onnxruntime"),
    "onnxsim": (by_onnxsim, "onnxsim"),
    "onnx-ad": (by_onnx_ad, "onnx_ad"),
    "executorch": (by_executorch, "executorch"),
    "tflite": (by_tflite, "tensorflow"),
}


def main():
    function, package = PEERS[sys.argv[1]]
    version = getattr(importlib.import_module(package), "__version__", None)
    print(package, version or importlib.metadata.version(package))
    print("| | network | files | fastest ms | median ms | loss |")
    with tempfile.TemporaryDirectory() as made:
        folder = sys.argv[2] if len(sys.argv) > 2 else made
        if sys.argv[1] in ("pd", "onnxsim", "onnx-ad") and not os.path.exists(f"{folder}/CNN.onnx"):
            write_models(folder)
        function(folder)


if __name__ == "__main__":
    main()
