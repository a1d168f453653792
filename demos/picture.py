"""Pictures of the demos: drawn by matplotlib, or printed as text where it is not installed."""

import numpy as np

ROWS, COLUMNS = 12, 72  # of a picture in text


def curves(path, title, lines):
    """Draw {label: values}, each over 0, 1, …, into the file at path."""
    _draw(path, {title: {k: np.stack([np.arange(len(v)), v], 1) for k, v in lines.items()}}, "-")


def points(path, panels):
    """Draw panels beside each other, {title: {label: points [n, 2]}}, into the file at path."""
    _draw(path, panels, ".")


def _draw(path, panels, style):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        for title, clouds in panels.items():
            print(as_text(title, clouds))
        return
    figure = Figure(figsize=(1 + 5 * len(panels), 4), layout="constrained")
    for axes, (title, clouds) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
        for label, xy in clouds.items():
            axes.plot(xy[:, 0], xy[:, 1], style, label=label)
        axes.set_title(title)
        axes.legend()
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
