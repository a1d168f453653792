"""What a v2 program has built so far: the only mutable object of the face."""

import time
from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import pd_core as pd

from . import settings
from .rand_r import RandR


@dataclass
class Build:
    """Names, layers and parameters in the order of their creation."""

    counters: Counter = field(default_factory=Counter)  # next number of each name prefix
    layers: dict = field(default_factory=dict)  # Layer by full name
    parameters: dict = field(default_factory=dict)  # Parameter by name
    evaluators: list = field(default_factory=list)
    groups: list = field(default_factory=list)  # recurrent groups whose step is being described
    inferences: dict = field(default_factory=dict)  # compiled inference by output layers
    stream: RandR | None = None
    update_equation: object = None  # the Optimizer that was made last

    def next_name(self, prefix):
        """`__fc_layer_0__`, `__fc_layer_1__`, …: counted per prefix, never reused."""
        number = self.counters[prefix]
        self.counters[prefix] += 1
        return f"__{prefix}_{number}__"

    def full_name(self, name):
        """The name of a layer within the whole network: inside a group it carries the group's."""
        if "@" in name:
            raise ValueError(f"layer {name!r}: '@' stands before the name of a group only")
        return f"{name}@{self.groups[-1].name}" if self.groups else name

    def add(self, layer):
        """Register a layer, in the group that is being described if there is one."""
        self.layers[layer.full_name] = layer
        if self.groups:
            layer.within = self.groups[-1]
            layer.within.layers[layer] = None

    def replace(self, layer):
        """Put a layer in the place of the one of the same name."""
        old, self.layers[layer.full_name] = self.layers[layer.full_name], layer
        if self.groups:
            group = self.groups[-1]
            group.layers = dict.fromkeys(layer if x is old else x for x in group.layers)

    @property
    def random(self):
        """The stream of initial values, begun from init's seed at its first use."""
        if self.stream is None:
            seed = settings.current().seed or int(time.time())
            self.stream = RandR(seed - 1)
        return self.stream


_process = Build()  # 2017 scripts count names for the life of the process
_current = ContextVar("pd_v2.build")


def current() -> Build:
    """The build in force: the process's, or that of the innermost `fresh()`."""
    return _current.get(_process)


@contextmanager
def fresh(seed=0):
    """A build, names and session of its own for the length of a `with`."""
    with pd.fresh(seed):
        token = _current.set(Build())
        try:
            yield _current.get()
        finally:
            _current.reset(token)
