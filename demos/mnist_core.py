"""A perceptron on handwritten digits with the core alone: one graph to train, test and export.

The shapes of the weights follow from the input, their initial values are drawn at first use, and
the test evaluates cost and error in the same graph that is trained. With --dynamic the same network
is computed from arrays instead, to the same numbers.
"""

import argparse
import logging
import os
from pathlib import Path

os.environ.setdefault("PD_DATASET_HOME", str(Path(__file__).resolve().parent / "data"))
os.environ.setdefault("PD_DATASET_CHECK", "0")

import numpy as np

import pd_core as pd
from pd_v2.dataset import mnist

BATCH = 64
PASSES, QUICK_PASSES = 12, 3
BOUND = 0.15  # of the test error; guessing has an error of 0.9


def arrays(samples):
    """Return pixels in [0, 1], float32 [n, 784], and labels, int64 [n, 1]."""
    pixels, labels = zip(*samples, strict=True)
    return (np.stack(pixels) + 1) / 2, np.array(labels)[:, None]


def batches(images, labels, rng):
    """Yield the samples in random order, without an incomplete last batch."""
    order = rng.permutation(len(images))
    for start in range(0, len(order) - BATCH + 1, BATCH):
        rows = order[start : start + BATCH]
        yield images[rows], labels[rows]


def network(image, label):
    """Return the probabilities of the digits, the mean cost and the error."""
    hidden = pd.fc(image, size=64, act="relu", W="W1", B="b1")
    prediction = pd.softmax(hidden, size=10, W="W2", B="b2")
    cost = pd.reduce_mean(pd.cross_entropy(prediction, label))
    return prediction, cost, pd.classification_error(prediction, label)


def static(image, label, cost, error):
    """Return functions of arrays, which evaluate the graph: a training step, and a test."""
    train_step = pd.SGDOptimizer(learning_rate=0.1).minimize(cost)

    def train(images, labels):
        return pd.eval([train_step, cost], feeds={image: images, label: labels})[1]

    def test(images, labels):  # the same graph without the training step: no parameter is updated
        return pd.eval([cost, error], feeds={image: images, label: labels})

    return train, test


def dynamic():
    """Return the same functions, which call the network on the arrays."""
    optimizer = pd.SGDOptimizer(learning_rate=0.1)

    def train(images, labels):
        with pd.guard():
            _, cost, _ = network(images, labels)
            optimizer.minimize(cost)
            return cost.numpy()

    def test(images, labels):
        with pd.guard(), pd.no_grad():
            return [v.numpy() for v in network(images, labels)[1:]]

    return train, test


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PASSES} passes, not {PASSES}")
    parser.add_argument("--dynamic", action="store_true", help="train inside pd.guard()")
    parser.add_argument("--out", type=Path, default=Path("output"), help="default: ./output")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    logging.getLogger("paddle").setLevel(logging.WARNING)  # it reports every unchecked data file
    images, labels = arrays(mnist.train())
    test_images, test_labels = arrays(mnist.test())
    rng = np.random.default_rng(0)

    image, label = pd.Variable([None, 784], name="image"), pd.Variable([None, 1], dtype="int64")
    prediction, cost, error = network(image, label)
    train, test = dynamic() if args.dynamic else static(image, label, cost, error)

    for pass_no in range(QUICK_PASSES if args.quick else PASSES):
        for batch_images, batch_labels in batches(images, labels, rng):
            c = train(batch_images, batch_labels)
        test_c, test_e = test(test_images, test_labels)
        print(f"pass {pass_no + 1:2}  cost {c:.3f}  test cost {test_c:.3f}  error {test_e:6.1%}")

    # An export is of the static graph in both modes; it has the same parameters.
    path = args.out / "mnist_core.onnx"
    model = pd.export_onnx(path, [prediction], inputs=[image])
    operators = " ".join(node.op_type for node in model.graph.node)
    print(f"{path}: {operators}")
    if test_e > BOUND:
        raise SystemExit(f"did not learn: test error {test_e:.1%}, more than {BOUND:.0%}")


if __name__ == "__main__":
    main()
