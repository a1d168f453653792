"""The cost of building graphs: operators, first steps of deep networks, gradients of long chains.

Processor time in one process, the minimum of some repetitions, and wall time. To compare with
another checkout, run it with that checkout in PYTHONPATH.
"""

import os
import time
from functools import partial

import numpy as np

import pd_core as pd
from pd_core.run.programs import program_cache

OPERATORS = 2000
DEPTHS = (100, 200, 400, 800, 1000)
WIDTH, BATCH = 16, 4
CHAIN = 20_000


def timed(action):
    """Return (processor seconds, wall seconds) of a call."""
    cpu, wall = time.process_time(), time.perf_counter()
    action()
    return time.process_time() - cpu, time.perf_counter() - wall


def fastest(action, repetitions):
    return min(timed(action) for _ in range(repetitions))


def tanh_chain(x, count):
    for _ in range(count):
        x = pd.tanh(x)
    return x


def stack(x, depth):
    for _ in range(depth):
        x = pd.fc(x, WIDTH, act="tanh")
    return x


def first_step(depth):
    """Build, differentiate, compile and run a stack for the first time."""
    program_cache(pd.Session().backend).clear()
    with pd.fresh():
        x = pd.Variable([None, WIDTH])
        loss = pd.reduce_sum(stack(x, depth))
        step = pd.SGDOptimizer(0.01).minimize(loss)
        pd.eval([step, loss], {x: np.ones((BATCH, WIDTH), np.float32)})


def second_derivatives(depth):
    with pd.fresh():
        x = pd.Variable([None, WIDTH])
        (first,) = pd.gradients(pd.reduce_sum(stack(x, depth)), [x])
        (second,) = pd.gradients(pd.reduce_sum(pd.square(first)), [x])
        pd.eval(second, {x: np.ones((BATCH, WIDTH), np.float32)})


def chain_with_gradients(length):
    x = pd.Variable([None, WIDTH])
    pd.gradients(tanh_chain(x, length), [x])


def rows():
    """Yield (what, processor time, wall time) of each measurement."""
    x = pd.Variable([None, 64])
    cpu, wall = fastest(lambda: tanh_chain(x, OPERATORS), 7)
    yield (
        f"recording an operator, us, {OPERATORS} in a row",
        cpu / OPERATORS * 1e6,
        wall / OPERATORS * 1e6,
    )
    first_step(4)  # warm up what is cached for the process
    for depth in DEPTHS:
        name = f"first step of {depth} layers of fc and tanh, SGD, s"
        yield name, *fastest(partial(first_step, depth), 2 if depth < 400 else 1)
    yield (
        "second derivatives of 200 layers, first evaluation, s",
        *timed(lambda: second_derivatives(200)),
    )
    yield (
        f"a chain of {CHAIN} operators and its gradients, s",
        *timed(lambda: chain_with_gradients(CHAIN)),
    )


if __name__ == "__main__":
    print(
        f"load average {os.getloadavg()[0]:.1f}\n\n| what | processor | wall |\n| --- | --- | --- |"
    )
    for name, cpu, wall in rows():
        print(f"| {name} | {cpu:.2f} | {wall:.2f} |", flush=True)
