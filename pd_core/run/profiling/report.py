"""Reports of a profile: rows by layer, operator or node, tables, and Chrome's trace format."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ...graph.site import Site, site_text
from .kernels import Evaluation, Kernel

By = Literal["layer", "operator", "node"]

OUTSIDE = "outside kernels"
_ADDED, _NO_LAYER = "(added)", "(no layer)"
_HEADS = {
    "layer": ("layer", "pass"),
    "operator": ("operator",),
    "node": ("node", "operator", "pass", "layer", "line"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """The time of a layer in one pass, of an operator or of a node; or that outside of kernels.

    `share` is the part of all measured seconds. `calls` counts kernels; evaluations in the row of
    what is outside of them. What a row is not of is empty: `phase` ("forward", "backward",
    "update"), `layer`, `operator`, and the `line` that built it, (file, number).
    """

    name: str
    seconds: float
    share: float
    calls: int
    phase: str = ""
    layer: str = ""
    operator: str = ""
    line: Site | None = None

    @property
    def seconds_per_call(self) -> float:
        """The mean time of a call."""
        return self.seconds / self.calls


class Report:
    """Tables and traces of the evaluations of a profile."""

    def __init__(self) -> None:
        self.evaluations: list[Evaluation] = []
        self.has_ended = False

    @property
    def steps(self) -> int:
        """The number of evaluations that the rows are of."""
        return len(self._counted())

    @property
    def seconds(self) -> float:
        """The wall time inside these evaluations, without compilation."""
        return sum(e.duration for e in self._counted()) / 1e9

    @property
    def compile_seconds(self) -> float:
        """The time of compilation, with the evaluations that are left out because of it."""
        left_out = sum(e.duration for e in self._complete() if e.compiling) / 1e9
        counted = sum(e.duration for e in self._counted() if e.compiling) / 1e9
        return sum(e.compile_duration for e in self.evaluations) / 1e9 + left_out - counted

    def rows(self, by: By = "layer") -> list[Row]:
        """Return the time of each layer in each pass, of each operator or of each node.

        The row with most time is the first. The last one is the time outside of kernels; with it
        they sum up to `seconds`. A loop has the time that the kernels in its body do not take.
        Operators that ONNX Runtime has fused are one, which counts for one of them; copies and
        conversions that nobody wrote are in the layer `(added)`. ValueError for another `by`.
        """
        if by not in _HEADS:
            raise ValueError(f"profile: by is one of {', '.join(_HEADS)}, not {by!r}")
        counted, seconds = self._counted(), self.seconds
        groups: dict[tuple, list[int]] = {}
        for kernel in (k for e in counted for run in e.runs for k in run.kernels or ()):
            groups.setdefault(_key(kernel, by), []).append(kernel.own)
        rows = [
            Row(key[0], sum(times) / 1e9, sum(times) / 1e9 / seconds, len(times), *key[1:])
            for key, times in groups.items()
        ]
        rows.sort(key=lambda row: -row.seconds)
        if counted:
            rest = seconds - sum(row.seconds for row in rows)
            rows.append(Row(OUTSIDE, rest, rest / seconds, len(counted)))
        return rows

    def table(self, by: By = "layer", top: int = 20) -> str:
        """Return `rows` as text: the `top` first of them, the sum of the others, and the rest.

        ValueError for another `by`, or a `top` below 1.
        """
        if top < 1:
            raise ValueError(f"profile: top is at least 1, not {top}")
        if not self.has_ended:
            return "profile: the block has not ended"
        if not self.steps:
            return f"profile: no evaluation was measured{self._others()}"
        *rows, outside = self.rows(by)
        others = rows[top:]
        if others:
            seconds, share, calls = (
                sum(getattr(row, name) for row in others) for name in ("seconds", "share", "calls")
            )
            rows[top:] = [Row(f"({len(others)} more)", seconds, share, calls)]
        heads = [*_HEADS[by], "share", "ms", "calls", "us/call"]
        lines = [[*_label(row, by), *_numbers(row)] for row in (*rows, outside)]
        total = f"{self.steps} evaluations, {self.seconds * 1e3:.3f} ms{self._others()}"
        return "\n".join([*_aligned([heads, *lines], len(_HEADS[by])), total])

    def __str__(self) -> str:
        return self.table()

    def save(self, path: str) -> None:
        """Write a trace in Chrome's format, for `chrome://tracing` and Perfetto.

        It has all evaluations, the first ones too, with their kernels and what lies between these.
        """
        if not self.has_ended:
            raise RuntimeError("profile: the block has not ended")
        start = min((e.begin for e in self.evaluations), default=0)
        events = [event for e in self.evaluations for event in _events(e, start)]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, file)

    def _complete(self) -> list[Evaluation]:
        """The evaluations that did not raise, with all of their kernels."""
        recorded = (e for e in self.evaluations if all(r.kernels is not None for r in e.runs))
        return [e for e in recorded if e.completed]

    def _counted(self) -> list[Evaluation]:
        """The evaluations that the rows are of: no first ones of programs that ran again."""
        complete = self._complete()
        again = [e.programs for e in complete if not e.compiling]
        warm = set().union(*again)
        return [e for e in complete if not (e.compiling and again and e.programs <= warm)]

    def _others(self) -> str:
        """Text on the evaluations that the table leaves out."""
        programs = sum(len(e.compiling) for e in self.evaluations)
        text = ""
        if programs:
            text += f"; compile: {programs} programs, {self.compile_seconds * 1e3:.0f} ms"
        raised = sum(not e.completed for e in self.evaluations)
        if raised:
            text += f"; {raised} evaluations raised an error"
        lost = len(self.evaluations) - raised - len(self._complete())
        if lost:
            text += f"; {lost} evaluations were not recorded: too many kernels for ONNX Runtime"
        return text


def _key(kernel: Kernel, by: str) -> tuple:
    """The key that groups kernels into rows: the fields of a Row without its numbers."""
    layer = kernel.layer or (_NO_LAYER if kernel.phase else _ADDED)
    if by == "layer":
        return layer, kernel.phase
    if by == "operator":
        return (kernel.operator,)
    line = tuple(kernel.origin) if kernel.origin else None
    return kernel.node, kernel.phase, layer, kernel.operator, line


def _label(row: Row, by: str) -> list[str]:
    if by == "layer":
        return [row.name, row.phase]
    if by == "operator":
        return [row.name]
    return [row.name, row.operator, row.phase, row.layer, _line(row.line)]


def _line(site: Site | None) -> str:
    return f"{os.path.basename(site[0])}:{site[1]}" if site else ""


def _numbers(row: Row) -> list[str]:
    per_call = row.seconds_per_call * 1e6
    return [f"{row.share:.1%}", f"{row.seconds * 1e3:.3f}", str(row.calls), f"{per_call:.1f}"]


def _aligned(lines: list[list[str]], texts: int) -> Iterator[str]:
    """Lines of cells in columns; the first `texts` of them begin at the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = zip(line, widths, strict=True)
        padded = [c.ljust(w) if k < texts else c.rjust(w) for k, (c, w) in enumerate(cells)]
        yield "  ".join(padded).rstrip()


