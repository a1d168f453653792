"""Two networks in a row, of which the larger one runs only for digits that the first is unsure of.

Both are trained together. Then the digits come one at a time, and the choice is made in three
ways with the same predictions: a static graph that always computes both, a static graph with
`pd.cond`, and a dynamic graph with an `if` of Python.
"""

import argparse
import logging
import os
import time
from pathlib import Path

os.environ.setdefault("PD_DATASET_HOME", str(Path(__file__).resolve().parent / "data"))
os.environ.setdefault("PD_DATASET_CHECK", "0")

import numpy as np

import pd_core as pd
from pd_v2.dataset import mnist
from picture import points

BATCH = 50
PASSES, QUICK_PASSES = 5, 1
SURE = 0.9  # probability from which on the first network's answer stands
BOUND = 0.1  # of the error


class First(pd.nn.Layer):
    """Feature maps [n, 8, 12, 12] of images [n, 1, 28, 28], and probabilities [n, 10]."""

    def __init__(self):
        super().__init__("first")
        self.conv = pd.nn.Conv2d(8, kernel=5)
        self.pool = pd.nn.MaxPool2d(kernel=2, stride=2)
        self.answer = pd.nn.FC(10)

    def forward(self, images):
        features = pd.relu(self.pool(self.conv(images)))
        return features, pd.softmax(self.answer(pd.flatten(features)))


class Second(pd.nn.Layer):
    """Probabilities [n, 10] from the feature maps of the first network."""

    def __init__(self):
        super().__init__("second")
        self.conv = pd.nn.Conv2d(32, kernel=3, padding=1)
        self.pool = pd.nn.MaxPool2d(kernel=2, stride=2)
        self.wide, self.deep = pd.nn.FC(1536, act="relu"), pd.nn.FC(1536, act="relu")
        self.answer = pd.nn.FC(10)

    def forward(self, features):
        maps = self.pool(pd.relu(self.conv(features)))
        return pd.softmax(self.answer(self.deep(self.wide(pd.flatten(maps)))))


def digits(reader):
    """Return images, float32 [n, 1, 28, 28] with pixels in [-1, 1], and labels, int64 [n, 1]."""
    pixels, labels = zip(*reader, strict=True)
    return np.stack(pixels).reshape(-1, 1, 28, 28), np.array(labels)[:, None]


def train(first, second, images, labels, passes):
    """Train both networks with the sum of their costs."""
    rng, optimizer = np.random.default_rng(0), pd.AdamOptimizer(1e-3)
    with pd.guard():
        for _ in range(passes):
            order = rng.permutation(len(images))
            for rows in order.reshape(-1, BATCH):
                features, early = first(images[rows])
                label, late = labels[rows], second(features)
                cost = pd.reduce_mean(
                    pd.cross_entropy(early, label) + pd.cross_entropy(late, label)
                )
                optimizer.minimize(cost)  # with the gradients of this cost alone


def always_both(first, second):
    """Return a function of an image: a static graph that computes both networks and selects."""
    image = pd.Variable([1, 1, 28, 28])
    features, early = first(image)
    answer = pd.where(pd.reduce_max(early) > SURE, early, second(features))
    return lambda x: pd.eval(answer, feeds={image: x})


def with_cond(first, second):
    """Return a function of an image: a static graph whose branch contains the second network."""
    image = pd.Variable([1, 1, 28, 28])
    features, early = first(image)
    answer = pd.cond(pd.reduce_max(early) > SURE, lambda: early, lambda: second(features))
    return lambda x: pd.eval(answer, feeds={image: x})


def with_if(first, second):
    """Return a function of an image: a dynamic graph that ends early."""

    def answer(image):
        with pd.guard(), pd.no_grad():
            features, early = first(image)
            if pd.reduce_max(early) > SURE:
                return early.numpy()
            return second(features).numpy()

    return answer


WAYS = {"both, static": always_both, "cond, static": with_cond, "if, dynamic": with_if}


def compare(first, second, images, labels):
    """Answer image after image in each way; print error, time and operators; return the answers.

    A branch of a static graph counts as one operator.
    """
    results = {}
    for way, choose in WAYS.items():
        answer = choose(first, second)
        for x in images[:20]:  # compiles what there is to compile
            answer(x[None])
        before, start = pd.stats()["operators"], time.perf_counter()
        results[way] = np.concatenate([answer(x[None]) for x in images])
        ms = 1000 * (time.perf_counter() - start) / len(images)
        operators = (pd.stats()["operators"] - before) / len(images)
        error = np.mean(results[way].argmax(1) != labels[:, 0])
        print(f"{way:13} error {error:.1%}, {ms:.2f} ms and {operators:.1f} operators for a digit")
    return results


def tradeoff(first, second, images, labels):
    """Return (share of digits that need the second network, error) for many thresholds, [k, 2]."""
    with pd.guard(), pd.no_grad():
        features, early = first(images)
        late, early = second(features).numpy(), early.numpy()
    rows = []
    for sure in np.linspace(0, 1, 101):
        unsure = early.max(1, keepdims=True) <= sure
        answers = np.where(unsure, late, early).argmax(1)
        rows.append((unsure.mean(), np.mean(answers != labels[:, 0])))
    return np.array(rows)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PASSES} pass, not {PASSES}")
    parser.add_argument("--out", type=Path, default=Path("output"), help="default: ./output")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    logging.getLogger("paddle").setLevel(logging.WARNING)  # it reports every unchecked data file
    test_images, test_labels = digits(mnist.test())

    first, second = First(), Second()
    train(first, second, *digits(mnist.train()), QUICK_PASSES if args.quick else PASSES)
    first.eval(), second.eval()
    count = 200 if args.quick else len(test_images)
    results = compare(first, second, test_images[:count], test_labels[:count])
    rows = tradeoff(first, second, test_images, test_labels)
    alone, error = rows[0, 1], rows[round(100 * SURE), 1]
    print(f"all digits: error {error:.1%}; of the first network alone {alone:.1%}")
    path, panels = args.out / "early_exit.png", {"Early exit": {"error": rows}}
    points(path, panels, "share of digits that the second network sees", "test error", ["error"])
    if not all(np.allclose(p, results["both, static"], atol=1e-5) for p in results.values()):
        raise SystemExit("the three ways give different probabilities")
    if error > BOUND or error > alone:
        raise SystemExit(f"did not learn: error {error:.1%}, of the first network {alone:.1%}")


if __name__ == "__main__":
    main()
