"""The ratios as a chart."""

from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import NullFormatter, ScalarFormatter


def draw(results, path):
    """Write a PNG with a group of bars for each workload; ratios that are too noisy are pale.

    A bar goes from 1 to the ratio, and the line over it shows the interval of the true median.
    """
    names = list(dict.fromkeys(side.name for result in results for side in result.sides[1:]))
    height = 0.8 / max(len(names), 1)
    figure = Figure(figsize=(9, 1.5 + 0.25 * len(results) * (len(names) + 1)))
    axes = figure.add_subplot()
    for row, result in enumerate(results):
        for name, found in result.ratios().items():
            k = names.index(name)
            axes.barh(
                row + (k + 0.5) * height - 0.4,
                found.median - 1.0,
                height,
                left=1.0,
                xerr=[[found.median - found.low], [found.high - found.median]],
                color=f"C{k}",
                alpha=1.0 if found.is_trusted else 0.3,
            )
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(results)), [result.name for result in results])
    axes.invert_yaxis()
    axes.set_xlabel("time / time of pd (right of 1: pd is faster)")
    axes.legend(handles=[Patch(color=f"C{k}", label=name) for k, name in enumerate(names)])
    figure.tight_layout()
    figure.savefig(path, dpi=120)
