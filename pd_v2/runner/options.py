"""Options of all trainings of a process, which the command line sets for unchanged programs."""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field

from .checkpoint import Checkpoint


@dataclass
class Options:
    """What every call of `SGD.train` does besides what the program says.

    `items(number)` returns the items to put around a training; the first one has the number 0.
    """

    checkpoint: Checkpoint | None = None
    items: Callable = lambda number: []
    calls: int = field(default=0, init=False, compare=False)  # of train that have begun

    @contextmanager
    def training(self):
        """Return a context with the number of a call of `train`.

        If it fails, the next call is the same training again.
        """
        number, self.calls = self.calls, self.calls + 1
        try:
            yield number
        except BaseException:
            self.calls = number
            raise


_current = Options()


def current_options():
    """Return the options of this process."""
    return _current


def set_options(options):
    """Set the options of this process."""
    global _current
    _current = options
