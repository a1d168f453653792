"""What a v2 program has built so far: the only mutable object of the face."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from threading import RLock
from weakref import WeakSet

import pd_core as pd
from pd_core.graph.site import user_site

from . import settings
from .rand_r import RandR


@dataclass(eq=False)
class Naming:
    """The names of one network: automatic names count from 0, data layers of one name are one.

    Until May 2017 every topology that was made began another naming; later none did. Here a data
    layer that recurs after a topology was made does: it shows that a network is described again.
    """

    counters: Counter = field(default_factory=Counter)  # next number of each name prefix
    data: dict = field(default_factory=dict)  # data layer by name
    in_use: bool = False  # whether a topology was made of its layers


class Described(threading.local):
    """The state of a description, separate for each thread."""

    def __init__(self):
        self.naming = Naming()
        self.groups = ()  # recurrent groups whose step is being described, the outermost first


@dataclass
class Build:
    """Names, layers and parameters of a program, and the numbers that tell their order.

    Names are judged by each topology, so they may recur: `layers` and `parameters` hold the latest
    of each name. Threads describe networks of their own.
    """

    layers: dict = field(default_factory=dict)  # Layer by full name
    parameters: dict = field(default_factory=dict)  # Parameter by name
    evaluators: list = field(default_factory=list)
    printers: list = field(default_factory=list)  # print layers
    bound: WeakSet = field(default_factory=WeakSet)  # variables that a Parameters holds
    here: Described = field(default_factory=Described)
    order: Iterator = field(default_factory=count)
    lock: RLock = field(default_factory=RLock)
    stream: RandR | None = None
    update_equation: object = None  # the Optimizer that was made last

    @property
    def naming(self):
        """The Naming in force."""
        return self.here.naming

    @property
    def groups(self):
        """The recurrent groups whose step is being described, the outermost first."""
        return self.here.groups

    def next_name(self, prefix):
        """`__fc_layer_0__`, `__fc_layer_1__`, …: counted per prefix within a naming."""
        number = self.naming.counters[prefix]
        self.naming.counters[prefix] += 1
        return f"__{prefix}_{number}__"

    def begin_naming(self):
        """Describe another network."""
        self.here.naming = Naming()

    @contextmanager
    def inside(self, group):
        """A `with` in which the step of a group is described."""
        groups = self.groups
        self.here.groups = (*groups, group)
        try:
            with group.step.counted():
                yield
        finally:
            self.here.groups = groups

    @contextmanager
    def outside(self, group):
        """A `with` in which layers belong to `group`, None for no group, not to the innermost."""
        groups = self.groups
        kept = 0 if group is None else groups.index(group) + 1
        self.here.groups = groups[:kept]
        try:
            with groups[kept].step.uncounted():
                yield
        finally:
            self.here.groups = groups

    def session_for(self, variables):
        """The session of a new pool: the default one, or its own if another pool uses that."""
        session = pd.default_session()
        with self.lock:
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
        layer.build, layer.naming = self.layers, self.naming
        layer.order, layer.site = next(self.order), user_site()
        self.layers[layer.full_name] = layer
        if self.groups:
            layer.within = self.groups[-1]
            layer.within.layers[layer] = None

    @property
    def random(self):
        """The stream of initial values, begun from init's seed at its first use."""
        with self.lock:
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
