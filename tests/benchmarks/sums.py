"""Times of sums over 2 to 64 processes of one machine, by number of bytes and by way.

    for n in 2 4 8 16 32 64; do mpiexec -n $n python tests/benchmarks/sums.py sums.json; done
    python tests/benchmarks/sums.py sums.json --report
    python tests/benchmarks/sums.py --processor

Ways take turns in one run: in the order of the ranks, as pd did before (each rank gets its slice
from all others and sends the sum to all), the tree, exact sums, 8-bit integers and the largest
1 %; on 2 and 4 processes PyTorch's ring of gloo, too. Only what these need is imported, so that 64
processes begin within seconds. Of `--times` repetitions the table has the shortest, and scale.py
fits its model to these: other programs on the machine only make them longer.
"""

import argparse
import itertools
import json
import os
import sys
import time
import types
from pathlib import Path

import numpy as np

TIMES, BUCKET = 15, 1 << 22
SIZES = [1 << k for k in range(8, 21, 4)]  # bytes, 256 B to 1 MiB
MOST = 1 << 25  # bytes of all processes together
WAYS = "ranks", "tree", "exact", "int8", "top_k", "gloo"


def import_parts():
    """Import the sums of pd_core without the rest of it."""
    root = Path(__file__).resolve().parents[2] / "pd_core"
    for name in ("pd_core", "pd_core.distributed", "pd_core.graph"):
        package = types.ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    from pd_core.distributed import buffers, exact, top_k, wires, world

    return buffers, exact, top_k, wires, world


