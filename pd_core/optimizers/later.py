"""Numbers of optimizers that a resumed training has, until these take their first step."""

from collections.abc import Mapping
from typing import Any

from ..run.session import Session
from .settings import latest_change


class Later:
    """Numbers that were set by hand, {prefix of an optimizer's state: {name: number}}.

    What is set after they were restored counts more than they do.
    """

    def __init__(self, numbers: Mapping[str, Mapping[str, float]]):
        self.numbers, self._moment = dict(numbers), latest_change()

    def give(self, optimizer: Any, prefix: str) -> None:
        """Set the numbers of an optimizer whose state has a prefix."""
        settings = optimizer.settings
        for name, number in self.numbers.get(prefix, {}).items():
            is_later = settings.changed_at(name) > self._moment
            if not is_later and settings.has(optimizer, name, number):
                settings.set_number(optimizer, name, number)


def later_of(session: Session) -> Later | None:
    """Return what waits for the optimizers of a session."""
    later: Later | None = session.numbers_of_optimizers
    return later


def set_later(session: Session, later: Later | None) -> None:
    """Let numbers wait for the optimizers of a session; those that it has get them now."""
    session.numbers_of_optimizers = later
    for optimizer, cached in list(session.optimizers.items()):
        if later is not None:
            later.give(optimizer, cached.name)


def numbers_by_name(session: Session) -> dict[str, dict[str, float]]:
    """Return the numbers set by hand of the optimizers that step in a session, by prefix."""
    later = later_of(session)
    found = {} if later is None else {k: dict(numbers) for k, numbers in later.numbers.items()}
    for optimizer, cached in list(session.optimizers.items()):
        found[cached.name] = optimizer.settings.numbers_set(optimizer)
    return {prefix: numbers for prefix, numbers in found.items() if numbers}
