"""The layers, parameters and names of a v2 program: its only global state."""

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
from pd_core.graph.whole import on_failure

from . import settings
from .rand_r import RandR


@dataclass(eq=False)
class Naming:
    """The scope of names of one network: counters of automatic names, data layers by name.

    Until May 2017 every new topology began another naming; later none did. Here a data layer that
    is declared again after a topology was made does: it shows that a network is built anew.
    """

    counters: Counter = field(default_factory=Counter)  # next number of each name prefix
    data: dict = field(default_factory=dict)  # data layer by name
    in_use: bool = False  # whether a topology has been made of its layers


class ThreadState(threading.local):
    """The part of a Build that each thread has for itself."""

    def __init__(self):
        self.naming = Naming()
        self.groups = ()  # open recurrent groups, outermost first


@dataclass
class Build:
    """Names, layers and parameters of a program, in the order of their definition.

    Names may recur, because only a topology has to have unique ones: `layers` and `parameters`
    hold the latest of each name. Threads build networks of their own.
    """

    layers: dict = field(default_factory=dict)  # Layer by full name
    parameters: dict = field(default_factory=dict)  # Parameter by name
    evaluators: list = field(default_factory=list)
    printers: list = field(default_factory=list)  # print layers
    bound: WeakSet = field(default_factory=WeakSet)  # variables that a Parameters holds
    thread: ThreadState = field(default_factory=ThreadState)
    order: Iterator = field(default_factory=count)
    lock: RLock = field(default_factory=RLock)
    stream: RandR | None = None
    update_equation: object = None  # the Optimizer that was made last
    recurrent: bool = False  # whether a recurrent group was described, which orders results
    spreads: bool = True  # whether tables with sparse_update are spread over the ranks of a job

    @property
    def naming(self):
        """The current Naming."""
        return self.thread.naming

    @property
    def groups(self):
        """The recurrent groups whose step is under construction, outermost first."""
        return self.thread.groups

    def next_name(self, prefix):
        """Return `__fc_layer_0__`, `__fc_layer_1__`, …: one counter per prefix and naming."""
        counters = self.naming.counters
        number = counters[prefix]
        counters[prefix] += 1
        on_failure(_count_again, counters, prefix, number)
        return f"__{prefix}_{number}__"

    def begin_naming(self):
        """Start the names of another network."""
        self.thread.naming = Naming()

    @contextmanager
    def inside(self, group):
        """Return a context in which layers are added to the step of a group."""
        groups = self.groups
        self.thread.groups = (*groups, group)
        try:
            with group.step.counted():
                yield
        finally:
            self.thread.groups = groups

    @contextmanager
    def outside(self, group):
        """Return a context in which layers are added to an outer group, None for no group."""
        groups = self.groups
        depth = 0 if group is None else groups.index(group) + 1
        self.thread.groups = groups[:depth]
        try:
            with groups[depth].step.uncounted():
                yield
        finally:
            self.thread.groups = groups

    def session_for(self, variables):
        """Return the session of a new pool: the default one, or a new one if that is in use."""
        session = pd.default_session()
        with self.lock:
            if any(v in self.bound for v in variables):
                return pd.Session(session.device, session.seed)
            self.bound.update(variables)
        return session

    def full_name(self, name):
        """Return the name of a layer in the whole network: `name@group` inside a group."""
        if "@" in name:
            raise ValueError(f"layer {name!r}: '@' stands before the name of a group only")
        return f"{name}@{self.groups[-1].name}" if self.groups else name

    def add(self, layer):
        """Register a layer, in the current group if there is one."""
        layer.build, layer.naming = self.layers, self.naming
        layer.order, layer.site = next(self.order), user_site()
        self.layers[layer.full_name] = layer
        if self.groups:
            layer.within = self.groups[-1]
            layer.within.layers[layer] = None

    @property
    def random(self):
        """The generator of initial values, seeded by `init` at its first use."""
        with self.lock:
            if self.stream is None:
                seed = settings.current().seed or int(time.time())
                self.stream = RandR(seed - 1)
        return self.stream


def _count_again(counters, prefix, number):
    """Take back an automatic name, if it is the last one."""
    if counters[prefix] == number + 1:
        counters[prefix] = number
    counters += Counter()  # without those that are 0


_process = Build()  # 2017 scripts count names for the life of the process
_current = ContextVar("pd_v2.build")


def _restart():
    """Forget layers and names of the current build, and draw initial values from the beginning."""
    vars(current()).update(vars(Build()))


pd.on_reset(_restart)


def current() -> Build:
    """Return the current build: the process's, or that of the innermost `fresh()`."""
    return _current.get(_process)


@contextmanager
def fresh(seed=0):
    """Use a new build, new names and a new session within a `with` block."""
    with pd.fresh(seed):
        token = _current.set(Build())
        try:
            yield _current.get()
        finally:
            _current.reset(token)
