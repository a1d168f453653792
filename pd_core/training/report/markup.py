"""Pieces of HTML: tables, numbers, sparklines. All text is escaped here."""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape

import numpy as np

from .curves import Point

COLORS = 8  # of style.css and script.js; further runs use them again
NOTHING = '<span class="none">\N{EN DASH}</span>'


def number(value: float | None) -> str:
    """Return a number with four digits, `NaN` or `inf` marked, a dash for None."""
    if value is None:
        return NOTHING
    if not math.isfinite(value):
        return f'<strong class="bad">{"NaN" if math.isnan(value) else format(value)}</strong>'
    return f"\N{MINUS SIGN}{plain(-value)}" if value < 0 else plain(value)


def plain(value: float) -> str:
    """Return a finite number with four significant digits."""
    if value == int(value) and abs(value) < 1e9:
        return f"{int(value):,}"
    if 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    mantissa, exponential, exponent = f"{value:.4g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponential else mantissa


def date(seconds: float) -> str:
    """Return a date and time of day, here, for seconds since 1970; a dash for 0."""
    if not seconds:
        return NOTHING
    return escape(datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M %Z"))


def duration(seconds: float) -> str:
    """Return a time such as `2 h 05 min`; a dash for 0."""
    if not seconds:
        return NOTHING
    if seconds < 60:
        return f"{plain(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def setting(value: str | float | bool | None) -> str:
    """Return a value of the settings."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escape(value) if isinstance(value, str) else number(value)


def swatch(run: int) -> str:
    """Return the colour of a run."""
    return f'<i class="swatch" data-color="{run % COLORS}"></i>'


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[tuple[str, Sequence[str]]],
    classes: str = "",
) -> str:
    """Return a table in a box that scrolls: rows of (heading, cells), all of them HTML.

    `caption` is text, for those who hear the page.
    """
    columns = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{heading}</th>{"".join(f"<td>{c}</td>" for c in cells)}</tr>\n'
        for heading, cells in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f'<table class="{classes}"><caption>{escape(caption)}</caption>\n'
        f"<thead><tr>{columns}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def sparkline(means: Sequence[Point], deviations: Sequence[Point], label: str) -> str:
    """Return a small SVG: the mean over time in a band of a standard deviation on each side."""
    means = [point for point in means if math.isfinite(point[1])]
    deviations = [point for point in deviations if math.isfinite(point[1])]
    if not deviations:
        return NOTHING
    steps, values = np.array(deviations, np.float64).T
    at_means = np.interp([step for step, _ in means], steps, values)
    band = [(*point, d) for point, d in zip(means, at_means, strict=True)]
    if len(band) < 2:
        return NOTHING
    width, height = 96.0, 24.0
    first, last = band[0][0], band[-1][0]
    low = min(mean - deviation for _, mean, deviation in band)
    high = max(mean + deviation for _, mean, deviation in band)

    def at(step, value):
        x = (step - first) / ((last - first) or 1) * width
        y = (high - value) / ((high - low) or 1.0) * (height - 2) + 1
        return f"{x:.1f},{y:.1f}"

    above = [at(step, mean + deviation) for step, mean, deviation in band]
    below = [at(step, mean - deviation) for step, mean, deviation in reversed(band)]
    middle = [at(step, mean) for step, mean, _ in band]
    return (
        f'<svg class="spark" viewBox="0 0 96 24" role="img" aria-label="{escape(label)}">'
        f'<polygon points="{" ".join(above + below)}"/>'
        f'<polyline points="{" ".join(middle)}"/></svg>'
    )
