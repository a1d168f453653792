"""Runs: what the event files of a folder tell, in bounded memory."""

import math
import os
import warnings
from collections.abc import Sequence
from typing import Any

from ...graph.errors import LoadWarning
from ..event_files import find_event_files, read_events
from .curves import Curve

Setting = str | float | bool

_STATISTICS_POINTS = 200  # of each statistic of a histogram, drawn a few dozen pixels wide
_MOST_DAMAGES = 10  # messages of a run
# Buckets around zero that are no wider hold zeros only; those of TensorBoard's writers are 1e-12.
_ZERO_WIDTH = 1e-11
STATISTICS = ("mean", "std", "min", "max", "zeros", "norm")


class Run:
    """The events of one folder: curves, statistics of histograms, settings.

    `began` is when the first one was written, in seconds since 1970, and `seconds` how long the
    training took, without the time between a kill and the next start; 0 where files do not say.
    `script` is the name of the program.
    """

    def __init__(self, name: str, path: str) -> None:
        self.name, self.path = name, path
        self.curves: dict[str, Curve] = {}  # of scalars, by tag
        self.histograms: dict[str, dict[str, Curve]] = {}  # {tag: {statistic: curve}}
        self.settings: dict[str, Setting] = {}
        self.script = ""
        self.began = self.seconds = 0.0
        self.damages: list[str] = []

    def read(self, path: str) -> None:
        """Add the events of a file, later than those that were added before."""
        first = last = 0.0
        for event in read_events(path, self._note):
            kind = event.WhichOneof("what")
            if kind != "file_version":
                last = event.wall_time or last
                first = first or last
            if kind == "session_log" and event.session_log.status == event.session_log.START:
                self._purge(event.step)
            elif kind == "summary":
                for value in event.summary.value:
                    self._add(event.step, value)
        self.began = self.began or first
        self.seconds += max(last - first, 0.0)

    def _note(self, damage):
        if len(self.damages) < _MOST_DAMAGES:
            self.damages.append(damage)
        elif len(self.damages) == _MOST_DAMAGES:
            self.damages.append(f"{self.path}: there are more damaged records")

    def _add(self, step, value):
        """Add a value of a summary; images, texts and others are left out."""
        kind = value.WhichOneof("value")
        if kind == "simple_value":
            self.curves.setdefault(value.tag, Curve()).add(step, value.simple_value)
        elif kind == "histo" and value.histo.num:
            curves = self.histograms.get(value.tag)
            if curves is None:
                curves = {name: Curve(_STATISTICS_POINTS) for name in STATISTICS}
                self.histograms[value.tag] = curves
            for name, number in statistics(value.histo).items():
                curves[name].add(step, number)
        elif value.metadata.plugin_data.plugin_name == "hparams":
            self.settings.update(_settings(value.metadata.plugin_data.content))
            self.script = str(self.settings.pop("script", self.script))

    def _purge(self, step):
        """Remove what a run that was resumed at a step computes again."""
        inner = [curve for curves in self.histograms.values() for curve in curves.values()]
        for curve in (*self.curves.values(), *inner):
            curve.purge(step)
        self.curves = {tag: curve for tag, curve in self.curves.items() if curve.last}
        self.histograms = {k: v for k, v in self.histograms.items() if v["mean"].last}


def statistics(histogram: Any) -> dict[str, float]:
    """Return mean, std, min, max, share of zeros (NaN: unknown) and norm of a HistogramProto."""
    mean = histogram.sum / histogram.num
    variance = histogram.sum_squares / histogram.num - mean * mean
    return {
        "mean": mean,
        "std": math.sqrt(max(variance, 0.0)) if math.isfinite(variance) else math.nan,
        "min": histogram.min,
        "max": histogram.max,
        "zeros": _share_of_zeros(histogram),
        "norm": math.sqrt(max(histogram.sum_squares, 0.0)),
    }


def _share_of_zeros(histogram):
    if not histogram.min <= 0.0 <= histogram.max:
        return 0.0
    lefts = [histogram.min, *histogram.bucket_limit]
    for left, right, count in zip(lefts, histogram.bucket_limit, histogram.bucket, strict=False):
        if left <= 0.0 < right and right - max(left, -_ZERO_WIDTH) <= _ZERO_WIDTH:
            return count / histogram.num
    return math.nan


def _settings(content):
    """The settings of a message of TensorBoard's hparams plugin; empty if it has others."""
    from google.protobuf.message import DecodeError
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

    try:
        values = HParamsPluginData.FromString(content).session_start_info.hparams
    except DecodeError:
        return {}
    kinds = {name: value.WhichOneof("kind") for name, value in sorted(values.items())}
    return {name: getattr(values[name], kind) for name, kind in kinds.items() if kind}


def _neighbours(folder):
    """Say which folders there are in the nearest folder above that exists."""
    above = os.path.dirname(os.path.abspath(folder))
    while not os.path.isdir(above):
        above = os.path.dirname(above)
    with os.scandir(above) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir())
    return f"the folders in {above} are {', '.join(names) or 'none'}"


def read_runs(folders: Sequence[str | os.PathLike]) -> list[Run]:
    """Return the runs in some folders and below: each folder with event files is one.

    Damaged records are named in a LoadWarning and left out.

    Raises FileNotFoundError if a folder has no event files in it, and OSError for what cannot be
    read.
    """
    paths: dict[str, list[str]] = {}
    for folder in folders:
        if not os.path.exists(folder):
            raise FileNotFoundError(f"{os.fspath(folder)}: no such folder; {_neighbours(folder)}")
        found = find_event_files(os.path.normpath(folder))
        if not found:
            raise FileNotFoundError(f"{os.fspath(folder)}: there are no event files in it")
        paths.update(found)
    runs = []
    for (folder, files), name in zip(paths.items(), _names(list(paths)), strict=True):
        run = Run(name, folder)
        for file in files:
            run.read(file)
        for damage in run.damages:
            warnings.warn(damage, LoadWarning, stacklevel=2)
        runs.append(run)
    return runs


def _names(paths):
    """Short names for folders: what follows the folder that contains all of them."""
    absolute = [os.path.abspath(path) for path in paths]
    if len(absolute) == 1:
        return [os.path.basename(absolute[0]) or absolute[0]]
    try:
        common = os.path.commonpath(absolute)
    except ValueError:  # on different drives
        return absolute
    names = [os.path.relpath(path, common) for path in absolute]
    return [os.path.basename(common) if name == "." else name for name in names]
