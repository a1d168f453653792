"""The portable form of training steps beside the plain one: processor time on one core.

    python tests/benchmarks/portable_steps.py [NAME ...]

The networks are PyTorch's, exported to ONNX and imported again. Both forms run in turn in one
process, and the fastest run of each counts. A line of Markdown is printed for each network.
"""

import itertools
import os
import sys
import tempfile
import time

import numpy as np
import onnxruntime
import torch
from torch import nn

import pd_core as pd
from pd_core import tuning
from pd_core.training.tuning.artifacts import training_step

SECONDS = 4  # for a network


def conv(inputs, outputs, kernel=3, stride=1, groups=1):
    """Return a convolution with batch normalisation and ReLU."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())


class Residual(nn.Module):
    """Two convolutions beside an identity or a projection (He et al. 2015)."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.inner = nn.Sequential(
            conv(inputs, outputs, 3, stride),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.beside = nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x):
        return torch.relu(self.inner(x) + self.beside(x))


class Block(nn.Module):
    """An encoder block of a transformer, normalised first."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        n, t, d = x.shape
        parts = self.qkv(self.one(x)).reshape(n, t, 3, self.heads, d // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(2, 3) / (d // self.heads) ** 0.5, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(n, t, d))
        return x + self.mlp(self.two(x))


class Encoder(nn.Module):
    """Two blocks on words, and their mean."""

    def __init__(self, words=1000, width=128):
        super().__init__()
        self.words, self.head = nn.Embedding(words, width), nn.Linear(width, 10)
        self.blocks = nn.Sequential(Block(width, 4), Block(width, 4))

    def forward(self, x):
        return self.head(self.blocks(self.words(x)).mean(1))


def head(channels):
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)


def mobilenet():
    widths = (16, 32, 64, 64, 128)
    pairs = itertools.pairwise(widths)
    blocks = [
        part
        for k, (a, b) in enumerate(pairs)
        for part in (conv(a, a, 3, 1 + k % 2, groups=a), conv(a, b, 1))
    ]
    return nn.Sequential(conv(3, 16, 3, 2), *blocks, *head(128))


def resnet():
    blocks = Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2)
    return nn.Sequential(conv(3, 16, 7, 2), nn.MaxPool2d(3, 2, 1), *blocks, *head(64))


def pools():
    """AlexNet's order: overlapping pools behind wide convolutions (Krizhevsky et al. 2012)."""
    return nn.Sequential(
        *(nn.Conv2d(3, 24, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(24, 48, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *head(48),
    )


def grouped():
    return nn.Sequential(conv(3, 32), conv(32, 48, 3, 2, 8), conv(48, 48, 3, 1, 8), *head(48))


# name: (network, sizes of its input, whether these are open in the file)
NETWORKS = {
    "depthwise separable blocks": (mobilenet, (8, 3, 64, 64), False),
    "the same, open sizes": (mobilenet, (8, 3, 64, 64), True),
    "residual blocks": (resnet, (8, 3, 64, 64), False),
    "the same residual blocks, open sizes": (resnet, (8, 3, 64, 64), True),
    "two overlapping pools": (pools, (8, 3, 64, 64), False),
    "the same pools, open sizes": (pools, (8, 3, 64, 64), True),
    "grouped convolutions": (grouped, (8, 3, 32, 32), False),
    "transformer": (Encoder, (8, 64), False),
}


def steps(folder, name):
    """Write the step of a network in both forms; return functions that run each."""
    make, sizes, is_open = NETWORKS[name]
    torch.manual_seed(0)
    rng, path = np.random.default_rng(0), os.path.join(folder, "model.onnx")
    is_image = len(sizes) == 4
    x = rng.normal(size=sizes).astype("float32") if is_image else rng.integers(0, 1000, sizes)
    axes = {"x": {k: f"size_{k}" for k in (0, 2, 3)}} if is_open else None
    torch.onnx.export(
        make().train(), (torch.tensor(x),), path, input_names=["x"], dynamo=False,
        dynamic_axes=axes, opset_version=17,
        training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
    )  # fmt: skip
    batch, runs = {"x": x, "label": rng.integers(0, 10, sizes[0])}, []
    for portable in (False, True):
        with pd.fresh(seed=0):
            task = tuning.objective(pd.import_onnx(path, training=True), "cross-entropy")
            step = training_step(task, pd.SGDOptimizer(0.01))
            inputs = [*task.inputs.values(), task.label]
            paths = [os.path.join(folder, f"{part}.onnx") for part in ("step", "initial")]
            pd.export_step(paths[0], step, [task.cost], inputs, initial=paths[1], portable=portable)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session, first = (onnxruntime.InferenceSession(p, options) for p in paths)
        state = dict(zip([o.name for o in first.get_outputs()], first.run(None, {}), strict=True))
        runs.append(lambda session=session, feeds=batch | state: session.run(None, feeds))
    return runs


def main():
    names = sys.argv[1:] or NETWORKS
    print("| step | plain | portable | portable to plain | difference of losses |")
    print("| --- | --- | --- | --- | --- |")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            runs = steps(folder, name)
        losses = [float(run()[0]) for run in runs]
        fastest, end = [np.inf, np.inf], time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            for k, run in enumerate(runs):
                start = time.process_time()
                run()
                fastest[k] = min(fastest[k], 1e3 * (time.process_time() - start))
        plain, portable = fastest
        cells = f"{plain:.2f} ms", f"{portable:.2f} ms", f"{portable / plain:.2f}"
        print("|", name, "|", *(f"{c} |" for c in cells), f"{abs(losses[0] - losses[1]):.0e} |",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
