"""Options of all trainings of a process, which the command line sets for unchanged programs."""

from collections.abc import Callable
from dataclasses import dataclass

from .checkpoint import Checkpoint


@dataclass
class Options:
    """What every call of `SGD.train` does besides what the program says.

    `items` returns the items to put around the training.
    """

    checkpoint: Checkpoint | None = None
    items: Callable = list


_current = Options()


def current_options():
    """Return the options of this process."""
    return _current


def set_options(options):
    """Set the options of this process."""
    global _current
    _current = options
