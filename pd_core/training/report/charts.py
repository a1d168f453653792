"""Charts: which curves of the runs share axes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .curves import Point
from .runs import Run

# Tags `train/error`, `train_mean/error` and `test/error` are one chart `error`, of three kinds of
# curves. `pass/error` is the mean in older logs.
KINDS = ("train", "train mean", "test")
_PREFIXES = {"train": "train", "train_mean": "train mean", "pass": "train mean", "test": "test"}
TIME = "time/"  # shown as bars instead


@dataclass
class Series:
    """A curve of a chart: of a run, and of one of KINDS or none."""

    run: int
    kind: str
    points: list[Point]
    last: Point


@dataclass
class Chart:
    """Curves that share axes."""

    title: str
    series: list[Series] = field(default_factory=list)


def charts_of(runs: Sequence[Run]) -> list[Chart]:
    """Return the charts of some runs: the cost, then what has several kinds, then the others."""
    charts: dict[str, Chart] = {}
    for number, run in enumerate(runs):
        for tag, curve in run.curves.items():
            if curve.last is None or tag.startswith(TIME):
                continue
            prefix, _, rest = tag.partition("/")
            kind = _PREFIXES.get(prefix, "") if rest else ""
            title = rest if kind else tag
            series = Series(number, kind, curve.points(), curve.last)
            charts.setdefault(title, Chart(title)).series.append(series)
    for chart in charts.values():
        chart.series.sort(key=lambda s: (s.run, KINDS.index(s.kind) if s.kind else -1))
    return sorted(charts.values(), key=_rank)


def _rank(chart):
    has_kinds = any(series.kind for series in chart.series)
    return (chart.title != "cost", not has_kinds, chart.title)
