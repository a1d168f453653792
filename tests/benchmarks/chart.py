"""The ratios as a chart."""

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from .report import ratios


def draw(results, path):
    """Write a PNG with a group of bars for each workload; ratios that are too noisy are pale."""
    names = list(dict.fromkeys(s.name for r in results for s in r.sides[1:]))
    figure = Figure(figsize=(9, 1.2 + 0.28 * len(results) * (len(names) + 1)))
    axes = figure.add_subplot()
    for k, name in enumerate(names):
        for row, result in enumerate(results):
            found = ratios(result).get(name)
            if found is None:
                continue
            spread = [[found.median - found.low], [found.high - found.median]]
            axes.barh(
                row + (k + 0.5) / (len(names) + 1) - 0.5,
                found.median,
                0.9 / (len(names) + 1),
                xerr=spread,
                color=f"C{k}",
                alpha=1.0 if found.is_trusted else 0.3,
            )
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(results)), [r.name for r in results])
    axes.invert_yaxis()
    axes.set_xlabel("time / time of pd (right of 1: pd is faster)")
    colours = [Patch(color=f"C{k}", label=name) for k, name in enumerate(names)]
    axes.legend(handles=colours, loc="best")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
