"""Collective operations that one rank of a job may start alone: the others join in."""

from collections.abc import Callable
from typing import TypeVar

from .calls import Participant
from .process import current, world_size

T = TypeVar("T")


def add_participant(participant: Participant, signature: str) -> str | None:
    """Return the key by which `call` finds a new participant on all ranks; None for one rank."""
    return current().world.calls.add(participant, signature) if world_size() > 1 else None


def call(key: str | None, what: str, name: str, function: Callable[[], T]) -> T:
    """Return what a function returns, which this rank may call alone, see `Calls.run`."""
    if key is None or world_size() == 1:
        return function()
    return current().world.calls.run(key, what, name, function)


def can_exchange() -> bool:
    """Return whether there are other ranks, and no exchange with them has failed."""
    return world_size() > 1 and current().world.broken is None
