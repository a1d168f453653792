"""Dynamic graphs beside static ones and PyTorch eager: steps of a perceptron and of LeNet, one
observation through a policy, recording alone, changing sizes, and memory over many iterations.

    python tests/benchmarks/dynamic.py [steps policy record sizes memory]
"""

import gc
import resource
import sys
import time

import numpy as np
import side_by_side as sbs  # first: it binds the process to two cores
import torch
from torch import nn

import pd_core as pd

BATCH, RATE, MOMENTUM = 128, 0.01, 0.9


class Perceptron(pd.nn.Layer):
    """784-128-64-10."""

    def __init__(self):
        super().__init__()
        self.layers = pd.nn.Sequential(pd.nn.FC(128, "relu"), pd.nn.FC(64, "relu"), pd.nn.FC(10))

    def forward(self, image):
        return self.layers(image)


class LeNet(pd.nn.Layer):
    """The book's: 20 and 50 filters of 5 x 5, each with pooling, and a layer of 10."""

    def __init__(self):
        super().__init__()
        self.conv1 = pd.nn.Conv2d(20, 5, act="relu", kernel_init="he_normal")
        self.conv2 = pd.nn.Conv2d(50, 5, act="relu", kernel_init="he_normal")
        self.pool, self.fc = pd.nn.MaxPool2d(2), pd.nn.FC(10)

    def forward(self, image):
        x = pd.reshape(image, [-1, 1, 28, 28])
        x = self.pool(self.conv2(self.pool(self.conv1(x))))
        return self.fc(pd.flatten(x))


class Policy(pd.nn.Layer):
    """4-128-2 with dropout."""

    def __init__(self):
        super().__init__()
        self.hidden, self.action = pd.nn.FC(128), pd.nn.FC(2)

    def forward(self, x):
        return pd.softmax(self.action(pd.relu(pd.dropout(self.hidden(x), 0.6))))


def torch_perceptron():
    return nn.Sequential(
        *(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    )


def torch_lenet():
    return nn.Sequential(
        *(nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 10)),
    )


def loss_of(logits, label):
    return pd.reduce_mean(pd.softmax_cross_entropy(logits, label))


def static_step(make):
    net, optimizer = make(), pd.MomentumOptimizer(RATE, MOMENTUM)
    image, label = pd.Variable([None, 784]), pd.Variable([None], dtype="int64")
    loss = loss_of(net(image), label)
    update = optimizer.minimize(loss)
    return lambda batch: float(pd.eval([update, loss], {image: batch[0], label: batch[1]})[1])


def dynamic_step(make, backward):
    net, optimizer = make(), pd.MomentumOptimizer(RATE, MOMENTUM)

    def step(batch):
        loss = loss_of(net(batch[0]), batch[1])
        if backward:
            loss.backward()
        optimizer.minimize(loss)
        if backward:
            net.clear_gradients()
        return float(loss)

    return step


