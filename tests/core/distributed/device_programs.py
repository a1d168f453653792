"""Trainings whose gradients are summed in the memory of a device, by the ranks of one job.

The device is the CPU: what is handed over are OrtValues, as on any other.
"""

import numpy as np
import onnxruntime

import pd_core as pd
from pd_core import distributed

f32 = np.float32


class OneByOne:
    """Sums in the order of the ranks, as those of the host are."""

    name, device = "one by one", "cpu"

    def __init__(self):
        self.calls = 0

    def sum(self, values, factor):
        assert all(isinstance(value, onnxruntime.OrtValue) for value in values)
        self.calls += 1
        own = [value.numpy() * value.numpy().dtype.type(factor) for value in values]
        if factor == 0.0:
            own = [np.zeros_like(array) for array in own]
        sums = []
        for parts in zip(*distributed.allgather(own), strict=True):
            total = parts[0]
            for part in parts[1:]:
                total = total + part
            sums.append(onnxruntime.OrtValue.ortvalue_from_numpy(total))
        return sums


class Halved(OneByOne):
    """Returns values of other shapes."""

    name = "halved"

    def sum(self, values, factor):
        arrays = [value.numpy()[:1] for value in super().sum(values, factor)]
        return [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in arrays]


class Fewer(OneByOne):
    name = "fewer"

    def sum(self, values, factor):
        return super().sum(values, factor)[:-1]


class Arrays(OneByOne):
    name = "arrays"

    def sum(self, values, factor):
        return [value.numpy() for value in super().sum(values, factor)]


def network(with_table=False):
    x, y = pd.Variable([None, 4]), pd.Variable([None, 1])
    hidden = pd.fc(x, 6, act="tanh")
    if with_table:
        ids = pd.cast(pd.abs(pd.slice(x, [0], [1], [1])), "int64")
        table = pd.Variable("table", data=np.ones((9, 1, 6), f32), row_sparse=True)
        hidden = hidden + pd.reduce_sum(pd.gather(table, ids), [1, 2])
    cost = pd.reduce_mean(pd.square(pd.fc(hidden, 1) - y))
    return x, y, cost, pd.AdamOptimizer(0.05).minimize(cost)


def trained(exchange, steps=4, with_table=False, act=None, **options):
    """Bytes of all values after some steps, and how often the device summed."""
    with pd.Session(**options) as session:
        distributed.use_device_exchange(exchange)
        x, y, _, step = network(with_table)
        rng = np.random.default_rng(distributed.rank())
        for k in range(steps):
            rows = 3 + distributed.rank()
            feeds = {x: rng.random((rows, 4), f32), y: rng.random((rows, 1), f32)}
            (act or plain)(k, step, feeds, rows)
        distributed.use_device_exchange(None)
        values = {v.name: array for v, array in session.values().items()}
    names = sorted(values)
    return [values[name].tobytes() for name in names], getattr(exchange, "calls", 0)


def plain(k, step, feeds, rows):
    pd.eval(step, feeds)


def weighted(k, step, feeds, rows):
    """By rows; one rank's NaN does not count."""
    distributed.set_batch_size(rows if k % 2 or distributed.rank() else 0)
    if not (k % 2 or distributed.rank()):
        feeds = {v: array * f32("nan") for v, array in feeds.items()}
    pd.eval(step, feeds)
    distributed.set_batch_size(None)


def accumulated(k, step, feeds, rows):
    if k == 1:
        with distributed.no_sync():
            pd.eval(step, feeds)
    else:
        pd.eval(step, feeds)


def empty(k, step, feeds, rows):
    if k == 2 and distributed.rank() == 1:
        distributed.empty_step(step)
    else:
        pd.eval(step, feeds)


CASES = {
    "plain": ({}, 4),
    "weighted": ({"act": weighted}, 4),
    "accumulated": ({"act": accumulated}, 2),
    "empty": ({"act": empty}, 3),
    "with_table": ({"with_table": True}, 0),
    "reference": ({"device": "reference"}, 0),
    "checked": ({"check_numerics": True}, 4),
}


def main():
    distributed.init()
    for name, (options, calls) in CASES.items():
        with pd.fresh_names():
            expected, _ = trained(None, **options)
        with pd.fresh_names():
            values, made = trained(OneByOne(), **options)
        same = values == expected and len(set(distributed.allgather(tuple(values)))) == 1
        print(f"<{name}> {distributed.rank()}: {same} {made == calls} {made}", flush=True)
    every = [OneByOne() if distributed.rank() else None, Halved(), Fewer(), Arrays()]
    for exchange in every:
        try:
            trained(exchange)
            said = "no error"
        except pd.GraphError as error:
            said = " ".join(str(error).split())
        distributed.use_device_exchange(None)
        print(f"<refused> {distributed.rank()}: {said}", flush=True)


if __name__ == "__main__":
    main()
