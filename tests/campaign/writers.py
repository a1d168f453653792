"""Every writer of files, for power cuts and kills: versions are written over each other, and read.

A writer fills its files with the number of the version; its reader finds that number, the same
everywhere, or raises. Files are large enough for a write to be cut in the middle.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

import pd_core as pd
from pd_core.graph.initializers import Constant
from pd_core.storage.folders import remove_folder, remove_leftovers
from pd_core.storage.tensors import read_tensors, write_tensors
from pd_core.training.checkpoint import (
    Checkpoint,
    checkpoint_name,
    newest_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from pd_v2.formats.parameter_file import read_tar, write_tar
from pd_v2.formats.proto import ParameterConfig
from pd_v2.master.ledger import Ledger
from pd_v2.recordio.chunks import read_records, write_records

SIZE = 20_000  # numbers in a file


class Torn(Exception):
    """A file with parts of several versions."""


@dataclass(frozen=True)
class Writer:
    """How a version is written below a folder, and which one is found there.

    `read` raises for what is no whole version, and FileNotFoundError where there is none.
    """

    write: Callable[[Path, int], Any]
    read: Callable[[Path], int]


def _same(values: Any) -> int:
    """Return the number that all of the values are; Torn if they differ."""
    found = np.unique(np.asarray(values))
    if len(found) != 1:
        raise Torn(f"parts of the versions {found.tolist()[:5]}")
    return int(found[0])


def _numbers(version, size=SIZE):
    return np.full(size, version, np.float32)


def _write_tensors(folder, version):
    write_tensors(folder / "t", {"a": _numbers(version), "b": _numbers(version)}, {})


def _read_tensors(folder):
    return _same(list(read_tensors(folder / "t")[0].values()))


def _network(version):
    x = pd.Variable("x", shape=[None, 100])
    return x @ pd.Variable("W", shape=[100, 200], initializer=Constant(version))


def _write_parameters(folder, version):
    with pd.fresh():
        pd.save(folder / "p.safetensors", _network(version))


def _read_parameters(folder):
    tensors = read_tensors(folder / "p.safetensors")[0].values()
    return _same(np.concatenate([t.ravel() for t in tensors]))


def _write_model(folder, version):
    with pd.fresh():
        pd.export_onnx(folder / "m.onnx", _network(version))


def _read_model(folder):
    model = onnx.load(folder / "m.onnx")
    onnx.checker.check_model(model)
    arrays = [numpy_helper.to_array(t).ravel() for t in model.graph.initializer]
    return _same(np.concatenate([a for a in arrays if a.dtype == np.float32]))


def _write_step(folder, version):
    with pd.fresh():
        cost = pd.reduce_mean(_network(version))
        step = pd.SGDOptimizer(0.1).minimize(cost)
        pd.export_step(folder / "s.onnx", step, [cost], initial=folder / "i.onnx")


def _read_step(folder):
    onnx.checker.check_model(onnx.load(folder / "s.onnx"))
    model = onnx.load(folder / "i.onnx")
    arrays = [numpy_helper.to_array(t).ravel() for t in model.graph.initializer]
    return _same([a for a in arrays if len(a) == 20_000])


def _checkpoint(version):
    state = {"arrays": {"w": _numbers(version)}, "epoch": version, "rows": [version] * 50}
    return Checkpoint({"item": state}, version, version)


def _version_of(checkpoint):
    state = checkpoint.parts["item"]
    numbers = [*state["arrays"]["w"], *state["rows"], checkpoint.batches, checkpoint.pass_id]
    return _same([*numbers, state["epoch"]])


def _write_series(folder, version):
    """A new checkpoint in a folder, then the oldest but two removed, as a Runner does."""
    remove_leftovers(folder)
    write_checkpoint(folder / checkpoint_name(version), _checkpoint(version))
    for old in sorted(folder.glob("batch-*"))[:-2]:
        remove_folder(old)


def _read_series(folder):
    found = newest_checkpoint(folder)
    if found is None:
        raise FileNotFoundError(folder)
    return _version_of(found[1])


def _write_module(folder, version):
    with pd.fresh(), pd.guard():
        net = _Net(version)
        net(np.ones((1, 100), np.float32))
        net.save(folder / "net", {"version": version})


class _Net(pd.nn.Module):
    def __init__(self, version):
        super().__init__()
        fill = Constant(version)
        self.fc = pd.nn.FC(200, kernel_init=fill, bias_init=fill)

    def forward(self, x):
        return self.fc(x)


def _read_module(folder):
    (file,) = folder.glob("net*.safetensors")
    return _same(np.concatenate([t.ravel() for t in read_tensors(file)[0].values()]))


def _write_tar(folder, version):
    with pd.atomic_write(folder / "p.tar") as file:
        write_tar(file, [(_config(name), _numbers(version)) for name in "ab"])


def _config(name):
    return ParameterConfig(name=name, size=SIZE, dims=[1, SIZE])


def _read_tar(folder):
    with open(folder / "p.tar", "rb") as file:
        return _same([array.ravel() for _, array in read_tar(file)])


def _write_records(folder, version):
    write_records(str(folder / "r"), (f"{version} ".encode() * 20 for _ in range(3000)))


def _read_records(folder):
    return _same([int(each) for r in read_records(str(folder / "r")) for each in r.split()])


@contextlib.contextmanager
def one_rank() -> Iterator[None]:
    """A new graph in a world of one rank, for what needs a world."""
    with pd.fresh():
        pd.distributed.init()
        try:
            yield
        finally:
            pd.distributed.shutdown()


def _write_table(folder, version):
    with one_rank():
        table = pd.distributed.ShardedTable([500, 8], "words", initializer=Constant(version))
        table.save(folder / f"v{version:09d}")


def _read_table(folder):
    """The newest whole table; each version has a folder, since none is replaced."""
    for path in sorted(folder.glob("v*"), reverse=True):
        with one_rank():
            table = pd.distributed.ShardedTable([500, 8], "words")
            try:
                table.load(path)
            except pd.DamagedFile as error:
                if "is no whole table" not in str(error):
                    raise
                continue
            return _same(pd.default_session().get(table.shard))
    raise FileNotFoundError(folder)


def _write_ledger(folder, version):
    ledger = Ledger(str(folder / "db"))
    try:
        ledger.add_dataset(f"job {version}", ["p"], [["f", 1]], [[version]])
    finally:
        ledger.close()


def _read_ledger(folder):
    """How many jobs are in it: all that were added."""
    if not (folder / "db").exists():
        raise FileNotFoundError(folder)
    with contextlib.closing(sqlite3.connect(folder / "db")) as db:
        return len(db.execute("SELECT dataset FROM datasets").fetchall())


WRITERS = {
    "tensors": Writer(_write_tensors, _read_tensors),
    "parameters of the core": Writer(_write_parameters, _read_parameters),
    "ONNX model": Writer(_write_model, _read_model),
    "checkpoint": Writer(
        lambda folder, version: write_checkpoint(folder / "c", _checkpoint(version)),
        lambda folder: _version_of(read_checkpoint(folder / "c")),
    ),
    "series of checkpoints": Writer(_write_series, _read_series),
    "module": Writer(_write_module, _read_module),
    "parameters of 2017": Writer(_write_tar, _read_tar),
    "recordio": Writer(_write_records, _read_records),
    "sharded table": Writer(_write_table, _read_table),
    "master's journal": Writer(_write_ledger, _read_ledger),
}
