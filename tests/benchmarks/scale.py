"""Scaling of training to many processes: measured times, a model of the step, and its check.

    for n in 1 2 4; do mpiexec -n $n python tests/benchmarks/scale.py measure times.json; done
    mpiexec -n 2 python tests/benchmarks/scale.py measure times.json --delay 0.002
    python tests/benchmarks/scale.py report times.json [scale.svg]

`measure` adds the times of one job to a file: the networks' steps alone and together, and exchanges
of buffers of several sizes. `--delay` keeps every message back for so many seconds, as a slower
network would. `report` fits latency, bandwidth and the time of sums, compares the model with the
steps that were measured, and draws it for 8 to 1,024 ranks. docs/scale.md explains it.
"""

import argparse
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import side_by_side as sbs
from core_step import core_step, workload

import pd_core as pd
from pd_core.distributed import world as worlds
from pd_core.distributed.buffers import Buffer
from pd_core.distributed.process import current
from pd_core.run.exchange import use_exchange
from pd_v2 import build

NETWORKS = "perceptron", "lenet", "vgg", "resnet"
SIZES = [1 << k for k in range(12, 25, 2)]  # bytes, 4 KiB to 16 MiB
BUCKET = 1 << 22
STEPS, BLOCKS = 4, 3
RANKS = [2**k for k in range(3, 11)]
# A table of 100 million rows of 64 floats with two slots (Adam), 65,536 ids per rank and step
TABLE_ROWS, TABLE_WIDTH, TABLE_SLOTS, TABLE_IDS = 100_000_000, 64, 2, 1 << 16


