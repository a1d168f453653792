"""Scaling of training to many processes: measured times, a model of the step, and its check.

    for n in 2 4 8 16 32 64; do mpiexec -n $n python tests/benchmarks/sums.py sums.json; done
    for n in 2 4; do mpiexec -n $n python tests/benchmarks/scale.py measure times.json; done
    mpiexec -n 2 python tests/benchmarks/scale.py measure times.json --delay 0.002
    python tests/benchmarks/scale.py report times.json sums.json [scale.svg]

`measure` adds the times of one job to a file: the networks' steps alone, in processor time, those
of all ranks beside each other, and together. `--delay` keeps every message back for so many
seconds, as a slower network would.
`report` fits latency, bandwidth and the time of sums to those of sums.py, compares the model with
what was measured, and draws it for 8 to 1,024 ranks. docs/scale.md explains it.
"""

import argparse
import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import side_by_side as sbs
from core_step import core_step, workload

import pd_core as pd
from pd_core.distributed import world as worlds
from pd_core.distributed.process import current
from pd_core.run.exchange import use_exchange
from pd_v2 import build

NETWORKS = "perceptron", "lenet", "vgg", "resnet"
BUCKET, LONG, FEW, UNDER_WAY = 1 << 22, 1 << 15, 16, 8  # as in pd_core.distributed.buffers
STEPS, BLOCKS = {"perceptron": 100, "lenet": 10, "vgg": 4, "resnet": 4}, 3
RANKS = [2**k for k in range(3, 11)]
# A table of 100 million rows of 64 floats with two slots (Adam), 65,536 ids per rank and step
TABLE_ROWS, TABLE_WIDTH, TABLE_SLOTS, TABLE_IDS = 100_000_000, 64, 2, 1 << 16