def torch_step(make):
    net = make()
    optimizer = torch.optim.SGD(net.parameters(), RATE, momentum=MOMENTUM, fused=True)

    def step(batch):
        logits = net(torch.from_numpy(batch[0]))
        loss = nn.functional.cross_entropy(logits, torch.from_numpy(batch[1]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def contenders(functions, stream, steps, blocks=12):
    """Time functions of an item in alternating blocks: {name: us per call, a block each}."""
    sides = [sbs.Contender(name, function) for name, function in functions.items()]
    load = sbs.os.getloadavg()[0]
    for block in range(blocks):
        for side in sides if block % 2 else sides[::-1]:
            side.run(stream, steps)
    print(f"Load average {load:.1f} before, {sbs.os.getloadavg()[0]:.1f} after.\n")
    first = np.median(sides[0].times)
    print(f"| us | median | min | over {sides[0].name} |\n| --- | --- | --- | --- |")
    for side in sides:
        median, least = np.median(side.times) * 1e3, side.times.min() * 1e3
        print(f"| {side.name} | {median:.0f} | {least:.0f} | {median / first / 1e3:.2f} |")
    print()


def steps():
    """Training steps."""
    models = {
        "Perceptron": (Perceptron, torch_perceptron, 100),
        "LeNet": (LeNet, torch_lenet, 10),
    }
    for name, (ours, theirs, count) in models.items():
        print(f"## {name}, batch {BATCH}, momentum\n")
        functions = {
            "static": static_step(ours),
            "dynamic: minimize()": dynamic_step(ours, backward=False),
            "dynamic: backward(), minimize()": dynamic_step(ours, backward=True),
            "PyTorch eager": torch_step(theirs),
        }
        with pd.guard():
            contenders(functions, sbs.repeated(sbs.digits(BATCH)), count)


def policy():
    """One observation through a policy, without gradients."""
    print("## Policy 4-128-2, one observation\n")
    net = Policy().eval()
    x = pd.Variable([None, 4])
    y = net(x)
    other = nn.Sequential(
        *(nn.Linear(4, 128), nn.Dropout(0.6), nn.ReLU(), nn.Linear(128, 2), nn.Softmax(-1))
    ).eval()

    def dynamic(observation):
        with pd.no_grad():
            return net(observation).numpy()

    def eager(observation):
        with torch.no_grad():
            return other(torch.from_numpy(observation)).numpy()

    observations = list(np.random.default_rng(0).random((100, 1, 4), np.float32))
    functions = {"static": lambda o: pd.eval(y, {x: o}), "dynamic": dynamic, "PyTorch": eager}
    with pd.guard():
        contenders(functions, sbs.repeated(observations), 1000)


def record():
    """Recording of ops whose program is known."""
    with pd.guard():
        net, x = Perceptron(), pd.to_variable(np.ones((8, 784)))
        h = pd.to_variable(np.ones((8, 8)))

        def chain():
            y = h
            for _ in range(20):
                y = pd.relu(y * h + h)
            return y

        rows = {
            "mul, add, relu": (chain, 60),
            "Sequential of 3 FC": (lambda: net(x), 8),
            "softmax_cross_entropy": (lambda: loss_of(h, LABELS), 8),
        }
        print("## Recording\n\n| graph | us per operator |\n| --- | --- |")
        for name, (function, operators) in rows.items():
            times = []
            for _ in range(300):
                start = time.perf_counter()
                function()
                times.append((time.perf_counter() - start) / operators * 1e6)
            print(f"| {name} | {np.median(times):.1f} |")
    print()


LABELS = np.zeros(8, np.int64)


def sizes():
    """Programs for batches and sequences of changing size."""
    rng = np.random.default_rng(0)
    with pd.guard():
        net, optimizer = Perceptron(), pd.AdamOptimizer()
        table = pd.nn.Embedding(50, 16)
        before = pd.stats()["compiled"]
        for _ in range(200):
            n = int(rng.integers(2, 60))
            optimizer.minimize(loss_of(net(rng.random((n, 784))), rng.integers(0, 10, n)))
        batches = pd.stats()["compiled"] - before
        for _ in range(200):
            n, steps = rng.integers(2, 60, 2)
            pd.reduce_mean(table(rng.integers(0, 50, (n, steps))), [1]).numpy()
        sequences = pd.stats()["compiled"] - before - batches
    print(
        f"## Changing sizes\n\n200 batches: {batches} programs; 200 batches of sequences: ", end=""
    )
    print(f"{sequences} programs.\n")


def memory(iterations=100_000):
    """Memory of a long loop."""
    print("## Memory\n\n| iterations | MB |\n| --- | --- |")
    observation = np.ones((4, 4), np.float32)
    gc.disable()  # reference counts suffice
    with pd.guard():
        net, optimizer = Policy(), pd.AdamOptimizer()
        total = 0.0
        for k in range(iterations + 1):
            out = net(observation)
            loss = pd.reduce_mean(pd.square(out))
            loss.backward()
            optimizer.minimize(loss)
            net.clear_gradients()
            total = total + loss.detach()
            if k % (iterations // 5) == 0:
                print(f"| {k} | {resident():.0f} |", flush=True)
    gc.enable()
    print()


def resident():
    """The memory of the process in MB."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize() / 2**20
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    parts = {f.__name__: f for f in (steps, policy, record, sizes, memory)}
    for part in sys.argv[1:] or parts:
        parts[part]()
