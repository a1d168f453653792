"""Peak memory of a training step, with and without recomputation.

python tests/benchmarks/recompute.py
"""

import resource
import subprocess
import sys

import numpy as np

import pd_core as pd
from pd_core import nn

LAYERS = (4, 8, 16)


def dense(segment, count):
    """Layers of 4 products of width 256 with tanh and GELU, for a batch of 4,096."""
    x = h = pd.Variable([None, 256], name="x")

    def layer(h, number):
        for k in range(4):
            weight = pd.get_variable(f"w{number}_{k}", [256, 256], initializer=pd.Xavier())
            h = pd.gelu(pd.tanh(pd.matmul(h, weight)))
        return h

    for number in range(count):
        h = segment(layer, h, number)
    return {x: np.ones((4096, 256), "float32")}, h


def transformer(segment, count):
    """Encoder layers of width 128 with 4 heads and 512 hidden units, for 16 x 128 tokens."""
    x = h = pd.Variable([None, None, 128], name="x")
    for _ in range(count):
        h = segment(nn.TransformerEncoderLayer(128, 4, 512), h)
    return {x: np.ones((16, 128, 128), "float32")}, h


def measure(network, recomputed, count):
    """Print the megabytes of resident memory that the first two steps add."""
    segment = pd.recompute if recomputed else lambda function, *inputs: function(*inputs)
    feeds, y = network(segment, count)
    cost = pd.reduce_mean(pd.square(y))
    step = pd.SGDOptimizer(0.1).minimize(cost)
    pd.eval(cost, feeds)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(2):
        pd.eval(step, feeds)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)


def main():
    """Measure every network in a process of its own, and print the table."""
    print("| network | layers | peak, MB | recomputed, MB | |")
    print("|---|---|---|---|---|")
    for name in ("dense", "transformer"):
        for count in LAYERS:
            peaks = []
            for recomputed in (0, 1):
                command = [sys.executable, __file__]
                command += [name, str(recomputed), str(count)]
                run = subprocess.run(command, capture_output=True, check=True, text=True)
                peaks.append(int(run.stdout))
            part = 100 * peaks[1] / peaks[0]
            print(f"| {name} | {count} | {peaks[0]:,} | {peaks[1]:,} | {part:.0f} % |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure({"dense": dense, "transformer": transformer}[sys.argv[1]], *map(int, sys.argv[2:]))
    else:
        main()
