"""Recognise handwritten digits with three networks, as in chapter 2 of the 2017 paddle.v2 book.

Softmax regression, a perceptron with two hidden layers, and LeNet-5. Each is trained, tested after
every pass and saved; the last of them is also exported as an ONNX model, which runs without pd.
"""

import argparse
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("PD_DATASET_HOME", str(Path(__file__).resolve().parent / "data"))
os.environ.setdefault("PD_DATASET_CHECK", "0")

import numpy as np

import pd_v2 as paddle
from picture import require

BATCH = 128
ERROR = "classification_error_evaluator"


def softmax_regression(images):
    """One layer from 784 pixels to 10 probabilities."""
    return paddle.layer.fc(input=images, size=10, act=paddle.activation.Softmax())


def multilayer_perceptron(images):
    """Two hidden layers, 128 and 64 wide."""
    relu = paddle.activation.Relu()
    hidden = paddle.layer.fc(input=images, size=128, act=relu)
    hidden = paddle.layer.fc(input=hidden, size=64, act=relu)
    return paddle.layer.fc(input=hidden, size=10, act=paddle.activation.Softmax())


def convolutional_network(images):
    """LeNet-5 (LeCun et al. 1998) as the book has it: two convolutions with pooling, one layer."""
    x, channels = images, 1
    for filters in (20, 50):
        x = paddle.networks.simple_img_conv_pool(
            input=x,
            filter_size=5,
            num_filters=filters,
            num_channel=channels,
            pool_size=2,
            pool_stride=2,
            act=paddle.activation.Relu(),
        )
        channels = filters
    return paddle.layer.fc(input=x, size=10, act=paddle.activation.Softmax())


class Network(NamedTuple):
    """A network and its training; a test error above `bound` means that it did not learn."""

    build: Callable
    rate: float  # per digit of a batch; the book's 0.1 is for 60,000 digits
    passes: int
    bound: float


NETWORKS = {
    "softmax": Network(softmax_regression, rate=0.01, passes=10, bound=0.15),
    "mlp": Network(multilayer_perceptron, rate=0.02, passes=12, bound=0.15),
    "lenet": Network(convolutional_network, rate=0.03, passes=8, bound=0.05),
}
QUICK_PASSES, QUICK_BOUND = 2, 0.4


# A program without pd; model, pixels and result are files.
ORT_ONLY = """
import sys, numpy, onnxruntime
model, pixels, result = sys.argv[1:]
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
numpy.save(result, session.run(None, {"pixel": numpy.load(pixels)})[0])
"""


def train(name, network, images, label, passes, out):
    """Train a network, write NAME.png and NAME.tar; return (prediction, parameters, test error)."""
    prediction = network.build(images)
    cost = paddle.layer.classification_cost(input=prediction, label=label)
    parameters = paddle.parameters.create(cost)
    optimizer = paddle.optimizer.Momentum(
        learning_rate=network.rate / BATCH,  # gradients are sums over the batch
        momentum=0.9,
        regularization=paddle.optimizer.L2Regularization(rate=0.0005 * BATCH),
    )
    trainer = paddle.trainer.SGD(cost=cost, parameters=parameters, update_equation=optimizer)
    curves = paddle.plot.Ploter("train cost", "test cost")
    batches, errors = 0, []

    def event_handler(event):
        nonlocal batches
        if isinstance(event, paddle.event.EndIteration):
            batches += 1
            if batches % 4 == 0:
                curves.append("train cost", batches, event.cost)
        if isinstance(event, paddle.event.EndPass):
            result = trainer.test(paddle.batch(paddle.dataset.mnist.test(), BATCH))
            curves.append("test cost", batches, result.cost)
            errors.append(result.metrics[ERROR])
            print(
                f"{name:8} pass {event.pass_id + 1:2}  train error {event.metrics[ERROR]:6.1%}"
                f"  test error {errors[-1]:6.1%}  test cost {result.cost:.3f}"
            )

    digits = paddle.reader.shuffle(paddle.dataset.mnist.train(), buf_size=8192)
    trainer.train(paddle.batch(digits, BATCH), num_passes=passes, event_handler=event_handler)
    curves.plot(str(out / f"{name}.png"))
    with open(out / f"{name}.tar", "wb") as f:
        trainer.save_parameter_to_tar(f)
    return prediction, parameters, errors[-1]


def export(prediction, parameters, images, expected, path):
    """Export the network, and check that a program without pd gives the same probabilities."""
    paddle.topology.Topology(prediction).export_onnx(str(path), parameters)
    with tempfile.TemporaryDirectory() as folder:
        pixels, result = Path(folder, "pixels.npy"), Path(folder, "result.npy")
        np.save(pixels, np.stack(images))
        subprocess.run([sys.executable, "-c", ORT_ONLY, path, pixels, result], check=True)
        difference = np.abs(np.load(result) - expected).max()
    print(f"{path}: onnxruntime without pd gives the same probabilities, up to {difference:.1g}")
    if difference > 1e-5:
        raise SystemExit("the exported model gives other probabilities")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=[*NETWORKS, "all"], default="all")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PASSES} passes each")
    parser.add_argument("--out", type=Path, default=Path("output"), help="default: ./output")
    args = parser.parse_args(argv)
    require("matplotlib")
    args.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    logging.getLogger("paddle").setLevel(logging.WARNING)  # it reports every unchecked data file
    random.seed(1)  # for shuffling; initial values come from the seed of paddle.init

    paddle.init(use_gpu=False, trainer_count=1)
    images = paddle.layer.data(name="pixel", type=paddle.data_type.dense_vector(28 * 28))
    label = paddle.layer.data(name="label", type=paddle.data_type.integer_value(10))
    networks = NETWORKS if args.network == "all" else {args.network: NETWORKS[args.network]}
    failures = []
    for name, network in networks.items():
        passes = QUICK_PASSES if args.quick else network.passes
        prediction, parameters, error = train(name, network, images, label, passes, args.out)
        if error > (QUICK_BOUND if args.quick else network.bound):
            failures.append(f"{name} {error:.1%}")

    digits, labels = zip(*list(paddle.dataset.mnist.test())[:20], strict=True)
    probabilities = paddle.infer(prediction, parameters, input=[(pixels,) for pixels in digits])
    print("labels       ", *labels)
    print("recognised as", *probabilities.argmax(axis=1))
    export(prediction, parameters, digits, probabilities, args.out / f"{name}.onnx")
    print(f"curves, parameters and model in {args.out}, {time.perf_counter() - start:.0f} s")
    if failures:
        raise SystemExit(f"did not learn, test error: {', '.join(failures)}")


if __name__ == "__main__":
    main()
