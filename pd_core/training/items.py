"""The callbacks around a step: where it runs, what is counted."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from ..graph.errors import GraphError
from ..graph.misfits import listed
from ..graph.site import warn
from ..run.session import Session, default_session, use_device
from ..run.states import Kind, by_name, entries, flag, integer, maybe, number
from .by_hand import SetByHand
from .checkpoint import CheckpointWarning
from .context import RunnerContext
from .item import Following, Initialize, RunnerItem
from .program_state import ProgramState
from .ranks import is_writer


class Device(RunnerItem):
    """The session whose values the items inside use: by default the one in force.

    `device` is a Session, or a device to which the default session moves, see `pd.use_device`. A
    checkpoint has all values of the session, its seed and its random draws, and what was set by
    hand since the first step: which parameters are trainable, and numbers of optimizers such as the
    learning rate; unless the step saves what it needs of these itself. Of a program that takes
    steps inside `pd.guard()` it has what these depend on besides, see ProgramState.
    """

    def __init__(self, device: str | Session | None = None):
        self.device = device

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        self._stack = ExitStack()
        with ExitStack() as stack:
            if isinstance(self.device, str):
                use_device(self.device)
            session = self.device if isinstance(self.device, Session) else default_session()
            context.session = stack.enter_context(session)
            self._by_hand, self._program = SetByHand(session), ProgramState()
            stack.callback(self._by_hand.close)
            self._is_noted = False
            self._restored: set[str] | None = None  # values of a checkpoint, for a pass
            self._has_stepped = False
            super().initialize(context, following)
            self._stack = stack.pop_all()

    def finalize(self, following: Following) -> None:
        with self._stack:
            following()

    def state(self) -> dict[str, Any] | None:
        if getattr(self.context.forward, "saves_values", False):
            return None
        more = {"by_hand": self._by_hand.state(), "program": self._program.state()}
        return {**self.context.session.state(), **{k: v for k, v in more.items() if v}}

    def on_batch_begin(self, following: Following) -> Any:
        result = following()
        if not self._is_noted:
            self._is_noted = True
            self._by_hand.note()
        return result

    def on_batch_end(self, following: Following) -> Any:
        result = following()
        if self._restored is not None:
            self._has_stepped = True
            names = self._program.guessed()
            if names and is_writer(self.context.ranks):
                text = f"{names} of the checkpoint: told by order alone, which has changed"
                warn(CheckpointWarning(f"{text}\n{_HINT}"))
        return result

    def on_pass_end(self, following: Following) -> None:
        following()
        if self._restored is not None and self._has_stepped:
            self._look_for_owners(self._restored)
            self._restored = None

    def _look_for_owners(self, there):
        """Warn of values of a checkpoint that nothing has, where something else began anew."""
        store = self.context.session.store
        lost = [name for name in store.waiting if not self._program.awaited(name)]
        new = [v.name for v in store.variables() if v.name not in there]
        if lost and new and is_writer(self.context.ranks):
            text = "the program is another one than that of the checkpoint, so it seems"
            names = f"  only in it: {listed(lost)}\n  begin anew: {listed(new)}"
            warn(CheckpointWarning(f"{text}\n{names}\n{_HINT}"))

    def check(self, state: dict[str, Any]) -> None:
        own, by_hand, program = _parted(state)
        self.context.session.store.restorable(own)
        self._by_hand.check(by_hand)
        self._program.check(program)
        known = {*state["values"], *state.get("tables", ())}
        lacking = [name for name in self.context.parameters if name not in known]
        if lacking:
            raise GraphError(
                f"Resume: the checkpoint is of another network, it lacks {', '.join(lacking)}"
            )

    def restore(self, state: dict[str, Any]) -> None:
        own, by_hand, program = _parted(state)
        self._program.restore(program)
        self.context.session.restore(own)
        self._restored = {*own["values"], *own.get("tables", ())}
        self._by_hand.restore(by_hand)

    def undoing(self) -> Callable[[], Any]:
        by_hand, program = self._by_hand.undoing(), self._program.undoing()

        def undo():  # the session goes back by itself
            by_hand()
            program()

        return undo


_HINT = (
    "  hint: what has a name goes on whatever is made before it, as in FC(8, name='hidden') and "
    "AdamOptimizer(name='adam')"
)


def _parted(state):
    """The state of a session, what was set by hand, and what is known of the program."""
    own = dict(state)
    return own, own.pop("by_hand", {}), own.pop("program", {})


class Counter(RunnerItem):
    """The counts of the context: passes, batches, samples.

    Inside of it, `on_batch_end` and `on_pass_end` see counts that include the batch. A checkpoint
    has the counts, whether the training was stopped, and the numbers of the last batch, the last
    pass and the last test.
    """

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        self._finished = -1  # number of the last finished batch in its pass
        super().initialize(context, following)

    def on_pass_begin(self, following: Following) -> None:
        context = self.context
        if not context.is_in_pass:  # else a resumed training goes on in the middle
            context.pass_id, context.batch_id = context.pass_id + 1, -1
            context.is_in_pass, self._finished = True, -1
        following()

    def on_batch_begin(self, following: Following) -> Any:
        context = self.context
        context.batch_id += 1
        if following():
            context.batch_id -= 1
            return True
        return False

    def on_batch_end(self, following: Following) -> Any:
        context = self.context
        context.batches += 1
        context.samples += context.batch_size
        self._finished = context.batch_id
        return following()

    def on_pass_end(self, following: Following) -> None:
        context = self.context
        if not context.is_stopped:
            context.pass_batches = context.batch_id + 1
        following()
        context.is_in_pass = False

    def state(self) -> dict[str, Any]:
        counts = {name: getattr(self.context, name) for name in _COUNTS}
        counts["batch_id"] = self._finished  # a reader that saves is asked for the next one
        return {**counts, **{name: getattr(self.context, name) for name in _NUMBERS}}

    def check(self, state: dict[str, Any]) -> None:
        entries("Counter", state, _KINDS, _LATER)

    def restore(self, state: dict[str, Any]) -> None:
        counts = entries("Counter", state, _KINDS, _LATER)
        # in place: a new dict is a new test to logs
        self.context.test_metrics.clear()
        self.context.test_metrics.update(counts.pop("test_metrics"))
        if self.context.pass_batches is not None:  # a reader that knows; its batches may be others
            del counts["pass_batches"]
        for name, count in counts.items():
            setattr(self.context, name, count)
        self._finished = self.context.batch_id


_COUNTS = {
    **dict.fromkeys(("pass_id", "batch_id", "batches", "samples"), integer),
    "pass_batches": maybe(integer),
    **dict.fromkeys(("is_in_pass", "is_pass_over", "is_stopped"), flag),
}
# what a callback may read before the next batch, pass or test has other numbers
_LATER: dict[str, Kind] = {  # older checkpoints have none of these
    "cost": number,
    "batch_size": integer,
    **dict.fromkeys(("metrics", "pass_metrics"), by_name(number)),
}
_NUMBERS = {**_LATER, "test_metrics": by_name(number)}
_KINDS = {**_COUNTS, **_NUMBERS}
