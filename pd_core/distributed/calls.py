"""Calls of one rank alone, such as to save tables whose rows are spread, in which all take part.

A rank that calls comes to a meeting for it. The others, at whatever meeting they come to next, take
part in the call, and meet again for what they came for. Several ranks may call at the same time:
the call of the first of them comes first, and is that of the others if they call the same.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os.path import basename
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from ..graph.errors import GraphError
from ..graph.site import user_site

T = TypeVar("T")

_WHAT = "a call of one rank"


class Participant(Protocol):
    """An object that calls use on all ranks; each rank has its own, under the same key."""

    def take_part(self, what: str, name: str) -> None:
        """Do what a rank that calls has the others do, the same exchanges in the same order."""


class Calls:
    """The calls of a world, and what they can be about.

    The newest participant of each signature is kept for calls of other ranks, also when the program
    of this rank has forgotten it; until the next meeting, so are those before it.
    """

    def __init__(self, world: Any):
        self.world = world
        self._known: WeakValueDictionary[str, Participant] = WeakValueDictionary()
        self._newest: dict[str, Participant] = {}
        self._replaced: list[Participant] = []  # since the last meeting
        self._numbers: Counter[str] = Counter()  # since the last meeting
        self._meetings = 0  # that were for no call, and in none: the same number on all ranks
        self._is_inside = False
        self.callers: list[int] | None = None  # the ranks of the call that goes on

    def __bool__(self) -> bool:
        """Whether there is something that other ranks may call."""
        return bool(self._known)

    def add(self, participant: Participant, signature: str) -> str:
        """Return the key of a new participant.

        All ranks create it in the same line of the program, between the same meetings.
        """
        file, line = user_site() or ("", 0)
        place = f"{signature} of {basename(file)}:{line}"  # machines may have it in other folders
        key = f"{place}, {self._meetings}.{self._numbers[place]}"
        self._numbers[place] += 1
        if signature in self._newest:
            self._replaced.append(self._newest[signature])
        self._known[key] = self._newest[signature] = participant
        return key

    def met(self) -> None:
        """Note that all ranks have met for something else."""
        if not self._is_inside:
            self._meetings += 1
            self._replaced.clear()
            self._numbers.clear()

    def run(self, key: str, what: str, name: str, function: Callable[[], T]) -> T:
        """Return what a function returns, with whose exchanges all ranks help.

        Those that do not call it run `take_part(what, name)` of their participant with this key.
        GraphError on all ranks if one of them has none.
        """
        if self._is_inside or self.world.size == 1:
            return function()
        text = json.dumps([key, what, name]).encode()
        self.world.meet_for_call()
        while not self.serve(text):
            self.world.meet_for_call()
        with self._inside():
            return function()

    def serve(self, own: bytes = b"") -> bool:
        """Take part in the first call of those that have met; whether it is this rank's `own`."""
        world = self.world
        texts = world.recovering(lambda: world.gather_bytes(own, _WHAT))
        caller = next(r for r, text in enumerate(texts) if text)
        key, what, name = json.loads(texts[caller])
        participant = self._known.get(key)
        is_missing = np.array([participant is None])
        missing = world.recovering(lambda: world.gather(is_missing, _WHAT))[:, 0]
        if missing.any():
            raise GraphError(
                f"rank {caller} calls {what} of the {key.rpartition(', ')[0]}, which rank "
                f"{int(missing.argmax())} does not have\n  hint: all ranks create the same "
                "parameters and trainers"
            )
        self.callers = [r for r, text in enumerate(texts) if text == texts[caller]]
        assert participant is not None
        if own == texts[caller]:
            return True
        with self._inside():
            participant.take_part(what, name)
        return False

    @contextmanager
    def _inside(self) -> Iterator[None]:
        self._is_inside = True
        try:
            yield
        finally:
            self._is_inside, self.callers = False, None