class InOrderOfRanks:
    """A sum as pd made it before: N - 1 messages to the owners of slices, and as many back."""

    def __init__(self, world, count, bucket=BUCKET):
        self.world, self.sum = world, np.zeros(count, np.float32)
        self.parts = []
        for start in range(0, count, bucket // 4):
            whole = self.sum[start : start + bucket // 4]
            bounds = [len(whole) * r // world.size for r in range(world.size + 1)]
            self.parts.append((whole, bounds))

    def __call__(self, array):
        world, byte = self.world, self.world.mpi.BYTE
        np.multiply(array, np.float32(0.5), out=self.sum)
        requests = []
        for whole, bounds in self.parts:
            counts = [4 * (b - a) for a, b in itertools.pairwise(bounds)]
            places = [4 * a for a in bounds[:-1]]
            own = counts[world.rank]
            received = np.empty(own // 4 * world.size, np.float32)
            request = world.comm.Ialltoallv(
                [whole.view(np.uint8), counts, places, byte],
                [
                    received.view(np.uint8),
                    [own] * world.size,
                    [r * own for r in range(world.size)],
                    byte,
                ],
            )
            requests.append((request, received, counts, places))
        back = []
        for (whole, bounds), (request, received, counts, places) in zip(
            self.parts, requests, strict=True
        ):
            world.wait(request, "a sum", received)
            parts = received.reshape(world.size, -1)
            total = whole[bounds[world.rank] : bounds[world.rank + 1]]
            np.add(parts[0], parts[1], out=total)
            for part in parts[2:]:
                np.add(total, part, out=total)
            message = [whole.view(np.uint8), counts, places, byte]
            back.append(world.comm.Iallgatherv(world.mpi.IN_PLACE, message))
        for request in back:
            world.wait(request, "a sum", self.sum)
        return self.sum


def ways(world, parts, size, torch):
    """Return {way: function of an array of so many bytes}."""
    buffers, exact, top_k, wires, _ = parts
    count = size // 4
    tree = buffers.Buffer(world, [(count,)], np.dtype(np.float32))
    packed = buffers.Buffer(world, [(count,)], np.dtype(np.float32), wires.Int8Wire)

    def exactly(array):
        part = exact.ExactSum(array.shape)
        part.add(array)
        return exact.sum_exactly(world, [part], [array.dtype], 2.0)

    found = {
        "ranks": InOrderOfRanks(world, count),
        "tree": lambda array: tree.reduce([array], 0.5),
        "exact": exactly,
        "int8": lambda array: packed.reduce([array], 0.5),
        "top_k": lambda array: top_k.Chosen([array], 0.01).sum(world),
    }
    if world.size > 4:  # the times of the others are those of the tree, and of more bytes
        found = {name: found[name] for name in ("ranks", "tree")}
    if torch is not None:
        whole = torch.zeros(count)

        def gloo(array):
            whole.copy_(torch.from_numpy(array)).mul_(0.5)
            torch.distributed.all_reduce(whole)

        found["gloo"] = gloo
    return found


def measure(path, times):
    """Add the times of this job to a file."""
    from mpi4py import MPI

    parts = import_parts()
    world = parts[-1].World(MPI, 300.0)
    torch = None
    if world.size <= 4:
        import torch

        torch.set_num_threads(1)
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29519", GLOO_SOCKET_IFNAME="lo")
        torch.distributed.init_process_group("gloo", rank=world.rank, world_size=world.size)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[world.rank % len(cores)]})
    header = np.zeros(6, np.int64)
    found = {"ranks": world.size, "cores": len(cores), "load": os.getloadavg()[0], "sums": {}}
    found["meet"] = shortest(lambda: world._meet(header), world, 2 * times)
    found["flat"] = shortest(lambda: flat(world, parts[-1]), world, 2 * times)
    if world.size == 2:
        found |= message_seconds(world, 8 * times)
    for size in SIZES:
        if size * world.size > MOST:
            continue
        array = np.random.default_rng(world.rank).standard_normal(size // 4).astype(np.float32)
        functions = ways(world, parts, size, torch)
        seconds = {name: [] for name in functions}
        for _ in range(times):
            for name, function in functions.items():
                seconds[name].append(shortest(lambda f=function: f(array), world, 1))  # noqa: B023
        found["sums"][size] = {name: min(each) for name, each in seconds.items()}
    if world.rank == 0:
        every = json.loads(path.read_text()) if path.exists() else []
        path.write_text(json.dumps([*every, found], indent=1))
    MPI.COMM_WORLD.Barrier()


def message_seconds(world, times):
    """{"latency", "message"} of 48 bytes: one that is waited for, and each of 64 at once."""
    other, array = 1 - world.rank, np.zeros((2, 64, 48), np.uint8)

    def there_and_back():
        for way in (world.rank, other):
            if way:
                world.comm.Recv(array[0, 0], other, 7198)
            else:
                world.comm.Send(array[1, 0], other, 7198)

    def at_once():
        requests = [world.comm.Irecv(a, other, 7198) for a in array[0]]
        requests += [world.comm.Isend(a, other, 7198) for a in array[1]]
        while not world.mpi.Request.Testall(requests):
            pass

    return {
        "latency": shortest(there_and_back, world, times) / 2,
        "message": shortest(at_once, world, times) / 64,
    }


def flat(world, worlds):
    """A meeting as pd held it before: a header from each rank to every other one."""
    headers = list(np.zeros((world.size, 6), np.int64))
    world._swap(headers, 7199, worlds.BARRIER)


def shortest(function, world, times):
    """The shortest of so many calls, in seconds, which all ranks begin together."""
    found = []
    for _ in range(times):
        request = world.comm.Ibarrier()
        while not request.Test():
            os.sched_yield()
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return min(found)


def report(path):
    """Print the tables of docs/scale.md."""
    jobs = sorted(json.loads(path.read_text()), key=lambda job: job["ranks"])
    print("| processes | to all, us | tree, us |\n| --- | --- | --- |")
    for job in jobs:
        print(f"| {job['ranks']} | {job['flat'] * 1e6:.0f} | {job['meet'] * 1e6:.0f} |")
    for job in jobs:
        if "message" in job:
            print(f"\nlatency {job['latency'] * 1e6:.1f} us, message {job['message'] * 1e6:.1f} us")
    print("\n| processes | bytes | " + " | ".join(WAYS) + " |\n" + "| --- " * 8 + "|")
    for job in jobs:
        for size, times in job["sums"].items():
            cells = [f"{times[way] * 1e3:.2f}" if way in times else "" for way in WAYS]
            print(f"| {job['ranks']} | {text_of(int(size))} | " + " | ".join(cells) + " |")


def print_processor_times():
    """Print the nanoseconds of processor time for each number of 1 MiB, without messages."""
    buffers, exact, top_k, wires, _ = import_parts()
    rng = np.random.default_rng(0)
    count = 1 << 18
    array = (rng.standard_normal(count) * np.exp(2 * rng.standard_normal(count))).astype(np.float32)
    out, packed = np.empty_like(array), wires.Int8Wire(array.copy())
    part = exact.ExactSum(array.shape)

    def cut():
        exact.ExactSum(array.shape).add(array)

    part.add(array)
    functions = {
        "fill the buffer": lambda: buffers.fill(out, array, 0.5),
        "add": lambda: np.add(array, out, out=out),
        f"exact: cut into {len(part.limbs)} integers": cut,
        "exact: round": lambda: part.rounded(np.float32),
        "int8: to integers, and the errors": lambda: packed.encode(0, count // wires.BLOCK),
        "int8: back": lambda: packed.finish(0, count // wires.BLOCK),
        "top_k: choose 1 %": lambda: top_k.Chosen([array], 0.01),
    }
    print("| for each number | ns |\n| --- | --- |")
    for name, function in functions.items():
        seconds = []
        for _ in range(9):
            start = time.process_time()
            function()
            seconds.append(time.process_time() - start)
        print(f"| {name} | {min(seconds) / count * 1e9:.1f} |")


def text_of(size):
    """A number of bytes as text."""
    return (
        f"{size >> 20} MiB"
        if size >= 1 << 20
        else (f"{size >> 10} KiB" if size >= 1 << 10 else f"{size} B")
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--times", type=int, default=TIMES)
    arguments = parser.parse_args()
    if arguments.processor:
        print_processor_times()
    elif arguments.report:
        report(arguments.file)
    else:
        measure(arguments.file, arguments.times)


if __name__ == "__main__":
    main()
