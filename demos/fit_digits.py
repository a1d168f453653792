"""A convolutional network on handwritten digits by `Module.fit`: no loop, no step of its own.

The last tenth of the training data is held out: its cost decides when the learning rate falls and
when the training ends. The trained network is saved as an ONNX model with its parameters. A
picture shows which test digits it takes for which others.
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
from picture import curves, table

EPOCHS, QUICK_EPOCHS = 15, 2
BOUND, QUICK_BOUND = 0.06, 0.15  # of the test error; guessing has an error of 0.9


class Network(pd.nn.Module):
    """Scores [N, 10] of images [N, 1, 28, 28]."""

    def __init__(self):
        super().__init__("digits")
        self.features = pd.nn.Sequential(
            pd.nn.Conv2d(16, 3, padding=1, act="relu", kernel_init="he_uniform"),
            pd.nn.MaxPool2d(2),
            pd.nn.Conv2d(32, 3, padding=1, act="relu", kernel_init="he_uniform"),
            pd.nn.BatchNorm2d(),
            pd.nn.MaxPool2d(2),
            pd.nn.Flatten(),
        )
        self.dropout, self.scores = pd.nn.Dropout(0.4), pd.nn.FC(10)

    def forward(self, images):
        return self.scores(self.dropout(self.features(images)))


def arrays(samples):
    """Return images, float32 [n, 1, 28, 28] in [-1, 1], and labels, int64 [n]."""
    pixels, labels = zip(*samples, strict=True)
    return np.stack(pixels).reshape(-1, 1, 28, 28), np.array(labels)


def draw(history, found, labels, out):
    """Draw the costs of the epochs, and how often each digit was taken for each."""
    costs = {"training": history["cost"], "validation": history["val_cost"]}
    curves(out / "fit_digits.png", "Cost of fit_digits", costs, "epoch", "cross-entropy, nats")
    confusion = np.zeros((10, 10), int)
    np.add.at(confusion, (labels, found), 1)
    title, path = "Test digits: number of each pair", out / "confusion.png"
    table(path, title, confusion, "recognised as", "digit", range(10), range(10))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_EPOCHS} epochs, not {EPOCHS}")
    parser.add_argument("--out", type=Path, default=Path("output"), help="default: ./output")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    logging.getLogger("paddle").setLevel(logging.WARNING)  # it reports every unchecked data file
    images, labels = arrays(mnist.train())
    test_images, test_labels = arrays(mnist.test())

    network = Network()
    history = network.fit(
        images,
        labels,
        optimizer=pd.AdamOptimizer(0.002),
        loss=pd.nn.SoftmaxCrossEntropy(),
        epochs=QUICK_EPOCHS if args.quick else EPOCHS,
        batch_size=64,
        validation_split=0.1,
        metrics=["accuracy"],
        callbacks=[
            pd.training.ReduceRate(factor=0.3, patience=1),
            pd.training.StopEarly(patience=3),
        ],
    )
    for epoch, numbers in enumerate(zip(*history.values(), strict=True), 1):
        named = zip(history, numbers, strict=True)
        print(f"epoch {epoch:2}  {'  '.join(f'{name} {value:.3f}' for name, value in named)}")

    print(network.summary())
    test = network.evaluate(test_images, test_labels)
    found = network.predict(test_images).argmax(1)
    wrong = np.flatnonzero(found != test_labels)
    error = 1 - test["accuracy"]
    print(f"test cost {test['cost']:.3f}, {len(wrong)} of {len(test_labels)} wrong: {error:.1%}")
    draw(history, found, test_labels, args.out)
    network.save(args.out / "fit_digits")
    print(f"{args.out / 'fit_digits.onnx'} and .safetensors")
    bound = QUICK_BOUND if args.quick else BOUND
    if error > bound:
        raise SystemExit(f"did not learn: test error {error:.1%}, more than {bound:.0%}")


if __name__ == "__main__":
    main()
