"""Checkpoints of trainers: one folder for all the trainings of a program."""

from contextlib import contextmanager
from pathlib import Path

from pd_core.training import RunnerItem, SaveEvery, newest_checkpoint
from pd_core.training.checkpoint import restore_items
from pd_core.training.evaluate import every


class Checkpoint:
    """Checkpoints of the trainings of a program, for `SGD.train(checkpoint=...)`.

    `folder` has the newest `keep` checkpoints: after every `every_batches` batches, or else after
    every pass. A program that is started again with `resume` goes on from the newest whole one;
    without, a folder that has any is refused. With `on_sigterm` a SIGTERM writes a last one and
    ends the process, see `SaveEvery`.

    A program that trains several times passes one Checkpoint to all calls of `train`, which are
    told apart by their order: those that had ended are left out when it is started again. Their
    trainers become what they were by the time of the checkpoint, and no event is handled.
    """

    def __init__(self, folder, every_batches=None, keep=2, resume=True, on_sigterm=False):
        every("Checkpoint", every_batches, None)
        self.folder, self.every_batches, self.keep = Path(folder), every_batches, keep
        self.resume, self.on_sigterm = resume, on_sigterm
        self.calls = self.batches = 0  # calls of train that have begun, batches of all of them
        self.steps = []  # of the trainers, in the order of their first call
        self._found = self._is_read = None  # (path, content) that the program goes on from

    @contextmanager
    def training(self, step):
        """Return a context of a call of `train`: its items, or None if it had ended before.

        If it fails, the next call is the same training again.
        """
        if not self._is_read:
            self._found, self._is_read = self._newest(), True
        number, self.calls = self.calls, self.calls + 1
        if not any(step is other for other in self.steps):
            self.steps.append(step)
        resumed = -1 if self._found is None else self._found[1].parts[CallState.__name__]["call"]
        try:
            if number < resumed:
                self.restore(step)
                yield None
            else:
                yield [CallState(self, step, number, number == resumed), self._saving()]
        except BaseException:
            self.calls, self._is_read = number, False
            raise

    def _newest(self):
        found = newest_checkpoint(self.folder) if self.folder.is_dir() else None
        if found is not None and not self.resume:
            raise FileExistsError(
                f"{self.folder} has checkpoints of a training, the newest is {found[0].name}\n"
                "  hint: --resume, or Checkpoint(resume=True), goes on from there"
            )
        return found

    def _saving(self):
        passes = 1 if self.every_batches is None else None
        return SaveEvery(self.every_batches, self.folder, self.keep, passes, self.on_sigterm)

    def restore(self, step):
        """Restore the step of a trainer, if it had begun to train by the time of the checkpoint."""
        path, content = self._found
        states = content.parts[CallState.__name__]["trainers"]
        number = next(k for k, other in enumerate(self.steps) if other is step)
        if number < len(states):
            step.restore(states[number], str(path))

    def restore_items(self, items):
        """Restore the items of the call that was going on."""
        path, content = self._found
        restore_items(content, items, str(path))


class CallState(RunnerItem):
    """The state of the trainers of a program, and which call of `train` is going on."""

    def __init__(self, checkpoint, step, number, is_resumed):
        self.checkpoint, self.step, self.number = checkpoint, step, number
        self.is_resumed = is_resumed

    def initialize(self, context, following):
        context.batches = self.checkpoint.batches
        super().initialize(context, following)
        if self.is_resumed:
            context.after(self._resume)  # when all items are initialized

    def _resume(self):
        self.checkpoint.restore(self.step)
        self.checkpoint.restore_items(self.context.runner.items)

    def finalize(self, following):
        self.checkpoint.batches = self.context.batches
        following()

    def state(self):
        trainers = [step.state() for step in self.checkpoint.steps]
        return {"call": self.number, "trainers": trainers}
