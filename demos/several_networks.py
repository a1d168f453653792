"""Several networks in one program: side by side, with shared weights, trained in parts, in a chain.

Each example is a few lines of pd_core on real digits. Networks share nodes and parameters of one
graph; nothing is built twice or copied.
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


def digits(reader):
    """Return pixels in [-1, 1], float32 [n, 784], and labels, int64 [n, 1]."""
    pixels, labels = zip(*reader, strict=True)
    return np.stack(pixels), np.array(labels).reshape(-1, 1)


def batches(data, steps, size=100):
    """Yield random minibatches, the same ones in every call."""
    rng = np.random.default_rng(0)
    for _ in range(steps):
        rows = rng.choice(len(data[0]), size)
        yield data[0][rows], data[1][rows]


def side_by_side(train, test, steps):
    """A perceptron and a convolutional network are trained on the same minibatches."""
    image, label = pd.Variable([None, 784]), pd.Variable([None, 1], dtype="int64")
    planes = pd.reshape(image, [-1, 1, 28, 28])
    pooled = pd.pool2d(pd.conv2d(planes, 8, 5, act="relu"), 2)
    networks = {
        "perceptron": pd.softmax(pd.fc(image, 64, act="relu"), size=10),
        "convolutional": pd.softmax(pd.reshape(pooled, [-1, 8 * 12 * 12]), size=10),
    }
    costs = {k: pd.reduce_mean(pd.cross_entropy(p, label)) for k, p in networks.items()}
    train_steps = {k: pd.AdamOptimizer(2e-3).minimize(c) for k, c in costs.items()}
    for images, labels in batches(train, steps):
        for step in train_steps.values():
            pd.eval(step, feeds={image: images, label: labels})
    errors = {k: pd.classification_error(p, label) for k, p in networks.items()}
    return pd.eval(errors, feeds={image: test[0], label: test[1]})


def ranking(train, test, steps):
    """A triplet network: an embedding in which digits of the same class are nearer."""

    def embed(x):
        return pd.fc(pd.fc(x, 64, act="relu", W="w1", B="b1"), 16, W="w2", B="b2")

    anchor, positive, negative = (pd.Variable([None, 784]) for _ in range(3))
    to_positive = pd.reduce_sum(pd.square(embed(anchor) - embed(positive)), 1)
    to_negative = pd.reduce_sum(pd.square(embed(anchor) - embed(negative)), 1)
    cost = pd.reduce_mean(pd.relu(to_positive - to_negative + 1.0))
    step = pd.AdamOptimizer(1e-3).minimize(cost)
    wrong = pd.reduce_mean(pd.cast(to_positive >= to_negative, "float32"))

    def triples(data):
        rng = np.random.default_rng(1)
        rows_of = [np.flatnonzero(data[1][:, 0] == k) for k in range(10)]
        a, b = rng.integers(0, 10, 100), rng.integers(1, 10, 100)
        rows = [[rng.choice(rows_of[k]) for k in classes] for classes in (a, a, (a + b) % 10)]
        images = [data[0][r] for r in rows]
        return dict(zip((anchor, positive, negative), images, strict=True))

    before = pd.eval(wrong, feeds=triples(test))
    for images, labels in batches(train, steps, size=400):
        pd.eval(step, feeds=triples((images, labels)))
    return {"wrongly ranked before training": before, "after": pd.eval(wrong, feeds=triples(test))}


def halves(train, test, steps):
    """Even digits train the left half of a network, odd digits the right half."""
    image, label = pd.Variable([None, 784]), pd.Variable([None, 1], dtype="int64")
    with pd.namespace("left") as left:
        a = pd.fc(image, 32, act="relu")
    with pd.namespace("right") as right:
        b = pd.fc(image, 32, act="relu")
    probability = pd.softmax(pd.concat([a, b], axis=1), size=10, W="out", B="bias")
    cost = pd.reduce_mean(pd.cross_entropy(probability, label))
    shared = [pd.get_variable("out"), pd.get_variable("bias")]
    sides = [(0, left, right), (1, right, left)]
    train_steps = [
        pd.AdamOptimizer(2e-3).minimize(cost, var_list=[*side.variables(), *shared])
        for _, side, _ in sides
    ]
    unchanged = True
    for images, labels in batches(train, steps):
        for (parity, _, other), step in zip(sides, train_steps, strict=True):
            rows = labels[:, 0] % 2 == parity
            before = [v.val() for v in other.variables()]
            pd.eval(step, feeds={image: images[rows], label: labels[rows]})
            after = [v.val() for v in other.variables()]
            unchanged &= all((u == v).all() for u, v in zip(before, after, strict=True))
    error = pd.eval(pd.classification_error(probability, label), {image: test[0], label: test[1]})
    return {"the other half unchanged": unchanged, "test error": error}


def chain(train, test, steps):
    """An autoencoder is trained; then its frozen encoder feeds a classifier."""
    image, label = pd.Variable([None, 784]), pd.Variable([None, 1], dtype="int64")
    with pd.namespace("encoder") as encoder:
        code = pd.fc(image, 48, act="tanh")
        decoded = pd.fc(code, 784, act="tanh")
    with pd.namespace("classifier"):
        probability = pd.softmax(code, size=10)
    distortion = pd.reduce_mean(pd.square(decoded - image))
    compress = pd.AdamOptimizer(2e-3).minimize(distortion)
    cost = pd.reduce_mean(pd.cross_entropy(probability, label))
    classify = pd.AdamOptimizer(5e-3).minimize(cost)  # the encoder too, unless it is frozen
    for images, _ in batches(train, steps):
        pd.eval(compress, feeds={image: images})
    for v in encoder.variables():
        v.trainable = False
    for images, labels in batches(train, steps):
        pd.eval(classify, feeds={image: images, label: labels})
    feeds = {image: test[0], label: test[1]}
    error = pd.eval(pd.classification_error(probability, label), feeds)
    return {"reconstruction error": pd.eval(distortion, feeds), "test error": error}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer steps, a few seconds")
    steps = 60 if parser.parse_args().quick else 600
    logging.getLogger("paddle").setLevel(logging.WARNING)  # it reports every unchecked data file
    train, test = digits(mnist.train()), digits(mnist.test())
    for example in (side_by_side, ranking, halves, chain):
        with pd.fresh(seed=1):
            results = example(train, test, steps)
        print(f"{example.__name__}: {example.__doc__.splitlines()[0]}")
        for name, value in results.items():
            print(f"    {name}: {value if isinstance(value, bool) else f'{float(value):.3f}'}")


if __name__ == "__main__":
    main()
