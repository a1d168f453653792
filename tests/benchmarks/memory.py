"""Peak memory of training steps in pd and in PyTorch, each in a process of its own.

python tests/benchmarks/memory.py
"""

import resource
import subprocess
import sys

import side_by_side as sbs  # first: it binds the process to two cores

SIDES, STEPS = ("pd", "pytorch"), 6


def convolutions(side):
    """The stack of 3 x 3 convolutions of vgg.py."""
    import vgg

    return trained(side, vgg, vgg.pictures())


def resnet(side):
    """ResNet-20 of resnet.py."""
    import resnet

    return trained(side, resnet, resnet.pictures())


def trained(side, benchmark, batches):
    """The step of one side of a benchmark, and its batches."""
    step, _, parameters = benchmark.ours()
    if side == "pd":
        return step, batches
    return benchmark.theirs(parameters), batches


WIDTH, HEADS, HIDDEN, LAYERS, TOKENS = 256, 4, 1024, 4, 128


def transformer(side):
    """Encoder layers without dropout, 16 x 128 tokens, Adam."""
    import numpy as np
    import torch

    import pd_core as pd

    x = np.random.default_rng(0).normal(size=(16, TOKENS, WIDTH)).astype("float32")
    if side == "pytorch":
        layer = torch.nn.TransformerEncoderLayer(
            WIDTH, HEADS, HIDDEN, dropout=0.0, batch_first=True
        )
        network = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        optimizer = torch.optim.Adam(network.parameters(), 1e-4, fused=True)
        return sbs.torch_step(lambda x: torch.square(network(x)).mean(), optimizer), [(x,)]
    tokens = h = pd.Variable([None, None, WIDTH])
    for _ in range(LAYERS):
        h = pd.nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, dropout=0.0)(h)
    cost = pd.reduce_mean(pd.square(h))
    update = pd.AdamOptimizer(1e-4).minimize(cost)
    return lambda batch: pd.eval([cost, update], {tokens: batch[0]}), [(x,)]


def recurrence(side):
    """h := tanh(h w + x) over 1,000 steps, batch 32, width 128; a cell written in Python."""
    import numpy as np
    import torch

    import pd_core as pd

    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 32, 128)).astype("float32")
    start = (rng.normal(size=(128, 128)) / 20).astype("float32")
    if side == "pytorch":
        w = torch.nn.Parameter(torch.from_numpy(start))

        def loss(steps):
            h = torch.zeros(32, 128)
            for each in steps:
                h = torch.tanh(h @ w + each)
            return torch.square(h).mean()

        return sbs.torch_step(loss, torch.optim.SGD([w], 0.1)), [(x,)]
    steps, w = pd.Variable([None, 32, 128]), pd.Variable("w", data=start)

    def cell(h, each):
        h = pd.tanh(h @ w + each)
        return h, h

    last, _ = pd.scan(cell, pd.constant(np.zeros((32, 128), "float32")), steps)
    cost = pd.reduce_mean(pd.square(last))
    update = pd.SGDOptimizer(0.1).minimize(cost)
    return lambda batch: pd.eval([cost, update], {steps: batch[0]}), [(x,)]


NETWORKS = {
    "convolutions": convolutions,
    "ResNet-20": resnet,
    "transformer": transformer,
    "1,000-step recurrence": recurrence,
}


def megabytes():
    """Return the largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(name, side):
    """Print by how many MB the peak grows from the first step of a training on."""
    step, batches = NETWORKS[name](side)
    before = megabytes()
    for _, batch in zip(range(STEPS), sbs.repeated(batches), strict=False):
        step(batch)
    print(round(megabytes() - before))


def main():
    """Measure each side of each network three times, and print a table of the lowest peaks."""
    print("| training step | pd, MB | PyTorch, MB | PyTorch / pd |\n| --- | --- | --- | --- |")
    for name in NETWORKS:
        ours, theirs = (min(_run(name, side) for _ in range(3)) for side in SIDES)
        print(f"| {name} | {ours} | {theirs} | {theirs / ours:.2f} |", flush=True)


def _run(name, side):
    command = [sys.executable, __file__, name, side]
    return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(*sys.argv[1:])
    else:
        main()
