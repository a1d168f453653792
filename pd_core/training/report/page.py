"""The report: one HTML page that needs nothing else."""

import base64
import hashlib
import json
import math
import os
from collections.abc import Sequence
from html import escape
from importlib import resources
from string import Template

from ...storage.atomic import atomic_write
from .charts import KINDS, TIME, Chart, charts_of
from .curves import Curve
from .markup import (
    NOTHING,
    date,
    duration,
    number,
    plain,
    setting,
    sparkline,
    swatch,
    table,
)
from .runs import Run, read_runs

_PARTS = ("reading", "step", "other")  # of the time of a batch, in their order


def write_report(path: str | os.PathLike, folders: Sequence[str | os.PathLike]) -> list[Run]:
    """Write a page about the runs in some folders and below; return the runs.

    The page is one file of HTML without references to others. A file at the path is replaced when
    the new one is complete. Damaged records are named on the page and in a LoadWarning.

    Raises FileNotFoundError if a folder has no event files in it, and OSError for what cannot be
    read or written.
    """
    runs = read_runs(folders)
    text = page(runs)
    with atomic_write(path) as file:
        file.write(text.encode())
    return runs


def page(runs: Sequence[Run]) -> str:
    """Return the HTML of the report about some runs."""
    charts = charts_of(runs)
    style, script, template = (_file(n) for n in ("style.css", "script.js", "page.html"))
    names = " · ".join(run.name for run in runs[:3]) + (" · …" if len(runs) > 3 else "")
    return Template(template).substitute(
        title=escape(names),
        summary=_summary(runs),
        style=style,
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        legend=_legend(runs, charts),
        charts="\n".join(_figure(k, chart, runs) for k, chart in enumerate(charts))
        or "<p>There are no curves in these logs.</p>",
        sections="\n".join(
            f'<section id="{name}"><h2>{heading}</h2>\n{content}</section>'
            for name, heading, content in (
                ("runs", "Runs", _runs(runs)),
                ("values", "Final values", _final_values(runs, charts)),
                ("settings", "Settings", _settings(runs)),
                ("time", "Time of a batch", _times(runs)),
                ("parameters", "Parameters", _parameters(runs)),
                ("damages", "Damaged records", _damages(runs)),
            )
            if content
        ),
        data=_data(runs, charts),
    )


def _file(name):
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _summary(runs):
    """A line of text: how many runs, and how long they are."""
    steps = [c.last[0] for run in runs for c in run.curves.values() if c.last]
    count = f"{len(runs)} runs" if len(runs) > 1 else "1 run"
    return f"{count}, up to {max(steps):,} batches" if steps else count


def _head(runs):
    return [f"{swatch(k)}{escape(run.name)}" for k, run in enumerate(runs)]


# ---- curves


def _legend(runs, charts):
    """The buttons that show and hide runs and kinds of curves."""
    buttons = [
        f'<button type="button" aria-pressed="true" data-run="{k}">'
        f"{swatch(k)}{escape(run.name)}</button>"
        for k, run in enumerate(runs)
    ]
    present = {series.kind for chart in charts for series in chart.series}
    kinds = [kind for kind in KINDS if kind in present]
    if len(kinds) > 1:
        buttons += [
            f'<button type="button" aria-pressed="true" data-kind="{kind}">'
            f'<svg class="dash" viewBox="0 0 22 8" aria-hidden="true">'
            f'<path class="{kind}" d="M1 4H21"/></svg>{kind}</button>'
            for kind in kinds
        ]
    return "\n".join(buttons)


def _figure(number_of_chart, chart, runs):
    """A chart, which the script draws, and its curves as a table."""
    title = escape(chart.title)
    return (
        f'<figure data-chart="{number_of_chart}">\n<figcaption>{title}</figcaption>\n'
        f'<svg class="chart" role="img" tabindex="0" aria-label="{title}: curves over batches,'
        f' see the table below"></svg><div class="tip" hidden></div>\n'
        f"<details><summary>Table</summary>{_curve_table(chart, runs)}</details>\n</figure>"
    )


def _curve_table(chart: Chart, runs: Sequence[Run]) -> str:
    rows = []
    for series in chart.series:
        label = f"{swatch(series.run)}{escape(runs[series.run].name)}"
        finite = [p for p in series.points if math.isfinite(p[1])]
        first, last = series.points[0], series.last
        ends = [min(finite, key=_value), max(finite, key=_value)] if finite else [None, None]
        cells = [_at(point) for point in (first, *ends, last)]
        rows.append((f"{label} {series.kind}".strip(), cells))
    head = ["curve", "first", "lowest", "highest", "last"]
    return table(f"{chart.title}: values, and after how many batches", head, rows)


def _value(point):
    return point[1]


def _at(point):
    """A value and its batch."""
    if point is None:
        return NOTHING
    return f'{number(point[1])} <span class="at">at {point[0]:,}</span>'


def _data(runs, charts):
    """The curves as JSON that may stand in a script element."""
    described = [
        {
            "title": chart.title,
            "series": [
                {
                    "run": series.run,
                    "kind": series.kind,
                    "x": [step for step, _ in series.points],
                    "y": [_rounded(value) for _, value in series.points],
                }
                for series in chart.series
            ],
        }
        for chart in charts
    ]
    content = {"runs": [run.name for run in runs], "charts": described}
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _rounded(value):
    """A number with six digits; what JSON lacks as text."""
    return float(f"{value:.6g}") if math.isfinite(value) else str(value)


