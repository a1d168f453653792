"""Results as Markdown tables, with the geometric means of the ratios."""

import math
from collections.abc import Sequence

from .contender import COMPILED, EAGER, JAX
from .measure import ABSENT, Measured, Result
from .noise import Ratio, geometric_mean, quantile


def best(result: Result, names: Sequence[str]) -> Ratio | None:
    """Return the ratio of the side with the lowest median among these, None if there is none."""
    found = result.ratios()
    return min((found[n] for n in names if n in found), key=lambda r: r.median, default=None)


def summary(results: Sequence[Result]) -> str:
    """Return a table with a row for each workload: ms of pd, and the ratios of the other sides."""
    names = [EAGER.name, COMPILED.name, JAX.name]
    names = [n for n in names if any(s.name == n for r in results for s in r.sides)]
    names += [s.name for r in results for s in r.sides[1:] if s.name not in names]
    names = list(dict.fromkeys(names))
    lines = [_row(["workload", "ms of pd", *(f"{n} / pd" for n in names)]), _rule(2 + len(names))]
    for result in results:
        found = result.ratios()
        ours = result.sides[0]
        ms = f"{quantile(ours.ms, 0.5):.3g}" if ours.ms else "error"
        cells = [_ratio_cell(result, n, found) for n in names]
        lines.append(_row([result.title or result.name, ms, *cells]))
    return "\n".join(lines)


def details(results: Sequence[Result]) -> str:
    """Return a table with a row for each side of each workload."""
    head = (
        "workload | side | ms per batch: median | quarter to three quarters | lowest | GFLOP/s "
        "| of the peak | memory, MB | import, s | first step, s"
    )
    lines = [_row(head.split(" | ")), _rule(10)]
    for result in results:
        lines += [_row([result.name, *_cells(side, result)]) for side in result.sides]
    return "\n".join(lines)


def means(results: Sequence[Result]) -> str:
    """Return the geometric means of the trusted ratios, in one line."""
    torch = [EAGER.name, COMPILED.name]
    pieces = []
    for label, names in (
        ("PyTorch", torch),
        ("JAX", [JAX.name]),
        ("the better of both", [*torch, JAX.name]),
    ):
        found = [r for r in (best(result, names) for result in results) if r is not None]
        trusted = [r.median for r in found if r.is_trusted]
        noisy = f", {len(found) - len(trusted)} too noisy" if len(found) > len(trusted) else ""
        mean = f"{geometric_mean(trusted):.2f}" if trusted else ABSENT
        pieces.append(f"against {label} {mean} ({len(trusted)} workloads{noisy})")
    return "Geometric mean of the time / the time of pd: " + ", ".join(pieces) + "."


def _row(cells):
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def _rule(columns):
    return "|" + " --- |" * columns


def _ratio_cell(result, name, found):
    if name in found:
        return str(found[name])
    errors = [side.error for side in result.sides if side.name == name and side.error]
    return ABSENT if errors in ([], [ABSENT]) else "error"


def _cells(side: Measured, result: Result):
    if not side.ms or side.error:
        return [side.name, side.error or ABSENT, *[""] * 7]
    median = quantile(side.ms, 0.5)
    low, high = quantile(side.ms, 0.25), quantile(side.ms, 0.75)
    rate, share = "", ""
    if result.flops:
        gflops = result.flops / median / 1e6
        rate, share = f"{gflops:.3g}", f"{gflops / max(result.peak_gflops):.0%}"
    memory = ABSENT if side.peak_bytes is None else f"{side.peak_bytes / 2**20:.0f}"
    times = [f"{median:.4g}", f"{low:.4g} to {high:.4g}", f"{min(side.ms):.4g}"]
    starts = [_seconds(side.import_seconds), _seconds(side.first_seconds)]
    return [side.name, *times, rate, share, memory, *starts]


def _seconds(value):
    return ABSENT if math.isnan(value) else f"{value:.2g}"
