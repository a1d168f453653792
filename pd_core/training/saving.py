"""The callbacks that write checkpoints and go on from them."""

import os
import signal
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from ..distributed import barrier
from ..graph.errors import DamagedFile, GraphError
from ..graph.site import warn
from ..run.undo import Undo
from ..storage.folders import lock_folder, remove_folder, remove_leftovers
from .checkpoint import (
    Checkpoint,
    CheckpointWarning,
    batches_of,
    checkpoint_name,
    checkpoints_in,
    is_checkpoint,
    item_names,
    newest_checkpoint,
    read_checkpoint,
    restore_items,
)
from .context import RunnerContext
from .evaluate import every
from .item import Following, Initialize, RunnerItem
from .ranks import TERMINATED, is_writer, on_first
from .tables import load_errors, load_tables

_TERMINATED = 128 + signal.SIGTERM  # the exit status, as shells have it


class SaveEvery(RunnerItem):
    """A checkpoint after every so many batches, or passes, in a folder `path`.

    Its name is that of the number of batches so far, `batch-00500`. It is written when all items
    are through with the batch; the newest `keep` are kept, older ones removed after it is whole. A
    file system that is full, or fails otherwise, costs the new checkpoint and a CheckpointWarning.
    A folder with whole checkpoints of later batches than the training begins at is refused.

    With `on_sigterm`, a SIGTERM writes a last checkpoint after the batch that is going on, and ends
    the process by SystemExit(143); a second one ends it at once. At the end the handler of before
    is back.

    In a job every rank has this item, and rank 0 writes. A SIGTERM that any of them gets ends all
    after the same batch.
    """

    def __init__(
        self,
        batches: int | None = None,
        path: str | os.PathLike | None = None,
        keep: int | None = 2,
        passes: int | None = None,
        on_sigterm: bool = False,
    ):
        if path is None:
            raise TypeError("SaveEvery: needs the path of a folder")
        if keep is not None and keep < 1:
            raise ValueError(f"SaveEvery: keep is at least 1, or None for all, not {keep}")
        self.batches, self.passes = every("SaveEvery", batches, passes)
        self.keep, self.on_sigterm = keep, on_sigterm
        self.path = Path(path).absolute()  # a program may change its folder
        self._terminated = self._is_exiting = False

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        self.context = context
        self._stack = ExitStack()  # for finalize after an error of an item inside
        self._terminated = self._is_exiting = False
        with ExitStack() as stack:
            on_first(context.ranks, lambda: self._lock(stack))
            # only the main thread may handle signals
            if self.on_sigterm and threading.current_thread() is threading.main_thread():
                stack.callback(signal.signal, signal.SIGTERM, self._handle_sigterm())
            super().initialize(context, following)
            context.after(self._begin, last=True)  # when a Resume has restored the counts
            self._stack = stack.pop_all()

    def finalize(self, following: Following) -> None:
        with self._stack:
            following()
        if self._terminated and not self._is_exiting:  # after the last batch
            raise SystemExit(_TERMINATED)

    def _lock(self, stack):
        """Make the folder, and let no other training write to it."""
        self.path.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(self.path)
        if lock is None:
            raise GraphError(f"SaveEvery: another training writes checkpoints to {self.path}")
        stack.callback(lock.close)
        remove_leftovers(self.path)

    def _handle_sigterm(self):
        """Handle SIGTERM from now on; return the handler that was there before."""
        process = os.getpid()

        def terminate(number, frame):
            if self._terminated or os.getpid() != process:  # a child process inherits this
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                os.kill(os.getpid(), signal.SIGTERM)
            self._terminated = True
            if self.context.ranks is not None:
                self.context.ranks.signals |= TERMINATED

        return signal.signal(signal.SIGTERM, terminate) or signal.SIG_DFL

    def _is_terminated(self):
        ranks = self.context.ranks
        return self._terminated if ranks is None else ranks.has_got(TERMINATED)

    def _begin(self):
        _ = self.context.session  # GraphError if there is none: checkpoints have its values
        on_first(self.context.ranks, self._check_folder)

    def _check_folder(self):
        """Refuse checkpoints that would hide those of this training from a Resume."""
        for path in checkpoints_in(self.path):
            if batches_of(path) <= self.context.batches:
                continue
            with suppress(DamagedFile):
                read_checkpoint(path)
                raise FileExistsError(
                    f"SaveEvery: {self.path} has {path.name} of another training, this one begins "
                    f"after {self.context.batches} batches\n"
                    f"  hint: Resume({str(self.path)!r}) goes on from the newest one"
                )
        self._prune()  # what was not removed any more before a kill

    def on_batch_end(self, following: Following) -> Any:
        result = following()
        if not self.context.batches:
            raise GraphError("SaveEvery: no item counts the batches\n  hint: add a Counter()")
        if self._is_terminated():
            self.context.after(self._save_and_exit, last=True)
        elif self.batches and self.context.batches % self.batches == 0:
            self.context.after(self._save, last=True)
        return result

    def on_pass_end(self, following: Following) -> None:
        following()
        if self._is_terminated():
            self.context.after(self._save_and_exit, last=True)
        elif self.passes and (self.context.pass_id + 1) % self.passes == 0:
            self.context.after(self._save, last=True)

    def _save(self):
        context = self.context
        path = self.path / checkpoint_name(context.batches)
        try:
            context.runner.save(path)
        except OSError as error:
            text = f"{path} could not be written, older checkpoints are as they were: {error}"
            if is_writer(context.ranks):
                warn(CheckpointWarning(text))
        else:
            if is_writer(context.ranks):
                self._prune()

    def _save_and_exit(self):
        self._is_exiting = True
        self._save()
        if self.context.ranks is not None:
            barrier()  # a launcher ends the others when the first one has ended
        raise SystemExit(_TERMINATED)

    def _prune(self):
        """Remove the checkpoints before the newest ones; damaged ones of later batches stay."""
        if self.keep is None:
            return
        paths = [p for p in checkpoints_in(self.path) if is_checkpoint(p)]
        paths = [p for p in paths if batches_of(p) <= self.context.batches]
        try:
            for path in paths[: -self.keep]:
                remove_folder(path)
        except OSError as error:
            warn(CheckpointWarning(f"older checkpoints could not be removed: {error}"))