# ---- tables


def _runs(runs):
    """A table of the runs: their script, when they began, how long they took."""
    rows = []
    for name, run in zip(_head(runs), runs, strict=True):
        steps = [curve.last[0] for curve in run.curves.values() if curve.last]
        cells = [setting(run.script or None), date(run.began), duration(run.seconds)]
        rows.append((name, [*cells, number(max(steps) if steps else None)]))
    head = ["run", "script", "began", "time", "batches"]
    return table("Script, date and time of the runs", head, rows)


def _final_values(runs, charts):
    rows = []
    for chart in charts:
        for kind in ("", *KINDS):
            last = {s.run: s.last[1] for s in chart.series if s.kind == kind}
            if last:
                title = f"{escape(chart.title)} <small>{kind}</small>" if kind else None
                cells = [number(last.get(k)) for k in range(len(runs))]
                rows.append((title or escape(chart.title), cells))
    head = ["value", *_head(runs)]
    return table("The last value of each curve", head, rows, "numbers") if rows else ""


def _settings(runs):
    names = list(dict.fromkeys(name for run in runs for name in run.settings))
    rows = []
    for name in names:
        values = [run.settings.get(name) for run in runs]
        cells = [setting(value) for value in values]
        heading = escape(name)
        if len({(type(value), value) for value in values}) > 1:
            heading += " <mark>differs</mark>"
            cells = [f'<span class="differs">{cell}</span>' for cell in cells]
        rows.append((heading, cells))
    return table("Settings of the runs", ["setting", *_head(runs)], rows) if rows else ""


def _times(runs):
    """Bars of the mean time of a batch, by part, and their table."""
    means = []
    for k, run in enumerate(runs):
        times = [_mean(run.curves.get(TIME + part)) for part in _PARTS]
        if any(times):
            means.append((k, times))
    if not means:
        return ""
    longest = max(sum(times) for _, times in means)
    bars, rows = [], []
    for k, times in means:
        name = f"{swatch(k)}{escape(runs[k].name)}"
        pieces = "".join(
            f'<i class="part-{part}" style="width:{100 * time / longest:.2f}%"></i>'
            for part, time in zip(_PARTS, times, strict=True)
        )
        bars.append(
            f'<div class="bar-row"><span>{name}</span><div class="bar">{pieces}</div>'
            f"<b>{plain(sum(times))} ms</b></div>"
        )
        rows.append((name, [number(time) for time in (*times, sum(times))]))
    key = "".join(f'<span><i class="part-{part}"></i>{part}</span>' for part in _PARTS)
    head = ["run", *(f"{part} (ms)" for part in _PARTS), "all (ms)"]
    content = table("Milliseconds of a batch, by part", head, rows, "numbers")
    return (
        f'<p class="note">Means over the training.</p>\n<p class="key" aria-hidden="true">{key}</p>'
        f'\n<div class="bars" aria-hidden="true">{"".join(bars)}</div>\n'
        f"<details><summary>Table</summary>{content}</details>"
    )


def _mean(curve: Curve | None) -> float:
    values = [value for _, value in curve.points()] if curve else []
    values = [value for value in values if math.isfinite(value)]
    return sum(values) / len(values) if values else 0.0


def _parameters(runs):
    """A table of statistics for each run that has histograms, the first one open."""
    parts: list[str] = []
    for k, run in enumerate(runs):
        rows = [_parameter(run, tag) for tag in run.histograms if not tag.startswith("gradients/")]
        if rows:
            head = ["parameter", "mean", "std", "min", "max", "zeros", "gradient norm", "over time"]
            caption = f"{run.name}: statistics of the parameters"
            opened = " open" if not parts else ""
            content = table(caption, head, rows, "numbers")
            parts.append(
                f"<details{opened}><summary>{swatch(k)}{escape(run.name)}</summary>{content}"
                "</details>"
            )
    note = "The last of each; over time: the mean, in a band of a standard deviation on each side."
    return f'<p class="note">{note}</p>\n' + "\n".join(parts) if parts else ""


def _parameter(run, tag):
    """A row: the last statistics of a parameter, and of its gradient."""
    name = tag.removeprefix("parameters/")
    curves = run.histograms[tag]
    last = {key: curve.last[1] if curve.last else None for key, curve in curves.items()}
    gradient = run.histograms.get(f"gradients/{name}")
    norm = gradient["norm"].last if gradient else None
    zeros = last["zeros"]
    line = sparkline(curves["mean"].points(), curves["std"].points(), f"{name}: mean over time")
    cells = [number(last[key]) for key in ("mean", "std", "min", "max")]
    cells.append(NOTHING if zeros is None or math.isnan(zeros) else f"{plain(100 * zeros)} %")
    return escape(name), [*cells, number(norm[1] if norm else None), line]


def _damages(runs):
    items = "".join(f"<li>{escape(damage)}</li>" for run in runs for damage in run.damages)
    return (
        f'<p class="note">They are left out.</p>\n<ul class="damages">{items}</ul>' if items else ""
    )
