"""Write the files of the two pages: training steps, initial states, models for prediction, digits.

The network that learns digits is a small LeNet with dropout and batch normalisation, trained with
Adam; fine_tuning.py has the one that is fine-tuned. All steps also run on WebGPU.
"""

import argparse
import logging
import os
from pathlib import Path

os.environ.setdefault("PD_DATASET_HOME", str(Path(__file__).resolve().parents[1] / "data"))
os.environ.setdefault("PD_DATASET_CHECK", "0")

import fine_tuning
import numpy as np

import pd_core as pd
from pd_v2.dataset import mnist

FILES = Path(__file__).resolve().parent / "files"


def block(x, filters):
    """Convolution, batch normalisation, ReLU, max pooling."""
    x = pd.conv2d(x, filters, 5, B=False)
    initial = {"scale": 1.0, "shift": 0.0, "mean": 0.0, "variance": 1.0}
    values = [
        pd.Variable(name, data=np.full(filters, v, "f"), trainable=name in ("scale", "shift"))
        for name, v in initial.items()
    ]
    return pd.pool2d(pd.relu(pd.batch_norm(x, *values)), 2)


def lenet(image):
    """Return the probabilities of the ten digits for images [n, 784]."""
    x = pd.reshape(image, [-1, 1, 28, 28])
    for k, filters in enumerate((8, 16)):
        with pd.namespace(f"block{k}"):
            x = block(x, filters)
    features = pd.dropout(pd.reshape(x, [-1, 16 * 4 * 4]), 0.25)
    return pd.softmax(features, size=10, W="W", B="b")


def write_models(folder):
    """Write step.onnx, initial.onnx and predict.onnx."""
    image = pd.Variable("image", shape=[None, 784])
    label = pd.Variable("label", shape=[None, 1], dtype="int64")
    with pd.namespace("lenet") as network:
        probability = pd.identity(lenet(image), name="probability")
    cost = pd.identity(pd.reduce_mean(pd.cross_entropy(probability, label)), name="cost")
    step = pd.AdamOptimizer(5e-3).minimize(cost)
    initial = folder / "initial.onnx"
    pd.export_step(folder / "step.onnx", step, [cost], initial=initial, portable=True)
    # The weights are inputs, so that the page predicts with the ones it has trained.
    inputs = [image, *network.variables()]
    pd.export_onnx(folder / "predict.onnx", [probability], inputs=inputs)


def write_digits(folder, name, samples):
    """Write pixels and labels, one byte each; return them as arrays [n, 784] and [n]."""
    pixels, labels = zip(*samples, strict=True)
    grey = np.rint((np.stack(pixels) + 1) * 127.5).astype(np.uint8)
    (folder / f"{name}.images").write_bytes(grey.tobytes())
    (folder / f"{name}.labels").write_bytes(np.array(labels, np.uint8).tobytes())
    return grey, np.array(labels)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=FILES, help="default: files/ beside this")
    parser.add_argument("--quick", action="store_true", help="train the classifier on 200 digits")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    logging.getLogger("paddle").setLevel(logging.WARNING)  # it reports every unchecked data file
    write_models(args.out)
    grey, labels = write_digits(args.out, "train", mnist.train()())
    write_digits(args.out, "test", mnist.test()())
    if args.quick:
        grey, labels = grey[:200], labels[:200]
    print(f"training the classifier that is fine-tuned on {len(grey):,} digits")
    imported = args.out / "classifier.onnx"
    fine_tuning.train_classifier(imported, grey.reshape(-1, 28, 28) / np.float32(255), labels)
    fine_tuning.write_steps(args.out, imported)
    for path in sorted(args.out.rglob("*.*")):
        print(f"{path.relative_to(args.out)!s:20}{path.stat().st_size:10,} bytes")


if __name__ == "__main__":
    main()