class Resume(RunnerItem):
    """The state of a checkpoint, from which the training goes on as if it had not stopped.

    `path` is a checkpoint, or a folder with checkpoints, of which the newest whole one is taken;
    a folder without any, or none at all, begins a training if `begin` allows that. The runner has
    the same items as the one that was saved; those without state may differ. If it fails, nothing
    is changed.

    The data are the same, too, but batches may have another size, see `Data`. With `new_data` they
    may be others: the training goes on with a whole pass over them, and with the random generators
    as they are.

    In a job every rank has this item; they take the checkpoint that rank 0 finds. It may be that of
    another number of ranks.
    """

    def __init__(self, path: str | os.PathLike, begin: bool = False, new_data: bool = False):
        self.path, self.begin, self.new_data = Path(path).absolute(), begin, new_data
        self.resumed: Path | None = None  # the checkpoint that was taken

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        super().initialize(context, following)
        context.after(self._restore)  # when all items are initialized

    def _restore(self):
        found, context = self._found(), self.context
        if found is None:
            return
        path, checkpoint = found
        items = context.runner.items
        if self.new_data:
            names = dict(zip(item_names(items), items, strict=True))
            checkpoint.parts.pop(next(n for n, item in names.items() if item is context.data), None)
            items = [item for item in items if item is not context.data]
        with Undo(context.session) as undo:
            getattr(context.forward, "load_tables", load_tables)(path, context.ranks)
            restore_items(checkpoint, items, str(path), undo)
            load_errors(path, context.ranks)
        self.resumed, context.undo = path, undo

    def _found(self):
        """The checkpoint to go on from, on all ranks of a job that which rank 0 finds."""
        ranks, found = self.context.ranks, None

        def find():
            nonlocal found
            found = self._checkpoint()
            return None if found is None else found[0]

        path = on_first(ranks, find)
        if path is None or found is not None:
            return found
        return path, read_checkpoint(path, of_others=False)

    def _checkpoint(self) -> tuple[Path, Checkpoint] | None:
        if is_checkpoint(self.path):
            return self.path, read_checkpoint(self.path)
        found = newest_checkpoint(self.path) if self.path.is_dir() else None
        if found is None and not self.begin:
            raise FileNotFoundError(
                f"Resume: there is no checkpoint in {self.path}\n"
                f"  hint: Resume({str(self.path)!r}, begin=True) begins a training if there is none"
            )
        return found
