"""Training on two processes against one, in pd and in PyTorch with DistributedDataParallel (gloo).

    mpiexec -n 2 python tests/benchmarks/data_parallel.py [vgg] [resnet] [--divisions 3]

Each process has one thread on a core of its own and a whole batch: twice the rows per step on two
processes. The four contenders take turns in one run; while one process trains alone, the other
sleeps. `--delay` keeps back every message of pd for so many seconds, as a slow network does;
`--divisions` exchanges the first gradients while the rest is computed.
"""

import argparse
import os
import time
from collections.abc import Callable

import numpy as np
import side_by_side as sbs
import torch
from core_step import core_step, workload
from mpi4py import MPI
from scale import keep_back

import pd_core as pd
from pd_core.run.exchange import shared_exchange, use_exchange
from pd_v2 import build

BLOCKS, STEPS = 6, 6
ADDRESS, PORT = "127.0.0.1", "29517"


class Loss(torch.nn.Module):
    """The loss of a batch with its parameters registered, as DistributedDataParallel wants it."""

    def __init__(self, parameters, loss_of):
        super().__init__()
        self.values = torch.nn.ParameterList(parameters)
        self._loss = loss_of(list(self.values))

    def forward(self, images, labels):
        return self._loss(images, labels)


def contenders(network) -> dict[str, Callable]:
    """Return {name: step(batch)}: pd and PyTorch, alone and on all ranks."""
    our_step, variables = core_step(network)
    values = network.shaped([v.val() for v in variables])
    steps = {"pd": our_step}
    for name in ("PyTorch", "PyTorch on all"):
        module = Loss([torch.nn.Parameter(torch.tensor(v)) for v in values], network.torch_loss)
        optimizer = torch.optim.SGD(
            module.parameters(), network.RATE, momentum=network.MOMENTUM, fused=True
        )
        if name.endswith("all"):
            module = torch.nn.parallel.DistributedDataParallel(module, gradient_as_bucket_view=True)
        steps[name] = sbs.torch_step(module, optimizer)
    return steps


def measure(network, comm):
    """Return {(framework, processes): ms per step [blocks, steps]} on rank 0."""
    steps, batches = contenders(network), sbs.repeated(network.batches())
    exchange = pd.distributed.process.current()
    times = {(name, n): [] for name in ("pd", "PyTorch") for n in (1, comm.size)}

    def block(framework, processes):
        use_exchange(exchange if processes > 1 else None)
        step = steps[framework if framework == "pd" or processes == 1 else "PyTorch on all"]
        if processes > 1 or comm.rank == 0:
            step(next(batches))
            own = []
            for _ in range(STEPS):
                start = time.perf_counter()
                step(next(batches))
                own.append((time.perf_counter() - start) * 1e3)
            times[framework, processes].append(own)
        use_exchange(None)
        nap(comm)

    for number in range(BLOCKS + 1):
        order = list(times)
        for framework, processes in order if number % 2 else order[::-1]:
            block(framework, processes)
    return {key: np.array(found[1:]) for key, found in times.items()}


def nap(comm):
    """Wait for all ranks without using the processor."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(0.01)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=["vgg", "resnet"])
    parser.add_argument("--divisions", type=int, default=1)
    parser.add_argument("--delay", type=float, default=0.0)
    arguments = parser.parse_args()
    comm = MPI.COMM_WORLD
    pd.distributed.init(divisions=arguments.divisions)
    if arguments.delay:
        keep_back(arguments.delay)
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR=ADDRESS, MASTER_PORT=PORT, GLOO_SOCKET_IFNAME="lo")
    torch.distributed.init_process_group("gloo", rank=comm.rank, world_size=comm.size)
    assert shared_exchange(pd.default_session()) is not None
    for name in arguments.networks:
        network = workload(name)
        with build.fresh():
            times = measure(network, comm)
        if comm.rank == 0:
            title = f"{name}, divisions {arguments.divisions}, delay {arguments.delay * 1e3:g} ms"
            report(title, times, comm.size)
    torch.distributed.destroy_process_group()
    nap(comm)


def report(title, times, ranks):
    """Print the table of one network."""
    print(f"## {title}, one thread per process, load average {os.getloadavg()[0]:.1f}\n")
    print(f"| ms per step | 1 process | {ranks} processes | throughput | per block |")
    print("| --- | --- | --- | --- | --- |")
    for framework in ("pd", "PyTorch"):
        one, many = times[framework, 1], times[framework, ranks]
        gains = ranks * np.median(one, axis=1) / np.median(many, axis=1)
        print(
            f"| {framework} | {np.median(one):.1f} | {np.median(many):.1f} "
            f"| {ranks * np.median(one) / np.median(many):.2f} "
            f"| {gains.min():.2f} to {gains.max():.2f} |"
        )
    ratio = np.median(times["PyTorch", ranks]) / np.median(times["pd", ranks])
    print(f"\nPyTorch / pd on {ranks} processes: {ratio:.2f}\n", flush=True)


if __name__ == "__main__":
    main()
