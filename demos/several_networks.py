"""Several networks in one program: side by side, with shared weights, trained in parts, in a chain.

Each example is a few lines of pd_core on real digits. Networks share nodes and parameters of one
graph; nothing is built twice or copied. With --dynamic they are called on arrays instead and share
their parameters, by name. A picture shows the embedding that the triplet network has learned.
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
from picture import points


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


def functions(model, optimizers, slots, dynamic):
    """Return functions of arrays: a step of one of the optimizers, and the results of a model.

    model(*inputs) returns for each optimizer what it minimizes, (cost, var_list), and a dict of
    results. A static graph is built once, on feed slots, with several targets, and evaluated; a
    dynamic one is recorded in every call, and only what the one target needs is computed.
    """
    if dynamic:

        def step(k, *arrays):
            with pd.guard():
                cost, var_list = model(*arrays)[0][k]
                optimizers[k].minimize(cost, var_list)
                return cost.numpy()

        def results(*arrays):
            with pd.guard(), pd.no_grad():
                return {name: v.numpy() for name, v in model(*arrays)[1].items()}

        return step, results

    targets, outputs = model(*slots)
    steps = {k: [optimizers[k].minimize(*targets[k]), targets[k][0]] for k in optimizers}
    return (
        lambda k, *arrays: pd.eval(steps[k], dict(zip(slots, arrays, strict=True)))[1],
        lambda *arrays: pd.eval(outputs, dict(zip(slots, arrays, strict=True))),
    )


def slots_of_digits():
    return pd.Variable([None, 784]), pd.Variable([None, 1], dtype="int64")


def side_by_side(train, test, steps, dynamic=False):
    """A perceptron and a convolutional network are trained on the same minibatches."""

    def model(image, label):
        hidden = pd.fc(image, 64, act="relu", W="W1", B="b1")
        planes = pd.reshape(image, [-1, 1, 28, 28])
        pooled = pd.pool2d(pd.conv2d(planes, 8, 5, act="relu", W="W", B="b"), 2)
        networks = {
            "perceptron": pd.softmax(hidden, size=10, W="W2", B="b2"),
            "convolutional": pd.softmax(
                pd.reshape(pooled, [-1, 8 * 12 * 12]), size=10, W="W3", B="b3"
            ),
        }
        costs = {k: pd.reduce_mean(pd.cross_entropy(p, label)) for k, p in networks.items()}
        errors = {k: pd.classification_error(p, label) for k, p in networks.items()}
        return {k: (cost, None) for k, cost in costs.items()}, errors

    optimizers = {k: pd.AdamOptimizer(2e-3) for k in ("perceptron", "convolutional")}
    step, errors = functions(model, optimizers, slots_of_digits(), dynamic)
    for minibatch in batches(train, steps):
        for k in optimizers:
            step(k, *minibatch)
    return errors(*test)


def ranking(train, test, steps, dynamic=False):
    """A triplet network: an embedding in which digits of the same class are nearer."""

    def embed(x):
        return pd.fc(pd.fc(x, 64, act="relu", W="w1", B="b1"), 16, W="w2", B="b2")

    def model(anchor, positive, negative):
        to_positive = pd.reduce_sum(pd.square(embed(anchor) - embed(positive)), 1)
        to_negative = pd.reduce_sum(pd.square(embed(anchor) - embed(negative)), 1)
        cost = pd.reduce_mean(pd.relu(to_positive - to_negative + 1.0))
        wrong = pd.reduce_mean(pd.cast(to_positive >= to_negative, "float32"))
        return {"rank": (cost, None)}, {"wrong": wrong, "codes": embed(anchor)}

    def triples(data):
        rng = np.random.default_rng(1)
        rows_of = [np.flatnonzero(data[1][:, 0] == k) for k in range(10)]
        a, b = rng.integers(0, 10, 100), rng.integers(1, 10, 100)
        rows = [[rng.choice(rows_of[k]) for k in classes] for classes in (a, a, (a + b) % 10)]
        return [data[0][r] for r in rows]

    slots = [pd.Variable([None, 784]) for _ in range(3)]
    step, results = functions(model, {"rank": pd.AdamOptimizer(1e-3)}, slots, dynamic)
    before = results(*triples(test))["wrong"]
    for minibatch in batches(train, steps, size=400):
        step("rank", *triples(minibatch))
    codes = results(test[0], test[0], test[0])["codes"]
    after = results(*triples(test))["wrong"]
    return {"wrongly ranked before training": before, "after": after, "codes": codes}


def draw(codes, labels, path):
    """Draw the two directions in which the embedding [n, 16] varies most, by class."""
    centred = codes - codes.mean(0)
    plane = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    panel = {f"{digit}": plane[labels[:, 0] == digit] for digit in range(10)}
    title = "Embedding of test digits"
    points(path, {title: panel}, "first component", "second component", equal=True)


def halves(train, test, steps, dynamic=False):
    """Even digits train the left half of a network, odd digits the right half."""
    left, right = pd.namespace("left"), pd.namespace("right")

    def model(image, label):
        with left:
            a = pd.fc(image, 32, act="relu", W="W", B="b")
        with right:
            b = pd.fc(image, 32, act="relu", W="W", B="b")
        probability = pd.softmax(pd.concat([a, b], axis=1), size=10, W="out", B="bias")
        cost = pd.reduce_mean(pd.cross_entropy(probability, label))
        shared = [pd.get_variable("out"), pd.get_variable("bias")]
        targets = {side: (cost, [*side.variables(), *shared]) for side in (left, right)}
        return targets, {"test error": pd.classification_error(probability, label)}

    optimizers = {side: pd.AdamOptimizer(2e-3) for side in (left, right)}
    step, results = functions(model, optimizers, slots_of_digits(), dynamic)
    results(*test)  # a dynamic graph has its parameters from the first call on
    unchanged = True
    for images, labels in batches(train, steps):
        for parity, side, other in ((0, left, right), (1, right, left)):
            rows = labels[:, 0] % 2 == parity
            before = [v.val() for v in other.variables()]
            step(side, images[rows], labels[rows])
            after = [v.val() for v in other.variables()]
            unchanged &= all((u == v).all() for u, v in zip(before, after, strict=True))
    return {"the other half unchanged": unchanged, **results(*test)}


def chain(train, test, steps, dynamic=False):
    """An autoencoder is trained; then its frozen encoder feeds a classifier."""
    encoder = pd.namespace("encoder")

    def model(image, label):
        with encoder:
            code = pd.fc(image, 48, act="tanh", W="W1", B="b1")
            decoded = pd.fc(code, 784, act="tanh", W="W2", B="b2")
        with pd.namespace("classifier"):
            probability = pd.softmax(code, size=10, W="W", B="b")
        distortion = pd.reduce_mean(pd.square(decoded - image))
        cost = pd.reduce_mean(pd.cross_entropy(probability, label))
        error = pd.classification_error(probability, label)
        # `classify` is for the encoder too, unless it is frozen.
        targets = {"compress": (distortion, None), "classify": (cost, None)}
        return targets, {"reconstruction error": distortion, "test error": error}

    optimizers = {"compress": pd.AdamOptimizer(2e-3), "classify": pd.AdamOptimizer(5e-3)}
    step, results = functions(model, optimizers, slots_of_digits(), dynamic)
    for minibatch in batches(train, steps):
        step("compress", *minibatch)
    for v in encoder.variables():
        v.trainable = False
    for minibatch in batches(train, steps):
        step("classify", *minibatch)
    return results(*test)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer steps, a few seconds")
    parser.add_argument("--dynamic", action="store_true", help="train inside pd.guard()")
    parser.add_argument("--out", type=Path, default=Path("output"), help="default: ./output")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    steps = 60 if args.quick else 600
    logging.getLogger("paddle").setLevel(logging.WARNING)  # it reports every unchecked data file
    train, test = digits(mnist.train()), digits(mnist.test())
    for example in (side_by_side, ranking, halves, chain):
        with pd.fresh(seed=1):
            results = example(train, test, steps, args.dynamic)
        print(f"{example.__name__}: {example.__doc__.splitlines()[0]}")
        if (codes := results.pop("codes", None)) is not None:
            draw(codes, test[1], args.out / "embedding.png")
        for name, value in results.items():
            print(f"    {name}: {value if isinstance(value, bool) else f'{float(value):.3f}'}")


if __name__ == "__main__":
    main()
