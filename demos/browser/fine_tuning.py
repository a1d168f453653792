"""Write the files of the page that fine-tunes: a classifier, and training steps for a new head.

The classifier, a small convolutional network for colour pictures, learns digits in random colours.
It is written as an ONNX file and imported again without its head, as a network that came from
elsewhere would be.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import onnx

import pd_core as pd

SIDE = 32
CLASSES = 5  # of the new head: the page uses 2 to 5 of them
PASSES = 4
BATCH = 50
# Statistics of batch normalisation stay, as there are few pictures; the old head is not used.
FROZEN = ("*/mean", "*/variance", "*/old_head/*")
RATES = {"head": 1e-2, "whole": 1e-3}


def coloured(grey, rng):
    """Return pictures [n, 3, 32, 32] from 0 to 1 of digits [n, 28, 28]: colour on colour."""
    n = len(grey)
    ink = np.pad(grey, ((0, 0), (2, 2), (2, 2)))[:, None]
    paper, pen = rng.random((2, n, 3, 1, 1), dtype=np.float32)
    close = np.abs(paper - pen).sum(1, keepdims=True) < 0.6
    pen = np.where(close, np.round(1 - paper), pen)  # readable
    noise = rng.normal(0, 0.03, (n, 3, SIDE, SIDE)).astype(np.float32)
    return np.clip(paper + ink * (pen - paper) + noise, 0, 1)


def classifier():
    """Return a network from pictures [n, 3, 32, 32] to the scores [n, 10] of digits."""
    nn, layers = pd.nn, []
    for filters in (16, 32, 64):
        layers += [nn.Conv2d(filters, 3, padding=1, bias=False, kernel_init="he_uniform")]
        layers += [nn.BatchNorm2d(), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Flatten(), nn.FC(64, act="relu"), nn.FC(10, name="old_head")]
    return nn.Sequential(*layers, name="classifier")


def train_classifier(path, grey, labels, passes=PASSES):
    """Train the classifier on digits [n, 28, 28] from 0 to 1, write it, return the last loss."""
    picture = pd.Variable("input", shape=[None, 3, SIDE, SIDE])
    digit = pd.Variable("target", shape=[None, 1], dtype="int64")
    scores = classifier()(picture)
    cost = pd.reduce_mean(pd.cross_entropy(pd.softmax(scores), digit))
    step = pd.AdamOptimizer(2e-3).minimize(cost)
    rng = np.random.default_rng(0)
    loss = None
    for _ in range(passes):
        for rows in rng.permutation(len(grey)).reshape(-1, BATCH):
            feeds = {picture: coloured(grey[rows], rng), digit: labels[rows, None]}
            _, loss = pd.eval([step, cost], feeds)
    pd.export_onnx(path, [scores], inputs=[picture])
    return float(loss)


def features_of(path):
    """Return the name of the tensor before the last layer of a classifier in an ONNX file."""
    nodes = onnx.load(path).graph.node
    return next(n.input[0] for n in reversed(nodes) if n.op_type in ("Gemm", "MatMul"))


def tunable(picture, path, tuned):
    """Return the scores of a new head on the classifier of an ONNX file, and the tuned weights."""
    with pd.namespace(tuned) as network:
        model = pd.import_onnx(path, frozen=FROZEN if tuned == "whole" else "*")
        features = model(picture, output=features_of(path))
        scores = pd.fc(features, CLASSES, W="new_head.weight", B="new_head.bias")
    return scores, [v for v in network.variables() if v.trainable]


def write_steps(folder, path):
    """Write step, initial state and prediction of a new head on the classifier of an ONNX file.

    In `head/` the imported parameters stay as they are; in `whole/` they are trained too.
    """
    picture = pd.Variable("picture", shape=[None, 3, SIDE, SIDE])
    kind = pd.Variable("kind", shape=[None, 1], dtype="int64")
    # Rows of 1 for classes that the page does not use, 0 for the others.
    unused = pd.Variable("unused", shape=[None, CLASSES])
    for tuned, rate in RATES.items():
        scores, weights = tunable(picture, path, tuned)
        probability = pd.identity(pd.softmax(scores - unused * 100.0), name="probability")
        cost = pd.identity(pd.reduce_mean(pd.cross_entropy(probability, kind)), name="cost")
        step = pd.AdamOptimizer(rate).minimize(cost)
        out = folder / tuned
        out.mkdir(exist_ok=True)
        initial = out / "initial.onnx"
        pd.export_step(out / "step.onnx", step, [cost], initial=initial, portable=True)
        # The weights are inputs, so that the page predicts with the ones it has trained.
        inputs = [picture, unused, *weights]
        pd.export_onnx(out / "predict.onnx", [probability], inputs=inputs)


def write_tuned(parameters, path, out):
    """Write the network with the parameters that the page has saved; return the classes' names.

    It has pictures [n, 3, 32, 32] from 0 to 1 as input, and probabilities [n, classes] as output.
    """
    with parameters.open("rb") as file:  # safetensors: the length of a JSON header, and the header
        about = json.loads(file.read(int.from_bytes(file.read(8), "little"))).get(
            "__metadata__", {}
        )
    if about.get("tuned") not in RATES:
        raise SystemExit(f"{parameters} is no file that the page has saved")
    classes = json.loads(about["classes"])
    picture = pd.Variable("picture", shape=[None, 3, SIDE, SIDE])
    scores, weights = tunable(picture, path, about["tuned"])
    pd.load(parameters, weights)
    probability = pd.identity(pd.softmax(scores[:, : len(classes)]), name="probability")
    pd.export_onnx(out, [probability], inputs=[picture])
    return classes


def main(argv=None):
    parser = argparse.ArgumentParser(description="Write what the page has tuned as an ONNX file.")
    parser.add_argument("parameters", type=Path, help="tuned.safetensors, as the page saved it")
    parser.add_argument("--out", type=Path, default=Path("tuned.onnx"))
    parser.add_argument(
        "--classifier",
        type=Path,
        default=Path(__file__).resolve().parent / "files" / "classifier.onnx",
        help="default: files/classifier.onnx beside this",
    )
    args = parser.parse_args(argv)
    classes = write_tuned(args.parameters, args.classifier, args.out)
    print(f"{args.out}: {', '.join(classes)}")


if __name__ == "__main__":
    main()
