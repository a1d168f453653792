"""Optimizers by name, as the command line and `Module.fit` take them."""

from typing import Any

from .adafactor import AdaFactorOptimizer
from .adam_variants import NAdamOptimizer, RAdamOptimizer
from .adaptive import (
    AdaDeltaOptimizer,
    AdaGradOptimizer,
    AdamaxOptimizer,
    AdamWOptimizer,
    RMSPropOptimizer,
)
from .base import AdamOptimizer, MomentumOptimizer, Optimizer, SGDOptimizer
from .decoupled import LAMBOptimizer, LionOptimizer

OPTIMIZERS: dict[str, Any] = {
    "sgd": SGDOptimizer,
    "momentum": MomentumOptimizer,
    "adam": AdamOptimizer,
    "adamw": AdamWOptimizer,
    "adamax": AdamaxOptimizer,
    "adagrad": AdaGradOptimizer,
    "adadelta": AdaDeltaOptimizer,
    "adafactor": AdaFactorOptimizer,
    "rmsprop": RMSPropOptimizer,
    "nadam": NAdamOptimizer,
    "radam": RAdamOptimizer,
    "lion": LionOptimizer,
    "lamb": LAMBOptimizer,
}


def optimizer_named(who: str, name: str) -> Optimizer:
    """Return a new optimizer of a name in OPTIMIZERS with its defaults; ValueError for others."""
    if name not in OPTIMIZERS:
        raise ValueError(f"{who}: there is no optimizer {name!r}, but {', '.join(OPTIMIZERS)}")
    optimizer: Optimizer = OPTIMIZERS[name]()
    return optimizer