@dataclass
class Network:
    """A network that messages travel through, and the cores at its ends.

    `latency` is in seconds per message, `bandwidth` in bytes per second of each rank, `adding` in
    seconds per byte for filling buffers, adding up, and reading the sums; `fixed` are seconds of a
    step that is divided at its gradients, on any number of ranks but one.
    """

    latency: float
    bandwidth: float
    adding: float
    fixed: float = 0.0

    def meet(self, ranks):
        """Seconds in which each rank has sent its header to all others."""
        return self.latency * (ranks - 1) if ranks > 1 else 0.0

    def exchange(self, size, ranks, bucket=BUCKET):
        """Seconds to sum up `size` bytes of gradients: a reduce-scatter and an allgather."""
        if ranks == 1:
            return 0.0
        messages = 2 * (ranks - 1) * -(-size // bucket)
        travelling = 2 * size * (ranks - 1) / ranks / self.bandwidth
        return messages * self.latency + travelling + size * self.adding

    def rows(self, ids, row_bytes, ranks):
        """Seconds of a lookup in a sharded table and its gradients: ids out, rows in and back."""
        if ranks == 1:
            return 0.0
        travelling = ids * (8 + 2 * row_bytes) * (ranks - 1) / ranks / self.bandwidth
        return 3 * (ranks - 1) * self.latency + travelling + ids * row_bytes * self.adding

    def step(self, compute, size, ranks):
        """Seconds of a training step that computes for `compute` seconds."""
        fixed = self.fixed if ranks > 1 else 0.0
        return compute + fixed + self.meet(ranks) + self.exchange(size, ranks)


# What the drawing assumes beyond this machine; per rank.
ETHERNET = Network(30e-6, 1.25e9 / 1.1, 0.2e-9, 1e-3)  # 10 Gb/s
FABRIC = Network(2e-6, 12.5e9 / 1.1, 0.2e-9, 1e-3)  # 100 Gb/s with remote memory access


# ---- measuring


def measure(path, delay):
    """Add the times of this job to a file."""
    pd.distributed.init()
    world = current().world
    if delay:
        keep_back(delay)
    found = {"ranks": world.size, "delay": delay, "cores": sbs.CORES}
    found["meet"] = median(pd.distributed.barrier, 200)
    found["exchange"] = {size: exchange_seconds(world, size) for size in SIZES}
    found["networks"] = {name: network_seconds(name, world) for name in NETWORKS}
    if world.rank == 0:
        every = json.loads(path.read_text()) if path.exists() else []
        path.write_text(json.dumps([*every, found], indent=1))


def keep_back(delay):
    """Let every message arrive `delay` seconds late."""
    poll = worlds.World.poll

    def later(self, is_done, *args, **kwargs):
        time.sleep(delay)
        return poll(self, is_done, *args, **kwargs)

    worlds.World.poll = later


def median(function, times):
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def exchange_seconds(world, size):
    """Seconds to fill a buffer with arrays of `size` bytes, and to sum it up."""
    arrays = [np.ones(size // 4 // 4, np.float32)] * 4
    buffer = Buffer(world, [a.shape for a in arrays], arrays[0].dtype, None, BUCKET)

    def reduce():
        buffer.reduce(arrays, 0.5)

    reduce()
    pd.distributed.barrier()
    return median(reduce, 30 if size < 1 << 20 else 10)


def network_seconds(name, world):
    """{"bytes" of parameters, seconds of a step "alone" and "together"}."""
    module, exchange = workload(name), current()
    times = {"alone": [], "together": []}
    with build.fresh():
        step, parameters = core_step(module)
        stream = sbs.repeated(module.batches())
        size = sum(4 * int(np.prod(v.dims)) for v in parameters)
        for _ in range(BLOCKS + 1):
            for kind, seconds in times.items():
                use_exchange(exchange if kind == "together" else None)
                if kind == "together" or world.rank == 0:
                    step(next(stream))
                    seconds.append(median(lambda: step(next(stream)), STEPS))
                use_exchange(exchange)
                sleep_until_all(world)
    alone = float(np.median(times["alone"][1:])) if world.rank == 0 else 0.0
    return {"bytes": size, "alone": alone, "together": float(np.median(times["together"][1:]))}


def sleep_until_all(world):
    """Wait for all ranks without using the processor."""
    if world.size > 1:
        request = world.comm.Ibarrier()
        while not request.Test():
            time.sleep(0.01)


# ---- the model


def fit(jobs):
    """The Network of this machine, from the exchanges of two ranks: least relative squares.

    What is `fixed` is what the smallest network takes longer on two ranks.
    """
    (job,) = [j for j in jobs if j["ranks"] == 2 and not j["delay"]]
    sizes, seconds = np.array([(int(s), t) for s, t in job["exchange"].items()]).T
    buckets = np.ceil(sizes / BUCKET)
    columns = np.stack([2 * buckets, sizes], 1) / seconds[:, None]
    (latency, per_byte), *_ = np.linalg.lstsq(columns, np.ones(len(seconds)), rcond=None)
    # on one machine travelling is copying: one number for both
    network = Network(max(latency, job["meet"] / 2), 2 / per_byte, per_byte / 2)
    smallest = job["networks"][NETWORKS[0]]
    network.fixed = smallest["together"] - network.step(smallest["alone"], smallest["bytes"], 2)
    return network


def predicted(network, job, name, base):
    """Seconds of a step of a job by the model; its ranks share the machine's cores."""
    ranks, size = job["ranks"], base["networks"][name]["bytes"]
    shared = max(1.0, ranks / job["cores"])
    seconds = network.step(base["networks"][name]["alone"], size, ranks)
    # a header, and two phases for each bucket, of which each waits
    return shared * seconds + job["delay"] * (1 + 2 * -(-size // BUCKET))


def report(path, picture):
    """Print the tables of docs/scale.md, and draw its picture."""
    jobs = json.loads(path.read_text())
    (base,) = [j for j in jobs if j["ranks"] == 2 and not j["delay"]]
    network = fit(jobs)
    print(
        f"latency {network.latency * 1e6:.0f} us, bandwidth {network.bandwidth / 1e9:.2f} GB/s, "
        f"adding {network.adding * 1e9:.2f} ns per byte, fixed {network.fixed * 1e3:.1f} ms\n"
    )
    print("| network | ranks | delay, ms | predicted, ms | measured, ms | error |")
    print("| --- | --- | --- | --- | --- | --- |")
    for job in jobs:
        for name in NETWORKS:
            seconds, model = job["networks"][name]["together"], predicted(network, job, name, base)
            print(
                f"| {name} | {job['ranks']} | {job['delay'] * 1e3:g} | {model * 1e3:.1f} "
                f"| {seconds * 1e3:.1f} | {model / seconds - 1:+.0%} |"
            )
    print()
    for title, beyond in (("10 Gb/s Ethernet", ETHERNET), ("100 Gb/s fabric", FABRIC)):
        print(f"Efficiency, {title}:\n\n| network | " + " | ".join(map(str, RANKS)) + " |")
        print("| --- " * (len(RANKS) + 1) + "|")
        for name, values in curves(beyond, base).items():
            print(f"| {name} | " + " | ".join(f"{v:.0%}" for v in values) + " |")
        print()
    if picture:
        draw(base, picture)


def curves(network, base):
    """{name: efficiency by number of ranks}: the step of one process over that of many."""
    found = {}
    for name in NETWORKS:
        own = base["networks"][name]
        found[name] = [
            own["alone"] / network.step(own["alone"], own["bytes"], ranks) for ranks in RANKS
        ]
    return found


def draw(base, picture):
    """Draw efficiency over ranks, and the time and memory of a large table."""
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4))
    for axes, title, network in (
        (left, "10 Gb/s Ethernet", ETHERNET),
        (middle, "100 Gb/s fabric", FABRIC),
    ):
        for name, values in curves(network, base).items():
            axes.plot(RANKS, values, marker="o", label=name)
        axes.set(xscale="log", xlabel="ranks", ylabel="efficiency", ylim=(0, 1.05), title=title)
        axes.set_xticks(RANKS, RANKS)
        axes.legend()
    row = 4 * TABLE_WIDTH
    memory = [TABLE_ROWS * row * (1 + TABLE_SLOTS) / n / 2**30 for n in RANKS]
    right.plot(RANKS, memory, color="gray", marker="s", label="GiB per rank")
    for label, network in (("ms, 10 Gb/s", ETHERNET), ("ms, 100 Gb/s", FABRIC)):
        seconds = [1e3 * network.rows(TABLE_IDS, row, n) for n in RANKS]
        right.plot(RANKS, seconds, marker="o", label=label)
    right.set(xscale="log", yscale="log", xlabel="ranks", title="table of 100 million rows")
    right.set_xticks(RANKS, RANKS)
    right.legend()
    figure.tight_layout()
    figure.savefig(picture)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["measure", "report"])
    parser.add_argument("times", type=Path)
    parser.add_argument("picture", nargs="?")
    parser.add_argument("--delay", type=float, default=0.0)
    arguments = parser.parse_args()
    os.environ.setdefault("MPLBACKEND", "Agg")
    if arguments.what == "measure":
        measure(arguments.times, arguments.delay)
    else:
        report(arguments.times, arguments.picture)


if __name__ == "__main__":
    main()
