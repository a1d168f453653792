"""Write the models of a federated training on handwritten digits: step, initial state, prediction.

With --adapters a network that was trained before is fine-tuned by adapters of LoRA, and these alone
are trained and averaged.
"""

import argparse
import gzip
import os
from pathlib import Path

import numpy as np

import pd_core as pd

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("PD_DATASET_HOME", HERE.parent / "data")) / "mnist"
HIDDEN = 32
PRETRAINED = 400  # digits, 0 to 4 alone, which the network of --adapters has seen


def digits(name):
    """Images [n, 784] from 0 to 1 and labels [n] of "train" or "t10k"."""
    pixels, labels = (
        np.frombuffer(gzip.decompress((DATA / f"{name}-{kind}-ubyte.gz").read_bytes()), np.uint8)
        for kind in ("images-idx3", "labels-idx1")
    )
    images = pixels[16:].reshape(-1, 784) / np.float32(255)
    return images, labels[8:].astype(np.int64)


def pretrain(cost):
    """Train the network on the digits 0 to 4, and freeze it."""
    images, labels = digits("train")
    chosen = np.flatnonzero(labels < 5)[:PRETRAINED]
    step = pd.MomentumOptimizer(0.1, 0.9).minimize(cost)
    for _ in range(40):
        pd.eval(step, {"image": images[chosen], "label": labels[chosen]})


def write_models(folder, adapters=False):
    """Write step.onnx, initial.onnx and predict.onnx."""
    folder.mkdir(parents=True, exist_ok=True)
    image = pd.Variable("image", shape=[None, 784])
    label = pd.Variable("label", shape=[None], dtype="int64")
    rate = pd.Variable("learning_rate", data=np.array(0.1, "float32"), trainable=False)
    hidden = pd.fc(image, HIDDEN, act="tanh", W="W1", B="b1")
    scores = pd.fc(hidden, 10, W="W2", B="b2")
    trained = pd.trainable_variables()
    if adapters:
        pretrain(pd.reduce_mean(pd.softmax_cross_entropy(scores, label)))
        lora = pd.lora(scores, rank=4)
        (scores,), trained = lora.outputs, lora.parameters()
    probability = pd.identity(pd.softmax(scores), name="probability")
    cost = pd.identity(pd.reduce_mean(pd.softmax_cross_entropy(scores, label)), name="cost")
    step = pd.SGDOptimizer(rate).minimize(cost)
    pd.export_step(folder / "step.onnx", step, [cost], initial=folder / "initial.onnx")
    # what is an input here is averaged
    pd.export_onnx(folder / "predict.onnx", [probability], inputs=[image, *trained])


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE / "files", help="default: files/ here")
    parser.add_argument("--adapters", action="store_true", help="average adapters of LoRA alone")
    args = parser.parse_args(argv)
    with pd.fresh(seed=0):
        write_models(args.out, args.adapters)
    for path in sorted(args.out.glob("*.onnx")):
        print(f"{path.name:14}{path.stat().st_size:9,} bytes")


if __name__ == "__main__":
    main()
