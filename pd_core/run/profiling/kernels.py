"""Times of evaluations, of the runs of programs in them, and of their kernels."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...backend.fused.program import member_of
from ...graph.site import Site
from .origins import Origin

_SUFFIX = "_kernel_time"


@dataclass(slots=True)
class Kernel:
    """One call of a kernel.

    `begin` is in ns of `time.perf_counter_ns`, `own` is `duration` without the kernels that ran
    inside it, those of the body of a loop. `node` is the name of the operator in the model and
    `operator` what ran, which may be a fusion of several. `inputs` are {type: shape} of each input.
    """

    begin: int
    duration: int  # ns
    own: int  # ns
    node: str
    operator: str
    provider: str
    inputs: list[dict[str, list[int]]]
    origin: Site | None = None

    @property
    def layer(self) -> str:
        """The layer, empty if there is none."""
        return self.origin.layer if isinstance(self.origin, Origin) else ""

    @property
    def phase(self) -> str:
        """The pass of a training step; empty for what ONNX Runtime has added."""
        return self.origin.phase if isinstance(self.origin, Origin) else ""


@dataclass(slots=True)
class Run:
    """A run of a stage of a program, between two readings of the clock."""

    program: int
    begin: int
    end: int = 0
    completed: bool = False
    kernels: list[Kernel] | None = None  # None if they were not recorded


@dataclass(slots=True)
class Evaluation:
    """One evaluation; `compiling` are the times at which it compiled, (begin, end)."""

    thread: int
    begin: int
    end: int = 0
    completed: bool = False
    compiling: list[tuple[int, int]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    @property
    def programs(self) -> set[int]:
        """The numbers of the programs that it ran."""
        return {run.program for run in self.runs}

    @property
    def compile_duration(self) -> int:
        """The time that it compiled, in ns."""
        return sum(end - begin for begin, end in self.compiling)

    @property
    def duration(self) -> int:
        """The time without that, in ns."""
        return self.end - self.begin - self.compile_duration


class Recorded(NamedTuple):
    """A run as ONNX Runtime has recorded it, with its kernels; times in µs of its own clock."""

    begin: int
    kernels: list[dict[str, Any]]


def read_recorded(path: str) -> list[Recorded]:
    """Return the runs in a profile of ONNX Runtime, a JSON list with an event in each line."""
    runs: list[Recorded] = []
    kernels: list[dict[str, Any]] = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            text = line.strip().rstrip(",")
            if not text.startswith("{"):
                continue
            event = json.loads(text)
            if event["cat"] == "Node" and event["name"].endswith(_SUFFIX):
                kernels.append(event)
            elif event["name"] == "model_run":
                runs.append(Recorded(event["ts"], kernels))
                kernels = []
    return runs


def add_kernels(
    runs: Sequence[Run], recorded: Sequence[Recorded], sites: Mapping[str, Site | None]
) -> None:
    """Add the kernels to the runs of a session, with the origins of their nodes.

    Of a run that failed there may be a record or not: it is the one whose time is closest.
    """
    origins = _Origins(sites)
    remaining, offset = list(reversed(recorded)), 0
    for k, run in enumerate(runs):
        if not remaining:
            break
        if not run.completed and k + 1 < len(runs):
            begin = remaining[-1].begin * 1000 + offset
            if abs(begin - runs[k + 1].begin) < abs(begin - run.begin):
                continue
        record = remaining.pop()
        offset = run.begin - record.begin * 1000
        run.kernels = _with_own_times(_kernel(e, offset, origins) for e in record.kernels)


def _kernel(event: dict[str, Any], offset: int, origins: "_Origins") -> Kernel:
    args, duration = event["args"], event["dur"] * 1000
    name = event["name"].removesuffix(_SUFFIX)
    return Kernel(
        event["ts"] * 1000 + offset,
        duration,
        duration,
        name,
        args.get("op_name", ""),
        args.get("provider", ""),
        args.get("input_type_shape", []),
        origins.of(name),
    )


def _with_own_times(kernels: Iterable[Kernel]) -> list[Kernel]:
    """The kernels in the order of their beginning, less what ran inside them."""
    order = sorted(kernels, key=lambda kernel: (kernel.begin, -kernel.duration))
    outer: list[Kernel] = []
    for kernel in order:
        while outer and outer[-1].begin + outer[-1].duration <= kernel.begin:
            outer.pop()
        if outer:
            outer[-1].own -= kernel.duration
        outer.append(kernel)
    return order


# What a program adds to copy the result of a node, or a value that the body of a loop passes on.
_COPY = re.compile(r"(.+?)(?:_out\d*|_[a-z_]+_in\d+)_out(?:_\d+)?")


class _Origins:
    """The origins of nodes by name; a fused node has a part of its name from one that it holds."""

    def __init__(self, sites: Mapping[str, Site | None]):
        self.sites = dict(sites)

    def of(self, name: str) -> Site | None:
        """Return the origin of a node, None if ONNX Runtime has added it."""
        if name not in self.sites:
            copy = _COPY.fullmatch(name)
            member = copy[1] if copy and copy[1] in self.sites else member_of(name, self.sites)
            self.sites[name] = self.sites.get(member)
        return self.sites[name]