@dataclass
class Network:
    """A network that messages travel through, and the cores at its ends.

    `latency` are the seconds from one end to the other, `message` those in which a rank sends one
    and receives one, where many are under way; `bandwidth` is in bytes per second of each rank,
    `adding` in seconds per byte for filling buffers, adding up, and reading the sums; `fixed` are
    seconds of a step that is divided at its gradients, on any number of ranks but one.
    """

    latency: float
    message: float
    bandwidth: float
    adding: float
    fixed: float = 0.0

    def meet(self, ranks):
        """Seconds in which each rank learns the headers of all others."""
        if ranks <= FEW:
            return self.meet_before(ranks) if ranks > 1 else 0.0
        return rounds(ranks) * (self.latency + self.message)

    def meet_before(self, ranks):
        """The same with a message from each rank to every other one."""
        return self.latency + (ranks - 1) * self.message

    def exchange(self, size, ranks, bucket=BUCKET):
        """Seconds to sum up `size` bytes of gradients in the tree."""
        if ranks == 1:
            return 0.0
        if size < LONG:
            travelling = rounds(ranks) * size / self.bandwidth
            return rounds(ranks) * (self.latency + self.message) + travelling + size * self.adding
        if ranks <= FEW:
            return self.exchange_before(size, ranks, bucket)
        buckets = -(-size // bucket)
        waits, messages = -(-buckets // UNDER_WAY), 2 * buckets  # two partners in a round
        travelling = 2 * size * (ranks - 1) / ranks / self.bandwidth
        waiting = 2 * rounds(ranks) * (waits * self.latency + messages * self.message)
        return waiting + travelling + size * self.adding

    def exchange_before(self, size, ranks, bucket=BUCKET):
        """The same with a slice from each rank to every other one, and back."""
        buckets = -(-size // bucket)
        waiting = 2 * (
            -(-buckets // UNDER_WAY) * self.latency + buckets * (ranks - 1) * self.message
        )
        travelling = 2 * size * (ranks - 1) / ranks / self.bandwidth
        return waiting + travelling + size * self.adding

    def rows(self, ids, row_bytes, ranks):
        """Seconds of a lookup in a sharded table and its gradients: ids out, rows in and back."""
        if ranks == 1:
            return 0.0
        travelling = ids * (8 + 2 * row_bytes) * (ranks - 1) / ranks / self.bandwidth
        return (
            3 * (self.latency + (ranks - 1) * self.message)
            + travelling
            + ids * row_bytes * self.adding
        )

    def step(self, compute, size, ranks):
        """Seconds of a training step that computes for `compute` seconds."""
        fixed = self.fixed if ranks > 1 else 0.0
        return compute + fixed + self.meet(ranks) + self.exchange(size, ranks)

    def step_before(self, compute, size, ranks):
        """The same as pd took it before, with N - 1 headers."""
        meeting = self.meet_before(ranks)
        return compute + self.fixed + meeting + self.exchange_before(size, ranks)

    def local_step(self, compute, size, ranks, every):
        """Seconds of a step of momentum whose parameters and slots are averaged now and then."""
        return compute + (self.meet(ranks) + self.exchange(2 * size, ranks)) / every


def rounds(ranks):
    """The depth of the tree."""
    return math.ceil(math.log2(ranks))


# What the drawing assumes beyond this machine: seconds of a message between two machines and bytes
# per second, with their sources. Seconds of pd for each message are those measured here.
ADDING, FIXED = 0.2e-9, 1e-3
BEYOND = {
    # Feng et al., "Optimizing 10-Gigabit Ethernet for networks of workstations, clusters, and
    # grids", SC 2003: TCP between applications, 12 us and 7 Gb/s
    "10 GbE": (12e-6, 7e9 / 8),
    # Open MPI past the kernel on 40 Gb/s, blogs.cisco.com/performance/mpi-over-40gb-ethernet:
    # 1.93 us and 93 % of the line
    "100 GbE": (1.93e-6, 0.93 * 100e9 / 8),
    # MVAPICH-Aptus, Ohio State University 2008: 1.5 us; the line of HDR, and the same part of it
    "InfiniBand": (1.5e-6, 0.93 * 200e9 / 8),
}


def beyond(measured):
    """Return {title: Network} for networks between machines."""
    (job,) = [j for j in measured if j["ranks"] == 2]
    return {
        title: Network(latency + job["latency"], job["message"], bandwidth, ADDING, FIXED)
        for title, (latency, bandwidth) in BEYOND.items()
    }


# ---- measuring


def measure(path, delay, blocks):
    """Add the times of this job to a file."""
    pd.distributed.init()
    world = current().world
    if delay:
        keep_back(delay)
    found = {"ranks": world.size, "delay": delay, "cores": sbs.CORES}
    found["networks"] = {name: network_seconds(name, world, blocks) for name in NETWORKS}
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


def median(function, times, clock=time.perf_counter):
    seconds = []
    for _ in range(times):
        start = clock()
        function()
        seconds.append(clock() - start)
    return float(np.median(seconds))


def network_seconds(name, world, blocks):
    """{"bytes" of parameters, seconds of a step "alone", "beside" others and "together"}.

    "beside" are the steps of all ranks at once that exchange nothing: what cores share, such as
    memory, takes its time there too.
    """
    module, exchange = workload(name), current()
    times = {"alone": [], "beside": [], "together": []}
    with build.fresh():
        step, parameters = core_step(module)
        stream = sbs.repeated(module.batches())
        size = sum(4 * int(np.prod(v.dims)) for v in parameters)
        for _ in range(blocks + 1):
            for kind, seconds in times.items():
                if kind == "together":
                    pd.distributed.broadcast()  # each rank has trained by itself
                use_exchange(exchange if kind == "together" else None)
                if world.rank == 0 if kind == "alone" else world.size > 1:
                    step(next(stream))
                    clock = time.process_time if kind == "alone" else time.perf_counter
                    seconds.append(median(lambda: step(next(stream)), STEPS[name], clock))
                use_exchange(exchange)
                sleep_until_all(world)
    medians = {kind: float(np.median(each[1:])) for kind, each in times.items() if each}
    return {"bytes": size, **medians}


def sleep_until_all(world):
    """Wait for all ranks without using the processor."""
    if world.size > 1:
        request = world.comm.Ibarrier()
        while not request.Test():
            time.sleep(0.01)


# ---- the model


def fit(sums, steps):
    """The Network of this machine, from the sums of two processes: least relative squares.

    What is `fixed` is what the smallest network takes longer on two ranks, if that was measured.
    """
    (job,) = [j for j in sums if j["ranks"] == 2]
    sizes, seconds = np.array([(int(s), t["tree"]) for s, t in job["sums"].items()]).T
    columns = np.stack([np.where(sizes < LONG, 1, 2), sizes], 1) / seconds[:, None]
    (latency, per_byte), *_ = np.linalg.lstsq(columns, np.ones(len(seconds)), rcond=None)
    # on one machine travelling is copying: one number for both
    network = Network(max(latency, job["meet"]), job["message"], 2 / per_byte, per_byte / 2, FIXED)
    for step in steps:
        if step["ranks"] == 2 and not step["delay"]:
            smallest, network.fixed = step["networks"][NETWORKS[0]], 0.0
            known = network.step(smallest["beside"], smallest["bytes"], 2)
            network.fixed = smallest["together"] - known
    return network


def predicted(network, job, name):
    """Seconds of a step of a job by the model; its ranks share the machine's cores.

    What the step takes beside the others was measured in the same job, in turns: the clock of a
    machine wanders.
    """
    ranks, size = job["ranks"], job["networks"][name]["bytes"]
    shared = max(1.0, ranks / job["cores"])
    seconds = shared * network.step(0.0, size, ranks)
    # a header, and two phases for each bucket, of which each waits
    late = job["delay"] * (1 + 2 * -(-size // BUCKET))
    return job["networks"][name]["beside"] + seconds + late


def report(path, sums, picture):
    """Print the tables of docs/scale.md, and draw its picture."""
    jobs, measured = json.loads(path.read_text()), json.loads(sums.read_text())
    base = next(j for j in jobs if j["ranks"] == 2 and not j["delay"])
    network = fit(measured, jobs)
    print(
        f"latency {network.latency * 1e6:.0f} us, bandwidth {network.bandwidth / 1e9:.2f} GB/s, "
        f"adding {network.adding * 1e9:.2f} ns per byte, fixed {network.fixed * 1e3:.1f} ms\n"
    )
    for name in NETWORKS:
        own = base["networks"][name]
        print(f"{name}: {own['alone'] * 1e3:.1f} ms, {own['bytes'] / 1e6:.2f} MB")
    print("\n| network | ranks | delay, ms | predicted, ms | measured, ms | error |")
    print("| --- | --- | --- | --- | --- | --- |")
    for job in (j for j in jobs if j["ranks"] > 1):
        for name in NETWORKS:
            seconds, model = job["networks"][name]["together"], predicted(network, job, name)
            print(
                f"| {name} | {job['ranks']} | {job['delay'] * 1e3:g} | {model * 1e3:.1f} "
                f"| {seconds * 1e3:.1f} | {model / seconds - 1:+.0%} |"
            )
    print()
    networks = beyond(measured)
    for title, network in networks.items():
        print(f"Efficiency, {title}:\n\n| network | " + " | ".join(map(str, RANKS)) + " |")
        print("| --- " * (len(RANKS) + 1) + "|")
        for name, values in curves(network, base).items():
            print(f"| {name} | " + " | ".join(f"{v:.0%}" for v in values) + " |")
        print()
    print("| ranks | GiB | " + " | ".join(f"{title}, ms" for title in networks) + " |")
    row = 4 * TABLE_WIDTH
    for n in RANKS:
        gib = TABLE_ROWS * row * (1 + TABLE_SLOTS) / n / 2**30
        seconds = [network.rows(TABLE_IDS, row, n) * 1e3 for network in networks.values()]
        print(f"| {n} | {gib:.2f} | " + " | ".join(f"{s:.1f}" for s in seconds) + " |")
    if picture:
        draw(base, networks, picture)


def curves(network, base):
    """{name: efficiency by number of ranks}: the step of one process over that of many."""
    found = {}
    for name in NETWORKS:
        own = base["networks"][name]
        alone, size = own["alone"], own["bytes"]
        found[name] = [alone / network.step(alone, size, n) for n in RANKS]
        if name in ("perceptron", "vgg"):
            found[f"{name}, before"] = [alone / network.step_before(alone, size, n) for n in RANKS]
    own = base["networks"]["perceptron"]
    found["perceptron, local_steps=8"] = [
        own["alone"] / network.local_step(own["alone"], own["bytes"], n, 8) for n in RANKS
    ]
    return found


def draw(base, networks, picture):
    """Draw efficiency over ranks, and the time and memory of a large table."""
    import matplotlib.pyplot as plt

    figure, every = plt.subplots(1, len(networks) + 1, figsize=(17, 4.5))
    for axes, (title, network) in zip(every, networks.items(), strict=False):
        for name, values in curves(network, base).items():
            style = "--" if "before" in name else ":" if "local" in name else "-"
            axes.plot(RANKS, values, style, marker=".", label=name)
        axes.set(xscale="log", xlabel="ranks", ylabel="efficiency", ylim=(0, 1.05), title=title)
        axes.set_xticks(RANKS, RANKS)
    every[0].legend(fontsize="x-small")
    right = every[-1]
    row = 4 * TABLE_WIDTH
    memory = [TABLE_ROWS * row * (1 + TABLE_SLOTS) / n / 2**30 for n in RANKS]
    right.plot(RANKS, memory, color="gray", marker="s", label="GiB per rank")
    for title, network in networks.items():
        label = f"ms, {title}"
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
    parser.add_argument("sums", type=Path, nargs="?")
    parser.add_argument("picture", nargs="?")
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--blocks", type=int, default=BLOCKS)
    arguments = parser.parse_args()
    os.environ.setdefault("MPLBACKEND", "Agg")
    if arguments.what == "measure":
        measure(arguments.times, arguments.delay, arguments.blocks)
    else:
        report(arguments.times, arguments.sums, arguments.picture)


if __name__ == "__main__":
    main()
