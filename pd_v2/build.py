"""What a v2 program has built so far: the only mutable object of the face."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from weakref import WeakSet

import pd_core as pd
from pd_core.site import user_site

from . import settings
from .rand_r import RandR


@dataclass
class Build:
    """Names, layers and parameters of a program, and the numbers that tell their order.

    Names are judged by each topology, so they may recur: `layers` and `parameters` hold the latest
    of each name. A process may describe several networks, each in a `naming` of its own.
    """

    counters: Counter = field(default_factory=Counter)  # next number of each name prefix
    layers: dict = field(default_factory=dict)  # Layer by full name
    parameters: dict = field(default_factory=dict)  # Parameter by name
    evaluators: list = field(default_factory=list)
    printers: list = field(default_factory=list)  # print layers
    groups: list = field(default_factory=list)  # recurrent groups whose step is being described
    bound: WeakSet = field(default_factory=WeakSet)  # variables that a Parameters holds
    naming: int = 0
    in_use: bool = False  # whether a topology was made of the present naming
    order: Iterator = field(default_factory=count)
    stream: RandR | None = None
    update_equation: object = None  # the Optimizer that was made last

    def next_name(self, prefix):
        """`__fc_layer_0__`, `__fc_layer_1__`, …: counted per prefix within a naming."""
        number = self.counters[prefix]
        self.counters[prefix] += 1
        return f"__{prefix}_{number}__"

    def begin_naming(self):
        """Describe another network: automatic names count from 0 again.

        Until May 2017 every topology that was made did this; later none did. A data layer that
        recurs after a topology was made shows which is meant: the same network again.
        """
        self.counters.clear()
        self.naming, self.in_use = self.naming + 1, False

    @contextmanager
    def outside(self, group):
        """A `with` in which layers belong to `group`, None for no group, not to the innermost."""
        groups = self.groups
        kept = 0 if group is None else groups.index(group) + 1
        self.groups = groups[:kept]
        try:
            with groups[kept].step.uncounted():
                yield
        finally:
            self.groups = groups

    def session_for(self, variables):
        """Where a pool keeps the values of these variables: in the default session, unless another
        pool does so already. Then it is a session of its own: pools do not share values."""
        session = pd.default_session()
        if any(v in self.bound for v in variables):
            return pd.Session(session.device, session.seed)
        self.bound.update(variables)
        return session

    def full_name(self, name):
        """The name of a layer within the whole network: inside a group it carries the group's."""
        if "@" in name:
            raise ValueError(f"layer {name!r}: '@' stands before the name of a group only")
        return f"{name}@{self.groups[-1].name}" if self.groups else name

    def add(self, layer):
        """Register a layer, in the group that is being described if there is one."""
        layer.build, layer.order, layer.site = self.layers, next(self.order), user_site()
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
