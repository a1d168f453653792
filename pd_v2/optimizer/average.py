"""Means of the parameters over a window of batches, as 2017 counted them."""

from contextlib import contextmanager

import numpy as np

import pd_core as pd
from pd_core.graph.update import Assignment
from pd_core.run.states import entries, integer, number

_LEAST = 10000  # batches that a window has at least, unless passes or its maximum are shorter
_FOLDED = 16384  # so many values are added up before the sum joins the others: float32 has 24 bits


class Window:
    """The number of batches to average: the current window, and the one before it.

    `updates` counts all batches, `current` those since the window began, `previous` those of the
    window before.
    """

    def __init__(self, part, longest=None):
        self.part, self._longest_is_a_pass = part, longest is None
        self.longest = float("inf") if longest is None else longest
        self.shortest = min(_LEAST, self.longest)
        self.updates = self.current = self.previous = self._in_pass = 0

    def start_pass(self):
        """Forget the batches of a pass that did not end."""
        self._in_pass = 0

    def finish_batch(self):
        """Count a batch; whether a window ends with it."""
        self.updates, self.current = self.updates + 1, self.current + 1
        self._in_pass += 1
        wanted = min(self.longest, int(self.updates * self.part))
        if self.current < self.shortest or self.current < wanted:
            return False
        self.previous, self.current = self.current, 0
        return True

    def finish_pass(self):
        """The pass says how long a window is where nothing else does; an empty one nothing."""
        if self._in_pass and self._longest_is_a_pass:
            self.longest = self._in_pass
        if self._in_pass:
            self.shortest = min(self.shortest, self.updates)
        self.start_pass()

    def state(self):
        """Return the counts by name."""
        return {name: getattr(self, name) for name in _KINDS}

    def check(self, state):
        """Raise an error if a state does not have the counts."""
        entries("the averages", state, _KINDS)

    def restore(self, state):
        """Go back to a `state`."""
        for name, count in entries("the averages", state, _KINDS).items():
            setattr(self, name, count)


def _length(value):
    """The batches of a window, perhaps infinitely many."""
    number(value)
    return value


_COUNTS = ("updates", "current", "previous", "_in_pass")
_KINDS = {"longest": _length, "shortest": _length, **dict.fromkeys(_COUNTS, integer)}


class Average:
    """The means of the parameters that the steps of a Rule change.

    Of rows a sum is added to when they are touched, with what they were in the batches before.
    """

    def __init__(self, settings, session):
        self.session = session
        self.window = Window(settings.average_window, settings.max_average_window)
        self._sums = {}  # parameter -> sums: of late, of this window, of the window before
        self._lazy = []  # (parameter, sum, int64 [V, 1]: the last batch that is in it)

    def add(self, step, new):
        """Store the sums of one parameter, with its new value in the first of them."""
        part = step.part
        slots = [step.slot(kind) for kind in ("sum1", "sum2", "sum3")]
        sums = self._sums[part.parameter] = [part.stored(s) for s in slots]
        total = slots[0] + new
        if step.is_rows:
            until = step.row_state("summed")
            before = pd.cast(step.rule.batch - 1 - until, np.float32)
            total = total + step.w * before
            step.store(until, pd.expand_like(step.rule.batch, until))
            self._lazy.append((part.parameter, sums[0], part.stored(until)))
        step.store(slots[0], total)

    def complete(self, batches):
        """All parameters were added; `batches` counts the steps that were made."""
        zero = pd.zeros_like
        self._fold = self._shifted(lambda one, two, three: (zero(one), one + two, three))
        self._close = self._shifted(lambda one, two, three: (zero(one), zero(two), one + two))
        added = []
        for w, total, until in self._lazy:
            missed = pd.cast(batches - until, np.float32)
            added.append(Assignment(total, total + w * missed, owner=w))
            added.append(Assignment(until, pd.expand_like(batches, until), owner=w))
        self._catch_up = pd.Update(added)

    def variables(self):
        """Return the sums of all parameters."""
        return [v for sums in self._sums.values() for v in sums]

    def catch_up(self):
        """Add the rows that were not touched of late."""
        if self._lazy:
            self.session.eval(self._catch_up)

    def finish_batch(self):
        """Count a batch, and begin a new window where it is time."""
        if self.window.finish_batch():
            self.catch_up()
            self.session.eval(self._close)
        elif self.window.current % _FOLDED == 0:
            self.session.eval(self._fold)

    @contextmanager
    def applied(self):
        """The means in the place of the parameters, for the length of a `with`."""
        session, count = self.session, self.window.current + self.window.previous
        kept = {w: session.get(w) for w in self._sums} if count else {}
        for w in kept:
            total = sum(session.get(s) for s in self._sums[w])
            session.set(w, total / np.float32(count))
        try:
            yield
        finally:
            session.load_values(kept)

    def _shifted(self, change):
        """An Update that moves the sums on."""
        found = []
        for w, sums in self._sums.items():
            for old, new in zip(sums, change(*sums), strict=True):
                if new is not old:
                    found.append(Assignment(old, new, owner=w))
        return pd.Update(found)