# ---- traces


def _events(evaluation: Evaluation, start: int) -> Iterator[dict[str, Any]]:
    """The events of an evaluation and of its parts."""

    def event(name: str, category: str, begin: int, end: int, **args: Any) -> dict[str, Any]:
        times = {"ts": (begin - start) / 1e3, "dur": (end - begin) / 1e3}
        place = {"pid": os.getpid(), "tid": evaluation.thread}
        return {"name": name, "cat": category, "ph": "X", **times, **place, "args": args}

    yield event("evaluation", "evaluation", evaluation.begin, evaluation.end)
    for begin, end in evaluation.compiling:
        yield event("compile", "evaluation", begin, end)
    before = max([evaluation.begin, *(end for _, end in evaluation.compiling)])
    name = "feeding"
    for run in evaluation.runs:
        if run.begin > before:
            yield event(name, "evaluation", before, run.begin)
        yield event("session.run", "evaluation", run.begin, run.end, program=run.program)
        for kernel in run.kernels or ():
            yield event(
                *_named(kernel), kernel.begin, kernel.begin + kernel.duration, **_args(kernel)
            )
        before, name = run.end, "between runs"
    if evaluation.runs:
        yield event("copying out", "evaluation", before, evaluation.end)


def _named(kernel: Kernel) -> tuple[str, str]:
    name = f"{kernel.layer} {kernel.operator}" if kernel.layer else kernel.operator
    return name, kernel.phase or _ADDED


def _args(kernel: Kernel) -> dict[str, str]:
    shapes = [f"{kind}{dims}" for x in kernel.inputs for kind, dims in x.items()]
    return {
        "layer": kernel.layer,
        "line": site_text(kernel.origin) if kernel.origin else "",
        "node": kernel.node,
        "provider": kernel.provider,
        "inputs": ", ".join(shapes),
    }
