"""A quiet end of commands whose output nobody reads any more, as in `… | head`."""

import os
import select
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

P = ParamSpec("P")

CLOSED = 141  # what shells say of a program that SIGPIPE ended: 128 + 13


def ends_with_reader(command: Callable[P, int | None]) -> Callable[P, int | None]:
    """Decorate a command: it ends quietly, with 141, once nobody reads what it prints."""

    @wraps(command)
    def call(*args: P.args, **kwargs: P.kwargs) -> int | None:
        try:
            try:
                return command(*args, **kwargs)
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()
        except BrokenPipeError:
            if not _is_closed():
                raise  # of another pipe
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # for what Python writes when it ends
        os.close(nowhere)
        return CLOSED

    return call


def _is_closed():
    """Whether nobody reads stdout, a pipe."""
    try:
        stdout = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):  # there is none, or it is no file
        return False
    if not hasattr(select, "poll"):  # Windows
        return True
    poll = select.poll()
    poll.register(stdout, select.POLLOUT)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
