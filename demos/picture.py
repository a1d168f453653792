"""Pictures of the demos: drawn by matplotlib, or printed as text where it is not installed.

A program that cannot do without calls `require` before any work.
"""

from importlib.util import find_spec

import numpy as np

_DISTRIBUTIONS = {"PIL": "pillow"}
ROWS, COLUMNS = 12, 72  # of a picture in text


def require(package):
    """End the program before any work, in one line, if a package for its pictures is missing."""
    if find_spec(package) is None:
        text = _DISTRIBUTIONS.get(package, package)
        raise SystemExit(f"{text} must be installed, for the pictures: pip install {text}")


def curves(path, title, lines, xlabel, ylabel):
    """Draw {label: values}, each over 0, 1, …, into the file at path."""
    panel = {k: np.stack([np.arange(len(v)), v], 1) for k, v in lines.items()}
    _draw(path, {title: panel}, xlabel, ylabel, lines=panel)


def points(path, panels, xlabel, ylabel, lines=(), equal=False):
    """Draw panels beside each other, {title: {label: points [n, 2]}}, into the file at path.

    Points of the labels in `lines` are joined; `equal` makes a unit as long on both axes.
    """
    _draw(path, panels, xlabel, ylabel, lines, equal)


def table(path, title, numbers, xlabel, ylabel, columns, rows):
    """Draw a table of numbers as colours, each number in its cell, into the file at path.

    `columns` and `rows` are the labels of both axes.
    """
    if find_spec("matplotlib") is None:
        print(f"no {path}: matplotlib is not installed, this is the table as text")
        for label, row in zip(rows, numbers, strict=True):
            print(f"{label:>10}  {'  '.join(f'{number:5g}' for number in row)}")
        return
    from matplotlib.figure import Figure

    numbers = np.asarray(numbers)
    size = 2 + 0.45 * len(columns), 1.5 + 0.45 * len(rows)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.imshow(numbers, cmap="Blues")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    for (row, column), number in np.ndenumerate(numbers):
        if number:
            dark = number > numbers.max() / 2
            place = {"ha": "center", "va": "center", "fontsize": 8}
            axes.text(column, row, f"{number:g}", color="white" if dark else "black", **place)
    figure.savefig(path)
    print(f"picture: {path}")


def _draw(path, panels, xlabel, ylabel, lines, equal=False):
    if find_spec("matplotlib") is None:
        print(f"no {path}: matplotlib is not installed, this is the picture as text")
        for title, clouds in panels.items():
            print(as_text(title, clouds))
        return
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1 + 5 * len(panels), 4), layout="constrained")
    for axes, (title, clouds) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
        for label, xy in clouds.items():
            axes.plot(xy[:, 0], xy[:, 1], "-" if label in lines else ".", label=label)
        axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
        if equal:
            axes.set_aspect("equal", "box")
        if len(clouds) > 5:  # beside the points, not over them
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        elif len(clouds) > 1:
            axes.legend(loc="best")
    figure.savefig(path)
    print(f"picture: {path}")


def as_text(title, clouds):
    """Return points as text: each set {label: points [n, 2]} with the first letter of its label."""
    every = np.concatenate(list(clouds.values()))
    low, high = every.min(0), every.max(0)
    grid = [[" "] * COLUMNS for _ in range(ROWS)]
    for label, xy in clouds.items():
        cells = (xy - low) / np.maximum(high - low, 1e-9) * (COLUMNS - 1, ROWS - 1)
        for column, row in cells.round().astype(int):
            grid[ROWS - 1 - row][column] = label[0]
    legend = f"{title} ({', '.join(clouds)}), from {low[1]:.3g} to {high[1]:.3g}"
    return "\n".join([legend, *(f"|{''.join(line)}" for line in grid), "+" + "-" * COLUMNS])
