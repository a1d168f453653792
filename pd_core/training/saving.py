"""The rings that write checkpoints and go on from them."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

from ..files.folders import lock_folder, remove_folder, remove_leftovers
from ..graph.errors import GraphError
from ..graph.site import warn
from .checkpoint import (
    Checkpoint,
    CheckpointWarning,
    checkpoint_name,
    checkpoints_in,
    is_checkpoint,
    newest_checkpoint,
    read_checkpoint,
    restore_items,
)
from .context import RunnerContext
from .evaluate import every
from .item import Following, Initialize, RunnerItem


class SaveEvery(RunnerItem):
    """A checkpoint after every so many batches, or passes, in a folder `path`.

    Its name is that of the number of batches so far, `batch-00500`. It is written when all items
    are through with the batch; the newest `keep` are kept, older ones removed after it is whole. A
    file system that is full, or fails otherwise, costs the new checkpoint and a CheckpointWarning.

    With `on_sigterm`, a SIGTERM writes a last checkpoint after the batch that is going on, and ends
    the process by SystemExit(143); a second one ends it at once.
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
        self.path, self.keep, self.on_sigterm = Path(path), keep, on_sigterm
        self._terminated = False

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(self.path)
        if lock is None:
            raise GraphError(f"SaveEvery: another training writes checkpoints to {self.path}")
        self._lock = lock
        try:
            remove_leftovers(self.path)
            self._handler = self._handle_sigterm() if self.on_sigterm else None
            super().initialize(context, following)
        except BaseException:
            self._release()
            raise

    def finalize(self, following: Following) -> None:
        try:
            following()
        finally:
            self._release()

    def _release(self):
        self._lock.close()
        if self._handler is not None:
            signal.signal(signal.SIGTERM, self._handler)

    def _handle_sigterm(self):
        """Handle SIGTERM from now on; return the handler that was there before."""
        if threading.current_thread() is not threading.main_thread():
            return None  # only the main thread may

        def terminate(number, frame):
            if self._terminated:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                os.kill(os.getpid(), signal.SIGTERM)
            self._terminated = True

        return signal.signal(signal.SIGTERM, terminate)

    def on_batch_end(self, following: Following) -> Any:
        result = following()
        if self._terminated:
            self.context.after(self._save_and_exit, last=True)
        elif self.batches and self.context.batches % self.batches == 0:
            self.context.after(self._save, last=True)
        return result

    def on_pass_end(self, following: Following) -> None:
        following()
        if self._terminated:
            self.context.after(self._save_and_exit, last=True)
        elif self.passes and (self.context.pass_id + 1) % self.passes == 0:
            self.context.after(self._save, last=True)

    def _save(self):
        context = self.context
        path = self.path / checkpoint_name(context.batches)
        try:
            context.runner.save(path)
            self._prune()
        except OSError as error:
            text = f"{path} could not be written, older checkpoints are as they were: {error}"
            warn(CheckpointWarning(text))

    def _save_and_exit(self):
        self._save()
        raise SystemExit(128 + signal.SIGTERM)

    def _prune(self):
        """Remove all checkpoints but the newest ones."""
        for path in [] if self.keep is None else checkpoints_in(self.path)[: -self.keep]:
            remove_folder(path)


class Resume(RunnerItem):
    """The state of a checkpoint, from which the training goes on as if it had not stopped.

    `path` is a checkpoint, or a folder with checkpoints, of which the newest whole one is taken;
    a folder without any, or none at all, begins a training if `begin` allows that. The runner has
    the same items as the one that was saved; those without state may differ.
    """

    def __init__(self, path: str | os.PathLike, begin: bool = False):
        self.path, self.begin = Path(path), begin
        self.resumed: Path | None = None  # the checkpoint that was taken

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        super().initialize(context, following)
        context.after(self._restore)  # when all items are initialized

    def _restore(self):
        found = self._checkpoint()
        if found is not None:
            self.resumed, checkpoint = found
            restore_items(checkpoint, self.context.runner.items, str(self.resumed))

    def _checkpoint(self) -> tuple[Path, Checkpoint] | None:
        if is_checkpoint(self.path):
            return self.path, read_checkpoint(self.path)
        found = newest_checkpoint(self.path) if self.path.is_dir() else None
        if found is None and not self.begin:
            raise FileNotFoundError(f"Resume: there is no checkpoint in {self.path}")
        return found
