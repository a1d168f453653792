"""The step of a workload as a function, for measurements of several processes."""

import sys
from importlib import import_module
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # for scripts that are run by path

import pd_core as pd


def workload(name):
    """Return the module of a workload."""
    return import_module(f"tests.benchmarks.workloads.{name}")


def core_step(module):
    """Return (step(batch), trained Variables) of the network of a workload, with momentum."""
    layer, image, label = module.network()
    cost = pd.reduce_mean(layer)
    update = pd.MomentumOptimizer(module.RATE, module.MOMENTUM).minimize(cost)
    update = update.including(pd.effects([layer]))

    def step(batch):
        images, labels = batch
        feeds = {image: images.reshape(len(images), -1), label: labels}
        return float(pd.eval([update, cost], feeds)[1])

    return step, pd.trainable_variables()
