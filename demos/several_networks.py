"""Several networks in one program: side by side, sharing, by halves, in a chain.

Each story is a few lines of pd_core on real digits. Nothing is set up twice and nothing is copied:
what two targets have in common is one part of the graph.
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
    """float32 [n, 784] from -1 to 1, and int64 labels [n, 1]."""
    pixels, labels = zip(*reader, strict=True)
    return np.stack(pixels), np.array(labels).reshape(-1, 1)


def batches(data, steps, size=100):
    """Random minibatches, the same ones for everybody who asks."""
    rng = np.random.default_rng(0)
    for _ in range(steps):
        rows = rng.choice(len(data[0]), size)
        yield data[0][rows], data[1][rows]


def side_by_side(train, test, steps):
    """A perceptron and a convolutional network learn from the same minibatch, step by step."""
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
    """Three branches with one set of weights: a digit should be nearer to its own kind."""

    def place(x):
        return pd.fc(pd.fc(x, 64, act="relu", W="w1", B="b1"), 16, W="w2", B="b2")

    anchor, same, other = (pd.Variable([None, 784]) for _ in range(3))
    to_same = pd.reduce_sum(pd.square(place(anchor) - place(same)), 1)
    to_other = pd.reduce_sum(pd.square(place(anchor) - place(other)), 1)
    cost = pd.reduce_mean(pd.relu(to_same - to_other + 1.0))
    step = pd.AdamOptimizer(1e-3).minimize(cost)
    wrong = pd.reduce_mean(pd.cast(to_same >= to_other, "float32"))

    def triples(data):
        rng = np.random.default_rng(1)
        kinds = [np.flatnonzero(data[1][:, 0] == k) for k in range(10)]
        a, b = rng.integers(0, 10, 100), rng.integers(1, 10, 100)
        chosen = [[rng.choice(kinds[k]) for k in which] for which in (a, a, (a + b) % 10)]
        return dict(zip((anchor, same, other), (data[0][rows] for rows in chosen), strict=True))

    start = pd.eval(wrong, feeds=triples(test))
    for images, labels in batches(train, steps, size=400):
        pd.eval(step, feeds=triples((images, labels)))
    return {"wrongly ranked before": start, "after": pd.eval(wrong, feeds=triples(test))}


def halves(train, test, steps):
    """Even digits teach the left half of a network, odd digits the right half."""
    image, label = pd.Variable([None, 784]), pd.Variable([None, 1], dtype="int64")
    with pd.namespace("left") as left:
        a = pd.fc(image, 32, act="relu")
    with pd.namespace("right") as right:
        b = pd.fc(image, 32, act="relu")
    probability = pd.softmax(pd.concat([a, b], axis=1), size=10, W="out", B="bias")
    cost = pd.reduce_mean(pd.cross_entropy(probability, label))
    shared = [pd.get_variable("out"), pd.get_variable("bias")]
    sides = [(0, left, right), (1, right, left)]
    teach = [
        pd.AdamOptimizer(2e-3).minimize(cost, var_list=[*side.variables(), *shared])
        for _, side, _ in sides
    ]
    untouched = True
    for images, labels in batches(train, steps):
        for (parity, _, other), step in zip(sides, teach, strict=True):
            rows = labels[:, 0] % 2 == parity
            before = [v.val() for v in other.variables()]
            pd.eval(step, feeds={image: images[rows], label: labels[rows]})
            after = [v.val() for v in other.variables()]
            untouched &= all((a == b).all() for a, b in zip(before, after, strict=True))
    error = pd.eval(pd.classification_error(probability, label), {image: test[0], label: test[1]})
    return {"the other half untouched": untouched, "test error": error}


def chain(train, test, steps):
    """An encoder learns to compress digits; then, frozen, it serves a classifier."""
    image, label = pd.Variable([None, 784]), pd.Variable([None, 1], dtype="int64")
    with pd.namespace("encoder") as encoder:
        code = pd.fc(image, 48, act="tanh")
        again = pd.fc(code, 784, act="tanh")
    with pd.namespace("classifier"):
        probability = pd.softmax(code, size=10)
    distance = pd.reduce_mean(pd.square(again - image))
    compress = pd.AdamOptimizer(2e-3).minimize(distance)
    cost = pd.reduce_mean(pd.cross_entropy(probability, label))
    classify = pd.AdamOptimizer(5e-3).minimize(cost)  # covers the encoder too, once it may learn
    for images, _ in batches(train, steps):
        pd.eval(compress, feeds={image: images})
    for v in encoder.variables():
        v.trainable = False
    for images, labels in batches(train, steps):
        pd.eval(classify, feeds={image: images, label: labels})
    feeds = {image: test[0], label: test[1]}
    error = pd.eval(pd.classification_error(probability, label), feeds)
    return {"distance of copies": pd.eval(distance, feeds), "test error": error}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer steps, a few seconds")
    steps = 60 if parser.parse_args().quick else 600
    logging.getLogger("paddle").setLevel(logging.WARNING)  # it reports every unchecked data file
    train, test = digits(mnist.train()), digits(mnist.test())
    for story in (side_by_side, ranking, halves, chain):
        with pd.fresh(seed=1):
            found = story(train, test, steps)
        print(f"{story.__name__}: {story.__doc__.splitlines()[0]}")
        for name, value in found.items():
            print(f"    {name}: {value if isinstance(value, bool) else f'{float(value):.3f}'}")


if __name__ == "__main__":
    main()
