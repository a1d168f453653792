"""Accuracy on handwritten digits in float, quantised after training, and trained quantised.

A small convolutional network is trained in float32 and exported. Then it is quantised by
onnxruntime.quantization.quantize_static (QDQ, int8 weights with a scale for each channel, uint8
activations, ranges from the training images), and by `pd.prepare_qat` with three more epochs.
The float model with three more epochs shows how much of the difference is due to these. Every
model is tested as a file, in ONNX Runtime.
"""

import argparse
import logging
import os
import tempfile
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "demos" / "data"
os.environ.setdefault("PD_DATASET_HOME", str(DATA))
os.environ.setdefault("PD_DATASET_CHECK", "0")

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from onnxruntime.quantization import (  # noqa: E402
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)

import pd_core as pd  # noqa: E402
from pd_core import tuning  # noqa: E402
from pd_v2.dataset import mnist  # noqa: E402

BATCH, RATE, TUNED_RATE = 64, 1e-3, 1e-4


def arrays(samples):
    """Return images [N, 1, 28, 28] and labels [N]."""
    pixels, labels = zip(*samples, strict=True)
    return np.stack(pixels).reshape(-1, 1, 28, 28), np.array(labels)


def network(widths):
    """Return a convolutional network of these widths, with its input and its scores."""
    image = pd.Variable("image", shape=[None, 1, 28, 28])
    first, second, hidden = widths
    net = pd.nn.Sequential(
        *(pd.nn.Conv2d(first, 5, act="relu"), pd.nn.MaxPool2d(2)),
        *(pd.nn.Conv2d(second, 5, act="relu"), pd.nn.MaxPool2d(2)),
        *(pd.nn.Flatten(), pd.nn.FC(hidden, act="relu"), pd.nn.FC(10)),
    )
    return image, net(image)


def train(f, data, epochs, rate, seed):
    task = tuning.objective(f, "cross-entropy")
    data = {"image": data[0], "label": data[1]}
    tuning.finetune(task, data, pd.AdamOptimizer(rate), epochs, BATCH, seed=seed)


def tested(model, data):
    """Return accuracy and cross-entropy of a file in ONNX Runtime.

    Its 8-bit products may overflow 16 bits on some processors, unless it is asked for precision.
    """
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    (scores,) = session.run(None, {"image": data[0]})
    shifted = scores - scores.max(1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    loss = -log_p[np.arange(len(scores)), data[1]].mean()
    return float((scores.argmax(1) == data[1]).mean()), float(loss)


class Calibration(CalibrationDataReader):
    """The batches that ranges are taken from."""

    def __init__(self, images):
        self.batches = iter(np.array_split(images, len(images) // BATCH))

    def get_next(self):
        images = next(self.batches, None)
        return None if images is None else {"image": images}


def after_training(model, images):
    """Return the model quantised by ONNX Runtime's own tool."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = (os.path.join(folder, name) for name in ("float.onnx", "int8.onnx"))
        with open(source, "wb") as file:
            file.write(model.SerializeToString())
        quantize_static(
            *(source, target, Calibration(images)),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            weight_type=QuantType.QInt8,
            activation_type=QuantType.QUInt8,
        )
        return onnx.load(target)


def measure(widths, seed, epochs, training, test):
    """Return accuracy and cross-entropy of the variants of a network of these widths."""
    with pd.fresh(seed):
        image, scores = network(widths)
        model = pd.export_onnx(None, [scores], inputs=[image])
    with pd.fresh(seed):
        f = pd.import_onnx(model)
        train(f, training, epochs, RATE, seed)
        model = pd.export_tuned(None, f)
    results = {"float": tested(model, test)}
    results["after training"] = tested(after_training(model, training[0]), test)
    for name in ("float, 3 more epochs", "trained quantised"):
        with pd.fresh(seed):
            f = pd.import_onnx(model)
            if name == "trained quantised":
                pd.prepare_qat(f)
            train(f, training, 3, TUNED_RATE, seed + 1)
            results[name] = tested(pd.export_tuned(None, f), test)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--widths", type=int, nargs=3, default=[20, 50, 128])
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    training, test = arrays(mnist.train()), arrays(mnist.test())
    print(f"{len(test[0])} test images, {len(training[0])} for training, widths {options.widths}")
    runs = [
        measure(options.widths, seed, options.epochs, training, test)
        for seed in range(options.seeds)
    ]
    for name in runs[0]:
        values = np.array([run[name] for run in runs])
        listed = " ".join(f"{v:.4f}" for v in values[:, 0])
        means = "accuracy {:.4f}, cross-entropy {:.4f}".format(*values.mean(0))
        print(f"{name:22} {means}  (accuracies {listed})")


if __name__ == "__main__":
    main()
