"""Power cuts while every writer writes: what was not synced is lost, cut short, or out of order.

A layer below the writer notes its system calls. A cut may come after any of them. What the disk has
then: names as they were at some moment since the last sync of a folder, and of each file what was
synced, or also a part of what was written later.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np

from pd_core.storage import folders

from .kills import check
from .plan import Plan, Row
from .writers import WRITERS

CUTS = 400  # of a writer, in the long form

Tree = dict[str, int]  # the number of the file of each name; -1 for a folder


@dataclass
class Moment:
    """The disk after a system call: names, what was written and synced, and what names are safe."""

    tree: Tree
    written: dict[int, bytes]
    synced: dict[int, bytes]
    safe: int  # the moment up to which names are on the disk


class Disk:
    """A folder whose system calls are noted: `moments` has the disk after each of them."""

    def __init__(self, home: Path):
        self.home = home.resolve()
        self.moments: list[Moment] = []
        self._numbers: dict[int, int] = {}  # the file of an inode
        self._count = 0
        self._note(all_safe=True)

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note the system calls of the block."""
        calls = {name: self._noted(getattr(os, name)) for name in _CALLS}
        calls["fsync"] = self._fsync(os.fsync)
        exchange = self._noted(folders._exchange)
        with patch.multiple(os, **calls), patch.object(folders, "_exchange", exchange):
            yield
        self._note()

    def _noted(self, call):
        def noted(*arguments, **options):
            self._note()
            try:
                return call(*arguments, **options)
            finally:
                self._note()

        return noted

    def _fsync(self, call):
        def fsync(file):
            handle = file if isinstance(file, int) else file.fileno()
            call(handle)
            path = Path(os.readlink(f"/proc/self/fd/{handle}"))
            if path.is_dir():
                self._note(all_safe=self.home in (path, *path.parents))
            else:
                self._note(synced=os.fstat(handle).st_ino)

        return fsync

    def _note(self, synced=None, all_safe=False):
        tree, written, seen = {}, {}, {}
        for path in sorted(self.home.rglob("*")):
            name = str(path.relative_to(self.home))
            if path.is_dir():
                tree[name] = -1
                continue
            try:
                inode, content = path.stat().st_ino, path.read_bytes()
            except FileNotFoundError:
                continue
            number = self._numbers.get(inode)
            if number is None:
                number, self._count = self._count, self._count + 1
            seen[inode] = number
            tree[name], written[number] = number, content
        self._numbers = seen
        last = self.moments[-1] if self.moments else Moment({}, {}, {}, 0)
        kept = dict(last.synced)
        if synced in seen:
            kept[seen[synced]] = written[seen[synced]]
        if not self.moments:
            kept = dict(written)
        safe = len(self.moments) if all_safe else last.safe
        self.moments.append(Moment(tree, {**last.written, **written}, kept, safe))

    def cut(self, rng: np.random.Generator, at: int, folder: Path) -> None:
        """Write to a folder what a disk may have if the power is cut after a moment."""
        moment = self.moments[at]
        names = self.moments[int(rng.integers(moment.safe, at + 1))].tree
        content: dict[int, bytes] = {}
        for name, number in names.items():
            path = folder / name
            if number < 0:
                path.mkdir(parents=True, exist_ok=True)
                continue
            if number not in content:
                content[number] = _kept(rng, moment, number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content[number])


_CALLS = ("replace", "rename", "remove", "unlink", "rmdir", "mkdir")


def _kept(rng, moment, number):
    """What a disk has of a file: what was synced, or some of what was written since then."""
    synced, written = moment.synced.get(number), moment.written.get(number, b"")
    if synced == written:
        return synced
    part = written[: int(rng.integers(len(written) + 1))]
    choices = [written, part, part + bytes(len(written) - len(part)), synced or b""]
    return choices[rng.integers(len(choices))]


def run(plan: Plan) -> list[Row]:
    """Cut the power of every writer that promises to stand it; a row for each."""
    return [_cut(name, plan) for name in WRITERS if name != "master's journal"]


def _cut(name, plan):
    row, rng, writer = Row("power", name), plan.rng("power", name), WRITERS[name]
    with tempfile.TemporaryDirectory(prefix="pd-power-") as home:
        folder, copy = Path(home) / "disk", Path(home) / "copy"
        folder.mkdir()
        writer.write(folder, 1)
        disk = Disk(folder)
        with disk.noting():
            writer.write(folder, 2)
        for number in range(plan.count(30, CUTS)):
            at = len(disk.moments) - 1 if number % 8 == 0 else int(rng.integers(len(disk.moments)))
            copy.mkdir()
            disk.cut(rng, at, copy)
            is_over = at == len(disk.moments) - 1
            outcome, text = check(writer, copy, 2 if is_over else 1, 2)
            shutil.rmtree(copy)
            row.add(
                "new" if is_over and outcome == "old" else outcome,
                f"cut {number} of seed {plan.seed}, after call {at} of {len(disk.moments)}: {text}",
            )
        row.figures = f"{len(disk.moments)} moments"
    return row
