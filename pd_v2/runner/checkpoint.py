"""Checkpoints of trainers: one folder for all the trainings of a program."""

from contextlib import contextmanager
from operator import index
from pathlib import Path

import pd_core as pd
from pd_core.run.undo import Undo
from pd_core.training import RunnerItem, SaveEvery, newest_checkpoint
from pd_core.training.checkpoint import checking, restore_items
from pd_core.training.evaluate import every
from pd_core.training.generators import (
    check_generators,
    encoded,
    generators_state,
    set_generators,
)
from pd_core.training.ranks import job, on_first


class Checkpoint:
    """Checkpoints of the trainings of a program, for `SGD.train(checkpoint=...)`.

    `folder` has the newest `keep` checkpoints: after every `every_batches` batches, or else after
    every pass. A program that is started again with `resume` goes on from the newest whole one;
    without, a folder that has any is refused. With `on_sigterm` a SIGTERM writes a last one and
    ends the process, see `SaveEvery`.

    A program that trains several times passes one Checkpoint to all calls of `train`, which are
    told apart by their order: those that had ended are left out when it is started again. Their
    trainers become what they were by the time of the checkpoint, Python's and NumPy's global
    random generators what they were at the end of the call, and no event is handled. Everything
    else that the program does between the calls is done again. In the call that was going on, the
    metrics of the pass are those of all its batches, the ones before the checkpoint included.

    In an MPI job rank 0 writes, and all ranks go on from what it has read; their number may differ.
    With `is_local=False` each rank leaves out as many batches of its own as were done in the pass.
    """

    def __init__(self, folder, every_batches=None, keep=2, resume=True, on_sigterm=False):
        every("Checkpoint", every_batches, None)
        self.folder = Path(folder).absolute()  # a program may change its folder
        self.every_batches, self.keep = every_batches, keep
        self.resume, self.on_sigterm = resume, on_sigterm
        self.calls = self.batches = 0  # calls of train that have begun, batches of all of them
        self.steps = []  # of the trainers, in the order of their first call
        self.ended = []  # the generators at the end of each call, None if it left them alone
        self._found = None  # (path, content) that the program goes on from, until it has
        self._resumed = None  # the number of the call that was going on, -1 for none

    @contextmanager
    def training(self, step):
        """Return a context of a call of `train`: its items, or None if it had ended before.

        If it fails, the next call is the same training again.
        """
        if self._resumed is None:
            self._found = self._newest()
            self._resumed = -1 if self._found is None else self._found[1].parts[_CALL]["call"]
        number, self.calls = self.calls, self.calls + 1
        if not any(step is other for other in self.steps):
            self.steps.append(step)
        _check_sessions(self.steps)
        before = generators_state()
        try:
            if number < self._resumed:
                self.restore(step)
                ended = self._found[1].parts[_CALL]["ended"][number]
                if ended is not None:
                    set_generators(ended)
                yield None
            else:
                yield [CallState(self, number, number == self._resumed), self._saving()]
                after = generators_state()
                ended = None if after == before else encoded(after)
        except BaseException:
            self.calls, self._resumed, self.resume = number, None, True
            raise
        self.ended[number:] = [ended]

    def _newest(self):
        found = on_first(job(), self._read_newest)
        if found is None:
            return None
        path, content = found
        if _CALL not in content.parts:
            raise pd.GraphError(f"{path} is no checkpoint of a trainer, but of another runner")
        with checking(f"{path}: the state of {_CALL}"):
            _check_calls(content.parts[_CALL])
        return found

    def _read_newest(self):
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
        state = self._state_of(step)
        if state is not None:
            self.check(step)
            with self._checking(step), Undo(step.session) as undo:
                undo.add(step.undoing())
                step.restore(state, self._found[0])

    def check(self, step):
        """Raise an error if the step of a trainer cannot be restored."""
        state = self._state_of(step)
        if state is not None:
            with self._checking(step):
                step.check(state, str(self._found[0]))

    def _state_of(self, step):
        states = self._found[1].parts[_CALL]["trainers"]
        number = self._number(step)
        return states[number] if number < len(states) else None

    def _checking(self, step):
        return checking(f"{self._found[0]}: the state of trainer {self._number(step)}")

    def _number(self, step):
        return next(k for k, other in enumerate(self.steps) if other is step)

    def release(self):
        """Forget the content of the checkpoint: the training goes on."""
        self._found = None

    def restore_items(self, items):
        """Restore the items of the call that was going on; return the Undo of that."""
        path, content = self._found
        with Undo(*[step.session for step in self.steps]) as undo:
            restore_items(content, items, str(path), undo)
        return undo


class CallState(RunnerItem):
    """The state of the trainers of a program, and which call of `train` is going on."""

    def __init__(self, checkpoint, number, is_resumed):
        self.checkpoint, self.number, self.is_resumed = checkpoint, number, is_resumed

    def initialize(self, context, following):
        context.batches = self.checkpoint.batches
        super().initialize(context, following)
        if self.is_resumed:
            context.after(self._resume)  # when all items are initialized

    def _resume(self):
        self.context.undo = self.checkpoint.restore_items(self.context.runner.items)

    def check(self, state):
        for step in self.checkpoint.steps:
            self.checkpoint.check(step)

    def restore(self, state):
        self.checkpoint.ended[:] = state["ended"]
        self._restore_trainers()

    def undoing(self):
        steps = [step.undoing() for step in self.checkpoint.steps]
        ended = list(self.checkpoint.ended)

        def undo():
            self.checkpoint.ended[:] = ended
            for back in steps:
                back()

        return undo

    def _restore_trainers(self):
        for step in self.checkpoint.steps:  # the program may have changed them between the calls
            self.checkpoint.restore(step)

    def on_pass_begin(self, following):
        following()
        if self.is_resumed:
            if self.context.batch_id >= 0:  # what a handler changed once more with its BeginPass
                self._restore_trainers()
            self.checkpoint.release()
            self.is_resumed = False

    def finalize(self, following):
        self.checkpoint.batches = self.context.batches
        following()

    def state(self):
        trainers = [step.state() for step in self.checkpoint.steps]
        return {"call": self.number, "trainers": trainers, "ended": self.checkpoint.ended}


def _check_sessions(steps):
    """Refuse tables of several sessions: a checkpoint has one of each name."""
    sessions = [step.session for step in steps if step.tables]
    if any(session is not sessions[0] for session in sessions):
        name = next(step.tables[0].name for step in steps if step.tables)
        raise pd.GraphError(
            f"Checkpoint: the trainers have Parameters of their own, and a checkpoint one value of "
            f"the table {name!r}, whose rows are spread over ranks"
        )


_CALL = CallState.__name__


def _check_calls(state):
    """Raise an error if a state is not one of a CallState."""
    if not 0 <= index(state["call"]) == len(state["ended"]):
        raise ValueError(f"call {state['call']} after {len(state['ended'])} calls")
    if not isinstance(state["trainers"], list):
        raise TypeError(f"the trainers are {state['trainers']!r}")
    for generators in state["ended"]:
        if generators is not None:
            check_generators(generators)
